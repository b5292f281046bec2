"""A space becomes work: cells with identities, rows, packs, and what it will cost.

A *cell* is one point of the axes, a *row* one draw (seed) of it, a *pack* the rows that one trial computes together.
Rows of one seed that agree in the workload's `shared` parameters go into one pack, because their costly part is done
once; packs are made large enough to drown the cost of starting a trial and small enough to keep every worker busy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep import resources, workloads
from raysweep.errors import InputError
from raysweep.identity import cell_id, content_id, stage_ids
from raysweep.resources import Resources
from raysweep.space import Space
from raysweep.workloads.declaration import Workload, column


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
        return {name: values[index].item() if hasattr(values[index], "item") else values[index]
                for name, values in self.columns.items()}

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


def enumerate_cells(space: Space) -> Cells:
    """All cells of a space; InputError for a cell the workload refuses, or if none is left."""
    workload = workloads.get(space.workload)
    chosen = list(space.cells())
    if not chosen:
        raise InputError("exclude", "every cell is excluded; nothing is left to compute")
    full = [{**space.fixed, **cell} for cell in chosen]
    if workload.check:
        for cell, parameters in zip(chosen, full, strict=True):
            complaint = workload.check(parameters)
            if complaint:
                raise _refused(space, cell, *complaint)
    columns = {p.name: column(p, [parameters[p.name] for parameters in full]) for p in workload.parameters}
    return Cells(columns, [cell_id(workload, parameters) for parameters in full],
                 *resources.of_cells(space.resources, columns, len(full)))


def _refused(space: Space, cell: Mapping[str, Any], parameter: str, message: str) -> InputError:
    shown = ", ".join(f"{key} = {value}" for key, value in cell.items() if key != parameter)
    return InputError(f"{'axes' if parameter in space.axes else 'fixed'}.{parameter}",
                      message + (f" (in the cell {shown})" if shown else ""))


def make_packs(workload: Workload, cells: Cells, rows: Mapping[int, np.ndarray], packing: Packing) -> list[Pack]:
    """Cut rows ({seed: cell indices}) into packs of equal needs: the largest trials first, which wait longest for their
    place, and of these the costliest, so that the last ones to end are short."""
    groups = [group for seed, indices in rows.items() for group in _groups(workload, cells, seed, indices)]
    costed = _costs(workload, cells, groups)
    total = sum(seconds for _, _, seconds, _ in costed)
    target = float(np.clip(total / (3 * packing.workers), packing.floor, packing.ceiling))
    packs: list[Pack] = []
    for number, needs in enumerate(cells.needs):
        own = [group for group in costed if cells.need[group[1][0]] == number]
        packs += _packs(cells, needs, own, target, packing)
    return sorted(packs, key=lambda pack: (-pack.needs.gpus, -pack.needs.cpus, -pack.seconds))


def _packs(cells: Cells, needs: Resources, groups: Sequence[_Costed], target: float, packing: Packing) -> list[Pack]:
    """Groups of equal needs, cut and gathered into packs of about `target` seconds."""
    # on a GPU rows that share train side by side: there they stay together however long they take
    pieces = groups if needs.gpus else [piece for group in groups for piece in _split(group, target, packing.memory)]
    packs: list[Pack] = []
    batch: list[_Costed] = []
    for piece in pieces:
        seconds = sum(entry[2] for entry in batch)
        if batch and (seconds + piece[2] > 1.25 * target or seconds >= target):
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


def _costs(workload: Workload, cells: Cells, groups: Sequence[tuple[int, np.ndarray]],
           ) -> list[_Costed]:
    """Seconds and bytes of each group; equal sets of cells, as a grid repeats for every seed, are asked for once."""
    known: dict[bytes, tuple[float, float]] = {}
    result = []
    for seed, indices in groups:
        key = indices.tobytes()
        if key not in known:
            cost = workload.cost(cells.take(indices))
            known[key] = (cost.seconds_with(cells.needs[cells.need[indices[0]]].gpus), cost.peak_bytes)
        result.append((seed, indices, *known[key]))
    return result


def _split(group: _Costed, target: float, memory: float) -> Iterable[_Costed]:
    """A group that alone would outlast a pack or the memory, in equal runs of rows."""
    seed, indices, seconds, peak = group
    parts = min(len(indices), max(1, int(seconds // (1.5 * target)) + 1 if seconds > 1.5 * target else 1,
                                  int(np.ceil(peak / memory))))
    for part in np.array_split(indices, parts):
        share = len(part) / len(indices)
        yield seed, part, seconds * share, peak * share


def _pack(cells: Cells, needs: Resources, batch: Sequence[_Costed]) -> Pack:
    indices = np.concatenate([entry[1] for entry in batch])
    seeds = np.concatenate([np.full(len(entry[1]), entry[0], dtype=np.int64) for entry in batch])
    return Pack(_pack_id(cells.ids, indices, seeds), indices, seeds, sum(entry[2] for entry in batch),
                max(entry[3] for entry in batch), needs)


def _pack_id(cell_ids: Sequence[str], indices: np.ndarray, seeds: np.ndarray) -> str:
    """The same rows, the same pack: its segment can be published once only."""
    return content_id([[cell_ids[index], seed] for index, seed in zip(indices.tolist(), seeds.tolist(), strict=True)])


def split(pack: Pack, cell_ids: Sequence[str]) -> list[Pack]:
    """The two halves of a pack; a single row stays what it is."""
    if len(pack) == 1:
        return [pack]
    half = len(pack) // 2
    return [Pack(_pack_id(cell_ids, cells, seeds), cells, seeds, pack.seconds / 2, pack.peak_bytes, pack.needs)
            for cells, seeds in ((pack.cells[:half], pack.seeds[:half]), (pack.cells[half:], pack.seeds[half:]))]


def estimate(workload: Workload, cells: Cells, rows: Mapping[int, np.ndarray]) -> tuple[float, float]:
    """Seconds on one core, or on one GPU where trials have them, and peak bytes of all rows, from the workload's own
    estimate."""
    groups = [group for seed, indices in rows.items() for group in _groups(workload, cells, seed, indices)]
    costed = _costs(workload, cells, groups)
    return sum(entry[2] for entry in costed), max((entry[3] for entry in costed), default=0.0)


def cell_stages(workload: Workload, parameters: Mapping[str, Any], seeds: Iterable[int]) -> dict[str, list[str]]:
    """{stage: its ids, one per seed} of one cell: what it is made of, for the record."""
    per_seed = [stage_ids(workload, parameters, seed) for seed in seeds]
    return {stage: [ids[stage] for ids in per_seed] for stage in per_seed[0]} if per_seed else {}


def plan_record(space: Space, cells: Cells) -> dict[str, Any]:
    """The plan as plain data for `plan.json`: cells in order with their values on the axes, and the seeds of each."""
    return {"workload": space.workload, "search": space.search, "seeds": space.seeds, "cells": [
        {"cell": identity, **{name: value for name, value in cells.parameters(index).items() if name in space.axes}}
        for index, identity in enumerate(cells.ids)]}
