"""The boundary fit, held against surfaces whose zero line is known."""

import functools
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from curve_rows import rows_of

from benchmarks.boundaries import KINDS, noise_of
from raysweep.analyses.finding import Outcome
from raysweep.analyses.outcomes import outcome
from raysweep.fits import fit_boundary, fit_inflection
from raysweep.fits.reasons import Reason
from raysweep.fits.zero import find_zero

frame_of = functools.partial(rows_of, names="x value")


@pytest.mark.simulation
@pytest.mark.parametrize("surface", ["zero", "constant", "comes down to zero", "zero on one half", "bowl"])
def test_located_is_rare_where_nothing_crosses(surface):
    rng = np.random.default_rng(7)
    located = total = 0
    for noise in KINDS:
        for draws in (4, 8, 20):
            for points in (8, 20):
                for _ in range(5):
                    x = np.linspace(0, 1, points)
                    truth = {
                        "zero": 0 * x,
                        "constant": 0.2 + 0 * x,
                        "comes down to zero": 0.5 * (1 - x),
                        "zero on one half": np.maximum(0.5 - x, 0),
                        "bowl": (x - 0.5) ** 2,
                    }[surface]
                    values = truth + rng.choice([0.02, 0.1, 0.3]) * noise_of(noise, rng, draws, x)
                    located += find_zero(x, values, 0.95).status == "located"
                    total += 1
    assert located / total < 0.06  # of 120; 0.02 is nominal


@pytest.mark.simulation
def test_median_zero_line_is_covered_where_draws_have_no_variance():
    rng = np.random.default_rng(3)
    hits = total = 0
    for _ in range(300):
        x, root = np.linspace(0, 1, 12), rng.uniform(0.25, 0.75)
        values = 3 * (root - x) + 0.1 * rng.standard_cauchy((20, 1)) * (1 + 0.2 * rng.standard_normal((20, 12)))
        zero = find_zero(x, values, 0.95, scale="sign")
        if zero.status == "located":
            total += 1
            hits += zero.low <= root <= zero.high
    assert total > 200
    assert hits / total >= 0.92


def test_scale_is_chosen_from_the_data_and_stated():
    rng = np.random.default_rng(5)
    x = np.linspace(0, 1, 12)
    tame = fit_boundary(frame_of(x, 0.4 - x + 0.1 * rng.standard_normal((20, 1))), "x", None, "value", "seed")
    wild = fit_boundary(frame_of(x, 0.4 - x + 0.1 * rng.standard_cauchy((20, 12))), "x", None, "value", "seed")
    diverging = 0.4 - x + 1e3 * (x == 0)
    bent = fit_boundary(frame_of(x, diverging + 0.01 * rng.standard_normal((20, 1))), "x", None, "value", "seed")
    assert (tame.scale, wild.scale, bent.scale) == ("linear", "sign", "asinh")
    assert bent.low <= 0.4 <= bent.high


def test_the_whole_line_is_found_slice_by_slice():
    rng = np.random.default_rng(2)
    theta, shift = np.linspace(4.5, 90, 20), rng.standard_normal((10, 1))
    slices = [
        frame_of(theta, (1 - g) * (2 * np.cos(np.radians(theta)) - 1) + 0.02 * shift, gamma=g)
        for g in (0.2, 0.4, 0.6, 0.8)
    ]
    slices.append(frame_of(theta, 1e-17 * rng.standard_normal((10, 20)), gamma=1.2))  # rounding, not a surface
    fit = fit_boundary(pd.concat(slices), "x", "gamma", "value", "seed")
    table = fit.table.set_index("gamma")
    assert table["status"].tolist() == ["located"] * 4 + ["undetermined"]
    result = table.iloc[:4]
    assert ((result["low"] < 60) & (result["high"] > 60)).all()
    assert ((result["low_simultaneous"] <= result["low"]) & (result["high_simultaneous"] >= result["high"])).all()
    assert np.isnan(table.loc[1.2, "estimate"])
    assert (fit.status, fit.draws, fit.points) == ("located", 10, 20)


def test_without_noise_only_the_interpolation_is_uncertain():
    theta = np.linspace(4.5, 90, 20)
    frame = frame_of(theta, (2 * np.cos(np.radians(theta)) - 1)[None])
    assert fit_boundary(frame, "x", None, "value", "seed").status == "undetermined"  # one draw says nothing of noise
    exact = fit_boundary(frame, "x", None, "value", "seed", exact=True)
    assert exact.status == "located"
    assert exact.low <= 60 <= exact.high
    assert exact.high - exact.low < 0.1
    same = fit_boundary(pd.concat([frame, frame.assign(seed=1)]), "x", None, "value", "seed")
    assert (same.low, same.high) == pytest.approx((exact.low, exact.high))
    x, values = np.r_[0, np.geomspace(1e-5, 0.1, 7)], np.r_[-5, np.linspace(-1.9, 2.1, 7)] + np.zeros((3, 1))
    assert find_zero(x, values, 0.95).crossings[0].estimate == pytest.approx(10**-3.1, rel=0.01)  # in log beside a 0
    values = np.array([[-1.63, -1.63, -1.25, -1.13, -0.99, -0.66, 0.34, 0.78], [-1.6, *[np.nan] * 4, -0.62, 0.43, 0.8]])
    assert np.isfinite(find_zero(np.arange(8.0), values, 0.95).low)


@pytest.mark.simulation
def test_a_zero_inside_the_grid_is_never_said_to_lie_beyond_it():
    """With three draws an edge has often no clear sign although the zero lies inside."""
    x, outcomes = np.array([10.0, 30.0, 50.0, 70.0, 90.0]), Counter()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        mean = np.cos(np.radians(x)) - np.cos(np.radians(59.2))
        zero = find_zero(x, mean + 0.15 * noise_of("shift and slope", rng, 3, x / 90), 0.95)
        outcomes[outcome(zero.status, zero.reason)] += 1
        assert not np.isfinite(zero.low) or zero.low < 90
        assert not np.isfinite(zero.high) or zero.high > 10
    assert outcomes[Outcome.BOUND_LOW] + outcomes[Outcome.BOUND_HIGH] >= 10
    beyond = outcomes[Outcome.BEYOND_LOW] + outcomes[Outcome.BEYOND_HIGH]
    assert beyond <= 3  # 5 % of clear signs at an edge may be wrong


@pytest.mark.simulation
@pytest.mark.parametrize(("draws", "size"), [(2, 0.02), (4, 0.04)])
def test_a_zero_that_few_draws_locate_is_inside_its_interval(draws, size):
    """Draws that move together, each with a level and a tilt: of two nobody can tell that they do."""
    x, located, missed = np.linspace(0, 1, 7), 0, 0
    for seed in range(150):
        rng = np.random.default_rng([seed, draws])
        zero = find_zero(x, 0.55 - x + size * noise_of("shift and slope", rng, draws, x), 0.95)
        located += zero.status == "located"
        missed += zero.status == "located" and not zero.low <= 0.55 <= zero.high
    assert located >= 10
    assert missed <= 0.09 * located  # 0.05 and two standard errors


@pytest.mark.parametrize("given", [False, True])
def test_a_valley_above_zero_says_of_no_zero_that_it_lies_beyond_the_grid(given):
    x, statuses, falling = np.linspace(0, 1, 11), Counter(), Counter()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        errors, noise = np.full(11, 0.04) if given else None, 0.08 * rng.standard_normal((4, 11))
        for counts, mean in ((statuses, 2 * (x - rng.uniform(0.3, 0.7)) ** 2 + 0.2), (falling, 0.15 + (1 - x) ** 2)):
            counts[find_zero(x, mean + noise, 0.95, errors=errors).status] += 1
    assert statuses["undetermined"] >= 38  # 24 of 40 if its higher side alone tells the edges apart
    assert falling["censored_high"] >= 36


@pytest.mark.parametrize("exact", [False, True])
def test_a_constant_is_censored_at_neither_edge(exact):
    fit = fit_boundary(frame_of(np.linspace(0, 1, 10), np.full((5, 10), 0.7)), "x", None, "value", "seed", exact=exact)
    assert fit.status == "undetermined"
    assert fit.table["reason"].item() == Reason.POSITIVE_EVERYWHERE


@pytest.mark.parametrize(
    ("mean", "expected"),
    [
        ([-0.2, 0.01, -0.6], (Reason.PARTLY_CLEAR, -1, 1)),
        ([-0.6, 0.01, -0.2], (Reason.PARTLY_CLEAR, -1, 1)),
        ([0.6, 0.6, 0.6], (Reason.POSITIVE_EVERYWHERE, 1, 3)),
        ([0.01, 0.01, 0.01], (Reason.NO_CLEAR_SIGN, 0, 0)),
    ],
)
def test_a_curve_has_one_sign_everywhere_only_where_every_point_shows_it(mean, expected):
    noise = np.random.default_rng(5).normal(0, 0.25, (6, 3))
    fit = fit_boundary(
        frame_of(np.array([1.0, 2.0, 3.0]), np.array(mean) + noise - noise.mean(0)), "x", None, "value", "seed"
    )
    assert fit.status == "undetermined"
    assert tuple(fit.table.loc[0, ["reason", "sign", "clear_points"]]) == expected


def test_numbers_that_a_table_has_as_text_are_numbers():
    x, rng = np.arange(1, 13), np.random.default_rng(3)  # as text, 10 would stand before 2
    frame = frame_of(x, np.tanh((x - 6.5) / 2) + 0.1 * rng.standard_normal((5, 12)))
    text = frame.assign(x=frame["x"].astype(str), value=frame["value"].astype(str))
    plain, read = (fit_boundary(entry, "x", None, "value", "seed") for entry in (frame, text))
    assert plain.status == "located"
    assert (read.estimate, read.low, read.high) == (plain.estimate, plain.low, plain.high)
    squares = frame_of(x, np.tanh((x - 6.5) / 2) ** 2 + 0.1 * rng.standard_normal((5, 12)))["value"]
    plain, read = (fit_inflection(entry.assign(value=squares), "x", "value", "seed") for entry in (frame, text))
    assert plain.status == "located"
    assert (read.estimate, read.low, read.high) == (plain.estimate, plain.low, plain.high)
    with pytest.raises(ValueError, match="^column 'x': .*'one'"):
        fit_boundary(text.replace({"x": {"1": "one"}}), "x", None, "value", "seed")


def test_missing_and_failed_rows_are_left_out_and_counted():
    rng = np.random.default_rng(4)
    x = np.linspace(0, 1, 10)
    values = 0.43 - x + 0.05 * rng.standard_normal((8, 1)) + 0.01 * rng.standard_normal((8, 10))
    frame = frame_of(x, values, status="ok")
    broken = frame.index[(frame["seed"] == 3) & (frame["x"] > 0.3)]
    frame.loc[broken, "status"] = "diverged"
    frame.loc[broken, "value"] = 1e6  # would move the line if it entered
    frame.loc[frame.index[5], "value"] = np.nan
    fit = fit_boundary(frame, "x", None, "value", "seed")
    assert fit.status == "located"
    assert fit.low <= 0.43 <= fit.high
    assert fit.dropped == {"diverged": len(broken), "no finite value": 1}
    assert fit.rows == 80 - len(broken) - 1
    order = fit_boundary(frame.sample(frac=1, random_state=1), "x", None, "value", "seed")
    assert (order.estimate, order.low, order.high) == pytest.approx((fit.estimate, fit.low, fit.high), rel=1e-12)


def test_every_crossing_of_a_slice_is_listed():
    x, rng = np.linspace(0, 1, 25), np.random.default_rng(6)
    values = (x - 0.3) * (x - 0.7) * 4 + 0.02 * rng.standard_normal((10, 1))
    fit = fit_boundary(frame_of(x, values), "x", None, "value", "seed")
    assert fit.table["crossings"].tolist() == [2]
    assert sorted(fit.crossings["estimate"]) == pytest.approx([0.3, 0.7], abs=0.05)
    assert sorted(fit.crossings["rising"]) == [False, True]


def test_unknown_names_and_levels_are_refused():
    frame = frame_of(np.linspace(0, 1, 5), np.ones((2, 5)))
    with pytest.raises(ValueError, match="'nothing'"):
        fit_boundary(frame, "x", None, "nothing", "seed")
    with pytest.raises(ValueError, match="level"):
        fit_boundary(frame, "x", None, "value", "seed", level=95)
    with pytest.raises(ValueError, match="scale"):
        fit_boundary(frame, "x", None, "value", "seed", scale="cubic")


def test_a_sign_that_changes_only_between_different_draws_is_undetermined():
    """Where draws are missing, the mean at a point is that of other draws than beside it; none has to cross zero."""
    missing = np.nan
    for values in ([[5.0, 1.0], [missing, -9.0]], [[5.0, missing], [missing, -9.0]]):
        zero = find_zero(np.array([1.0, 2.0]), np.array(values), 0.95, exact=True)
        assert (zero.status, zero.crossings) == ("undetermined", ())
        assert zero.reason == Reason.DIFFERENT_DRAWS
    beside = np.array([[-2.0, 2.0, 2.0], [missing, missing, -9.0]])
    zero = find_zero(np.array([1.0, 2.0, 3.0]), beside, 0.95, exact=True)
    assert (zero.status, len(zero.crossings)) == ("located", 1)
    assert 1 < zero.crossings[0].estimate < 2


@pytest.mark.simulation
@pytest.mark.filterwarnings("ignore:(Mean of empty|All-NaN) slice:RuntimeWarning")
@pytest.mark.parametrize("exact", [True, False])
def test_a_zero_that_is_located_has_a_place_in_its_interval_however_many_draws_are_missing(exact):
    rng = np.random.default_rng(5)
    located = 0
    for _ in range(300):
        points, draws = rng.integers(2, 7), rng.integers(1, 6)
        x = np.sort(rng.uniform(0.1, 10, points))
        curve = x - 5 if rng.random() < 0.5 else np.sin(x)
        values = curve + rng.uniform(0, 5) * rng.standard_normal((draws, points))
        values[rng.random((draws, points)) < 0.4] = np.nan
        zero = find_zero(x, values, 0.95, exact=exact)
        located += zero.status == "located"
        assert (zero.status == "located") == bool(zero.crossings)
        for crossing in zero.crossings:
            assert 0.999 * x[0] <= crossing.low <= crossing.estimate <= crossing.high <= 1.001 * x[-1]
    assert located > 10
