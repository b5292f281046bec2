"""What of a sweep goes to MLflow, and when: each cell once it is complete, the rest at the end."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from raysweep.driver.progress import Phase
from raysweep.driver.state import State
from raysweep.errors import Halted, InputError, unknown
from raysweep.ledger import segments, sweep_record
from raysweep.phrases import command, counted
from raysweep.plan.cells import Cells, plan_record
from raysweep.plan.identity import code_version
from raysweep.plan.stages import cell_stages
from raysweep.redaction import without_credentials
from raysweep.space import yaml_reader
from raysweep.space.schema import Space
from raysweep.storage import files, paths, signs
from raysweep.storage.paths import AnyPath
from raysweep.tracking import mirror as mirrors
from raysweep.tracking.mirror import Mirror

if TYPE_CHECKING:
    from raysweep.sweep import Sweep

NOWHERE = "none"
OF_DRIVER = "sqlite:///mlflow.db"
"""Where a sweep in a bucket is mirrored unless asked otherwise: in the working directory of whoever drives it."""
RUNS_PER = ("cell", "pack", "sweep")
RUN_PER_CELL_UP_TO = 5000  # cells; at some 20 ms a run, more would outlast the sweep
CELLS_PER_PACK = 250
MANY, LONG = 20, 3.0
"""Cells that wait at the end, and seconds that it takes, beyond which one is told that nobody has to wait."""


def tracking(asked: str | None, record: sweep_record.Record | None, storage: AnyPath) -> str | None:
    """Where to mirror: as asked, else as before, else a database in the storage; None for nowhere.

    A bucket holds no database: it is ./mlflow.db then, of whatever machine drives the sweep, and whole there, because
    a mirror is replayed from the ledger.
    """
    if asked is not None:
        return None if asked == NOWHERE else asked
    if record is not None and record.tracking_uri != OF_DRIVER:
        return record.tracking_uri
    return f"sqlite:///{((storage if isinstance(storage, Path) else Path()) / 'mlflow.db').resolve()}"


def recorded(uri: str | None, storage: AnyPath) -> str | None:
    """What a sweep's record keeps of a tracking URI: no credentials, and no folder of a machine that is one of many."""
    if not isinstance(storage, Path) and uri == tracking(None, None, storage):
        return OF_DRIVER
    return without_credentials(uri) if uri else None


def check(uri: str | None, record: sweep_record.Record | None, storage: AnyPath, say: Callable[[str], None]) -> None:
    """InputError if there is somewhere to mirror to and it cannot be reached; only a word about it where the sweep was
    mirrored there before: it waits for no server, and the mirror is mended later."""
    if uri is None:
        return
    try:
        mirrors.check(uri)
    except mirrors.NotLetIn as error:  # a server that stays away is waited for, a wrong password is not
        raise InputError("--tracking-uri", str(error)) from None
    except mirrors.Unreachable as error:
        if record is None:
            raise InputError(
                "--tracking-uri",
                f"{error} ({NOWHERE} runs without, and `raysweep sync SWEEP` with an address writes it later)",
            ) from None
        if record.tracking_uri not in (without_credentials(uri), OF_DRIVER):
            raise InputError("--tracking-uri", str(error)) from None
        say(
            f"--tracking-uri: {error}; going on, and trying again meanwhile; if it stays away: "
            f"{command('sync', record.sweep, storage)}, later"
        )


def remember(folder: AnyPath, record: sweep_record.Record, space: Space, uri: str | None) -> sweep_record.Record:
    """The record with the space and the address that were asked for now, in its place if they are new."""
    address = recorded(uri, folder.parent) if uri else record.tracking_uri
    current = replace(record, space=space.as_dict(), tracking_uri=address)
    if current != sweep_record.load(folder):
        sweep_record.update(folder, current)
    return current


@contextlib.contextmanager
def remembered(
    folder: AnyPath,
    record: sweep_record.Record,
    space: Space,
    uri: str | None,
    withdraw: Callable[[], None] | None = None,
) -> Iterator[sweep_record.Record]:
    """`remember`, for the block before any work that finds out whether what is asked for can be done: whoever is killed
    in it can be resumed as asked. Where it was bad input the record is put back as it was, or, of a sweep that is new,
    `withdraw` is called."""
    before = sweep_record.load(folder)
    try:
        yield remember(folder, record, space, uri)
    except InputError as error:
        if isinstance(error, Halted):
            raise
        if withdraw is not None:
            withdraw()
        elif before is not None and sweep_record.load(folder) != before:
            sweep_record.update(folder, before)
        raise


def default_runs_per(cells: Cells) -> str:
    """What has a run of its own in MLflow, if nobody says."""
    return "cell" if len(cells) <= RUN_PER_CELL_UP_TO else "pack"


def check_runs_per(asked: str | None, record: sweep_record.Record | None) -> None:
    """InputError for what there is not, and for a change: a sweep mirrored both ways would stand there twice."""
    if asked is None:
        return
    if asked not in RUNS_PER:
        raise unknown("runs_per", "choice", asked, RUNS_PER)
    if record is not None and record.runs_per not in (None, asked):
        raise InputError(
            "--runs-per",
            f"{record.sweep} is mirrored per {record.runs_per} since it was started; --name starts another sweep",
        )


def start(uri: str, sweep: Sweep, state: State) -> Feed:
    """The mirror of a sweep, open and writing in the background, told of all that is complete already."""
    storage = sweep.folder.parent if isinstance(sweep.folder, Path) else Path()
    artifacts = None  # a server has a place of its own
    if uri.startswith("sqlite:"):
        artifacts = (storage.resolve() / "mlflow-artifacts").as_uri()
    known = signs.mirrored(sweep.folder)
    blank = signs.Mirrored(sweep.record.sweep_id, recorded(uri, sweep.folder.parent))
    if known is None or (known.sweep_id, known.tracking_uri) != (blank.sweep_id, blank.tracking_uri):
        known = blank
        signs.leave_mirrored(sweep.folder, known)

    def keep(written: dict[str, str], status: str | None, experiment: str | None) -> None:
        signs.leave_mirrored(sweep.folder, replace(blank, runs=written, status=status, experiment=experiment))

    mirror = Mirror(
        uri,
        artifacts,
        sweep.space.as_dict(),
        sweep.name,
        sweep.record.sweep_id,
        code_version(sweep.workload),
        paths.absolute(sweep.folder),
        known.runs,
        known.status,
        keep,
    )
    feed = Feed(mirror, sweep, state)
    for index in state.complete():
        feed.complete(index)
    return feed


class Feed:
    """Hands complete cells to the mirror: each as a run of its own, or in packs of neighbours, or none of them.

    The packs are of equal positions in the plan, whatever was computed when, so that a replay finds the same ones.
    """

    def __init__(self, mirror: Mirror, sweep: Sweep, state: State) -> None:
        self.mirror, self._sweep, self._books = mirror, sweep, state
        self._runs_per = sweep.record.runs_per or default_runs_per(sweep.cells)
        self._stages = cell_stages(sweep.workload, sweep.cells, sweep.space.seeds)
        self._told: set[int] = set()
        self.closed = False

    def complete(self, index: int) -> None:
        """The last draw of a cell is there."""
        if self._runs_per == "cell":
            parameters = self._sweep.cells.parameters(index)
            rows = self._books.of_cell(index)
            try:
                stages = self._stages(index)
            except InputError:  # a text that is gone is no matter to rows that are there
                stages = None
            self.mirror.cell(self._sweep.cells.ids[index], parameters, rows, stages, mark(rows))
            return
        pack = index // CELLS_PER_PACK
        if self._runs_per == "sweep" or pack in self._told:
            return
        if all(map(self._books.is_complete, members(self._sweep.cells, pack))):
            self._hand_over(pack)

    def rest(self) -> None:
        """The end: packs of which some cells are complete and others, which a search left out, never will be."""
        for pack in range(len(self._sweep.cells) // CELLS_PER_PACK + 1 if self._runs_per == "pack" else 0):
            if pack not in self._told:
                self._hand_over(pack)

    def _hand_over(self, pack: int) -> None:
        self._told.add(pack)
        cells = [
            (index, self._sweep.cells.parameters(index), self._books.of_cell(index))
            for index in members(self._sweep.cells, pack)
            if self._books.is_complete(index)
        ]
        if cells:
            self.mirror.pack(pack_name(pack), cells, mark([row for _, _, rows in cells for row in rows]))

    def stop(self, status: Literal["KILLED", "FAILED"]) -> str | None:
        """The end of a sweep that was interrupted, within seconds; what MLflow does not have of it, in one line."""
        try:
            lacks = self.mirror.finish(status, {}, {})
        except KeyboardInterrupt:  # not even these seconds
            lacks = self.mirror.shortfall()
        return self.mended(lacks)

    def mended(self, lacks: str | None) -> str | None:
        """What MLflow lacks, with the command that writes it."""
        sweep = self._sweep
        return f"{lacks}; run `{command('sync', sweep.name, sweep.folder.parent)}`" if lacks else None

    def counts(self) -> tuple[int, int]:
        """How many of the cells handed over are in MLflow."""
        waiting = self.mirror.pending  # looked at first, because both may grow meanwhile
        of = self.mirror.handed
        return of - waiting, of


def members(cells: Cells, pack: int) -> range:
    """The cells of a pack, by their positions in the plan."""
    return range(pack * CELLS_PER_PACK, min((pack + 1) * CELLS_PER_PACK, len(cells)))


def pack_name(pack: int) -> str:
    """What a pack is called in MLflow."""
    return f"pack-{pack}"


def mark(rows: Sequence[segments.Row]) -> str:
    """What tells these rows from others of the same cells: a row that is computed again has another mark."""
    origins = repr([(row["seed"], row["attempt"], row.get("finished")) for row in rows])
    return hashlib.sha256(origins.encode()).hexdigest()[:16]


def close(feed: Feed, sweep: Sweep, state: State, say: Callable[[str], None]) -> str | None:
    """Everything at the top of the parent run, and its status. Returns what MLflow lacks then, in one line."""
    from raysweep.ledger import results

    feed.rest()
    mirror = feed.mirror
    written = {
        "space.yaml": yaml_reader.dump(sweep.space.as_dict()).encode(),
        "plan.json": json.dumps(plan_record(sweep.space, sweep.cells), indent=1).encode(),
        "results.csv": results.dump(sweep.results(), "csv"),
    }
    for name, content in written.items():
        files.replace(sweep.folder / name, content)
    statuses = state.statuses()
    summary = {"rows": sum(statuses.values()), **{f"rows_{status}": count for status, count in statuses.items()}}
    with (
        _told_that_nobody_has_to_wait(sweep, mirror, say),
        paths.copied(sweep.folder, (*written, "report")) as home,
        Phase(sweep.folder, "mirror", feed.counts),
    ):
        artifacts = {name: home / name for name in (*written, "report")}
        artifacts["figures"] = artifacts["report"] / "figures"
        artifacts = {name: path for name, path in artifacts.items() if path.exists()}
        warning = mirror.finish("KILLED" if state.missing().rows else "FINISHED", artifacts, summary)
    feed.closed = True
    return feed.mended(warning)


@contextlib.contextmanager
def _told_that_nobody_has_to_wait(sweep: Sweep, mirror: Mirror, say: Callable[[str], None]) -> Iterator[None]:
    """Say that Ctrl-C is safe now, if that is worth a line: at once where many cells wait, else where it takes long."""

    def tell() -> None:
        waiting = mirror.pending
        last = f"the last {counted(waiting, 'cell')}" if waiting else "the end of the sweep's own run"
        say(
            f"writing {last} to MLflow; all rows are kept: Ctrl-C is safe here, and "
            f"`{command('sync', sweep.name, sweep.folder.parent)}` writes what is missing then"
        )

    if mirror.pending > MANY:
        tell()
        yield
        return
    later = threading.Timer(LONG, tell)
    later.daemon = True
    later.start()
    try:
        yield
    finally:
        later.cancel()
