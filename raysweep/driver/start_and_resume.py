"""Starts, extends, resumes and syncs a sweep, or runs a part of one. The sweep's record decides which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from raysweep.driver import compatibility, first_rows, records, shared_stages, signal_handlers
from raysweep.driver.driver import Driver, log_the_rest
from raysweep.driver.options import Options
from raysweep.driver.records import only_driver
from raysweep.errors import Halted, InputError
from raysweep.ledger import sweep_record
from raysweep.phrases import command, place, rows_are
from raysweep.plan.cells import Cells, enumerate_cells, fetch, to_download
from raysweep.query import verdict
from raysweep.query.state import State
from raysweep.query.sweep import Sweep, open_sweep
from raysweep.search.curves import FIRST
from raysweep.space import function_files, user_files
from raysweep.space.function_files import Given
from raysweep.space.schema import Space, plain_name
from raysweep.storage import files, paths
from raysweep.storage.paths import AnyPath
from raysweep.tracking import address
from raysweep.tracking.session import Session, check_runs_per

ASK_FROM_ROWS = 1_000_000


def run(
    space: Space, options: Options, function: Given | None = None, analyses: Mapping[str, Path] | None = None
) -> Sweep:
    """Start a sweep of this space, or continue the sweep that has its name; a space that is only a part of that sweep
    is run as a part. analyses: the files of functions that its analyses name, by what the space calls them."""
    folder, record = find_place(space, options)
    if record:
        space = first_rows.carried(space, record)
    if options.download:
        fetch(space, options.say)
    cells = _cells(space, folder if record else None)
    check_runs_per(options.runs_per, record, cells)
    shared_stages.check_asked(options.store, space.declaration, space.keep, folder)
    if record and compatibility.is_part(Space(**record.space), space, record.sweep):
        user_files.remember_analyses(record.sweep_id, analyses or {})
        return _run_part(Sweep(folder, record, space), options, function)
    return Driver(folder, record, space, cells, options, function=function, analyses=analyses or {}).drive()


def resume(name: str, workload: str | Callable[..., Any] | None = None, **keywords: Any) -> Sweep:
    """Compute the rows that a sweep still lacks, and compute failed rows again.

    workload: for a sweep of a function, the function or FILE.py:NAME, relative to the current folder; None for the file
        from which your own run took it. Its source must be unchanged.
    keywords: the fields of `Options`.
    """
    function_files.check_not_imported()
    options = Options(**keywords)
    sweep = open_sweep(name, options.storage)
    if sweep.space.imported:
        raise InputError(name, "was computed elsewhere; there is nothing to compute")
    shared_stages.check_asked(options.store, sweep.workload, sweep.space.keep, sweep.folder)
    cells = _cells(sweep.space, sweep.folder, retry_failed=True)
    needed = workload is not None
    if sweep.workload.function is not None and not needed:
        needed = State(sweep.space, cells, sweep.folder, retry_failed=True).missing_rows > 0
    function = function_of(sweep, workload) if needed else None
    driver = Driver(sweep.folder, sweep.record, sweep.space, cells, options, retry_failed=True, function=function)
    return driver.drive()


def function_of(sweep: Sweep, workload: Any = None) -> Given | None:
    """The function of a sweep, to compute rows; None for a sweep of any other workload. workload: as in `resume`.

    Nothing in the storage says which file is imported: the user does, now or in a run before. InputError if neither
    does, or if the source is not that of the sweep any more.
    """
    recorded = sweep.workload.function
    if recorded is None:
        if workload is not None:
            raise InputError("--workload", f"{sweep.name} is a sweep of {sweep.workload.name}, which is no function")
        return None
    check = function_files.unchanged(recorded, sweep.name, "--workload")
    if workload is not None:
        return function_files.find(workload, Path(), "--workload", check)
    if place := user_files.recall(sweep.record.sweep_id):
        return function_files.imported(*place, str(place[0]), "--workload", check)
    name = recorded.name
    if recorded.source:
        why = f"missing; {sweep.name} is a sweep of the function {name}, which no run of yours on this machine gave"
        raise InputError("--workload", f"{why}: say --workload FILE.py:{name}")
    raise InputError(
        sweep.name, f"its function {name} was given in Python; go on by calling raysweep.run with it again"
    )


def sync(name: str, **keywords: Any) -> Sweep:
    """Replay a sweep's ledger into MLflow. Runs that are there already stay as they are.

    keywords: `storage`, `tracking_uri` and `say` of `Options`.

    Raises InputError if the sweep has no MLflow to log to, and Halted if some runs could not be written.
    """
    options = Options(**keywords)
    sweep, say = open_sweep(name, options.storage), options.say
    uri = address.chosen(options.tracking_uri, sweep.record, sweep.folder.parent)
    if uri is None:
        raise InputError("--tracking-uri", f"{sweep.name} is mirrored nowhere; say where to")
    files.check_not_read_only(sweep.folder)
    address.check(uri, None, sweep.folder.parent, say)
    logging: Session | None = None

    @signal_handlers.once
    def stop() -> None:
        if logging is not None and not logging.closed and (warning := logging.stop("KILLED")):
            say(f"interrupted: {warning}")

    with only_driver(sweep.folder, sweep.record, say), signal_handlers.on_signals(stop):
        sweep = Sweep(sweep.folder, records.remember(sweep.folder, sweep.record, sweep.space, uri))
        state = sweep.state()
        logging = Session(uri, sweep.folder, sweep.record, sweep.space, sweep.cells, state)
        try:
            missing = log_the_rest(logging, sweep, state, say)
        except KeyboardInterrupt:
            stop()
            raise
    if missing:
        raise Halted("", missing)
    return sweep


def find_place(space: Space, options: Options) -> tuple[AnyPath, sweep_record.Record | None]:
    """The folder of the sweep that is asked for, and its record; None if there is no such sweep yet. Raises InputError
    for a name or a storage that is not valid, and for a grid so large that it may be an accident."""
    name = plain_name(options.name, "--name") if options.name is not None else space.name
    if name in sweep_record.RESERVED:
        raise InputError("--name" if options.name else "name", f"{name} is a name that the storage uses itself")
    storage = paths.storage(options.storage)
    if reason := files.why_not_writable(storage):
        raise InputError("--storage", f"{place(storage)} cannot be written ({reason})")
    record = sweep_record.load(storage / name)
    cells = space.count_upper_bound()
    draws = len(space.seeds)
    if space.precision:  # which is a limit and no plan: before the first round, only that one is known
        draws = min(draws, FIRST)
    rows = min(cells * draws, space.budget.get("rows", cells * draws))
    if rows >= ASK_FROM_ROWS and not options.yes:
        sizes = " x ".join(f"{len(space.axes[group[0]]):,} {'+'.join(group)}" for group in space.groups())
        sizes = f"{sizes} = " if not space.ranges else ""
        size = f"{rows:,} rows ({sizes}{cells:,} cells, x {draws:,} seeds)"
        raise InputError("axes", f"{size}; --yes is needed from {ASK_FROM_ROWS:,} rows on")
    return storage / name, record


def _cells(space: Space, folder: AnyPath | None, retry_failed: bool = False) -> Cells:
    """The cells of a space. InputError if the workload refuses it and some rows are missing; if all are there in its
    folder (None for a new sweep), it does not matter that, for example, a text no longer exists."""
    try:
        cells = enumerate_cells(space)
        if downloads := to_download(space):
            raise InputError("--download", f"loads what is not here: {downloads}")
        return cells
    except InputError:
        if folder is None:
            raise
        cells = enumerate_cells(space, check=False)
        if State(space, cells, folder, retry_failed=retry_failed).missing_rows:
            raise
        return cells


def _run_part(sweep: Sweep, options: Options, function: Given | None) -> Sweep:
    """Missing rows are computed only for a grid: a search or a precision chooses rows from the whole sweep."""
    say = options.say
    grid = "grid" in sweep.space.search and not sweep.space.precision
    part = f"this is a part of the sweep {sweep.name}"
    if options.on_code_change == "recompute" and not grid:
        why = f"recompute is for all that a search chose, and {part}; expected its whole space"
        raise InputError("--on-code-change", why)
    if shared_stages.placed(sweep.record, options.store) != sweep.record:
        why = f"{part}, whose stages are shared elsewhere; leave it out, or ask for the whole sweep"
        raise InputError("--store", why)
    state = State(sweep.space, sweep.cells, sweep.folder, options.on_code_change)
    say(f"{sweep.name}: this is a part of that sweep, whose record, mirror and report stay those of the whole")
    if grid and state.missing_rows:
        return Driver(sweep.folder, sweep.record, sweep.space, sweep.cells, options, True, function=function).drive()
    for note in state.notes:
        say(note)
    if present := first_rows.learned_at_the_end(sweep.space, state, say):
        sweep = Sweep(sweep.folder, sweep.record, present)
    say(f"{sweep.name}: {rows_are(len(state.rows), of=' of this part')} there; nothing to compute")
    if sweep.space.precision:
        for line in verdict.lines(state, is_part=True):
            say(line)
    if not grid and (waiting := Sweep(sweep.folder, sweep.record).state().missing_rows):
        again = command("resume", sweep.name, sweep.folder.parent)
        say(f"its search has not ended, {rows_are(waiting)} next; go on with: {again}")
    if options.report and state.rows:
        for line in repr(sweep.report()).splitlines():
            say(line)
    return sweep
