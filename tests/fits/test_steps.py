"""Zeros on steps that are sharper than the grid: the interval is the cell where nothing says where in it they lie."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import steps
from raysweep.fits.boundary import find_zero
from raysweep.fits.result import Status

KINDS = ["tanh, 0.05 cells", "tanh, 0.2 cells", "arctangent, 0.1 cells", "Gompertz, 0.1 cells"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_interval_of_a_zero_on_a_sharp_step_holds_it(kind: str) -> None:
    every = [line for number, line in enumerate(steps.lines(kind, 1)) if number % 4 == 1]
    found = [find_zero(line.x, line.values, 0.95) for line in every]
    located = [(line, zero) for line, zero in zip(every, found, strict=True) if zero.status == Status.LOCATED]
    held = [zero.low <= line.root <= zero.high for line, zero in located]
    cells = [(zero.high - zero.low) * (len(line.x) - 1) for line, zero in located]
    assert len(located) >= len(every) - 1
    assert np.mean(held) >= 0.9
    assert np.median(cells) <= 1 + 1e-9


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", steps.SHAPES)
def test_the_zero_of_an_exact_sharp_step_may_lie_anywhere_in_its_cell(shape: str, share: float) -> None:
    x = np.linspace(0, 1, 9)
    values = steps.SHAPES[shape]((x - x[3] - share / 8) * 8 / 0.05)
    zero = find_zero(x, values[None], 0.95, exact=True)
    assert zero.status == Status.LOCATED
    assert zero.low <= x[3] + share / 8 <= zero.high
    assert (zero.low, zero.high) == pytest.approx((x[3], x[4]))
