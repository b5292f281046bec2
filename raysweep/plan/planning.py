"""A space becomes work: cells with identities, rows, packs, and what it will cost.

A *cell* is one point of the axes, a *row* one draw (seed) of it, a *pack* the rows that one trial computes together.
Rows of one seed that agree in the workload's `shared` parameters go into one pack, because their costly part is done
once; packs are made large enough to drown the cost of starting a trial and small enough to keep every worker busy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep import workloads
from raysweep.errors import InputError, as_typed
from raysweep.plan.identity import cell_id, content_id, finetune_id, stage_ids
from raysweep.space import resources
from raysweep.space.resources import Resources
from raysweep.space.schema import Space
from raysweep.workloads.declaration import Stage, Workload, column
from raysweep.workloads.looks import one_look

CUTTING_HELPS = 0.9  # a finer cut is worth what it costs only if it makes less than this of memory, or of time


@dataclass(frozen=True)
class Cells:
    """The cells of a space in plan order. columns: every resolved parameter, one entry per cell; ids: their hashes;
    needs: the different resources that their trials take; need: which of these each cell has, shape (cells,)."""

    columns: dict[str, np.ndarray]
    ids: list[str]
    needs: list[Resources]
    need: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def parameters(self, index: int) -> dict[str, Any]:
        """One cell's parameters as plain Python values."""
        return {
            name: values[index].item() if hasattr(values[index], "item") else values[index]
            for name, values in self.columns.items()
        }

    def take(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """The columns at some cells: the table a trial computes from."""
        return {name: values[indices] for name, values in self.columns.items()}


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
_Ask = Callable[[np.ndarray], tuple[float, float]]
"""Cells of one draw -> seconds and peak bytes."""
_Kept = Callable[[np.ndarray, int], Mapping[str, float]]
"""Cells and their draw -> the stages of theirs that the store keeps, with the seconds that each takes."""


@one_look()
def enumerate_cells(space: Space, check: bool = True) -> Cells:
    """All cells of a space; InputError for a cell the workload refuses, or if none is left. check: False to look at
    what was checked before it was computed: a text that is gone since must not hide the rows."""
    workload = workloads.get(space.workload)
    chosen = list(space.cells())
    if not chosen:
        raise InputError("exclude", "every cell is excluded; nothing is left to compute")
    full = [{**space.fixed, **cell} for cell in chosen]
    if check:
        _check_declared_scales(space, workload)
    if workload.check and check:
        for cell, parameters in zip(chosen, full, strict=True):
            complaint = workload.check(parameters)
            if complaint:
                raise _refused(space, cell, *complaint)
    columns = {p.name: column(p, [parameters[p.name] for parameters in full]) for p in workload.parameters}
    return Cells(
        columns,
        [cell_id(workload, parameters) for parameters in full],
        *resources.of_cells(space.resources, columns, len(full)),
    )


def _check_declared_scales(space: Space, workload: Workload) -> None:
    """InputError for an axis without a scale of its own whose values do not fit the one that its workload declares."""
    for name, values in space.axes.items():
        if name not in space.scale and workload.logarithmic(name) and (low := min(values)) <= 0:
            raise InputError(
                f"axes.{name}",
                f"expected values above 0, since {workload.name} reads this axis in log, "
                f"got {low:g} (scale.{name}=linear reads it as it is)",
            )


def _refused(space: Space, cell: Mapping[str, Any], parameter: str, message: str) -> InputError:
    shown = ", ".join(f"{key} = {as_typed(value)}" for key, value in cell.items() if key != parameter)
    return InputError(
        f"{'axes' if parameter in space.axes else 'fixed'}.{parameter}",
        message + (f" (in the cell {shown})" if shown else ""),
    )


@one_look()
def make_packs(workload: Workload, cells: Cells, rows: Mapping[int, np.ndarray], packing: Packing) -> list[Pack]:
    """Cut rows ({seed: cell indices}) into packs of equal needs: the largest trials first, which wait longest for their
    place, and of these the costliest, so that the last ones to end are short."""
    groups = [group for seed, indices in rows.items() for group in _groups(workload, cells, seed, indices)]
    ask = _asking(workload, cells)
    costed = [(seed, indices, *ask(indices)) for seed, indices in groups]
    total = sum(seconds for _, _, seconds, _ in costed)
    target = float(np.clip(total / (3 * packing.workers), packing.floor, packing.ceiling))
    split_up = functools.partial(
        _split, ask=ask, kept=_keeping(workload, cells), total=total, target=target, packing=packing
    )
    packs: list[Pack] = []
    for number, needs in enumerate(cells.needs):
        own = [group for group in costed if cells.need[group[1][0]] == number]
        packs += _packs(cells, needs, own, split_up, target)
    return sorted(packs, key=lambda pack: (-pack.needs.gpus, -pack.needs.cpus, -pack.seconds))


def _packs(
    cells: Cells,
    needs: Resources,
    groups: Sequence[_Costed],
    split_up: Callable[[_Costed], Iterable[_Costed]],
    target: float,
) -> list[Pack]:
    """Groups of equal needs, cut and gathered into packs of about `target` seconds; what was cut stays apart."""
    packs: list[Pack] = []
    batch: list[_Costed] = []
    for group in groups:
        # on a GPU rows that share train side by side: there they stay together however long they take
        for number, piece in enumerate([group] if needs.gpus else split_up(group)):
            seconds = sum(entry[2] for entry in batch)
            if batch and (number or seconds + piece[2] > 1.25 * target or seconds >= target):
                packs.append(_pack(cells, needs, batch))
                batch = []
            batch.append(piece)
    if batch:
        packs.append(_pack(cells, needs, batch))
    return packs


def _groups(workload: Workload, cells: Cells, seed: int, indices: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Rows of one seed, by equal values of the shared parameters and equal needs, in plan order."""
    if not workload.shared and len(cells.needs) == 1:
        return [(seed, indices)]
    keys: dict[tuple[Any, ...], list[int]] = {}
    shared = [cells.need, *(cells.columns[name] for name in workload.shared)]
    for index in indices.tolist():
        keys.setdefault(tuple(values[index] for values in shared), []).append(index)
    return [(seed, np.asarray(members, dtype=np.int64)) for members in keys.values()]


def _asking(workload: Workload, cells: Cells) -> _Ask:
    """Cells of one draw -> their seconds and peak bytes; equal sets, as a grid repeats for every seed, are asked for
    once."""
    known: dict[bytes, tuple[float, float]] = {}

    def ask(indices: np.ndarray) -> tuple[float, float]:
        key = indices.tobytes()
        if key not in known:
            cost = workload.cost(cells.take(indices))
            known[key] = (cost.seconds_with(cells.needs[cells.need[indices[0]]].gpus), cost.peak_bytes)
        return known[key]

    return ask


def _keeping(workload: Workload, cells: Cells) -> _Kept:
    """What the store keeps of cells of one draw: nothing where a workload stores nothing."""
    of_row = stored_stages(workload, cells)

    def kept(indices: np.ndarray, seed: int) -> dict[str, float]:
        if not workload.stored:
            return {}
        gpus = cells.needs[cells.need[indices[0]]].gpus
        return {stage.id: stage.cost.seconds_with(gpus) for index in indices.tolist() for stage in of_row(index, seed)}

    return kept


def _split(group: _Costed, ask: _Ask, kept: _Kept, total: float, target: float, packing: Packing) -> list[_Costed]:
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


def split(pack: Pack, cell_ids: Sequence[str]) -> list[Pack]:
    """The two halves of a pack that was lost; a single row stays what it is. Each is said to take half the seconds, so
    that together they take what was expected of the pack."""
    if len(pack) == 1:
        return [pack]
    half = len(pack) // 2
    return [
        Pack(_pack_id(cell_ids, cells, seeds), cells, seeds, pack.seconds / 2, pack.peak_bytes, pack.needs)
        for cells, seeds in ((pack.cells[:half], pack.seeds[:half]), (pack.cells[half:], pack.seeds[half:]))
    ]


def estimate(workload: Workload, cells: Cells, rows: Mapping[int, np.ndarray]) -> tuple[float, float]:
    """Seconds on one core, or on one GPU where trials have them, and peak bytes of all rows, from the workload's own
    estimate."""
    groups = [group for seed, indices in rows.items() for group in _groups(workload, cells, seed, indices)]
    ask = _asking(workload, cells)
    costed = [ask(indices) for _, indices in groups]
    return sum(seconds for seconds, _ in costed), max((peak for _, peak in costed), default=0.0)


def stored_stages(workload: Workload, cells: Cells) -> Callable[[int, int], list[Stage]]:
    """(cell, seed) -> the stages that row needs out of the store, parents first; rows that agree in their pretraining
    are asked for once."""
    pretraining = [p.name for p in workload.parameters if p.pretraining]
    known: dict[tuple[Any, ...], list[Stage]] = {}

    def of_row(cell: int, seed: int) -> list[Stage]:
        key = (seed, *(cells.columns[name][cell] for name in pretraining))
        if key not in known:
            known[key] = workload.stages_of(cells.parameters(cell), seed)
        return known[key]

    return of_row


def cell_stages(workload: Workload, cells: Cells, seeds: Iterable[int]) -> Callable[[int], list[str]]:
    """cell -> the ids of the stages it is made of, for the record: those of the store where its workload keeps stages
    there, else the pretrainings; then the fine-tunings, one per seed."""
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


def plan_record(space: Space, cells: Cells) -> dict[str, Any]:
    """The plan as plain data for `plan.json`: cells in order with their values on the axes, and the seeds of each."""
    return {
        "workload": space.workload,
        "search": space.search,
        "seeds": space.seeds,
        "cells": [
            {"cell": identity, **{name: value for name, value in cells.parameters(index).items() if name in space.axes}}
            for index, identity in enumerate(cells.ids)
        ],
    }
