"""Zeros on steps that are sharper than the grid: the interval is the cell where nothing says where in it they lie."""

import numpy as np
import pytest

from benchmarks import boundaries, steps
from raysweep.fits.boundary import find_zero
from raysweep.fits.result import Status

pytestmark = pytest.mark.simulation  # of the fits alone: where they change


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
