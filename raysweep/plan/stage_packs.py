"""Packs of stages: kept stages that several packs need are computed by trials of their own, before these packs.

No trial then waits for what another one computes. A stage that only one pack needs is computed inside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from raysweep.plan.cells import Cells
from raysweep.plan.identity import content_id
from raysweep.plan.pack import Pack
from raysweep.plan.row_stages import RowStage
from raysweep.workloads.chain import ANY
from raysweep.workloads.declaration import Workload

Rows = Sequence[tuple[int, int, tuple[RowStage, ...], list[RowStage]]]
"""Rows with different stages: of each the cell, the seed, the stages up to the last one that is kept, and those of them
that have to be computed."""


@dataclass(eq=False)
class _Unit:
    """Shared stages that one call of their function computes, for each a row that needs it.

    needed: the stages that have to be computed for these rows, up to their own.
    users: the numbers of the packs that need them.
    before, after: the units that they continue, and those that continue them.
    """

    stages: list[RowStage] = field(default_factory=list)
    rows: list[tuple[int, int]] = field(default_factory=list)
    needed: dict[str, None] = field(default_factory=dict)
    users: frozenset[int] = frozenset()
    before: list[Any] = field(default_factory=list)
    after: list[Any] = field(default_factory=list)


def with_stages(workload: Workload, cells: Cells, packs: Sequence[Pack], rows: Sequence[Rows]) -> list[Pack]:
    """The packs of stages that these packs of rows share, parents first, and then these packs.

    packs: with the seconds of everything that they need. rows: of each pack. Only stages whose ancestors are all kept
        become packs of stages. Those that continue each other and are needed by the same packs are one pack.
    """
    users: dict[str, set[int]] = {}
    first: dict[str, tuple[int, int, list[RowStage]]] = {}
    for number, pack_rows in enumerate(rows):
        for cell, seed, chain, needed in pack_rows:
            reachable = {stage.id for stage in itertools.takewhile(lambda stage: stage.kept, chain)}
            for position, stage in enumerate(needed):
                if stage.id in reachable:
                    users.setdefault(stage.id, set()).add(number)
                    if stage.id not in first:
                        first[stage.id] = cell, seed, needed[: position + 1]
    shared = {stage: frozenset(numbers) for stage, numbers in users.items() if len(numbers) > 1}
    place: dict[str, str] = {}
    ordered = []
    for units in _merged(_units(workload, cells, shared, first)):
        pack = _pack(cells, [packs[number] for number in sorted(units[0].users)], units, place)
        place |= dict.fromkeys(pack.stages, pack.id)
        ordered.append(pack)
    for pack, pack_rows in zip(packs, rows, strict=True):
        elsewhere = {stage.id: stage for *_, needed in pack_rows for stage in needed if stage.id in place}
        saved = sum(stage.cost.seconds_with(pack.needs.gpus) for stage in elsewhere.values())
        after = tuple(dict.fromkeys(place[stage] for stage in elsewhere))
        ordered.append(replace(pack, seconds=max(0.0, pack.seconds - saved), after=after))
    return ordered


def _units(
    workload: Workload,
    cells: Cells,
    shared: Mapping[str, frozenset[int]],
    first: Mapping[str, tuple[int, int, list[RowStage]]],
) -> list[_Unit]:
    """The shared stages, each with the numbers of the packs that need it, in units, parents first. first: by stage, the
    cell and the seed of a row that needs it, and what is needed for it, parents first."""
    units: dict[tuple[Any, ...], _Unit] = {}
    of_stage: dict[str, _Unit] = {}
    for stage in sorted(shared, key=lambda stage: (first[stage][2][-1].index, first[stage][2][-1].before)):
        cell, seed, needed = first[stage]
        row_stage = needed[-1]
        key: tuple[Any, ...] = (stage,)
        declared = workload.chain.stages[row_stage.index]
        if declared.together is not None and declared.points is None:
            names = [name for name in workload.chain.dependencies[row_stage.index] if name not in declared.together]
            alike = () if declared.together == ANY else (seed, *(cells.columns[name][cell] for name in names))
            key = (row_stage.index, shared[stage], alike)
        unit = of_stage[stage] = units.setdefault(key, _Unit(users=shared[stage]))
        unit.stages.append(row_stage)
        unit.rows.append((cell, seed))
        unit.needed |= dict.fromkeys(before.id for before in needed)
        parent = of_stage.get(row_stage.parent)
        if parent is not None and parent not in unit.before:
            unit.before.append(parent)
            parent.after.append(unit)
    return list(units.values())


def _merged(units: Sequence[_Unit]) -> list[list[_Unit]]:
    """Units that continue each other and that the same packs need, together."""
    together: dict[_Unit, list[_Unit]] = {}
    for unit in units:
        parent = unit.before[0] if len(unit.before) == 1 else None
        if parent is not None and len(parent.after) == 1 and parent.users == unit.users:
            together[unit] = together[parent]
            together[unit].append(unit)
        else:
            together[unit] = [unit]
    return [members for unit, members in together.items() if members[0] is unit]


def _pack(cells: Cells, users: Sequence[Pack], units: Sequence[_Unit], place: Mapping[str, str]) -> Pack:
    """The pack of these units, which continue each other, with the largest trial of those that wait for it."""
    needs = max((pack.needs for pack in users), key=lambda needs: (needs.gpus, needs.cpus))
    stages = [stage for unit in units for stage in unit.stages]
    ids = tuple(stage.id for stage in stages)
    rows = units[-1].rows
    return Pack(
        content_id(["stages", *ids]),
        np.asarray([cell for cell, _ in rows], dtype=np.int64),
        np.asarray([seed for _, seed in rows], dtype=np.int64),
        sum(stage.cost.seconds_with(needs.gpus) for stage in stages),
        max(stage.cost.peak_bytes for stage in stages),
        needs,
        needed=tuple(units[-1].needed),
        after=tuple(dict.fromkeys(place[stage.id] for unit in units[0].before for stage in unit.stages)),
        stages=ids,
    )
