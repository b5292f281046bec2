"""Tables of runs that other tools keep: a file, an MLflow experiment, an Optuna study, Ray's or lm-eval's folder.

Each reader returns a data frame with one row per run. The clients of MLflow, Optuna and pandas do the reading, and
nothing is unpickled.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from raysweep.errors import InputError
from raysweep.query.table import SOURCE_DIRECTIONS, as_frame

if TYPE_CHECKING:
    import pandas as pd

STATUS = "status"
"""The column in which a reader says how a run ended; a table of a file need not have one."""
PAGE = 1000
WANTED = "runs.csv, runs.parquet, runs.jsonl, mlflow:URI#EXPERIMENT, optuna:URL#STUDY, ray:FOLDER or lm-eval:FOLDER"


def load(source: str) -> pd.DataFrame:
    """The runs of a source, one per row. source: a file, or TOOL:PLACE. Raises InputError if it cannot be read."""
    tool, _, place = source.partition(":")
    if tool in TOOLS:
        return TOOLS[tool](place)
    path = Path(source)
    reader = FILES.get(Path(path.name.lower().removesuffix(".gz")).suffix)
    if reader is None:
        raise InputError("--from", f"expected {WANTED}, got {source}")
    if not path.is_file():
        raise InputError(str(path), "no such file")
    try:
        frame = reader(path)
    except (ValueError, OSError, EOFError, ImportError) as problem:
        raise InputError(str(path), f"cannot be read: {problem}".rstrip()) from None
    if frame.empty:
        raise InputError(str(path), "has no row")
    return frame


def _opened(path: Path) -> IO[str]:
    if path.suffix.lower() == ".gz":
        return cast(IO[str], gzip.open(path, "rt", encoding="utf-8-sig"))
    return path.open(encoding="utf-8-sig")


def _csv(path: Path) -> pd.DataFrame:
    """An empty field is None; `nan` and `inf` are numbers. The index is the line of the file."""
    import pandas as pd

    with _opened(path) as file:
        first = file.readline()
        if "," not in first and (mark := next((mark for mark in ";\t" if mark in first), "")):
            raise ValueError(f"expected commas between columns, and points in numbers; got {mark!r}")
        file.seek(0)
        as_texts: dict[str, Any] = {"header": None, "dtype": str, "keep_default_na": False}
        try:
            texts = pd.read_csv(file, skip_blank_lines=False, skipinitialspace=True, **as_texts).fillna("")
        except pd.errors.ParserError as problem:
            raise ValueError(str(problem).rpartition("error: ")[2]) from None
    names = texts.iloc[0].str.strip().tolist()
    texts = texts.set_axis(names, axis=1).iloc[1:].rename(index=lambda row: row + 1).rename_axis("line")
    texts = texts[(texts != "").any(axis=1)]
    columns = [typed(texts.iloc[:, place]) for place in range(len(names))]
    return pd.concat(columns, axis=1)


def typed(texts: pd.Series) -> pd.Series:
    """A column of texts as numbers or booleans if all are; else texts. An empty one is None."""
    import pandas as pd

    there = texts[texts.str.strip() != ""].astype(object)
    if len(there) and there.isin(("True", "False", "true", "false")).all():
        there = there.str.lower() == "true"
    else:
        numbers = pd.to_numeric(there, errors="coerce")
        if (numbers.notna() | there.str.strip().str.lower().isin(("nan", "-nan"))).all():
            there = numbers
    if len(there) == len(texts):
        return there.infer_objects()
    return there.astype(object).reindex(texts.index).where(texts.index.isin(there.index), None)


def _jsonl(path: Path) -> pd.DataFrame:
    lines = {}
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    lines[number] = dict(flat(json.loads(line)))
                except (ValueError, AttributeError):
                    raise InputError(f"{path}", f"line {number} is no JSON object") from None
    return _frame(list(lines.values()), "line", list(lines))


def _parquet(path: Path) -> pd.DataFrame:
    """A null is None; NaN is a number."""
    import pyarrow.parquet

    return as_frame(pyarrow.parquet.read_table(path))


def _frame(
    lines: Sequence[Mapping[str, Any]], noun: str | None = None, labels: Sequence[Any] | None = None
) -> pd.DataFrame:
    """A row per line. What a line lacks is None, which is no number. noun, labels: what the source calls its rows."""
    import pandas as pd

    names = dict.fromkeys(name for line in lines for name in line)
    index = pd.Index(range(len(lines)) if labels is None else labels, name=noun)
    columns = {name: pd.Series([line.get(name) for line in lines], index, dtype=object) for name in names}
    gaps = {name: any(value is None for value in column) for name, column in columns.items()}
    return pd.DataFrame({name: one if gaps[name] else one.infer_objects() for name, one in columns.items()})


FILES: Mapping[str, Callable[[Path], pd.DataFrame]] = {".csv": _csv, ".parquet": _parquet, ".jsonl": _jsonl}


def flat(given: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of nested mappings, their keys joined by a slash."""
    for key, value in given.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{key}/")
        else:
            yield f"{before}{key}", value


def _parts(place: str, tool: str, what: str) -> tuple[str, str]:
    address, mark, name = place.rpartition("#")
    if not mark or not address or not name:
        raise InputError("--from", f"expected {tool}:{what}, got {tool}:{place}")
    return address, name


def _mlflow(place: str) -> pd.DataFrame:
    """The runs of an experiment: parameters, last values of metrics, and status. A parameter's text is a number where
    all are."""
    import pandas as pd

    from raysweep.tracking import server

    uri, name = _parts(place, "mlflow", "URI#EXPERIMENT")
    try:
        server.check(uri)
        if server.is_absent(uri):
            raise InputError("--from", f"{uri} does not exist")
        client = server.connect(uri)
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            there = ", ".join(one.name for one in client.search_experiments(max_results=10))
            raise InputError("--from", f"no experiment {name} in {uri} (there are {there})")
        runs, token = [], None
        while True:
            page = client.search_runs([experiment.experiment_id], max_results=PAGE, page_token=token)
            runs += page
            if not (token := page.token):
                break
    except server.Unreachable as problem:
        raise InputError("--from", str(problem)) from None
    if not runs:
        raise InputError("--from", f"the experiment {name} has no runs")
    params = pd.DataFrame([run.data.params for run in runs]).fillna("").astype(str)
    params.index = pd.Index([run.info.run_id for run in runs], name="run")
    frame = pd.DataFrame({key: typed(params[key]) for key in params}, index=params.index)
    for metric in dict.fromkeys(key for run in runs for key in run.data.metrics):
        values = pd.Series([run.data.metrics.get(metric) for run in runs], frame.index, dtype=object)
        frame[metric if metric not in frame else f"metrics.{metric}"] = values
    return frame.assign(**{STATUS: [run.info.status for run in runs]})


def _optuna(place: str) -> pd.DataFrame:
    """The trials of a study: parameters, value (or values), numbers among the user's attributes, and state."""
    import optuna

    from raysweep.tracking import server

    url, name = _parts(place, "optuna", "URL#STUDY")
    if server.is_absent(url):
        raise InputError("--from", f"{url} does not exist")
    try:
        study = optuna.load_study(study_name=name, storage=url)
    except KeyError:
        there = ", ".join(optuna.get_all_study_names(url)[:10]) or "none"
        raise InputError("--from", f"no study {name} in {url} (there are {there})") from None
    except Exception as problem:  # whatever the database's driver raises
        raise InputError("--from", f"{url} cannot be read: {str(problem).splitlines()[0]}") from None
    several = [f"value_{number}" for number in range(len(study.directions))]
    names = study.metric_names or (["value"] if len(several) == 1 else several)
    lines = []
    for trial in study.get_trials(deepcopy=False):
        values = trial.values or [None] * len(names)
        others = {key: value for key, value in trial.user_attrs.items() if isinstance(value, (int, float))}
        lines.append({**others, **trial.params, **dict(zip(names, values, strict=True)), STATUS: trial.state.name})
    if not lines:
        raise InputError("--from", f"the study {name} has no trials")
    frame = _frame(lines, "trial")
    ways = zip(names, study.directions, strict=True)
    frame.attrs[SOURCE_DIRECTIONS] = {metric: way.name.lower() for metric, way in ways}
    return frame


def _ray(place: str) -> pd.DataFrame:
    """The trials of Ray Tune below a folder: the configuration, and the last result that a trial reported."""
    lines = []
    for path in sorted(_folder(place).rglob("result.json")):
        texts = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        last = dict(flat(_json(path, texts[-1]))) if texts else {}
        params = path.with_name("params.json")
        config = dict(flat(_json(params))) if params.is_file() else {}
        results = {key: value for key, value in last.items() if not key.startswith("config/") and key not in config}
        ended = "failed" if path.with_name("error.txt").exists() else "ok" if last else "running"
        lines.append({**config, **results, STATUS: ended})
    if not lines:
        raise InputError("--from", f"no result.json below {place}")
    return _frame(lines)


def _lm_eval(place: str) -> pd.DataFrame:
    """The results of lm-eval below a folder: one row per file and task, with the harness's standard errors.

    Columns: model, revision, step (a number in the revision or in the file's name), task, shots, then each metric and
    its `_stderr`.
    """

    lines, labels = [], []
    for path in sorted(_folder(place).rglob("*.json")):
        found = _json(path)
        if not isinstance(found.get("results"), dict):
            continue
        given = (found.get("config") or {}).get("model_args") or ""
        model = given if isinstance(given, dict) else dict(part.partition("=")[::2] for part in str(given).split(","))
        revision = str(model.get("revision") or "")
        step = re.search(r"step[-_]?(\d+)", revision) or re.search(r"step[-_]?(\d+)", str(path.relative_to(place)))
        for task, values in found["results"].items():
            labels.append(f"{path.relative_to(place)} ({task})")
            numbers = {key.partition(",")[0]: value for key, value in values.items() if isinstance(value, (int, float))}
            lines.append(
                {
                    "model": str(model.get("pretrained") or path.parent.name),
                    "revision": revision,
                    "step": int(step[1]) if step else None,
                    "task": task,
                    "shots": (found.get("n-shot") or {}).get(task),
                    **numbers,
                }
            )
    if not lines:
        raise InputError("--from", f"no results of lm-eval below {place}")
    return _frame(lines, "file", labels)


def _json(path: Path, text: str | None = None) -> dict[str, Any]:
    """The object in a file, or in a text of it; empty if it is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8") if text is None else text)
    except (ValueError, RecursionError):
        raise InputError(str(path), "is no JSON") from None
    return found if isinstance(found, dict) else {}


def _folder(place: str) -> Path:
    path = Path(place)
    if not path.is_dir():
        raise InputError("--from", f"{place} is no folder")
    return path


TOOLS: Mapping[str, Callable[[str], pd.DataFrame]] = {
    "mlflow": _mlflow,
    "optuna": _optuna,
    "ray": _ray,
    "lm-eval": _lm_eval,
}
