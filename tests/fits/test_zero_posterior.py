"""What the posterior behind a zero line gives: narrower intervals, all slices at once, a whole cell on sharp steps."""

import numpy as np
import pandas as pd
import pytest
from curve_rows import rows_of

from benchmarks import boundaries, steps
from raysweep.fits.boundary import fit_boundary, simultaneous_level
from raysweep.fits.result import Status
from raysweep.fits.statistics import t_quantile
from raysweep.fits.zero import find_zero

pytestmark = pytest.mark.simulation  # of the fits alone: where they change


@pytest.mark.parametrize("draws", [4, 8])
def test_intervals_of_few_draws_are_as_wide_as_student_s_t_says_at_every_level(draws):
    """Nine slices at once are read at 99.4 %, where the t of few draws is far beyond a normal number. Draws that differ
    by a shift move the zero of a straight line by as much, so its error is exactly that of their mean."""
    levels, x = (0.68, 0.95, 0.994), np.linspace(0, 1, 12)
    widths = []
    for number in range(16):
        rng = np.random.default_rng([8, draws, number])
        shift = 0.05 * rng.standard_normal((draws, 1))
        zero = find_zero(x, 0.5 - x + shift + 0.005 * rng.standard_normal((draws, 12)), 0.95)
        if zero.located:
            error = float(shift.std(ddof=1)) / np.sqrt(draws)
            bounds = [zero.located.interval(level) for level in levels]
            widths.append([(high - low) / 2 / error for low, high in bounds])
    expected = np.median(widths, axis=0) / [t_quantile(level, draws - 1) for level in levels]
    assert len(widths) >= 12
    assert expected[0] == pytest.approx(1, abs=0.15)
    assert expected[1] == pytest.approx(1, abs=0.15)
    assert 0.7 < expected[2] < 1.15  # the curve itself is not expected to be as large as the rarest noise of 4 draws


def test_cells_with_two_draws_take_nothing_from_what_many_draws_say_near_the_zero():
    """A search begins with cells of two draws, and goes on with two cells."""
    x, widths = np.linspace(4.5, 90, 20), []
    for number in range(12):
        rng = np.random.default_rng([9, number])
        root = rng.uniform(35, 65)
        at = 0.04 * (rng.standard_normal((16, 1)) + 0.2 * rng.standard_normal((16, 1)) * np.linspace(-1, 1, 20))
        values = np.cos(np.radians(x)) - np.cos(np.radians(root)) + at
        values[:, [place for place in range(20) if place % 5 and abs(x[place] - root) > 10]] = np.nan
        values[2:, np.abs(x - root) > 10] = np.nan
        zero, there = find_zero(x, values, 0.95), np.isfinite(values).all(axis=0)
        error = values[:, there].mean(axis=1).std(ddof=1) / 4 / np.sin(np.radians(root)) * 180 / np.pi
        widths.append((zero.high - zero.low) / 2 / error)
    assert np.median(widths) / t_quantile(0.95, 15) == pytest.approx(1, abs=0.07)


def test_two_draws_that_are_equal_do_not_say_that_there_is_no_noise():
    """Accuracies in ties, where other cells have many draws."""
    x, mean = np.linspace(0, 1, 7), np.array([1, 0.85, 0.45, 0.05, -0.1, -0.25, -1.0])
    for number in range(4):
        rng = np.random.default_rng(number)
        values = np.full((40, 7), np.nan)
        values[:2], values[2:, 3:5] = mean, mean[3:5] + 0.1 * rng.standard_normal((38, 2))
        zero = find_zero(x, values, 0.95)
        assert x[3] <= zero.low < x[3] + 1 / 18 < zero.high <= x[4]
        assert zero.high - zero.low > 0.02


@pytest.mark.parametrize("size", [1e-7, 1e-3, 1.0])
def test_two_draws_that_differ_by_one_smooth_curve_still_give_a_zero(size):
    """The scatter of two draws has rank 1, and six more draws are at three points only."""
    x, rng = np.array([4.5, 27, 49.5, 54, 58.5, 63, 67.5, 90]), np.random.default_rng(1)
    for _ in range(8):
        scatter = rng.standard_normal((8, 2)) @ np.stack([np.sin(np.radians(x)), np.cos(np.radians(x)) ** 2])
        values = np.cos(np.radians(x)) - 0.52 + size * scatter
        values[2:, [0, 1, 2, 6, 7]] = np.nan
        zero = find_zero(x, values, 0.95)
        if size < 1:
            assert zero.status == "located"
            assert zero.high - zero.low < 2 + 400 * size


def test_slices_that_move_together_are_held_at_once_by_a_level_below_bonferroni():
    rng = np.random.default_rng(1)
    scatter, shared, shares = rng.standard_normal((400, 9)), rng.standard_normal((400, 1)) * np.ones(9), np.ones(9)
    apart, together = (simultaneous_level(0.95, each, shares, 9) for each in (scatter, shared))
    assert apart == pytest.approx(0.95 ** (1 / 9), abs=0.0007)
    assert together == pytest.approx(0.95, abs=0.003)
    assert together < simultaneous_level(0.95, 0.8 * shared + 0.6 * scatter, shares, 9) < apart
    assert simultaneous_level(0.95, shared, np.zeros(9), 9) == pytest.approx(
        apart, abs=2e-4
    )  # what interpolation leaves open is not shared
    assert simultaneous_level(0.95, shared[:4], shares, 9) == pytest.approx(apart, abs=2e-4)  # too few draws to know


def test_the_table_holds_all_slices_at_once_by_less_than_bonferroni_where_draws_are_shared():
    rng, x = np.random.default_rng(3), np.linspace(0, 1, 12)
    shift = 0.1 * rng.standard_normal((30, 1))
    parts = [
        rows_of(x, root - x + shift + 0.001 * rng.standard_normal((30, 12)), label=root)
        for root in (0.3, 0.4, 0.5, 0.6)
    ]
    table = fit_boundary(pd.concat(parts), "x", "label", "y", "seed").table
    wider = (table["high_simultaneous"] - table["low_simultaneous"]) / (table["high"] - table["low"])
    assert ((wider >= 1.0) & (wider < 1.1)).all()  # Bonferroni: 1.3


# Steps that are sharper than the grid


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", steps.SHAPES)
def test_the_zero_of_an_exact_sharp_step_may_lie_anywhere_in_its_cell(shape, share):
    x = np.linspace(0, 1, 9)
    values = steps.SHAPES[shape]((x - x[3] - share / 8) * 8 / 0.05)
    zero = find_zero(x, values[None], 0.95, exact=True)
    assert zero.status == Status.LOCATED
    assert zero.low <= x[3] + share / 8 <= zero.high
    assert (zero.low, zero.high) == pytest.approx((x[3], x[4]))


@pytest.mark.parametrize("width", [0.1, 0.2, 0.5])
def test_the_zero_of_an_exact_step_is_covered_also_on_its_shoulder(width):
    """One width beside the middle of the step, which may lie in the next cell."""
    x, held = np.linspace(0, 1, 9), []
    for shape in steps.SHAPES.values():
        for share in (0.02, 0.15, 0.35, 0.65, 0.85, 0.98):
            for offset in (-1.0, 1.0):
                root = x[3] + share / 8
                values = shape((x - root) * 8 / width + offset) - shape(np.array(offset))
                zero = find_zero(x, values[None], 0.95, exact=True)
                held.append(zero.low <= root <= zero.high)
    assert np.mean(held) >= 0.9


def test_an_exact_curve_that_is_smooth_or_kinked_does_not_get_the_whole_cell():
    for curve in ("straight", "cosine", "exponential", "kink at the zero, 5 times"):
        for root in (0.33, 0.52, 0.71):
            x = np.linspace(0, 1, 12)
            zero = find_zero(x, boundaries.CURVES[curve](x, root, 0.0)[None], 0.95, exact=True)
            assert zero.low - 1e-9 <= root <= zero.high + 1e-9
            assert (zero.high - zero.low) * 11 < 0.6


def test_two_draws_and_the_sign_scale_know_no_more_of_a_step_than_its_cell():
    x, rng, held = np.linspace(0, 1, 9), np.random.default_rng(3), []
    for share in (0.05, 0.2, 0.5, 0.8, 0.95):
        root = x[4] + share / 8
        curve = np.arctan((x - root) * 8 / 0.1)
        pair = curve + 0.01 * rng.standard_normal((2, 1)) + 0.001 * rng.standard_normal((2, 9))
        many = curve + 0.005 * rng.standard_cauchy((12, 1))
        for values, scale in ((pair, None), (many, "sign")):
            zero = find_zero(x, values, 0.95, scale=scale)
            if zero.status == Status.LOCATED:
                held.append(zero.low <= root <= zero.high)
    assert len(held) >= 8
    assert all(held)


def test_a_cell_that_nothing_divides_is_the_interval_at_every_level():
    x, rng = np.linspace(0, 1, 9), np.random.default_rng(4)
    values = np.tanh((x - 0.41) / 0.005) + 0.01 * rng.standard_normal((5, 9))
    zero = find_zero(x, values, 0.95)
    for level in (0.5, 0.95, 0.999):
        assert zero.located.interval(level) == pytest.approx((0.375, 0.5))
