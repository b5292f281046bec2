"""Gradient flow of the balanced, aligned deep linear network on the source task (THEORY §3-4; Arora et al. 2018).

For the source loss ½|b - b_s|² the end-to-end map stays on the source teacher: it is c(t) e_s with
dc/dt = L c^(2-2/L) (N - c), c(0) = init_scale^L. Let x = c/N, and let s = ±1 be the side of N on which c starts. The
odds coordinate z with x = 1/(1 + s e^-z) follows dz/dτ = L x^(1-2/L), τ = N^(2-2/L) t. In z neither the tiny start nor
the approach to N loses digits.
"""

import functools

import numpy as np
from numpy.typing import ArrayLike

from raysweep.theory.arrays import Array, broadcast, distinct

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(28)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2  # on [0, 1]
_CROSSING = 1.5  # elapsed time by a series for z below -crossing, by quadrature above


def scale(length: ArrayLike, depth: ArrayLike, init_scale: ArrayLike, source_norm: ArrayLike = 1.0) -> Array:
    """Norm c of the end-to-end map after flow time `length` (broadcast); source_norm at length inf."""
    return np.exp(log_scale(length, depth, init_scale, source_norm))


def log_scale(length: ArrayLike, depth: ArrayLike, init_scale: ArrayLike, source_norm: ArrayLike = 1.0) -> Array:
    """Natural logarithm of `scale`; finite even if init_scale^depth underflows."""
    z, side, norm = _state(length, depth, init_scale, source_norm)
    with np.errstate(over="ignore"):
        return np.log(norm) - _log1p_exp(z, side)


def source_loss(length: ArrayLike, depth: ArrayLike, init_scale: ArrayLike, source_norm: ArrayLike = 1.0) -> Array:
    """Source population loss (c - N)²/2 after flow time `length`, to full relative accuracy near convergence."""
    z, side, norm = _state(length, depth, init_scale, source_norm)
    with np.errstate(over="ignore", under="ignore"):
        return 0.5 * (norm * np.exp(-z - _log1p_exp(z, side))) ** 2


def _log1p_exp(z: Array, side: Array) -> Array:
    """log(1 + side·e^-z), stable for any z."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        above = np.log1p(side * np.exp(-z))
        return np.where(z < -30, -z, above)  # side is +1 there


def _start(depth: Array, init_scale: Array, norm: Array) -> tuple[Array, Array]:
    """The odds coordinate at time 0, and the side of N on which it is (+1 below, -1 above, 0 at N)."""
    log_x = depth * np.log(init_scale) - np.log(norm)
    with np.errstate(divide="ignore", over="ignore"):
        gap = np.where(log_x < 0, np.log(-np.expm1(np.minimum(log_x, 0))) - log_x, np.log(-np.expm1(-np.abs(log_x))))
    return -gap, -np.sign(log_x)


def _state(
    length: ArrayLike, depth: ArrayLike, init_scale: ArrayLike, source_norm: ArrayLike
) -> tuple[Array, Array, Array]:
    """(z, side, N) after `length`; each distinct setting is solved once."""
    arrays = broadcast(length, depth, init_scale, source_norm)
    shape = arrays[0].shape
    rows, index = distinct(*(array.ravel() for array in arrays))
    time, layers, start, norm = rows.T
    z, side = _start(layers, start, norm)
    z[(time == np.inf) | (side == 0)] = np.inf
    moving = np.isfinite(time) & (time > 0) & (side != 0)
    total = time[moving] * layers[moving] * norm[moving] ** (2 - 2 / layers[moving])
    z[moving] = _advanced(np.stack([z[moving], layers[moving], side[moving], total]).tobytes())
    return z[index].reshape(shape), side[index].reshape(shape), norm[index].reshape(shape)


@functools.lru_cache(maxsize=256)  # a report draws several curves over the same pretraining settings
def _advanced(packed: bytes) -> Array:
    """The z that solves ∫_{z0}^{z} (1 + side·e^-u)^(1-2/L) du = total, by Newton inside a bracket.

    packed: z0, depth, side and total as float64 bytes.
    """
    z0, depth, side, total = np.frombuffer(packed).reshape(4, -1)
    power = 1 - 2 / depth
    low = z0.copy()
    # high enough if the integrand is at least 1 (from below with L >= 2, from above with L = 1); otherwise widened
    high = z0 + total + 1.0
    for _ in range(2100):  # triples each time, so it ends long before
        short = _elapsed(z0, high, depth, side) < total
        if not short.any():
            break
        low[short], high[short] = high[short], high[short] + 2 * (high[short] - z0[short])
    z = 0.5 * (low + high)
    for _ in range(200):
        excess = _elapsed(z0, z, depth, side) - total
        high, low = np.where(excess >= 0, z, high), np.where(excess < 0, z, low)
        with np.errstate(over="ignore", invalid="ignore"):
            step = z - excess * np.exp(-power * _log1p_exp(z, side))
        inside = (step > low) & (step < high)
        following = np.where(inside, step, 0.5 * (low + high))
        change = np.abs(following - z)
        z = following
        if (change <= 1e-11 * np.maximum(1.0, np.abs(z))).all():  # then the error of Newton is about its square
            break
    z.setflags(write=False)
    return z


def _elapsed(z0: Array, z: Array, depth: Array, side: Array) -> Array:
    """∫_{z0}^{z} (1 + side·e^-u)^m du, m = 1 - 2/L, for z >= z0."""
    power = 1 - 2 / depth
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        below = _below(z, power) - _below(z0, power)
        above = _above(z, power) - _above(z0, power)
    time = np.where(side > 0, below, above)
    # where the integral overflows, no finite time moves the map
    return np.where(z <= z0, 0.0, np.where(np.isnan(time), np.inf, time))


def _below(z: Array, power: Array) -> Array:
    """Antiderivative of (1 + e^-z)^m, for the approach to N from below."""
    near = np.maximum(z, -_CROSSING)
    total = near - _tail(np.exp(-near), power, 1.0)
    far = z < -_CROSSING
    if far.any():
        crossing = _series(np.full_like(z, -_CROSSING), power)
        total = total + np.where(far, _series(np.minimum(z, -_CROSSING), power) - crossing, 0.0)
    return total


def _above(z: Array, power: Array) -> Array:
    """Antiderivative of (1 - e^-z)^m on z > 0, for the approach to N from above."""
    half = np.log(2.0)
    near = np.maximum(z, half)
    total = near - _tail(np.exp(-near), power, -1.0)
    far = z < half
    if far.any():
        crossing = _inverse_series(np.full_like(z, half), power)
        total = total - np.where(far, crossing - _inverse_series(np.minimum(z, half), power), 0.0)
    return total


def _tail(y: Array, power: Array, side: float) -> Array:
    """∫_0^y ((1 + side·v)^m - 1)/v dv by Gauss-Legendre; the integrand is analytic in v."""
    v = y[..., None] * _NODES
    return (np.expm1(power[..., None] * np.log1p(side * v)) / v * _WEIGHTS).sum(-1) * y


def _series(z: Array, power: Array) -> Array:
    """Antiderivative of (1 + e^-z)^m for z <= -1.5: Σ_k binom(m, k) e^((k-m)z)/(k-m), from m > -1 (m = 0: z)."""
    order = np.arange(1, 30)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(power == 0, z, -np.exp(-power * z) / np.where(power == 0, 1.0, power))
        coefficients = np.cumprod((power[..., None] - order + 1) / order, axis=-1)
        terms = coefficients * np.exp((order - power[..., None]) * z[..., None]) / (order - power[..., None])
    return first + terms.sum(-1)


def _inverse_series(z: Array, power: Array) -> Array:
    """Antiderivative of (1 - e^-z)^m for 0 < z <= log 2, in w = 1 - e^-z: Σ_k w^(m+1+k)/(m+1+k) (L = 1: log)."""
    log_w = np.log(-np.expm1(-z))
    exponent = power[..., None] + 1 + np.arange(60)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(exponent == 0, log_w[..., None], np.exp(exponent * log_w[..., None]) / exponent).sum(-1)
