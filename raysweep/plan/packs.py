"""Packs: the rows that one trial computes together.

Rows of one seed with equal `shared` parameters of the workload go into one pack, because their costly part is done
once. Packs are large enough to make the cost of starting a trial small, and small enough to keep every worker busy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from raysweep.plan.cells import Cells
from raysweep.plan.cost import Costs, Piece
from raysweep.plan.pack import Pack, pack_id
from raysweep.plan.row_stages import RowStage, lacking
from raysweep.plan.stage_packs import Rows, with_stages
from raysweep.workloads.asked_once import one_look
from raysweep.workloads.declaration import Workload

CUTTING_HELPS = 0.9  # a finer cut must reduce memory or time to less than this share


@dataclass(frozen=True)
class Packing:
    """How packs are cut. floor: least seconds of a pack, so that the start of its trial is a small part."""

    workers: int
    floor: float
    ceiling: float = 120.0
    memory: float = 4e9


@one_look()
def make_packs(
    workload: Workload,
    cells: Cells,
    rows: Mapping[int, np.ndarray],
    packing: Packing,
    keep: Sequence[str] = (),
    there: Collection[str] = (),
) -> list[Pack]:
    """Cut rows ({seed: cell indices}) into packs; all rows of a pack have equal needs. A kept stage that several packs
    need is a pack of its own, before them. The costliest packs of rows come first among themselves.

    keep: the stages that the space keeps in addition to those that always are.
    there: the ids of the stages that the store has.
    """
    costs = Costs(workload, cells, keep)
    groups = costs.groups(rows)
    prices = _Prices(workload, costs, groups, there) if workload.stores(keep) else None
    if prices:
        groups = [prices.priced(group, group, set()) for group in groups]
    total = _seconds(groups)
    target = float(np.clip(total / (3 * packing.workers), packing.floor, packing.ceiling))
    cut = functools.partial(_cut, costs, prices)
    batches: list[list[Piece]] = []
    for number, needs in enumerate(cells.needs):
        batch: list[Piece] = []
        for group in groups:
            if cells.need[group.cells[0]] != number:
                continue
            # on a GPU, rows that share their costly part train side by side: they stay together however long they take
            pieces = [group] if needs.gpus else _cut_up(group, cut, total, target, packing)
            for piece in pieces:
                before = _seconds(batch)
                full = before >= target or before + piece.seconds > 1.25 * target
                if batch and (full or piece is not pieces[0]):  # pieces of a cut group stay apart
                    batches.append(batch)
                    batch = []
                batch.append(piece)
        if batch:
            batches.append(batch)
    packs = prices.with_stages(cells, batches) if prices else [_pack(cells, batch) for batch in batches]
    return sorted(packs, key=lambda pack: (not pack.stages, 0.0 if pack.stages else -pack.seconds))


class _Prices:
    """What pieces cost where the store keeps stages: each that is not there is paid for once, by its first group."""

    def __init__(self, workload: Workload, costs: Costs, groups: Sequence[Piece], there: Collection[str]) -> None:
        self._workload, self._costs, self._there = workload, costs, frozenset(there)
        self._payer: dict[str, tuple[int, int]] = {}
        for group in groups:
            for stage in self._needed(self._rows(group)):
                self._payer.setdefault(stage, _name(group))

    def _rows(self, piece: Piece) -> Rows:
        """Rows of a piece, one for each of their last kept stages."""
        chains = self._costs.chains(piece)
        return [(cell, piece.seed, chain, lacking(self._workload, chain, self._there)) for cell, chain in chains]

    def _needed(self, rows: Rows) -> dict[str, RowStage]:
        """The stages that have to be computed, parents first."""
        return {stage.id: stage for *_, needed in rows for stage in needed}

    def priced(self, piece: Piece, group: Piece, done: set[str]) -> Piece:
        """A piece of a group with the seconds that it pays. done: the stages that are paid for; its own are added."""
        needed, kept = self._needed(self._rows(piece)), self._costs.kept(piece)
        pays = {stage for stage in needed if stage not in done and self._payer[stage] == _name(group)}
        done |= pays
        free = sum(seconds for stage, seconds in kept.items() if stage not in pays)
        return replace(piece, seconds=max(0.0, piece.seconds - free))

    def with_stages(self, cells: Cells, batches: Sequence[Sequence[Piece]]) -> list[Pack]:
        """The packs of these batches, and the packs of stages that they share."""
        packs, rows = [], []
        for batch in batches:
            batch_rows = [row for piece in batch for row in self._rows(piece)]
            needed = self._needed(batch_rows)
            pack = _pack(cells, batch)
            seconds = sum(stage.cost.seconds_with(pack.needs.gpus) for stage in needed.values())
            for piece in batch:
                whole = self._costs.piece(piece.seed, piece.cells)
                seconds += max(0.0, whole.seconds - sum(self._costs.kept(whole).values()))
            packs.append(replace(pack, seconds=seconds, needed=tuple(needed)))
            rows.append(batch_rows)
        return with_stages(self._workload, cells, packs, rows)


def _name(group: Piece) -> tuple[int, int]:
    return group.seed, int(group.cells[0])


def _cut_up(
    group: Piece, cut: Callable[[Piece, int], list[Piece]], total: float, target: float, packing: Packing
) -> list[Piece]:
    """Cut a group that would take longer than a pack (`target` seconds), or more than the memory, into equal runs of
    rows. A cut that costs seconds must make the whole sweep (`total` seconds) end earlier."""
    most = len(group.cells)
    alone = packing.workers == 1 and group.seconds <= 1.5 * packing.ceiling
    helps = 1 - 1e-9 if alone else CUTTING_HELPS  # where nothing runs beside it, no work is repeated for a finer cut

    def until_the_end(pieces: list[Piece]) -> float:
        return max((total - group.seconds + _seconds(pieces)) / packing.workers, _longest(pieces))

    pieces = soonest = cut(group, min(most, int(group.seconds // (1.5 * target)) + 1))
    # fewer, larger pieces if a cut repeats work, or if one piece does nearly all of the work and the others wait for it
    while len(pieces) > 1 and (
        helps * _seconds(pieces) > group.seconds or _longest(pieces) > CUTTING_HELPS * group.seconds
    ):
        pieces = cut(group, len(pieces) // 2)
        soonest = min(soonest, pieces, key=until_the_end)
    if until_the_end(soonest) < CUTTING_HELPS * until_the_end(pieces):
        pieces = soonest
    while (peak := _peak(pieces)) > packing.memory and len(pieces) < most:
        enough = int(np.ceil(len(pieces) * min(peak / packing.memory, most)))
        finer = cut(group, min(most, max(len(pieces) + 1, enough)))
        if _peak(finer) > CUTTING_HELPS * peak:
            break
        pieces = finer
    return pieces


def _cut(costs: Costs, prices: _Prices | None, group: Piece, count: int) -> list[Piece]:
    """A group as `count` equal runs of rows, in each of which what they share is repeated unless the store keeps it."""
    if count == 1:
        return [group]
    pieces = [costs.piece(group.seed, run) for run in np.array_split(group.cells, count)]
    done: set[str] = set()
    return [prices.priced(piece, group, done) for piece in pieces] if prices else pieces


def _seconds(pieces: Sequence[Piece]) -> float:
    return sum(piece.seconds for piece in pieces)


def _longest(pieces: Sequence[Piece]) -> float:
    return max(piece.seconds for piece in pieces)


def _peak(pieces: Sequence[Piece]) -> float:
    return max(piece.peak_bytes for piece in pieces)


def _pack(cells: Cells, batch: Sequence[Piece]) -> Pack:
    indices = np.concatenate([piece.cells for piece in batch])
    seeds = np.concatenate([np.full(len(piece.cells), piece.seed, dtype=np.int64) for piece in batch])
    needs = cells.needs[cells.need[indices[0]]]
    return Pack(pack_id(cells.ids, indices, seeds), indices, seeds, _seconds(batch), _peak(batch), needs)


def pack_of(cells: Cells, indices: np.ndarray, seed: int) -> Pack:
    """A pack of some cells of one seed, without a cost."""
    return _pack(cells, [Piece(seed, indices, 0.0, 0.0)])
