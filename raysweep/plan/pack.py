"""A pack: what one trial computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from raysweep.plan.identity import content_id
from raysweep.plan.resources import Resources


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
    cells, seeds = pack.cells[count:], pack.seeds[count:]
    seconds = pack.seconds * (1 - count / len(pack))
    return replace(pack, id=pack_id(cell_ids, cells, seeds), cells=cells, seeds=seeds, seconds=seconds)


def halves(pack: Pack, cell_ids: Sequence[str]) -> list[Pack]:
    """The halves of a lost pack, each of half the seconds; a pack of one row, or of stages, is returned unchanged."""
    if len(pack) <= 1:
        return [pack]
    half = len(pack) // 2
    return [
        replace(pack, id=pack_id(cell_ids, cells, seeds), cells=cells, seeds=seeds, seconds=pack.seconds / 2)
        for cells, seeds in ((pack.cells[:half], pack.seeds[:half]), (pack.cells[half:], pack.seeds[half:]))
    ]
