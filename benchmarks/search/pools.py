"""Rows that are computed once, through raysweep itself, and from which every search is replayed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import raysweep
from raysweep.plan.cells import Cells, enumerate_cells
from raysweep.search import slices
from raysweep.search.slices import Slice
from raysweep.space import space_files
from raysweep.space.schema import Space


@dataclass(frozen=True)
class Question:
    """A space with a precision, and the rows from which searches for it are replayed.

    title: for the table.
    space: the space (plain data) with its precision and the one analysis that it binds; its axis and seeds are those
        that a search may use.
    draws: how many draws the pool has.
    finer: so many steps of the pool stand in one step of the space's axis. The cells between are for the true places
        alone, and no search may use them.
    """

    title: str
    space: Mapping[str, Any]
    draws: int
    finer: int = 1


@dataclass(frozen=True, eq=False)
class Pool:
    """The rows of a question.

    space, cells, slices: those that a search works with.
    values: the metric of each row, (draws, cells); NaN where the row is not ok.
    theory: the metric's closed form in each cell, (cells,); NaN where there is none.
    fine: for each slice, the axis of the pool, (points,), and its rows, (draws, points).
    """

    space: Space
    cells: Cells
    slices: list[Slice]
    values: np.ndarray
    theory: np.ndarray
    fine: list[tuple[np.ndarray, np.ndarray]]


def load(question: Question, folder: Path) -> Pool:
    """The pool of a question; what of it is not in the folder is computed first."""
    space = space_files.read(dict(question.space))
    cells = enumerate_cells(space)
    members = slices.of_space(space, cells)
    x, metric = members[0].axis, members[0].metric
    whole = _finer(question, space, x)
    of_pool = enumerate_cells(space_files.read(whole))
    values, theory = _rows(whole, of_pool, metric, folder)
    others = [name for name in space.axes if name != x]
    where = {key: place for place, key in enumerate(_keys(of_pool, [*others, x]))}
    positions = np.array([where[key] for key in _keys(cells, [*others, x])])
    by_others: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(_keys(of_pool, others)):
        by_others.setdefault(key, []).append(place)
    fine = []
    for each in members:
        places = np.array(by_others[_keys(cells, others)[each.cells[0]]])
        at = of_pool.columns[x][places].astype(float)
        order = np.argsort(at)
        fine.append((at[order], values[:, places[order]]))
    return Pool(space, cells, members, values[:, positions], theory[positions], fine)


def _finer(question: Question, space: Space, x: str) -> dict[str, Any]:
    """The space of the pool: a grid with all draws, and with further values of x between those of the space, which are
    evenly spaced, for a factor in log."""
    at = space.axes[x]
    kind = "geomspace" if "optimum" in space.precision else "linspace"
    finer = {kind: [at[0], at[-1], (len(at) - 1) * question.finer + 1]}
    plain = {key: value for key, value in question.space.items() if key not in ("precision", "budget", "analysis")}
    return {**plain, "axes": {**question.space["axes"], x: finer}, "seeds": question.draws}


def _keys(cells: Cells, names: list[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(cells.columns[name].tolist() for name in names), strict=True))


def _rows(space: Mapping[str, Any], cells: Cells, metric: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """(metric of every row, (draws, cells); its closed form, (cells,)). The arrays are kept beside the sweep."""
    name, draws = str(space["name"]), int(space["seeds"])
    # the ids change with the version of the workload, so that rows of an older one are not used
    digest = hashlib.sha256(f"{metric} {draws} {cells.ids}".encode()).hexdigest()[:16]
    kept = folder / f"{name}-{digest}.npz"
    if not kept.exists():
        sweep = raysweep.run(space, storage=folder, executor="inline", tracking_uri="none", report=False, say=print)
        rows = sweep.results()
        rows = rows[rows["seed"] < draws]
        place = rows["cell"].map(cells.position).to_numpy()
        ok = (rows["status"] == "ok").to_numpy()
        values = np.full((draws, len(cells)), np.nan)
        values[rows["seed"].to_numpy()[ok], place[ok]] = rows[metric].to_numpy(dtype=float)[ok]
        theory = np.full(len(cells), np.nan)
        if f"{metric}_theory" in rows:
            theory[place] = rows[f"{metric}_theory"].to_numpy(dtype=float)
        np.savez(kept, values=values, theory=theory)
    with np.load(kept) as stored:
        return stored["values"], stored["theory"]
