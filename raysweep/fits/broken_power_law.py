"""A smoothly broken power law through a curve: the parametric alternative to interpolation, where points are many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FEWEST_POINTS = 20
REJECTED = 0.01  # below this probability of a worse fit, the data say that the curve is no broken power law
STARTS = ((1.0, 1.0, 0.3), (4.0, 0.5, 0.1), (0.5, 4.0, 0.1))  # fall and rise per grid length, softness


@dataclass(frozen=True)
class BrokenPowerLaw:
    """place: where it turns, in u; p_value: how probable a worse fit is if the curve is one; curve: its values at u."""

    place: float
    p_value: float
    curve: np.ndarray


def fit_broken_power_law(u: np.ndarray, curve: np.ndarray, variance: np.ndarray, degrees: int) -> BrokenPowerLaw | None:
    """Least squares of y = a + b x^-p (1 + (x/x0)^(1/f))^((p+q)f) with b, p, q, f > 0, over u = log x.

    It falls like x^-p, rises like x^q beyond the break, and turns at log x = log x0 + f log(p/q). One break of the
    smoothly broken power law of Caballero et al., "Broken neural scaling laws" (2022), eq. 1, with the two exponents
    bounded such that it turns; a and b are solved linearly inside, the four others by bounded least squares.

    u, curve, variance: (points,), variance that of the curve's values, estimated with `degrees` degrees of freedom.
    None with fewer than 20 points, where the fit does not converge, or where its turn lies outside the grid.
    """
    from scipy.optimize import least_squares
    from scipy.special import fdtrc

    points = len(u)
    if points < FEWEST_POINTS or degrees < 1 or not (variance > 0).all():
        return None
    t = (u - u[0]) / (u[-1] - u[0])
    weight = 1 / np.sqrt(variance)
    lowest = float(t[np.argmin(curve)])

    def shape(theta: np.ndarray) -> np.ndarray:
        fall, rise, soft, turn = np.exp(theta[0]), np.exp(theta[1]), np.exp(theta[2]), theta[3]
        at = turn - soft * (theta[0] - theta[1])  # the break that puts the turn at `turn`
        exponent = -fall * t + (fall + rise) * soft * np.logaddexp(0, (t - at) / soft)
        return np.asarray(np.exp(np.clip(exponent - exponent.min(), 0, 50)))

    def fitted(theta: np.ndarray) -> np.ndarray:
        design = np.stack([np.ones(points), shape(theta)], axis=1) * weight[:, None]
        (level, size), *_ = np.linalg.lstsq(design, curve * weight, rcond=None)
        if size < 0:  # b > 0: else the best that is allowed is a constant
            level, size = float(np.average(curve, weights=weight**2)), 0.0
        return np.asarray(level + size * shape(theta))

    best = None
    bounds = [np.append(np.log([1e-3] * 3), 0.0), np.append(np.log([60.0, 60.0, 3.0]), 1.0)]
    for fall, rise, soft in STARTS:
        start = [*np.log([fall, rise, soft]), min(max(lowest, 1e-3), 1 - 1e-3)]
        found = least_squares(
            lambda theta: (fitted(theta) - curve) * weight, start, bounds=bounds, max_nfev=60, diff_step=1e-5
        )
        if best is None or found.cost < best.cost:
            best = found
    if best is None or not 0 < best.x[3] < 1:
        return None
    left = points - 6
    return BrokenPowerLaw(
        place=float(u[0] + best.x[3] * (u[-1] - u[0])),
        p_value=float(fdtrc(left, degrees, 2 * best.cost / left)),
        curve=fitted(best.x),
    )
