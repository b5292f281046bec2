"""Packs: the rows that one trial computes together.

Rows of one seed with equal `shared` parameters of the workload go into one pack, because their costly part is done
once. Packs are large enough to make the cost of starting a trial small, and small enough to keep every worker busy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from raysweep.plan.cells import Cells
from raysweep.plan.cost import Costs, Piece
from raysweep.plan.identity import content_id
from raysweep.plan.resources import Resources
from raysweep.workloads.asked_once import one_look
from raysweep.workloads.declaration import Workload

CUTTING_HELPS = 0.9  # a finer cut must reduce memory or time to less than this share


@dataclass(frozen=True)
class Pack:
    """Rows that one trial computes together: cells[i] with seeds[i].

    seconds (on one core), peak_bytes: estimates.
    needs: the resources of its trial.
    """

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
    """How packs are cut. floor: least seconds of a pack, so that the start of its trial is a small part."""

    workers: int
    floor: float
    ceiling: float = 120.0
    memory: float = 4e9


@one_look()
def make_packs(
    workload: Workload, cells: Cells, rows: Mapping[int, np.ndarray], packing: Packing, keep: Sequence[str] = ()
) -> list[Pack]:
    """Cut rows ({seed: cell indices}) into packs; all rows of a pack have equal needs.

    The largest trials come first, because they wait longest for their place. Among these the costliest come first, so
    that the last packs to end are short.
    """
    costs = Costs(workload, cells, keep)
    groups = costs.groups(rows)
    total = _seconds(groups)
    target = float(np.clip(total / (3 * packing.workers), packing.floor, packing.ceiling))
    packs: list[Pack] = []
    for number, needs in enumerate(cells.needs):
        batch: list[Piece] = []
        for group in groups:
            if cells.need[group.cells[0]] != number:
                continue
            # on a GPU, rows that share their costly part train side by side: they stay together however long they take
            pieces = [group] if needs.gpus else _cut_up(group, costs, total, target, packing)
            for piece in pieces:
                before = _seconds(batch)
                full = before >= target or before + piece.seconds > 1.25 * target
                if batch and (full or piece is not pieces[0]):  # pieces of a cut group stay apart
                    packs.append(_pack(cells, needs, batch))
                    batch = []
                batch.append(piece)
        if batch:
            packs.append(_pack(cells, needs, batch))
    return sorted(packs, key=lambda pack: (-pack.needs.gpus, -pack.needs.cpus, -pack.seconds))


def _cut_up(group: Piece, costs: Costs, total: float, target: float, packing: Packing) -> list[Piece]:
    """Cut a group that would take longer than a pack, or more than the memory, into equal runs of rows.

    total: seconds of all groups; a cut that costs seconds must make the whole sweep end earlier.
    target: seconds that a pack should take.
    """
    most = len(group.cells)

    def until_the_end(pieces: list[Piece]) -> float:
        return max((total - group.seconds + _seconds(pieces)) / packing.workers, _longest(pieces))

    pieces = soonest = _cut(group, min(most, int(group.seconds // (1.5 * target)) + 1), costs)
    # fewer, larger pieces if a cut repeats work, or if one piece does nearly all of the work and the others wait for it
    while len(pieces) > 1 and (
        CUTTING_HELPS * _seconds(pieces) > group.seconds or _longest(pieces) > CUTTING_HELPS * group.seconds
    ):
        pieces = _cut(group, len(pieces) // 2, costs)
        soonest = min(soonest, pieces, key=until_the_end)
    if until_the_end(soonest) < CUTTING_HELPS * until_the_end(pieces):
        pieces = soonest
    while (peak := _peak(pieces)) > packing.memory and len(pieces) < most:
        enough = int(np.ceil(len(pieces) * min(peak / packing.memory, most)))
        finer = _cut(group, min(most, max(len(pieces) + 1, enough)), costs)
        if _peak(finer) > CUTTING_HELPS * peak:
            break
        pieces = finer
    return pieces


def _cut(group: Piece, count: int, costs: Costs) -> list[Piece]:
    """Cut a group into `count` equal runs of rows, each with its own cost.

    The work that the rows share is repeated in every run; only if the store keeps its result, the first run does it for
    all. Cutting does not reduce the memory of that work.
    """
    if count == 1:
        return [group]
    pieces: list[Piece] = []
    done: set[str] = set()
    for run in np.array_split(group.cells, count):
        piece = costs.piece(group.seed, run)
        stages = costs.stored_stages(piece)
        again = sum(stages[stage] for stage in stages.keys() & done)
        pieces.append(replace(piece, seconds=max(0.0, piece.seconds - again)))
        done |= stages.keys()
    return pieces


def _seconds(pieces: Sequence[Piece]) -> float:
    return sum(piece.seconds for piece in pieces)


def _longest(pieces: Sequence[Piece]) -> float:
    return max(piece.seconds for piece in pieces)


def _peak(pieces: Sequence[Piece]) -> float:
    return max(piece.peak_bytes for piece in pieces)


def _pack(cells: Cells, needs: Resources, batch: Sequence[Piece]) -> Pack:
    indices = np.concatenate([piece.cells for piece in batch])
    seeds = np.concatenate([np.full(len(piece.cells), piece.seed, dtype=np.int64) for piece in batch])
    return Pack(_pack_id(cells.ids, indices, seeds), indices, seeds, _seconds(batch), _peak(batch), needs)


def _pack_id(cell_ids: Sequence[str], indices: np.ndarray, seeds: np.ndarray) -> str:
    """The id of a pack: equal rows have an equal id, so their segment can be published only once."""
    return content_id([[cell_ids[index], seed] for index, seed in zip(indices.tolist(), seeds.tolist(), strict=True)])


def halves(pack: Pack, cell_ids: Sequence[str]) -> list[Pack]:
    """The two halves of a lost pack; a pack of one row is returned unchanged.

    Each half is expected to take half the seconds, so that both together take the time of the pack.
    """
    if len(pack) == 1:
        return [pack]
    half = len(pack) // 2
    return [
        Pack(_pack_id(cell_ids, cells, seeds), cells, seeds, pack.seconds / 2, pack.peak_bytes, pack.needs)
        for cells, seeds in ((pack.cells[:half], pack.seeds[:half]), (pack.cells[half:], pack.seeds[half:]))
    ]
