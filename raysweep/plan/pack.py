"""A pack: what one trial computes; and the queue from which every executor takes packs, one path for grids, adaptive
searches and retries."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from raysweep.plan.identity import content_id
from raysweep.space.resources import Resources

LOOK_EVERY = 1.0  # seconds between two looks at stages that others compute


@dataclass(frozen=True, eq=False)
class Pack:
    """What one trial computes: rows, cells[i] with seeds[i]; or stages that several packs of rows share.

    seconds (on one core), peak_bytes: estimates.
    needs: the resources of its trial.
    needed: the ids of the kept stages that it needs and that the store lacked when it was planned.
    after: the ids of the packs that must be done before.
    stages: the ids of the stages that it puts into the store, parents first; empty for a pack of rows. Its cells and
        seeds are then rows that need them, and its length is 0.
    """

    id: str
    cells: np.ndarray
    seeds: np.ndarray
    seconds: float
    peak_bytes: float
    needs: Resources
    needed: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()

    def __len__(self) -> int:
        return 0 if self.stages else len(self.seeds)


def pack_id(cell_ids: Sequence[str], indices: np.ndarray, seeds: np.ndarray) -> str:
    """The id of a pack: equal rows have an equal id, so their segment can be published only once."""
    return content_id([[cell_ids[index], seed] for index, seed in zip(indices.tolist(), seeds.tolist(), strict=True)])


def rest_of(pack: Pack, cell_ids: Sequence[str], count: int) -> Pack | None:
    """The rows of a pack after the first `count` ones, as a pack; None if there are no more."""
    if count >= len(pack):
        return None
    return _part(pack, cell_ids, pack.cells[count:], pack.seeds[count:], 1 - count / len(pack))


def halves(pack: Pack, cell_ids: Sequence[str]) -> list[Pack]:
    """The halves of a lost pack, each of half the seconds; a pack of one row, or of stages, is returned unchanged."""
    if len(pack) <= 1:
        return [pack]
    half = len(pack) // 2
    parts = ((pack.cells[:half], pack.seeds[:half]), (pack.cells[half:], pack.seeds[half:]))
    return [_part(pack, cell_ids, cells, seeds, 0.5) for cells, seeds in parts]


def _part(pack: Pack, cell_ids: Sequence[str], cells: np.ndarray, seeds: np.ndarray, share: float) -> Pack:
    identity = pack_id(cell_ids, cells, seeds)
    return replace(pack, id=identity, cells=cells, seeds=seeds, seconds=pack.seconds * share)


class PackQueue:
    """Packs, round by round, each after the packs of stages that it starts from.

    Of the packs that can begin, the one with the longest remaining path comes first: its own seconds and those of the
    longest chain of packs that wait for it. Among equals, larger needs come first, which wait longest for their place.

    propose: returns the packs of the next round, each after those that it starts from, or nothing if the search is
        over. It is called only when every pack of the round before is done.
    in_time: whether a pack can still end in time. One that cannot is held back, and no further round is proposed.
    busy: whether somebody else computes this stage now.
    """

    def __init__(
        self,
        propose: Callable[[], Iterable[Pack]],
        in_time: Callable[[Pack], bool] = lambda pack: True,
        busy: Callable[[str], bool] = lambda stage: False,
    ) -> None:
        self._propose, self._in_time, self._busy = propose, in_time, busy
        self.held_back = 0
        self._failed: dict[str, str] = {}  # by stage: its error
        self._ready: list[tuple[float, int, int, int, int, Pack]] = []
        self._pushed = itertools.count()  # so that packs themselves are never compared
        self._rank: dict[str, tuple[float, int, int, int]] = {}  # by pack
        self._missing: dict[str, int] = {}  # by pack that cannot begin: how many packs before it are not done
        self._later: dict[str, list[Pack]] = {}  # by pack: the packs that wait for it
        self._elsewhere: list[tuple[str, Pack]] = []  # packs that wait for a stage that somebody else computes
        self._running: dict[str, Pack] = {}
        self._looked = 0.0

    def next(self) -> Pack | None:
        """The next pack; None at the end, and while all that is left waits for others (see `wait`)."""
        self._look()
        if not (self._ready or self._running or self._elsewhere or self.held_back):
            self._begin_round(self._propose())
        while self._ready:
            pack = heapq.heappop(self._ready)[-1]
            if self._in_time(pack):
                self._running[pack.id] = pack
                return pack
            self.held_back += 1
        return None

    def wait(self) -> bool:
        """If all that is left waits for stages of others, wait until a pack can begin; False is the end."""
        while self._elsewhere and not self._ready:
            time.sleep(LOOK_EVERY)
            self._look()
            in_time = [(stage, pack) for stage, pack in self._elsewhere if self._in_time(pack)]
            self.held_back += len(self._elsewhere) - len(in_time)
            self._elsewhere = in_time
        return bool(self._ready)

    def done(self, pack: Pack, failed: Mapping[str, str] | None = None) -> None:
        """Record that a pack is finished: its rows are in the ledger, or its stages in the store. failed: stages of it
        that cannot be computed, each with its error, which is then that of every row that needs it (`errors`)."""
        del self._running[pack.id]
        self._failed |= failed or {}
        for later in self._later.pop(pack.id, ()):
            self._missing[later.id] -= 1
            if not self._missing[later.id]:
                self._push(later)

    def hand_back(self, pack: Pack, parts: Iterable[Pack]) -> None:
        """Put the parts of a lost pack (or the pack itself) where it was in the queue, to be tried again."""
        del self._running[pack.id]
        for part in parts:
            self._rank[part.id] = self._rank[pack.id]
            self._push(part)

    def hold_back(self, pack: Pack, stage: str) -> None:
        """Put a pack back that needs a stage which somebody else computes, until nobody does any more."""
        del self._running[pack.id]
        self._elsewhere.append((stage, pack))

    def errors(self, pack: Pack) -> dict[str, str]:
        """The stages that this pack needs and that cannot be computed, each with its error."""
        return {stage: self._failed[stage] for stage in pack.needed if stage in self._failed} if self._failed else {}

    @property
    def running(self) -> int:
        return len(self._running)

    def _begin_round(self, packs: Iterable[Pack]) -> None:
        begin = list(packs)
        self._missing, self._later = {}, {}
        for pack in begin:
            before = [other for other in pack.after if other in self._missing]
            self._missing[pack.id] = len(before)
            for other in before:
                self._later.setdefault(other, []).append(pack)
        rest: dict[str, float] = {}
        for pack in reversed(begin):
            longest = max((rest[other.id] for other in self._later.get(pack.id, ())), default=0.0)
            rest[pack.id] = pack.seconds / pack.needs.gang + longest
        for number, pack in enumerate(begin):
            self._rank[pack.id] = (-rest[pack.id], -pack.needs.gpus, -pack.needs.cpus, number)
            if not self._missing[pack.id]:
                self._push(pack)

    def _push(self, pack: Pack) -> None:
        heapq.heappush(self._ready, (*self._rank[pack.id], next(self._pushed), pack))

    def _look(self) -> None:
        """Let packs begin whose stage nobody else computes any more."""
        if not self._elsewhere or time.monotonic() - self._looked < LOOK_EVERY:
            return
        self._looked = time.monotonic()
        busy = {stage: self._busy(stage) for stage in dict.fromkeys(stage for stage, _ in self._elsewhere)}
        for stage, pack in self._elsewhere:
            if not busy[stage]:
                self._push(pack)
        self._elsewhere = [(stage, pack) for stage, pack in self._elsewhere if busy[stage]]
