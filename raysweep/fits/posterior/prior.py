"""The prior of a curve and its noise: every parameter as a function of standard normal coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from raysweep.fits.posterior.data import CurveData

CURVE = (
    *("length", "amplitude", "family", "warp", "compression", "bend_place", "bend_size", "before", "after"),
    *("softness", "tail", "choice"),
)
NOISE = (
    *("independent", "growth", "growth_square", "growth_cube", "with_height"),
    *("tilt", "smooth", "smooth_length", "freedom"),
)
SHARP, SHARP_TURN = 0.5, 0.6  # the chances that a bend is sharp, beside the turn and at the turn
EQUAL = 0.35  # the chance that a bend has the same power on both sides
# The chances of the powers of one side of a bend: 0 (a step, such as a wall of divergence), SMALLEST_POWER to 1 (a
# cusp), 1 and 2; the others lie between 1 and LARGEST_POWER.
STEP, CUSP, CORNER, PARABOLA = 0.1, 0.1, 0.3, 0.2
SMALLEST_POWER, LARGEST_POWER = 0.6, 3.0
UP_TO = tuple(np.cumsum([STEP, CUSP, CORNER, PARABOLA]).tolist())
INDEPENDENT = (-3.0, 0.3)  # decades of the deviation of all residuals between which the size of independent noise lies
OF_A_DRAW = (-2.0, 0.6)  # and those of what a draw shares along the curve: three draws show its size to a factor of 3
FREEDOM = 2.0, 200.0  # draws that the structure of the noise is worth
TURNING = 0.25  # the chance that a curve turns where its law changes
MATERN_3, MATERN_5, SQUARED_EXPONENTIAL = 0, 1, 2


@dataclass(frozen=True, eq=False)
class CurveParameters:
    """Parameters of many curves at once; each field has the shape (particles,). Lengths are shares of the grid, sizes
    shares of the curve's range.

    length, amplitude, family: of the stationary part of the mean curve (`kernel.py`).
    warp: x is stretched so that the slope of the map at its end is e^warp times that at its start.
    compression: values are compressed to compression * asinh(value / compression); inf for not at all.
    trend: 1 with a polynomial part, 0 without.
    bend_place, bend_size: where the curve may bend as a power of the distance, each side by itself.
    before, after: the powers on the two sides; 0 for a step.
    softness: over which distance the bend is rounded; 0 for a sharp one.
    tail, choice: standard normal coordinates, for `noise.py`.
    """

    length: np.ndarray
    amplitude: np.ndarray
    family: np.ndarray
    warp: np.ndarray
    compression: np.ndarray
    trend: np.ndarray
    bend_place: np.ndarray
    bend_size: np.ndarray
    before: np.ndarray
    after: np.ndarray
    softness: np.ndarray
    tail: np.ndarray
    choice: np.ndarray


def beyond(u: np.ndarray, share: float) -> np.ndarray:
    """The standard normal quantile of the part of uniform u above `share`."""
    return np.asarray(ndtri(np.clip((u - share) / (1 - share), 1e-9, 1 - 1e-9)))


def power_at(u: np.ndarray) -> np.ndarray:
    """The power of one side of a bend at quantile u: a step, a cusp, a corner, a parabola or up to LARGEST_POWER."""
    step, cusped, corner, parabola = UP_TO
    cusp = SMALLEST_POWER + (1 - SMALLEST_POWER) * np.clip((u - STEP) / CUSP, 0, 1)
    power = 1 + (LARGEST_POWER - 1) * np.clip((u - parabola) / (1 - parabola), 0, 1)
    return np.select([u < step, u < cusped, u < corner, u < parabola], [0.0, cusp, 1.0, 2.0], power)


def curve_parameters(z: np.ndarray, turning: np.ndarray) -> CurveParameters:
    """The parameters at coordinates z (particles, CURVE), which are standard normal a priori.

    turning: (particles,), whether the curve turns where its law changes: it has no trend and is little but its bend.
    """
    c = dict(zip(CURVE, z.T, strict=True))
    u = dict(zip(CURVE, ndtr(z.T), strict=True))
    after = power_at(u["after"])
    before = np.where(u["before"] < EQUAL, after, power_at((u["before"] - EQUAL) / (1 - EQUAL)))
    before = np.where((before == 0) & (after == 0), 1.0, before)  # two steps at one place would be no curve
    size = np.where(u["bend_size"] > 0.15, np.exp(0.5 + beyond(u["bend_size"], 0.15)), 0)
    sharp = np.where(turning, SHARP_TURN, SHARP)
    soft = 0.004 * (0.15 / 0.004) ** np.clip((u["softness"] - sharp) / (1 - sharp), 0, 1)
    compressed = ~turning & (u["compression"] > 0.5)
    little = np.minimum(c["amplitude"] + 0.67, 0)  # a quarter of the curves hardly leave their bends and polynomials
    amplitude = np.exp(np.log(0.4) + c["amplitude"] + 3 * little)
    return CurveParameters(
        length=np.exp(np.log(0.4) + 0.7 * c["length"]),
        amplitude=np.where(turning, np.exp(np.log(0.02) + c["amplitude"]), amplitude),
        family=np.digitize(u["family"], [0.45, 0.85]),
        warp=1.2 * c["warp"],
        compression=np.where(compressed, 10 ** (-2 * (2 * u["compression"] - 1)), np.inf),
        trend=np.where(turning, 0.0, 1.0),
        bend_place=np.where(turning, u["bend_place"], -0.1 + 1.2 * u["bend_place"]),
        bend_size=np.where(turning, np.exp(0.5 + c["bend_size"]), size),
        before=before,
        after=after,
        softness=np.where(u["softness"] < sharp, 0.0, soft),
        tail=c["tail"],
        choice=c["choice"],
    )


def size_at(z: np.ndarray, decades: tuple[float, float]) -> np.ndarray:
    """The size at a standard normal coordinate: its logarithm is uniform between the decades."""
    return np.asarray(10 ** (decades[0] + (decades[1] - decades[0]) * ndtr(z)))


def noise_parameters(z: np.ndarray, data: CurveData) -> dict[str, np.ndarray]:
    """The parameters of structures of noise, each (particles,), at coordinates z (particles, NOISE), which are standard
    normal a priori.

    independent: the standard deviation of the independent noise of one value, in the middle.
    tilt, smooth: those of a tilt of each draw (at the ends) and of a smooth curve of each draw (in the middle).
    smooth_length: the correlation length of that smooth curve.
    growth: (particles, 3), the coefficients of the logarithm of the noise along t, in Legendre polynomials.
    with_height: the independent noise grows by this factor of the height above the lowest point.
    freedom: how many draws the structure of the noise is worth, against the scatter that the draws show.

    The sizes have coordinates of their own. With shares of one size, a tilt that is large beside the independent noise
    would have to be large in the prior, too, and few particles would find it.
    """
    c = dict(zip(NOISE, z.T, strict=True))
    return {
        "independent": data.deviation * size_at(c["independent"], INDEPENDENT),
        "tilt": data.deviation * size_at(c["tilt"], OF_A_DRAW),
        "smooth": data.deviation * size_at(c["smooth"], OF_A_DRAW),
        "smooth_length": np.exp(np.log(0.3) + 0.5 * c["smooth_length"]),
        "growth": np.stack([0.8 * c["growth"], 0.5 * c["growth_square"], 0.3 * c["growth_cube"]], axis=1),
        "with_height": np.exp(np.log(0.2) + 1.3 * c["with_height"]),
        "freedom": FREEDOM[0] * (FREEDOM[1] / FREEDOM[0]) ** ndtr(c["freedom"]),
    }
