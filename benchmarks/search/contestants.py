"""The searches, each a function of one world: how many draws they take in each cell until every place is located.

A world has draws of every cell, taken from a pool at random; a search sees the first ones of each cell. All but ours
are told which slices have a place, and stop as soon as the fits locate each of them as narrowly as asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.search.places import Answer, fitted, half_width
from benchmarks.search.pools import Pool
from raysweep import search
from raysweep.fits.completed import completed
from raysweep.search import precision
from raysweep.search.step_cache import StepCache
from raysweep.space import space_files

LADDER = 2**0.25  # by this factor draws are increased, so that a search overshoots by at most so much
FIRST = 4  # draws to begin with
BATCH = 0.5  # draws that the straddle adds to a cell at a time, as a share of those that are there


@dataclass(frozen=True, eq=False)
class World:
    """What can be computed. values: (most draws, cells). sought: which slices have a place, (slices,)."""

    pool: Pool
    values: np.ndarray
    sought: np.ndarray

    @property
    def exact(self) -> np.ndarray:
        """Whether the values of a slice have no noise, (slices,): they are its closed form."""
        exact = []
        for slice_ in self.pool.slices:
            cells = list(slice_.cells)
            values, theory = self.values[:1, cells], self.pool.theory[cells]
            exact.append(bool(np.isfinite(theory).any() and np.allclose(values, theory, rtol=1e-12, atol=1e-300)))
        return np.array(exact)


@dataclass(frozen=True, eq=False)
class Result:
    """counts: the draws of each cell, (cells,). answers: of each slice; None where it has none."""

    counts: np.ndarray
    answers: list[Answer | None]


Contestant = Callable[[World, np.random.Generator], Result]


def answers(world: World, counts: np.ndarray) -> list[Answer | None]:
    """What the fits say of each slice."""
    out = []
    for slice_, exact in zip(world.pool.slices, world.exact, strict=True):
        cells = list(slice_.cells)
        out.append(fitted(slice_, world.values[:, cells], counts[cells], bool(exact)))
    return out


def joint_answers(world: World, counts: np.ndarray) -> list[Answer | None]:
    """What the report of a `precision` says of each slice: draws are completed where best values are sought."""
    if world.pool.slices[0].kind != "optimum" or world.exact.any():
        return answers(world, counts)
    draws = np.where(np.arange(counts.max())[:, None] < counts, world.values[: counts.max()], np.nan)
    every = completed([draws[:, list(slice_.cells)] for slice_ in world.pool.slices])
    return [
        fitted(slice_, values, len(values) * np.isfinite(values).any(axis=0), False)
        for slice_, values in zip(world.pool.slices, every, strict=True)
    ]


class _Judge:
    """Which slices are not located as narrowly as asked for. The slice that failed last is asked first."""

    def __init__(self, world: World) -> None:
        self.world, self.exact = world, world.exact
        self.order = np.flatnonzero(world.sought).tolist()

    def is_open(self, place: int, counts: np.ndarray) -> bool:
        slice_ = self.world.pool.slices[place]
        cells = list(slice_.cells)
        answer = fitted(slice_, self.world.values[:, cells], counts[cells], bool(self.exact[place]), pointwise=False)
        return half_width(slice_, answer) > slice_.wanted

    def all_within(self, counts: np.ndarray) -> bool:
        for place in self.order:
            if self.is_open(place, counts):
                self.order.remove(place)
                self.order.insert(0, place)
                return False
        return True


def ladder(most: int) -> Iterator[int]:
    """4, 5, 6, 7, 8, 10, … up to `most` draws."""
    steps = (round(FIRST * LADDER**step) for step in range(10_000))
    for draws in steps:
        if draws >= most:
            break
        yield draws
    yield most


def grid(world: World, rng: np.random.Generator) -> Result:
    """Equally many draws in every cell, more and more of them."""
    judge = _Judge(world)
    counts = np.zeros(world.values.shape[1], dtype=np.int64)
    for draws in ladder(len(world.values)):
        counts = np.full(world.values.shape[1], draws)
        if judge.all_within(counts):
            break
    return Result(counts, answers(world, counts))


def bisection(world: World, rng: np.random.Generator) -> Result:
    """`search: boundary` or `optimum` with equally many draws in the cells that it chooses, more and more of them. What
    it chose with fewer draws and does not choose again counts as computed."""
    pool, judge = world.pool, _Judge(world)
    slice_ = pool.slices[0]
    plain = {key: value for key, value in pool.space.as_dict().items() if key not in ("precision", "budget")}
    options = {"metric": slice_.metric, "x": slice_.axis, "budget": len(pool.cells)}
    space = space_files.read({**plain, "search": {slice_.kind: options}})
    spent = np.zeros(len(pool.cells), dtype=np.int64)
    counts = spent
    for draws in ladder(len(world.values)):
        chosen = search.wanted(space, pool.cells, lambda cell, metric, n=draws: _finite(world.values[:n, cell]))
        counts = np.zeros_like(spent)
        counts[chosen] = draws
        spent = np.maximum(spent, counts)
        if judge.all_within(counts):
            break
    return Result(spent, answers(world, counts))


def _finite(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def uniform(world: World, rng: np.random.Generator) -> Result:
    """By turns a half of the cells, drawn at random, gets as many draws again, and then the other half."""
    judge = _Judge(world)
    cells, draws = world.values.shape[1], FIRST
    counts = np.full(cells, draws)
    while not judge.all_within(counts) and draws < len(world.values):
        if counts.max() == draws:
            counts[rng.permutation(cells)[: cells // 2]] = min(2 * draws, len(world.values))
        else:
            draws = min(2 * draws, len(world.values))
            counts[:] = draws
    return Result(counts, answers(world, counts))


def straddle(world: World, rng: np.random.Generator) -> Result:
    """In each slice that is not located yet, more draws for the two cells about whose sign least is known: those with
    the largest 1.96 standard errors less the size of the mean (Bryan et al. 2005)."""
    judge = _Judge(world)
    counts = np.full(world.values.shape[1], FIRST)
    waiting = np.flatnonzero(world.sought).tolist()
    while waiting:
        waiting = [place for place in waiting if judge.is_open(place, counts)]
        for place in list(waiting):
            cells = np.array(world.pool.slices[place].cells)
            observed = [_finite(world.values[: counts[cell], cell]) for cell in cells]
            doubt = [1.96 * values.std(ddof=1) / math.sqrt(len(values)) - abs(values.mean()) for values in observed]
            chosen = cells[np.argsort(doubt)[-2:]]
            counts[chosen] = np.minimum(np.ceil((1 + BATCH) * counts[chosen]), len(world.values))
            if counts[chosen].min() >= len(world.values):
                waiting.remove(place)
    return Result(counts, answers(world, counts))


def ours(world: World, rng: np.random.Generator) -> Result:
    """`precision` in the space. It is not told which slices have a place."""
    pool = world.pool
    counts = np.zeros(len(pool.cells), dtype=np.int64)
    metric = pool.slices[0].metric

    def value(cell: int, seed: int, name: str) -> float | None:
        if seed >= counts[cell]:
            return None
        return float(world.values[seed, cell] if name == metric else pool.theory[cell])

    cache = StepCache()
    while last := precision.rounds(pool.space, pool.cells, value, cache)[-1]:
        for cell, seed in last:
            assert seed == counts[cell], "every cell gets the first draws"
            counts[cell] += 1
    return Result(counts, joint_answers(world, counts))


CONTESTANTS: dict[str, Contestant] = {
    "grid": grid,
    "bisection": bisection,
    "random": uniform,
    "straddle": straddle,
    "ours": ours,
}
