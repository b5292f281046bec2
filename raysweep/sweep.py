"""A sweep, as one holds it in the hand: run it, resume it, read its rows, have it reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from raysweep import terminal, workloads
from raysweep.commands import mirror_status
from raysweep.driver import compatibility, driver, signals, stored_stages
from raysweep.driver.driver import Options
from raysweep.driver.limits import TimeLimit
from raysweep.driver.progress import Phase
from raysweep.driver.state import ON_CODE_CHANGE, State
from raysweep.errors import Halted, InputError, RaysweepError, unknown
from raysweep.ledger import segments, sweep_record
from raysweep.phrases import command, counted
from raysweep.plan.cells import Cells, enumerate_cells
from raysweep.space import space_files
from raysweep.space.schema import Space, plain_name
from raysweep.storage import copies, paths
from raysweep.storage.files import why_not_writable
from raysweep.storage.paths import AnyPath
from raysweep.tracking import grouping, session
from raysweep.tracking.session import Session
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas

    from raysweep.reporting.report import Report

ASK_FROM_ROWS = 1_000_000
COUNT_AGAIN_UP_TO = 20_000  # rows; of more, those that trials published last are not worth the seconds when told to end


class Sweep:
    """A sweep in a storage directory, or a part of it. Nothing is computed by looking at it.

    part: the space of the part that is looked at, fewer seeds or values than were recorded.
    """

    def __init__(self, folder: AnyPath, record: sweep_record.Record, part: Space | None = None) -> None:
        self.folder, self.record, self._part = folder, record, part

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.record.sweep

    @cached_property
    def space(self) -> Space:
        """The resolved space it was asked with."""
        return self._part or Space(**self.record.space)

    @property
    def is_part(self) -> bool:
        """Whether it is only a part of what was recorded."""
        return self._part is not None

    @property
    def workload(self) -> Workload:
        """The declaration of its workload."""
        return workloads.get(self.space.workload)

    @cached_property
    def cells(self) -> Cells:
        """Its cells, in plan order."""
        return enumerate_cells(self.space, check=False)

    def state(self) -> State:
        """What the ledger has of the plan, read anew."""
        return State(self.space, self.cells, self.folder)

    def rows(self) -> dict[tuple[str, int], segments.Row]:
        """Its rows by (cell, seed), read anew."""
        return self.state().rows

    def statuses(self) -> Counter[str]:
        """How many rows ended how."""
        return Counter(row["status"] for row in self.rows().values())

    def results(self, state: State | None = None) -> pandas.DataFrame:
        """Its rows as a tidy table, in plan order, then by seed. state: what was read of its ledger, if it was."""
        from raysweep.ledger import results

        rows = self.rows() if state is None else state.rows
        return results.frame(self.name, self.space.workload, self.cells, self.space.seeds, rows)

    def report(
        self, directory: str | AnyPath | None = None, on_step: Callable[[int, int], None] = lambda done, of: None
    ) -> Report:
        """Fit, draw and write the report; by default into the sweep's own folder, that of a part beside the whole's.
        on_step: told how many of how many steps are done."""
        return report([self], directory, on_step)

    def failures(self) -> list[segments.Row]:
        """Rows that failed, with their tracebacks."""
        return self.state().failures()


def open_sweep(name: str, storage: str | AnyPath = "sweeps", to_delete: bool = False) -> Sweep:
    """A sweep by name; InputError if there is none, and unless `to_delete` if its deletion has begun."""
    folder = sweep_record.find(paths.storage(storage), name)
    record = sweep_record.load(folder, to_delete)
    if record is None:
        raise InputError(name, f"no such sweep in {storage}")
    return Sweep(folder, record)


def report(
    sweeps: list[Sweep],
    directory: str | AnyPath | None = None,
    on_step: Callable[[int, int], None] = lambda done, of: None,
) -> Report:
    """One report over one or several sweeps of one workload, by default into the first one's folder; InputError if
    there is nothing to report. on_step: told how many of how many steps are done."""
    import pandas

    from raysweep.reporting.report import write_report

    # one that is named twice is there once
    sweeps = list({(str(sweep.folder), repr(sweep.space)): sweep for sweep in sweeps}.values())
    first = sweeps[0]
    for other in sweeps[1:]:
        if other.space.workload != first.space.workload:
            raise InputError(
                other.name,
                f"is a sweep of {other.space.workload}, {first.name} one of "
                f"{first.space.workload}; a report is about one workload",
            )
    labels = _labels(sweeps)
    state = [sweep.state() for sweep in sweeps]
    tables = [sweep.results(read).assign(sweep=label) for sweep, label, read in zip(sweeps, labels, state, strict=True)]
    begun = [(sweep, table) for sweep, table in zip(sweeps, tables, strict=True) if len(table)]
    if not begun:
        outdated = state[0].outdated
        raise InputError(first.name, "there are no rows to report yet" + (f" ({outdated})" if outdated else ""))
    frame = pandas.concat([table for _, table in begun], ignore_index=True)
    spaces = [sweep.space.as_dict() for sweep, _ in begun]
    home = sweep_record.PART if first.is_part else sweep_record.REPORT
    folder = paths.locate(directory) if directory is not None else first.folder / home
    names = ", ".join(labels)
    idle = [f"{label}: no row is there yet." for label, table in zip(labels, tables, strict=True) if table.empty]
    notes = [*idle, *_caveats(sweeps), *_stages(sweeps, labels)]
    with copies.workplace(folder) as room:
        written = write_report(frame, spaces[0], room, sweep=names, notes=notes, further=spaces[1:], on_step=on_step)
    files = [folder / Path(str(path)).relative_to(room).as_posix() for path in written.files]
    return replace(written, directory=folder, files=files)


def _labels(sweeps: list[Sweep]) -> list[str]:
    """What a report calls each of several: by its name, where another storage has a sweep of that name by its storage
    too, and a part of a sweep, beside the whole or another part, by its number."""
    labels: list[str] = []
    for sweep in sweeps:
        alike = [other for other in sweeps if other.name == sweep.name]
        same = [other for other in alike if other.folder == sweep.folder]
        parts = [other for other in same if other.is_part]
        label = sweep.name if len(alike) == len(same) else str(sweep.folder)
        labels.append(f"{label} (part {parts.index(sweep) + 1})" if sweep in parts and len(same) > 1 else label)
    return labels


def _report(sweep: Sweep) -> Report:
    """The report of a sweep by its driver, which shows how far it is."""
    steps = [(0, 0)]  # how many there are is known once the rows are read
    with Phase(sweep.folder, "report", lambda: steps[-1]):
        return sweep.report(on_step=lambda done, of: steps.append((done, of)))


def _caveats(sweeps: list[Sweep]) -> list[str]:
    """What the closed forms in a report do not describe, each said once."""
    caveat = sweeps[0].workload.caveat
    if caveat is None:
        return []
    said = (caveat(sweep.cells.parameters(index)) for sweep in sweeps for index in range(len(sweep.cells)))
    return list(dict.fromkeys(text for text in said if text))[:3]


def _stages(sweeps: list[Sweep], labels: list[str]) -> list[str]:
    """What became of the stored stages of each, where there are any."""
    return [
        f"{label}: {stored_stages.of_sweep(sweep.folder, sweep.record)}"
        for sweep, label in zip(sweeps, labels, strict=True)
        if sweep.workload.stored
    ]


def run(
    space: str | Path | Mapping[str, Any],
    *,
    set: Mapping[str, Any] | None = None,
    name: str | None = None,
    storage: str | AnyPath = "sweeps",
    store: str | None = None,
    tracking_uri: str | None = None,
    runs_per: str | None = None,
    workers: int | None = None,
    executor: str | None = None,
    max_hours: float | None = None,
    report: bool = True,
    yes: bool = False,
    on_code_change: str = "reuse",
    say: Callable[[str], None] = terminal.say,
    **overrides: Any,
) -> Sweep:
    """Run a space to its end and return the sweep; one that exists already is continued or extended, and where only a
    part of it is asked for, the sweep that is returned is that part.

    space: a path, the name of a packaged space, or plain data. set: dotted keys to values, as `--set`; further
    keywords replace keys of the space (`seeds=5`), those of axes and fixed one by one. store: where stages are shared,
    None for where this sweep had them before, or STORAGE/store. InputError for bad input; KeyboardInterrupt once
    everything finished so far is safe.
    """
    options = _options(executor, workers, on_code_change, max_hours)
    asked = read(space, set, overrides)
    folder, existing = place(asked, name, storage)
    check_size(asked, yes)
    uri = session.tracking(tracking_uri, existing, folder.parent)
    cells = _cells(asked, folder if existing else None)
    grouping.check_runs_per(runs_per, existing)
    stored_stages.check_asked(store, workloads.get(asked.workload), folder)
    if existing and compatibility.is_part(Space(**existing.space), asked, existing.sweep):
        return _part(Sweep(folder, existing, asked), store, options, report, say)
    session.check(uri, existing, folder.parent, say)
    new_storage = isinstance(folder, Path) and not folder.parent.exists()
    record = existing or _create(
        folder, name or asked.name, asked, uri, runs_per or grouping.default_runs_per(cells), new_storage
    )

    def withdraw() -> None:
        """What was asked cannot be done here: nothing half-created stays."""
        stored_stages.withdraw(folder, stored_stages.placed(record, store), new_storage)
        sweep_record.withdraw(folder, new_storage)

    return _drive(
        Sweep(folder, record), asked, cells, store, uri, options, report, say, withdraw=None if existing else withdraw
    )


def resume(
    name: str,
    *,
    storage: str | AnyPath = "sweeps",
    store: str | None = None,
    tracking_uri: str | None = None,
    workers: int | None = None,
    executor: str | None = None,
    max_hours: float | None = None,
    report: bool = True,
    on_code_change: str = "reuse",
    say: Callable[[str], None] = terminal.say,
) -> Sweep:
    """Compute what a sweep still lacks, rows that failed included."""
    found = open_sweep(name, storage)
    uri = session.tracking(tracking_uri, found.record, found.folder.parent)
    session.check(uri, found.record, found.folder.parent, say)
    options = replace(_options(executor, workers, on_code_change, max_hours), retry_failed=True)
    stored_stages.check_asked(store, found.workload, found.folder)
    cells = _cells(found.space, found.folder, retry_failed=True)
    return _drive(found, found.space, cells, store, uri, options, report, say)


def sync(
    name: str,
    *,
    storage: str | AnyPath = "sweeps",
    tracking_uri: str | None = None,
    say: Callable[[str], None] = terminal.say,
) -> Sweep:
    """Replay a sweep's ledger into MLflow; what is there already is left alone. InputError if it cannot be made whole
    there."""
    found = open_sweep(name, storage)
    uri = session.tracking(tracking_uri, found.record, found.folder.parent)
    if uri is None:
        raise InputError("--tracking-uri", f"{name} is mirrored nowhere; say where to")
    session.check(uri, None, found.folder.parent, say)
    feed: Session | None = None

    @signals.once
    def close() -> None:
        if feed is not None and not feed.closed and (warning := feed.stop("KILLED")):
            say(f"interrupted: {warning}")

    with driver.only_driver(found.folder, found.record, say), signals.on_signals(close):
        found = Sweep(found.folder, session.remember(found.folder, found.record, found.space, uri))
        state = found.state()
        feed = Session(uri, found.folder, found.record, found.space, found.cells, state)
        try:
            missing = _log_the_rest(feed, found, state, say)
        except KeyboardInterrupt:
            close()
            raise
    if missing:
        raise Halted("", missing)
    return found


def _log_the_rest(logging: Session, sweep: Sweep, state: State, say: Callable[[str], None]) -> str | None:
    """Log what is left of a sweep to MLflow, and show how far it is; what MLflow lacks then, in one line."""
    from raysweep.ledger import results

    return logging.close(
        results.dump(sweep.results(), "csv"),
        state.statuses(),
        "KILLED" if state.missing().rows else "FINISHED",
        Phase(sweep.folder, "mirror", logging.counts),
        say,
    )


def _cells(space: Space, folder: AnyPath | None, retry_failed: bool = False) -> Cells:
    """The cells of a space. InputError for one that the workload refuses, unless all of its rows are in the folder of a
    sweep: a text that is gone is no matter to them."""
    try:
        return enumerate_cells(space)
    except InputError:
        if folder is None:
            raise
        cells = enumerate_cells(space, check=False)
        if State(space, cells, folder, retry_failed=retry_failed).missing().rows:
            raise
        return cells


def read(space: str | Path | Mapping[str, Any], set: Mapping[str, Any] | None, overrides: Mapping[str, Any]) -> Space:
    """The space that is asked for, with everything said on top of it."""
    changes = dict(set or {})
    for key, value in overrides.items():
        if key in ("axes", "fixed") and isinstance(value, Mapping):
            changes |= {f"{key}.{inner}": entry for inner, entry in value.items()}
        else:
            changes[key] = value
    return space_files.read(space, changes)


def _options(executor: str | None, workers: int | None, on_code_change: str, max_hours: float | None) -> Options:
    """InputError for what the command line would refuse."""
    if executor is not None and executor not in driver.EXECUTORS:
        raise unknown("executor", "executor", executor, driver.EXECUTORS)
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise InputError("workers", f"expected a whole number of at least 1, got {workers!r}")
    if on_code_change not in ON_CODE_CHANGE:
        raise unknown("on_code_change", "choice", on_code_change, ON_CODE_CHANGE)
    if max_hours is not None and not max_hours > 0:
        raise InputError("max_hours", f"expected hours above 0, got {max_hours!r}")
    return Options(executor, workers, on_code_change, max_hours=max_hours)


def place(space: Space, name: str | None, storage: str | AnyPath) -> tuple[AnyPath, sweep_record.Record | None]:
    """The folder of the sweep, and its record if it exists."""
    sweep = plain_name(name, "--name") if name is not None else space.name
    if sweep in sweep_record.RESERVED:
        raise InputError("--name" if name else "name", f"{sweep} is a name that the storage uses itself")
    storage = paths.storage(storage)
    if reason := why_not_writable(storage):
        raise InputError("--storage", f"{storage} cannot be written ({reason})")
    folder = storage / sweep
    return folder, sweep_record.load(folder)


def check_size(space: Space, yes: bool) -> None:
    """InputError for a grid so large that it may be an accident."""
    cells = space.count_upper_bound()
    rows = cells * len(space.seeds)
    if rows >= ASK_FROM_ROWS and not yes:
        sizes = " x ".join(f"{len(space.axes[group[0]]):,} {'+'.join(group)}" for group in space.groups())
        raise InputError(
            "axes",
            f"{rows:,} rows ({sizes} = {cells:,} cells, x {len(space.seeds):,} seeds); "
            f"--yes is needed from {ASK_FROM_ROWS:,} rows on",
        )


def _part(sweep: Sweep, store: str | None, options: Options, with_report: bool, say: Callable[[str], None]) -> Sweep:
    """A part of a sweep is asked for: its rows as they are there. Only of a grid are rows computed that are not: which
    cells a search takes is decided by the whole."""
    grid = "grid" in sweep.space.search
    if options.on_code_change == "recompute" and not grid:
        raise InputError(
            "--on-code-change",
            "recompute is for all that a search chose, and this is a part of the "
            f"sweep {sweep.name}; expected its whole space",
        )
    if stored_stages.placed(sweep.record, store) != sweep.record:
        raise InputError(
            "--store",
            f"this is a part of the sweep {sweep.name}, whose stages are shared "
            "elsewhere; leave it out, or ask for the whole sweep",
        )
    state = State(sweep.space, sweep.cells, sweep.folder, options.on_code_change)
    say(f"{sweep.name}: this is a part of that sweep, whose record, mirror and report stay those of the whole")
    if grid and state.missing().rows:
        return _drive(sweep, sweep.space, sweep.cells, store, None, options, with_report, say)
    for note in state.notes:
        say(note)
    say(f"{sweep.name}: {_there(len(state.rows), of=' of this part')} there; nothing to compute")
    if not grid and (waiting := Sweep(sweep.folder, sweep.record).state().missing().rows):
        say(
            f"its search has not ended, {_there(waiting)} next; go on with: "
            f"{command('resume', sweep.name, sweep.folder.parent)}"
        )
    if with_report and state.rows:
        _show(sweep.report(), say)
    return sweep


def _there(rows: int, every: str = "", of: str = "") -> str:
    """1 row is, 12 rows are, all 12 rows are, 12 rows of this part are."""
    return f"1 row{of} is" if rows == 1 else f"{every}{counted(rows, 'row')}{of} are"


def _create(
    folder: AnyPath, name: str, space: Space, uri: str | None, runs_per: str, new_storage: bool
) -> sweep_record.Record:
    try:
        record = sweep_record.create(folder, name, space.as_dict(), session.recorded(uri, folder.parent), runs_per)
        return sweep_record.load(folder) or record  # as JSON has it: whoever holds the sweep compares the two
    except FileExistsError:
        raise InputError(name, "another driver has just started a sweep of this name") from None
    except OSError as error:
        sweep_record.abandon(folder, new_storage)
        raise InputError("--storage", f"{folder.parent} cannot be written: {error.strerror}") from None


def _drive(
    sweep: Sweep,
    space: Space,
    cells: Cells,
    store: str | None,
    uri: str | None,
    options: Options,
    with_report: bool,
    say: Callable[[str], None],
    withdraw: Callable[[], None] | None = None,
) -> Sweep:
    """Compute what `space` lacks of a sweep (which stays as it was recorded where it is only a part of it), and mirror
    and report it. withdraw: called where a new sweep cannot be begun, and never once any work was done."""
    folder, part = sweep.folder, space if sweep.is_part else None
    recorded = Space(**sweep.record.space) if part else space
    written: Report | None = None
    state: State | None = None
    feed: Session | None = None
    prepared, go_on, whole = False, "resume", ""

    def mirror_the_rest(state: State) -> None:
        if feed:
            lacks = _log_the_rest(feed, sweep, state, say)
            for line in [lacks] if lacks else mirror_status.page(sweep):
                say(line)

    def kept() -> str:
        rows = len(state.rows if state and len(state.rows) > COUNT_AGAIN_UP_TO else sweep.rows())
        return f"{_there(rows, whole)} kept; go on with: " + (
            "the same command" if part else command(go_on, sweep.name, folder.parent)
        )

    @signals.once
    def close(status: Literal["KILLED", "FAILED"], why: str = "") -> None:
        """Close the record in MLflow, and say how to go on."""
        if feed and not feed.closed and (warning := feed.stop(status)):
            say(warning)
        if why:
            say(f"{why}: {kept()}")

    limit = TimeLimit(options.max_hours)
    with (
        driver.only_driver(folder, sweep.record, say) as still_ours,
        signals.on_signals(lambda: close("KILLED", "interrupted")) as listen,
    ):

        def on_complete(cell: int) -> None:
            still_ours()
            if feed:
                feed.complete(cell)

        try:
            with limit.enforced():
                record = stored_stages.placed(sweep.record, store)
                with session.remembered(folder, record, recorded, uri, withdraw) as current:  # Ray takes seconds
                    sweep = Sweep(folder, current, part)
                    sweep.cells = cells
                    state = State(space, cells, folder, options.on_code_change, options.retry_failed)
                    driver.clear_leftovers(folder)
                    for note in state.notes:
                        say(note)
                    sharing = stored_stages.Sharing(folder, current, state, options.on_code_change, say)
                    work = sharing.claim(state.missing())
                    place_of_work = driver.choose(options, work, cells, say)
                    listen()
                    feed = Session(uri, folder, current, sweep.space, cells, state) if uri else None
                prepared = True
                driver.tidy(folder, still_ours, say)
                if work.rows:
                    driver.compute(folder, place_of_work, state, sharing, limit, on_complete, say)
                    driver.tidy(folder, still_ours, say)
                else:
                    say(f"{sweep.name}: {_there(len(state.rows), 'all ')} there; nothing to compute")
                whole = "all "
                try:
                    written = _report(sweep) if with_report else None
                except Exception:  # the rows are there all the same
                    go_on = "report"
                    mirror_the_rest(state)
                    raise
                mirror_the_rest(state)
        except SystemExit:  # while Ray starts, SIGTERM is Ray's
            close("KILLED", "interrupted")
            raise KeyboardInterrupt from None
        except KeyboardInterrupt as stop:
            out_of_time = limit.left() <= 0  # what Tune makes of our exception says nothing
            close("KILLED", str(stop) or (str(limit.over()) if out_of_time else "interrupted"))
            raise
        except Exception as problem:
            halt = problem if prepared and isinstance(problem, RaysweepError) else driver.halt(problem, folder)
            close("KILLED" if halt else "FAILED")
            if halt:
                raise Halted("", f"{halt}; {kept()}") from problem
            raise
    if account := sharing.account():
        say(account)
    if written:
        _show(written, say)
    return sweep


def _show(written: Report, say: Callable[[str], None]) -> None:
    """The answer comes last, where it is seen."""
    for line in (*written.headline, f"report: {written.directory / 'report.html'}"):
        say(line)
