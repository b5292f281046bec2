"""Which rates get further draws is decided on the same draws; what is chosen depends on declared costs."""

import numpy as np
import pytest
from spaces import space_over

from benchmarks import stopping
from raysweep.plan.cells import enumerate_cells
from raysweep.search import endings, precision, racing, slices
from raysweep.search.curves import OPEN, Choice, Curve, Fitted, Step
from raysweep.search.declared_cost import DeclaredCost
from raysweep.search.slices import Ask, Slice
from raysweep.space.schema import validate

RATES = 0.001 * 2.0 ** np.arange(10)
OWN = Slice(
    *("analysis[0]", "optimum", "optimum", "y", "x", {}, tuple(range(10)), RATES, 0.95, 1, float(np.log(1.3))),
    *(True, True, False, None),
)


def test_a_rate_that_loses_on_the_same_draws_gets_no_more_of_them():
    rng = np.random.default_rng(1)
    u = np.log2(RATES / RATES[4])
    level = 10 * rng.standard_normal((8, 1))  # shared by all rates: it hides every loser from an unpaired test
    rows = 0.1 * u**2 + 0.3 * rng.standard_normal((8, 10))
    counts = np.full(10, 8)
    asked = [racing.step(Curve(RATES, counts, values), Ask(OWN, 800)) for values in (rows, rows + level)]
    for found in asked:
        assert found.state == OPEN
        assert (found.counts[[0, 1, 8, 9]] == 8).all()
        assert (found.counts[3:6] > 8).all()
    assert (asked[0].counts == asked[1].counts).all()  # what a draw adds to all rates decides nothing


def test_a_curve_without_a_turn_is_given_up():
    rng = np.random.default_rng(2)
    falling = -np.log(RATES) + 0.1 * rng.standard_normal((800, 10))
    known, last = stopping.searched(
        falling, RATES, racing.first(Ask(OWN, 800)), lambda curve: racing.step(curve, Ask(OWN, 800))
    )
    assert last.state == "best at the edge"
    assert known.counts.max() <= 16


@pytest.mark.parametrize("number", range(2))
def test_what_a_draw_adds_to_all_rates_moves_no_row(number):
    """Levels of draws 30 times as large as the differences between rates: a comparison of any two rates that is not on
    the same draws, anywhere in a search, would ask for other rows."""
    rng = np.random.default_rng([7, number])
    u = np.log2(RATES / RATES[4])
    rows = 0.1 * (u - rng.uniform(-1, 1)) ** 2 + 0.15 * rng.standard_normal((800, 10))
    rows[rng.random(rows.shape) < 0.03] = np.nan  # rows that failed
    asked = []
    for level in (np.zeros((800, 1)), 30 * rng.standard_normal((800, 1))):
        known, last = stopping.searched(
            rows + level, RATES, racing.first(Ask(OWN, 800)), lambda curve: racing.step(curve, Ask(OWN, 60))
        )
        asked.append([*known.counts.tolist(), last.state])
    assert asked[0] == asked[1]
    assert len(set(asked[0][:-1])) > 1  # some rates lose


def test_a_rate_that_lost_is_judged_on_the_draws_that_it_has():
    """It got 4 draws, which were by chance the four with the lowest levels: on all draws its mean would be the best."""
    rng = np.random.default_rng(4)
    u = np.log2(RATES / RATES[4])
    level = np.concatenate([np.full(4, -50.0), np.zeros(16)])[:, None]
    values = 0.2 * u**2 + level + 0.05 * rng.standard_normal((20, 10))
    counts = np.where(np.arange(10) == 9, 4, 20)
    values[4:, 9] = np.nan
    assert np.nanmean(values, axis=0).argmin() == 9
    assert racing.step(Curve(RATES, counts, values), Ask(OWN, 800)).counts[9] == 4


AXES = {"ablation": {"linspace": [0, 0.5, 11]}, "noise": [0.1, 0.2]}
TWO_STAGES = space_over("relu_features", AXES, fixed={"dim": 40, "width": 400, "target_samples": 2}, seeds=40)
TWO_STAGES["analysis"] = [{"optimum": {"metric": "risk_linear", "x": "ablation", "by": "noise"}}]
TWO_STAGES["precision"] = {"optimum": 0.1}


@pytest.mark.parametrize(("workload", "point"), [("relu_features", 8), ("rows", 7)])
def test_a_cell_whose_pretraining_is_paid_is_chosen_by_gain_per_cost(workload, point, monkeypatch):
    space = validate(TWO_STAGES)
    cells = enumerate_cells(space)
    first, second = slices.of_space(space, cells)
    cost = DeclaredCost(space, cells, hours=False)
    if workload == "rows":  # as for a workload that declares no costs
        monkeypatch.setattr(cost, "_priced", False)
    counts = np.zeros(len(cells), dtype=np.int64)
    before = counts.copy()
    counts[list(first.cells[0:11:5])] = 4
    counts[second.cells[8]] = 4  # which pretrains for this ablation
    cost.pay(counts, before)
    now = counts[list(first.cells)]
    choices = (racing._in_gap(now, first.x, 5, 10, 4),)
    found = precision._chosen(first, Step(now, OPEN, choices=choices), counts, cost)
    assert np.flatnonzero(found.counts > now).tolist() == [point]


def test_equal_costs_choose_what_gains_most_and_then_the_first():
    space = validate(TWO_STAGES)
    cells = enumerate_cells(space)
    own, _ = slices.of_space(space, cells)
    cost = DeclaredCost(space, cells, hours=False)
    counts = np.zeros(len(cells), dtype=np.int64)
    for gains, chosen in (((1.0, 2.0, 2.0), 3), ((1.0, 1.0, 1.0), 2)):
        group = tuple(Choice(np.where(np.arange(11) == 2 + k, 4, 0), gain) for k, gain in enumerate(gains))
        found = precision._chosen(own, Step(counts[:11], OPEN, choices=(group,)), counts, cost)
        assert np.flatnonzero(found.counts).tolist() == [chosen]


def test_cells_with_few_draws_get_more_where_noise_beside_the_best_one_is_not_what_makes_the_interval_wide(monkeypatch):
    """The best cell and its neighbours have 200 draws: the normal interval of the place is narrower than asked for."""
    rng = np.random.default_rng(5)
    wide = Fitted(float(RATES[7]), float(RATES[6]), float(RATES[8]))
    monkeypatch.setattr(racing, "fitted", lambda curve, ask, shrink=1.0: wide)
    values = 0.1 * np.log2(RATES / RATES[7]) ** 2 + 0.02 * rng.standard_normal((200, 10))
    counts = np.array([8, 8, 8, 8, 8, 12, 200, 200, 200, 200])

    def asked(counts):
        seen = np.where(np.arange(200)[:, None] < counts, values, np.nan)
        return racing.step(Curve(RATES, counts, seen), Ask(OWN, 800))

    for expected in (  # those beside the interval first, then all; no more than show a shape
        [8, 8, 8, 8, 16, 24, 200, 200, 200, 200],
        [8, 8, 8, 8, 24, 24, 200, 200, 200, 200],
        [16, 16, 16, 16, 24, 24, 200, 200, 200, 200],
        [24, 24, 24, 24, 24, 24, 200, 200, 200, 200],
    ):
        counts = asked(counts).counts
        assert counts.tolist() == expected
    assert asked(counts).state == endings.COARSE


def test_where_another_lowest_place_may_hide_a_cell_is_asked_for_before_more_draws(monkeypatch):
    """The interval reaches far below the best rate, over rates that no draw has seen."""
    rng = np.random.default_rng(5)
    wide = Fitted(float(RATES[7]), float(RATES[1]), float(RATES[8]))
    monkeypatch.setattr(racing, "fitted", lambda curve, ask, shrink=1.0: wide)
    values = 0.1 * np.log2(RATES / RATES[7]) ** 2 + 0.02 * rng.standard_normal((20, 10))
    counts = np.where(np.isin(np.arange(10), [1, 2, 4, 5]), 0, 20)
    found = racing.step(Curve(RATES, counts, np.where(counts > 0, values, np.nan)), Ask(OWN, 800))
    assert found.counts.tolist() == [20, 0, 0, 20, 8, 0, 20, 20, 20, 20]  # the middle of the gap nearest to the best
    everywhere = racing.step(Curve(RATES, np.full(10, 100), np.tile(values, (5, 1))), Ask(OWN, 800))
    assert everywhere.state == endings.COARSE  # nothing is left to ask for
