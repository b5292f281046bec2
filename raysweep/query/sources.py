"""Tables of runs that other tools keep: a file, an MLflow experiment, an Optuna study, Ray's or lm-eval's folder.

Each reader returns a data frame with one row per run. The clients of MLflow, Optuna and pandas do the reading, and
nothing is unpickled.
"""

from __future__ import annotations

import ast
import contextlib
import gzip
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pyarrow import parquet

from raysweep.errors import InputError
from raysweep.query.table import SOURCE_DIRECTIONS, as_frame
from raysweep.tracking import server

EXPECTED = "runs.csv, runs.parquet, runs.jsonl, mlflow:URI#EXPERIMENT, optuna:URL#STUDY, ray:FOLDER or lm-eval:FOLDER"


def load(source: str) -> pd.DataFrame:
    """The runs of a source, one per row. source: a file, or TOOL:PLACE. Raises InputError if it cannot be read."""
    (tool, _, place), path = source.partition(":"), Path(source)
    if tool in TOOLS:
        frame = TOOLS[tool](place)
    elif (kind := Path(path.name.lower().removesuffix(".gz")).suffix) not in FILES:
        raise InputError("--from", f"expected {EXPECTED}, got {source}")
    elif not path.is_file():
        raise InputError(source, "no such file")
    else:
        try:
            frame = FILES[kind](path)
        except (ValueError, OSError, EOFError, ImportError) as problem:
            raise InputError(source, f"cannot be read: {problem}".rstrip()) from None
    if frame.empty:
        raise InputError("--from", f"{source} has no runs")
    return frame


def _csv(path: Path) -> pd.DataFrame:
    """Texts; an empty one is a missing value. The index is the line of the file."""
    as_texts: dict[str, Any] = {"header": None, "dtype": str, "keep_default_na": False, "encoding": "utf-8-sig"}
    try:
        texts = pd.read_csv(path, skip_blank_lines=False, skipinitialspace=True, **as_texts).fillna("")
    except pd.errors.ParserError as problem:
        message = str(problem).rpartition("error: ")[2].strip()
        raise ValueError(f"{message}; expected commas between columns, and points in numbers") from None
    if texts.shape[1] == 1:
        raise ValueError("expected commas between columns, got one column")
    texts = texts.set_axis(texts.iloc[0].str.strip(), axis=1).iloc[1:].rename(index=lambda row: row + 1)
    frame = texts[(texts != "").any(axis=1)].rename_axis("line")
    for name in frame.columns[~frame.columns.duplicated(keep=False)]:  # W&B's own export has texts of dicts
        with contextlib.suppress(ValueError, SyntaxError, TypeError, RecursionError):
            parts = [dict(flat(_object(text), f"{name}/")) for text in frame[name]]
            frame = frame.join(_frame(parts, "line", frame.index), rsuffix=" ")
    return frame


def _object(text: str) -> dict[str, Any]:
    """The dict that a text of Python or JSON says; ValueError and the like if it is none."""
    if not text.startswith("{"):
        raise ValueError(text)
    try:
        return dict(json.loads(text))
    except ValueError:
        bare = r"(?<=: )-?(nan|inf)(?=[,}])"
        return dict(ast.literal_eval(re.sub(bare, lambda word: repr(word[0]), text)))


def _jsonl(path: Path) -> pd.DataFrame:
    content = gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
    lines = {}
    for number, line in enumerate(content.decode("utf-8-sig").split("\n"), 1):
        if line.strip():
            try:
                lines[number] = dict(flat(json.loads(line)))
            except (ValueError, AttributeError):
                raise InputError(f"{path}", f"line {number} is no JSON object") from None
    return _frame(list(lines.values()), "line", list(lines))


def _frame(lines: Sequence[Mapping[str, Any]], noun: str | None = None, labels: Any = None) -> pd.DataFrame:
    """A row per line. What a line lacks is None, which is no number. noun, labels: what the source calls its rows."""
    columns = {name: [line.get(name) for line in lines] for name in dict.fromkeys(itertools.chain(*lines))}
    index = pd.Index(range(len(lines)) if labels is None else labels, name=noun)
    return pd.DataFrame(columns, index, dtype=object)


def flat(nested: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of nested mappings, their keys joined by a slash."""
    for key, value in nested.items():
        yield from flat(value, f"{before}{key}/") if isinstance(value, Mapping) else [(f"{before}{key}", value)]


def _parts(place: str, tool: str, what: str) -> tuple[str, str]:
    """The address and the name of ADDRESS#NAME, which is there. Raises InputError otherwise."""
    address, _, name = place.rpartition("#")
    if not address or not name:
        raise InputError("--from", f"expected {tool}:{what}, got {tool}:{place}")
    if server.is_absent(address):
        raise InputError("--from", f"{address} does not exist")
    return address, name


def _mlflow(place: str) -> pd.DataFrame:
    """The runs of an experiment: parameters, which are texts, last values of metrics, and status."""
    try:
        uri, name = _parts(place, "mlflow", "URI#EXPERIMENT")
        server.check(uri)
        client = server.connect(uri)
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            names = ", ".join(one.name for one in client.search_experiments(max_results=10))
            raise InputError("--from", f"no experiment {name} in {uri} (there are {names})")
        runs = server.all_runs(client, experiment.experiment_id)
    except server.Unreachable as problem:
        raise InputError("--from", str(problem)) from None
    parameters, lines = {key for run in runs for key in run.data.params}, []
    for run in runs:
        metrics = {f"metrics.{key}" if key in parameters else key: one for key, one in run.data.metrics.items()}
        lines.append({**run.data.params, **metrics, "status": run.info.status})
    return _frame(lines, "run", [run.info.run_id for run in runs])


def _optuna(place: str) -> pd.DataFrame:
    """The trials of a study: parameters, value (or values), numbers among the user's attributes, and state."""
    import optuna

    url, name = _parts(place, "optuna", "URL#STUDY")
    try:
        study = optuna.load_study(study_name=name, storage=url)
    except KeyError:
        names = ", ".join(optuna.get_all_study_names(url)[:10]) or "none"
        raise InputError("--from", f"no study {name} in {url} (there are {names})") from None
    except Exception as problem:  # whatever the database's driver raises
        raise InputError("--from", f"{url} cannot be read: {str(problem).splitlines()[0]}") from None
    several = [f"value_{number}" for number in range(len(study.directions))]
    metrics = study.metric_names or (["value"] if len(several) == 1 else several)
    lines = []
    for trial in study.get_trials(deepcopy=False):
        attributes = {key: value for key, value in trial.user_attrs.items() if isinstance(value, (int, float))}
        values = dict(zip(metrics, trial.values or [None] * len(metrics), strict=True))
        lines.append({**attributes, **trial.params, **values, "status": trial.state.name})
    frame = _frame(lines, "trial")
    frame.attrs[SOURCE_DIRECTIONS] = dict(zip(metrics, (one.name.lower() for one in study.directions), strict=True))
    return frame


def _ray(place: str) -> pd.DataFrame:
    """The trials of Ray Tune below a folder: the configuration, and the last result that a trial reported."""
    lines = []
    for path in _below(place, "result.json"):
        texts = path.read_text(encoding="utf-8").split("\n")
        last = dict(flat(_json(path, next(filter(str.strip, reversed(texts)), "{}"))))
        config = dict(flat(_json(one))) if (one := path.with_name("params.json")).is_file() else {}
        results = {key: value for key, value in last.items() if not key.startswith("config/") and key not in config}
        status = "failed" if path.with_name("error.txt").exists() else "ok" if last else "running"
        lines.append({**config, **results, "status": status})
    return _frame(lines)


def _lm_eval(place: str) -> pd.DataFrame:
    """The results of lm-eval below a folder, one row per file and task: model, revision, step (a number in the revision
    or in the file's name), task, shots, then each metric and its standard error, `_stderr`; of several filters of a
    metric METRIC/FILTER each."""
    lines, labels = [], []
    for path in _below(place, "*.json"):
        content, file = _json(path), str(path.relative_to(place))
        arguments = (content.get("config") or {}).get("model_args") or ""
        if not isinstance(arguments, dict):
            arguments = dict(part.partition("=")[::2] for part in str(arguments).split(","))
        revision = str(arguments.get("revision") or "")
        step = re.search(r"step[-_]?(\d+)", f"{revision} {file}")
        model = str(arguments.get("pretrained") or path.parent.name)
        shared = {"model": model, "revision": revision, "step": int(step[1]) if step else None}
        results = content.get("results")
        for task, values in results.items() if isinstance(results, dict) else ():
            labels.append(f"{file} ({task})")
            several = Counter(key.partition(",")[0] for key in values)
            there = {key: value for key, value in values.items() if isinstance(value, (int, float))}
            numbers = {_of_filter(key, several): value for key, value in there.items()}
            lines.append({**shared, "task": task, "shots": (content.get("n-shot") or {}).get(task), **numbers})
    return _frame(lines, "file", labels)


def _of_filter(key: str, several: Mapping[str, int]) -> str:
    """The name of METRIC,FILTER or METRIC_stderr,FILTER: the metric, with its filter if it has several of them."""
    name, _, chosen = key.partition(",")
    metric = name.removesuffix("_stderr")
    return name if several[name] == 1 else f"{metric}/{chosen}{name[len(metric) :]}"


def _json(path: Path, text: str | None = None) -> dict[str, Any]:
    """The object in a file, or in a text of it; empty if it is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8") if text is None else text)
    except (ValueError, RecursionError):
        raise InputError(str(path), "is no JSON") from None
    return content if isinstance(content, dict) else {}


def _below(place: str, pattern: str) -> list[Path]:
    if not Path(place).is_dir():
        raise InputError("--from", f"{place} is no folder")
    return sorted(Path(place).rglob(pattern))


Reader = Callable[[Any], pd.DataFrame]
FILES: dict[str, Reader] = {".csv": _csv, ".parquet": lambda path: as_frame(parquet.read_table(path)), ".jsonl": _jsonl}
TOOLS: dict[str, Reader] = {"mlflow": _mlflow, "optuna": _optuna, "ray": _ray, "lm-eval": _lm_eval}
