"""`raysweep results`, `export` and `import`: rows and models that leave a storage, and runs that come into it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from raysweep import terminal
from raysweep.analyses.design import Design
from raysweep.errors import InputError
from raysweep.lazy import pd
from raysweep.phrases import command, counted
from raysweep.query.columns import place
from raysweep.query.state import State
from raysweep.query.sweep import Sweep
from raysweep.redaction import without_credentials
from raysweep.space import space_files
from raysweep.space.schema import plain_name
from raysweep.storage import files, paths
from raysweep.storage.paths import AnyPath


def table(sweeps: Iterable[Sweep]) -> pd.DataFrame:
    """The rows of several sweeps in one table. Rows that are left out are reported on stderr, with the reason."""
    return pd.concat([sweep.results(_state(sweep)) for sweep in sweeps], ignore_index=True)


def write_dataset(sweeps: Iterable[Sweep], path: AnyPath) -> None:
    """Write the rows of several sweeps as an xarray Dataset, in a file of netCDF 3."""
    from raysweep.query import exporting

    sweeps = list(sweeps)
    files.replace(path, bytes(exporting.dataset(table(sweeps), sweeps).to_netcdf(engine="scipy")))  # of version 3


def curves(sweeps: Iterable[Sweep]) -> pd.DataFrame:
    """The learning curves of several sweeps in one table, with the parameters that vary in them. Rows that are left out
    are reported on stderr, and so is a sweep without curves, with the reason."""
    sweeps = list(sweeps)
    design = Design(tuple(sweep.space.as_dict() for sweep in sweeps), tuple(sweep.name for sweep in sweeps))
    tables = []
    for sweep in sweeps:
        state = _state(sweep)
        tables.append(sweep.curves(state, [name for name in design.varied() if name in sweep.workload.by_name]))
        if tables[-1].empty:
            terminal.say(f"{sweep.name}: no learning curves, because {_why_none(sweep, state)}")
    return pd.concat(tables, ignore_index=True)


def _why_none(sweep: Sweep, state: State) -> str:
    if not state.rows:
        return "no row is there yet"
    if sweep.workload.compute:
        return f"{sweep.workload.name} computes its rows from formulas or all together, and logs nothing on the way"
    stages = ", ".join(sweep.workload.chain.names)
    return f"no stage of its rows logged anything ({stages}), or the rows are older than the record of learning curves"


def _state(sweep: Sweep) -> State:
    """The state of a sweep. Says on stderr which rows it leaves out, and why."""
    state = sweep.state()
    resume = f"`raysweep resume {sweep.name}` computes its rows"
    for path in state.damaged:
        terminal.say(f"{sweep.name}: {path.name} is damaged and left out; {resume} again")
    if state.outdated:
        terminal.say(f"{sweep.name}: {state.outdated}; {resume}")
    if state.strays:
        terminal.say(f"{sweep.name}: {state.strays}")
    return state


def export(
    sweep: Sweep, target: str, cell: str | None, seed: int | None, stage: str | None, **study: str | None
) -> list[str]:
    """Export to where `target` says; returns the names of the revisions of a hub. study: as in `to_optuna`."""
    from raysweep.query import exporting_models

    tool, _, place = target.partition(":")
    if tool == "optuna" and place:
        from raysweep.query import exporting

        terminal.say(f"{sweep.name}: {exporting.to_optuna(sweep, place, **study):,} trials in {place}")
        return []
    whole = tool == "hub" and place
    if not target or "://" in target or bool(cell) == bool(whole) or (tool in ("hub", "optuna") and not place):
        raise InputError("--to", f"expected CELL --to FOLDER, --to hub:FOLDER or --to optuna:URL, got {target}")
    if stage is None:
        raise InputError("--stage", "missing; say which stage left the models, such as --stage pretrain")
    if whole:
        revisions = exporting_models.to_hub(sweep, stage, Path(place))
        model = exporting_models.model_name(sweep)
        terminal.say(f"{sweep.name}: {len(revisions):,} revisions of {model}; HF_HUB_CACHE={place} finds them")
        return list(revisions)
    exporting_models.to_folder(sweep, stage, Path(target), cell or "", seed)
    terminal.say(f"{sweep.name}: a model in {target}")
    return []


def import_runs(
    name: str, storage: str, dry_run: bool, sets: dict[str, Any], *, source: str, workload: str | None, **options: Any
) -> list[str]:
    """Import the runs, unless this is a dry run. Returns the lines for the user: what was guessed, and what there is.

    sets: changes of the space, by dotted key. options: as in `table.read`; axes and labels are names with commas
        between, and the standard errors of lm-eval are taken by themselves if no row lacks one.
    """
    from raysweep.query import importing, sources
    from raysweep.query import table as tables

    plain_name(name, "NAME")
    frame = sources.load(source)
    metric = options["metrics"][0].partition(":")[0]
    harness, without = f"{metric}_stderr", frame.index[:0]
    if options["error"] is None and source.startswith("lm-eval:") and {metric, harness} <= {*frame}:
        without = frame.index[frame[metric].notna() & frame[harness].isna()]
        options["error"] = None if len(without) else harness
    options |= {one: [text.strip() for text in options[one].split(",") if text.strip()] for one in ("axes", "labels")}
    asked: dict[str, Any] = {}
    for key, value in sets.items():
        space_files.apply_set(asked, key, value)
    if isinstance(asked.get("analysis"), list):
        options["questions"], sets = asked["analysis"], {key: one for key, one in sets.items() if key != "analysis"}
    scale = asked["scale"] if isinstance(asked.get("scale"), Mapping) else {}
    options |= {"scale": scale, "together": asked.get("zip") != [], "source": without_credentials(source)}
    table = tables.read(frame, name=name, **options)
    if len(without):
        table.guesses.loc[len(table.guesses)] = [harness, "not used", "", "", "", f"{place(without[:1])} has none"]
    made = importing.space_of(table, sets, workload)
    lines = table.guesses.to_string(index=False, justify="left").splitlines()
    rows, cells = counted(len(table.rows), "row"), counted(int(table.rows["cell"].nunique()), "cell")
    statuses = ", ".join(f"{count:,} {status}" for status, count in table.rows["status"].value_counts().items())
    gone = f"; {counted(table.missing, 'run')} that did not end or lack a value left out" if table.missing else ""
    lines += ["", f"{name}: {rows} of {cells} ({statuses}){gone}"]
    if not dry_run:
        sweep = importing.create(table, storage, made)
        state = sweep.state()
        if left_out := len(table.rows) - len(state.rows):
            lines.append(f"{counted(left_out, 'row')} that the space leaves out")
        if missing := state.missing_rows:
            lines.append(f"{counted(missing, 'row')} that {workload} can compute")
        lines.append(f"go on with: {command('resume' if missing else 'report', name, paths.storage(storage))}")
    return lines
