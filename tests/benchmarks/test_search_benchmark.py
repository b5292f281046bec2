"""`make bench-search` counts rightly what searches take: by hand on small pools."""

import math

import numpy as np
import pytest

from benchmarks.search import contestants
from benchmarks.search.__main__ import draws_of_slices, judged
from benchmarks.search.places import Answer, floor, half_width, true_places
from benchmarks.search.pools import Pool
from raysweep.plan.cells import enumerate_cells
from raysweep.search import slices
from raysweep.space import space_files

ANGLES = {"linspace": [10, 90, 9]}
SPACE = {
    "name": "tiny",
    "workload": "linear_transfer",
    "axes": {"overlap_angle": ANGLES, "gamma": [0.2, 0.5]},
    "fixed": {"dim": 40, "noise": 0.2, "engine": "limit"},
    "analysis": [{"boundary": {"metric": "transferability_finetune", "x": "overlap_angle", "y": "gamma"}}],
    "seeds": 2000,
    "precision": {"boundary": 1.0},
}


@pytest.fixture(scope="module")
def pool():
    """Straight lines of slope 1 with zeros at 47 and 62 degrees. All cells of a draw have the same noise, which moves
    the zero with a standard deviation of 2 degrees in the first slice and of 4 degrees in the second."""
    space = space_files.read(SPACE)
    cells = enumerate_cells(space)
    members = slices.of_space(space, cells)
    assert [len(own.cells) for own in members] == [9, 9]
    noise = np.random.default_rng(0).standard_normal(400)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    values = np.zeros((400, len(cells)))
    fine = []
    for own, root, size in zip(members, (47.0, 62.0), (2.0, 4.0), strict=True):
        values[:, list(own.cells)] = (root - own.x) + size * noise[:, None]
        at = np.linspace(10, 90, 33)
        fine.append((at, (root - at) + size * noise[:, None]))
    return Pool(space, cells, members, values, np.full(len(cells), np.nan), fine)


def test_the_floor_is_two_cells_a_slice_with_the_draws_that_a_known_line_needs(pool):
    places = true_places(pool)
    assert places == pytest.approx([47, 62])
    assert (pool.slices[0].level, pool.slices[0].together) == (0.95, 2)
    z = 2.2414027  # of the normal distribution at 97.5 %: both slices at once
    assert [math.ceil((z * size) ** 2) for size in (2, 4)] == [21, 81]
    counts = floor(pool, places)
    assert counts.sum() == 2 * (21 + 81)
    assert sorted(counts[counts > 0]) == [21, 21, 81, 81]
    assert draws_of_slices(pool, counts) == 21 + 81
    assert floor(pool, np.array([47.0, math.nan])).sum() == 2 * 21


def test_an_interval_covers_where_it_holds_the_true_place_and_all_at_once_where_every_one_does(pool):
    counts = np.zeros(len(pool.cells), dtype=np.int64)
    good, narrow, bad = Answer(46.5, 47.5, 46, 48), Answer(62.1, 62.9, 61.7, 63.3), Answer(50, 51, 50, 51)
    places = np.array([47.0, 62.0])

    def told(*answers):
        found = judged(pool, places, contestants.Result(counts, list(answers)))
        return found["within"], found["pointwise"], found["all"]

    assert told(good, narrow) == (1, 0.5, 1)
    assert told(good, bad) == (1, 0.5, 0)
    assert told(good, None) == (0.5, 0.5, 0)
    assert half_width(pool.slices[0], Answer(46, 48, -math.inf, 48)) == math.inf
