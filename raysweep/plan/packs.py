"""Packs: the rows that one trial computes together.

Rows of one seed that agree in the workload's `shared` parameters go into one pack, because their costly part is done
once; packs are made large enough to drown the cost of starting a trial and small enough to keep every worker busy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from raysweep.plan.cells import Cells
from raysweep.plan.cost import CostOf, KeptStages, asking, groups_of, keeping
from raysweep.plan.identity import content_id
from raysweep.plan.resources import Resources
from raysweep.workloads.declaration import Workload
from raysweep.workloads.looks import one_look

CUTTING_HELPS = 0.9  # a finer cut is worth what it costs only if it makes less than this of memory, or of time


@dataclass(frozen=True)
class Pack:
    """Rows that one trial computes together: cells[i] with seeds[i]. `seconds` (on one core) and `peak_bytes` are
    estimates; `needs` is what its trial takes."""

    id: str
    cells: np.ndarray
    seeds: np.ndarray
    seconds: float
    peak_bytes: float
    needs: Resources

    def __len__(self) -> int:
        return len(self.seeds)


@dataclass(frozen=True)
class Packing:
    """How packs are cut. floor: seconds a pack should at least take, so that starting it does not dominate."""

    workers: int
    floor: float
    ceiling: float = 120.0
    memory: float = 4e9


_Costed = tuple[int, np.ndarray, float, float]
"""Rows of one seed: the seed, their cells, seconds and peak bytes."""


@one_look()
def make_packs(workload: Workload, cells: Cells, rows: Mapping[int, np.ndarray], packing: Packing) -> list[Pack]:
    """Cut rows ({seed: cell indices}) into packs of equal needs: the largest trials first, which wait longest for their
    place, and of these the costliest, so that the last ones to end are short."""
    groups = [group for seed, indices in rows.items() for group in groups_of(workload, cells, seed, indices)]
    ask = asking(workload, cells)
    costed = [(seed, indices, *ask(indices)) for seed, indices in groups]
    total = sum(seconds for _, _, seconds, _ in costed)
    target = float(np.clip(total / (3 * packing.workers), packing.floor, packing.ceiling))
    cut_up = functools.partial(
        _cut_up, ask=ask, kept=keeping(workload, cells), total=total, target=target, packing=packing
    )
    packs: list[Pack] = []
    for number, needs in enumerate(cells.needs):
        own = [group for group in costed if cells.need[group[1][0]] == number]
        packs += _packs(cells, needs, own, cut_up, target)
    return sorted(packs, key=lambda pack: (-pack.needs.gpus, -pack.needs.cpus, -pack.seconds))


def _packs(
    cells: Cells,
    needs: Resources,
    groups: Sequence[_Costed],
    cut_up: Callable[[_Costed], Iterable[_Costed]],
    target: float,
) -> list[Pack]:
    """Groups of equal needs, cut and gathered into packs of about `target` seconds; what was cut stays apart."""
    packs: list[Pack] = []
    batch: list[_Costed] = []
    for group in groups:
        # on a GPU rows that share train side by side: there they stay together however long they take
        for number, piece in enumerate([group] if needs.gpus else cut_up(group)):
            seconds = sum(entry[2] for entry in batch)
            if batch and (number or seconds + piece[2] > 1.25 * target or seconds >= target):
                packs.append(_pack(cells, needs, batch))
                batch = []
            batch.append(piece)
    if batch:
        packs.append(_pack(cells, needs, batch))
    return packs


def _cut_up(
    group: _Costed, ask: CostOf, kept: KeptStages, total: float, target: float, packing: Packing
) -> list[_Costed]:
    """A group that alone would outlast a pack or the memory, in equal runs of rows.

    What a run takes is asked for again. What the rows share costs its seconds in every run, unless the store keeps it
    (then the first run does it for all), and no cutting makes its memory less. total: seconds of all groups; a cut that
    costs seconds has to end the whole earlier.
    """
    seed, indices, seconds, _ = group

    def cut(count: int) -> list[_Costed]:
        if count == 1:
            return [group]
        pieces: list[_Costed] = []
        done: set[str] = set()
        for run in np.array_split(indices, count):
            stages = kept(run, seed)
            again = sum(stages[stage] for stage in stages.keys() & done)
            pieces.append((seed, run, max(0.0, ask(run)[0] - again), ask(run)[1]))
            done |= stages.keys()
        return pieces

    def together(pieces: list[_Costed]) -> float:
        return sum(piece[2] for piece in pieces)

    def longest(pieces: list[_Costed]) -> float:
        return max(piece[2] for piece in pieces)

    def until_the_end(pieces: list[_Costed]) -> float:
        return max((total - seconds + together(pieces)) / packing.workers, longest(pieces))

    def peak(pieces: list[_Costed]) -> float:
        return max(piece[3] for piece in pieces)

    pieces = cut(min(len(indices), int(seconds // (1.5 * target)) + 1))
    soonest = pieces
    # fewer, larger pieces where a cut repeats work, or where one piece would do nearly all of it and others wait for it
    while len(pieces) > 1 and (CUTTING_HELPS * together(pieces) > seconds or longest(pieces) > CUTTING_HELPS * seconds):
        pieces = cut(len(pieces) // 2)
        soonest = min(soonest, pieces, key=until_the_end)
    if until_the_end(soonest) < CUTTING_HELPS * until_the_end(pieces):
        pieces = soonest
    while peak(pieces) > packing.memory and len(pieces) < len(indices):
        finer = cut(
            min(
                len(indices),
                max(len(pieces) + 1, int(np.ceil(len(pieces) * min(peak(pieces) / packing.memory, len(indices))))),
            )
        )
        if peak(finer) > CUTTING_HELPS * peak(pieces):
            break
        pieces = finer
    return pieces


def _pack(cells: Cells, needs: Resources, batch: Sequence[_Costed]) -> Pack:
    indices = np.concatenate([entry[1] for entry in batch])
    seeds = np.concatenate([np.full(len(entry[1]), entry[0], dtype=np.int64) for entry in batch])
    return Pack(
        _pack_id(cells.ids, indices, seeds),
        indices,
        seeds,
        sum(entry[2] for entry in batch),
        max(entry[3] for entry in batch),
        needs,
    )


def _pack_id(cell_ids: Sequence[str], indices: np.ndarray, seeds: np.ndarray) -> str:
    """The same rows, the same pack: its segment can be published once only."""
    return content_id([[cell_ids[index], seed] for index, seed in zip(indices.tolist(), seeds.tolist(), strict=True)])


def halves(pack: Pack, cell_ids: Sequence[str]) -> list[Pack]:
    """The two halves of a pack that was lost; a single row stays what it is. Each is said to take half the seconds, so
    that together they take what was expected of the pack."""
    if len(pack) == 1:
        return [pack]
    half = len(pack) // 2
    return [
        Pack(_pack_id(cell_ids, cells, seeds), cells, seeds, pack.seconds / 2, pack.peak_bytes, pack.needs)
        for cells, seeds in ((pack.cells[:half], pack.seeds[:half]), (pack.cells[half:], pack.seeds[half:]))
    ]
