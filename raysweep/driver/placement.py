"""Where packs are computed (in this process or on Ray), how many at a time, and how long that should take."""

from __future__ import annotations

import heapq
import itertools
import os
from dataclasses import dataclass

from raysweep.driver.options import Options
from raysweep.driver.progress import duration
from raysweep.executors import ray_tune
from raysweep.phrases import counted
from raysweep.plan.cells import Cells
from raysweep.plan.pack import Pack, PackQueue
from raysweep.plan.packs import Packing
from raysweep.query.state import PendingRows

INLINE_UP_TO = 20.0  # estimated seconds of one core below which starting Ray (about 15 s) does not pay
PACK_FLOOR = {"ray": 2.0, "inline": 0.5}  # seconds; a new trial costs Ray 0.1 to 2 s, this process nothing


@dataclass(frozen=True)
class Placement:
    """Where packs are computed: ray or inline, how many trials at a time, whether the user chose it, and how many
    trials share the memory of one machine (`beside`)."""

    executor: str
    trials: int
    asked: bool
    beside: int = 1

    def packing(self) -> Packing:
        """How to cut packs for this executor and number of trials, with the memory of a machine like this one."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return Packing(workers=self.trials, floor=PACK_FLOOR[self.executor], memory=memory / 2 / self.beside)

    def line(self, packs: list[Pack], rows: int, seconds: float) -> str:
        """How many rows are computed, where, and how long that should take. seconds: of all rows on one core or GPU."""
        size = f"{counted(rows, 'row')} in {in_words(packs)}"
        if self.executor == "inline":
            hint = "" if self.asked else "; --executor ray for Ray Tune"
            return f"{size}, in this process, estimated {duration(seconds)}{hint}"
        wall = duration(wall_seconds(packs, self.trials, seconds))
        return f"{size}, Ray Tune with {counted(self.trials, 'trial')} at a time, estimated {wall}"


def choose_executor(options: Options, seconds: float, cells: Cells) -> str:
    """The chosen executor; else this process if it would finish before Ray has started, else Ray. seconds: what all
    rows are likely to take on one core, or on one GPU."""
    if options.executor:
        return options.executor
    alone = all(needs.gang == 1 and not needs.gpus for needs in cells.needs)
    small = seconds <= INLINE_UP_TO and alone and not options.workers
    return "inline" if small else "ray"


def place(options: Options, pending: PendingRows, cells: Cells, seconds: float) -> Placement:
    """Decide where to compute these rows, and start Ray if it is needed. seconds: as in `choose_executor`. Raises
    InputError if a trial can never fit."""
    executor = choose_executor(options, seconds, cells)
    if executor == "inline" or not pending.rows:
        return Placement("inline", 1, bool(options.executor))
    room = ray_tune.connect(options.workers, cells.needs, options.say)
    if room.now < room.trials:
        now = f"{room.now} of {room.trials} trials at a time fit the machines that are up"
        options.say(f"{now}; others are yet to come")
    return Placement("ray", room.trials, True, room.per_machine)


def total_seconds(packs: list[Pack], pending: PendingRows, stored: bool) -> float:
    """Seconds of the rows on one core or GPU. Unless stages are stored, packs repeat the work that they share."""
    return pending.seconds if stored else sum(pack.seconds for pack in packs)


def in_words(packs: list[Pack], size: str = "") -> str:
    """The number of packs, and how large they are, in words: 12 packs, after 3 packs of stages that they share."""
    stages = sum(1 for pack in packs if pack.stages)
    text = f"{counted(len(packs) - stages, 'pack')}{size}"
    return f"{text}, after {counted(stages, 'pack')} of stages that they share" if stages else text


def wall_seconds(packs: list[Pack], trials: int, seconds: float, gangs: bool = True) -> float:
    """How many seconds packs take, `trials` at a time, if the queue gives them out, each after those that it starts
    from.

    A gang of k counts as k times as fast, without the time in which its workers exchange data.

    seconds: the estimated seconds of all packs together on one core or GPU.
    gangs: whether gangs compute the packs that ask for them; in this process there are none.
    """
    rounds, begun = iter([packs]), itertools.count()
    queue = PackQueue(lambda: next(rounds, []))
    now = 0.0
    running: list[tuple[float, int, Pack]] = []  # when each ends
    while True:
        while len(running) < max(trials, 1) and (pack := queue.next()) is not None:
            heapq.heappush(running, (now + pack.seconds / (pack.needs.gang if gangs else 1), next(begun), pack))
        if not running:
            break
        now, _, pack = heapq.heappop(running)
        queue.done(pack)
    alone = sum(pack.seconds for pack in packs)
    return seconds * now / alone if alone else 0.0
