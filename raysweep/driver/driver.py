"""One sweep driven to its end: what is missing in the ledger is computed, mirrored and counted.

Start, resume, extension and retry are one thing here: the plan says which rows there should be, the ledger which there
are, and the difference is cut into packs.
"""

from __future__ import annotations

import heapq
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from raysweep.driver.limits import TimeLimit
from raysweep.driver.progress import Progress, duration
from raysweep.driver.state import PendingRows, State
from raysweep.driver.stored_stages import Sharing
from raysweep.errors import Halted, RaysweepError
from raysweep.ledger import compaction, segments, sweep_record
from raysweep.ledger.sweep_record import Record
from raysweep.plan.cells import Cells
from raysweep.plan.identity import code_version
from raysweep.plan.packs import Pack, Packing, make_packs
from raysweep.plan.queue import PackQueue
from raysweep.storage import driver_lock, files, paths, signs
from raysweep.storage.paths import AnyPath
from raysweep.storage.sealed import Damaged
from raysweep.trial.pack import Job
from raysweep.workloads.declaration import Workload

EXECUTORS = ("ray", "inline")
INLINE_UP_TO = 20.0  # estimated seconds of one core below which starting Ray (about 15 s) does not pay
PACK_FLOOR = {"ray": 2.0, "inline": 0.5}  # seconds; a new trial costs Ray 0.1 to 2 s, this process nothing


@dataclass(frozen=True)
class Options:
    """How to run, as the user said it; None leaves the choice to us."""

    executor: str | None = None
    workers: int | None = None
    on_code_change: str = "reuse"
    retry_failed: bool = False
    max_hours: float | None = None


@dataclass(frozen=True)
class Place:
    """Where packs are computed: the executor, how many at a time, whether the user asked for it, and how many workers
    share the memory of one machine."""

    executor: str
    workers: int
    asked: bool
    beside: int = 1


def choose_executor(options: Options, work: PendingRows, cells: Cells) -> str:
    """Ray, unless the work is so small that it is done here before Ray would have started."""
    if options.executor:
        return options.executor
    alone = all(needs.gang == 1 and not needs.gpus for needs in cells.needs)
    small = work.seconds <= INLINE_UP_TO and alone and not options.workers
    return "inline" if small else "ray"


def choose(options: Options, work: PendingRows, cells: Cells, say: Callable[[str], None]) -> Place:
    """Where to compute; Ray is up afterwards if it is there. InputError if a trial can never fit."""
    executor = choose_executor(options, work, cells)
    if executor == "inline" or not work.rows:
        return Place("inline", 1, bool(options.executor))
    from raysweep.executors import ray_tune

    room = ray_tune.connect(options.workers, cells.needs, say)
    if room.now < room.trials:
        say(f"{room.now} of {room.trials} trials at a time fit the machines that are up; others are yet to come")
    return Place("ray", room.trials, True, room.beside)


def local_workers(cells: Cells) -> int:
    """How many trials this machine can run at a time, as far as one can tell without asking Ray."""
    return max(1, *((os.cpu_count() or 1) // needs.cpus for needs in cells.needs))


def packing(place: Place) -> Packing:
    """How to cut packs: for this executor, this many workers, and the memory of a machine like this one."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Packing(workers=place.workers, floor=PACK_FLOOR[place.executor], memory=memory / 2 / place.beside)


def compute(
    folder: AnyPath,
    place: Place,
    state: State,
    sharing: Sharing,
    limit: TimeLimit,
    on_complete: Callable[[int], None],
    say: Callable[[str], None],
) -> None:
    """Compute what is missing, round by round; `on_complete` is told of every cell whose last draw arrived. TimeIsUp if
    the limit left no time for some packs."""
    space, cells = state.space, state.cells
    for path in state.damaged:
        segments.set_aside(path)
    if isinstance(folder, Path):  # they are made with the record, but a copy may lack folders that were empty
        for inner in (sweep_record.LEDGER, sweep_record.LOGS):
            (folder / inner).mkdir(exist_ok=True)
    job = Job(
        space.workload,
        cells.columns,
        cells.ids,
        ledger=paths.absolute(folder / sweep_record.LEDGER),
        logs=paths.absolute(folder / sweep_record.LOGS),
        store=sharing.url,
        sweep=sharing.user,
        attempt=state.attempt,
        code_version=code_version(state.workload),
        cpus=space.resources["cpus_per_trial"],
    )
    with Progress() as progress:

        def propose() -> list[Pack]:
            work = sharing.claim(state.missing())
            if not work.rows:
                return []
            packs = make_packs(state.workload, cells, work.pending, packing(place))
            progress.expect(work.rows, sum(pack.seconds for pack in packs))
            guessed = state.workload.gpu_guess and any(pack.needs.gpus for pack in packs)
            say(where(place, packs, as_packed(work, packs, state.workload)) + (" (a guess)" if guessed else ""))
            return packs

        def on_segment(pack: Pack, path: AnyPath) -> None:
            try:
                rows = segments.read_segment(path)
            except (Damaged, FileNotFoundError) as error:
                raise Halted(
                    str(path.parent), f"{path.name} was written there and cannot be read back whole ({error})"
                ) from None
            for cell in state.add(rows):
                on_complete(cell)
            progress.advance(len(pack), pack.seconds)
            limit.learn(sum(row["seconds"] for row in rows), pack.seconds)

        def in_time(pack: Pack) -> bool:  # stages that are stored go on where they stopped: beginning one is no waste
            return limit.left() > 0 if state.workload.stored else limit.fits(pack.seconds)

        queue = PackQueue(propose, in_time)

        try:
            if place.executor == "ray":
                from raysweep.executors import ray_tune

                scratch = Path(tempfile.mkdtemp(prefix="raysweep-tune-"))  # not on the disk of the rows: it may be full
                ray_tune.run(queue, job, on_segment, workers=place.workers, scratch=scratch)
            else:
                from raysweep.executors import inline

                inline.run(queue, job, on_segment)
        except RaysweepError as error:  # the space was good: it is the place that failed, and may be mended
            raise error if isinstance(error, Halted) else Halted("", str(error)) from None
        if queue.held_back:
            raise limit.over()


def clear_leftovers(folder: AnyPath) -> None:
    """Take away what a driver that was killed left half-written. (In a bucket there is nothing like that.)"""
    if isinstance(folder, Path):
        for path in (*folder.glob(".*.part"), *(folder / sweep_record.LEDGER).glob(".*.part")):
            path.unlink(missing_ok=True)


def halt(problem: Exception, folder: AnyPath) -> Halted | None:
    """The one line for an end that is nobody's mistake and can be gone on from; None for any other."""
    if isinstance(problem, OSError) and problem.errno in files.FULL:
        return Halted(str(folder), f"there is no room left ({problem.strerror})")
    return problem if isinstance(problem, Halted) else None


def tidy(folder: AnyPath, still_ours: Callable[[], None], say: Callable[[str], None]) -> None:
    """Merge the ledger's segments where they are many; a ledger that cannot be tidied is as good as before."""
    try:
        compaction.compact(folder / sweep_record.LEDGER, still_ours)
    except (OSError, Damaged) as error:
        say(f"the segments of the ledger are left as they are: {error}")


def as_packed(work: PendingRows, packs: list[Pack], workload: Workload) -> PendingRows:
    """The work with what its packs take: rows that were cut apart do again what they share, unless it is stored."""
    return work if workload.stored else replace(work, seconds=sum(pack.seconds for pack in packs))


def where(place: Place, packs: list[Pack], work: PendingRows) -> str:
    """One line: how many rows, where they are computed, how long that should take."""
    size = f"{work.rows:,} rows in {len(packs):,} pack{'s' if len(packs) != 1 else ''}"
    if place.executor == "inline":
        hint = "" if place.asked else "; --executor ray for Ray Tune"
        return f"{size}, in this process, estimated {duration(work.seconds)}{hint}"
    return (
        f"{size}, Ray Tune with {place.workers} trial{'s' if place.workers != 1 else ''} at a time, estimated "
        f"{duration(wall_seconds(packs, place.workers, work.seconds))}"
    )


def wall_seconds(packs: list[Pack], trials: int, seconds: float) -> float:
    """How long packs take in their order, so many trials at a time of which some may be gangs; seconds: all of them on
    one core or GPU."""
    free = [0.0] * max(trials, 1)  # when each place for a trial is free
    for pack in packs:
        heapq.heapreplace(free, free[0] + pack.seconds / pack.needs.gang)
    alone = sum(pack.seconds for pack in packs)
    return seconds * max(free) / alone if alone else 0.0


class Taken(Halted):
    """Somebody else drives the sweep."""


@contextmanager
def only_driver(
    folder: AnyPath, record: Record, say: Callable[[str], None], to_delete: bool = False
) -> Iterator[Callable[[], None]]:
    """Hold a sweep while it is worked on; Taken says who else does, or that its record is no longer this one. Gives a
    check that raises it once it was taken."""
    sweep = record.sweep

    def check() -> None:
        try:
            still_held()
        except driver_lock.Busy as error:
            raise Taken(sweep, f"is being driven by {error}; one driver at a time") from None

    with ExitStack() as stack:
        try:
            still_held = stack.enter_context(driver_lock.held(folder, lambda line: say(f"{sweep}: {line}")))
        except driver_lock.Busy as error:
            raise Taken(sweep, f"is being driven by {error}; one driver at a time") from None
        except FileNotFoundError:
            raise Taken(sweep, "was deleted meanwhile") from None
        if (now := sweep_record.load(folder, to_delete)) != record:
            raise Taken(sweep, f"was {'changed' if now else 'deleted'} meanwhile; try again")
        signs.clear_phase(folder)  # of a driver that was killed
        yield check
