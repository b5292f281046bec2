"""The stages of a row and of a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from raysweep.plan.cells import Cells
from raysweep.plan.identity import finetune_id, stage_ids
from raysweep.workloads.asked_once import one_look
from raysweep.workloads.declaration import Stage, Workload


def stored_stages(workload: Workload, cells: Cells) -> Callable[[int, int], list[Stage]]:
    """A function (cell, seed) -> the stages that this row needs from the store, parents first.

    The workload is asked once for all rows with equal pretraining.
    """
    pretraining = [p.name for p in workload.parameters if p.pretraining]
    known: dict[tuple[Any, ...], list[Stage]] = {}

    def of_row(cell: int, seed: int) -> list[Stage]:
        key = (seed, *(cells.columns[name][cell] for name in pretraining))
        if key not in known:
            known[key] = workload.stages_of(cells.parameters(cell), seed)
        return known[key]

    return of_row


def cell_stages(workload: Workload, cells: Cells, seeds: Iterable[int]) -> Callable[[int], list[str]]:
    """A function cell -> the ids of its stages, for the record.

    They are the stages in the store if the workload keeps stages there, and otherwise the pretrainings; then the
    fine-tunings, one per seed.
    """
    seeds, stored = list(seeds), stored_stages(workload, cells)

    @one_look()
    def of_cell(cell: int) -> list[str]:
        parameters = cells.parameters(cell)
        if not workload.stored:
            per_seed = [stage_ids(workload, parameters, seed) for seed in seeds]
            return [ids[stage] for stage in per_seed[0] for ids in per_seed] if per_seed else []
        chains = [[stage.id for stage in stored(cell, seed)] for seed in seeds]
        return [
            *(stage for chain in chains for stage in chain),
            *(finetune_id(workload, parameters, seed, chain[-1]) for seed, chain in zip(seeds, chains, strict=True)),
        ]

    return of_cell
