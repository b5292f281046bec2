"""The expected transferability of fine-tuning at finite d (THEORY §3): the mean over draws of the per-draw formula.

Per draw 𝒯 = 2 r b - r² p with p = |P⊥e_s|² and b = e_s·P⊥β_t; r is a function of p and q = |X⁺y|², which depends on the
draw by g = |P∥β_t|² and noise. The angle enters only through the law of (b, g) given p (`_moments`). Noise, depth and
scale enter only through the means of r and r² given (p, g) (`_means`). A polynomial in g joins the two, so that many
angles cost little.
"""

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from raysweep.theory import quadrature
from raysweep.theory.arrays import Array, broadcast, cosine_sine, distinct
from raysweep.theory.finetune import log_squared_norm_of_logs

Counts = tuple[int, ...]  # nodes in p, a, h, u², φ and g

_LEFT = 1e-6  # error of each rule relative to the value, by the estimate of `_counts`
_COUNTS = np.array([2, 3, 4, 5, 6, 8, 10, 12])  # a few, so that settings with different n share arrays
_HEAVY, _HEAVY_COUNT = 24, 26  # for d - n below this the tail of u² decides; number of nodes of the heavy-tailed rule
_SCALES, _UNSEEN = 48, 1e-10  # number of Chebyshev nodes in c^(2/L), and the largest error between them
_CHUNK = 1_000_000  # numbers held at a time
_REMEMBERED = 1000  # number of settings


def transferability(
    angle: ArrayLike,
    n: ArrayLike,
    dim: ArrayLike,
    noise: ArrayLike,
    depth: ArrayLike,
    log_scale: ArrayLike = 0.0,
    target_norm: ArrayLike = 1.0,
) -> Array:
    """Expected 𝒯_ft over draws at n samples in dim dimensions, broadcast; exactly 0 for n >= dim. Angles in degrees.

    Exact for one layer and without samples; otherwise by quadrature. The error is less than 5e-6 of the value (or of a
    tenth of (1-n/d) c^(1/L), if the value is smaller) from 10 samples on, 1e-3 from 3 on, and a few per cent at worst
    with 1 or 2 samples and no noise. The expectation exists for all n < dim: 𝒯 grows with the power (L-1)/L < 1 of
    |X⁺ε|², whose tail index is (d-n+1)/2 >= 1. For n close to dim and many layers, draws are so heavy-tailed that no
    mean over draws comes near the expectation.
    """
    columns = broadcast(angle, n, dim, noise, depth, log_scale, target_norm)
    rows, inverse = distinct(*(each.ravel() for each in columns))
    degrees, samples, d, _, layers, log_c, norm = rows.T
    with np.errstate(over="ignore", under="ignore"):
        c = np.exp(log_c)
        values = np.where(samples < d, (1 - samples / d) * c * (2 * norm * cosine_sine(degrees)[0] - c), 0.0)
    rest = np.flatnonzero((samples > 0) & (samples < d) & (layers > 1))
    counts = _counts(samples[rest], d[rest])
    for each in np.unique(counts, axis=0):
        alike = rest[(counts == each).all(axis=1)]
        values[alike] = _integrals(rows[alike], tuple(int(count) for count in each))
    return values[inverse].reshape(columns[0].shape)


def _counts(n: Array, d: Array) -> Array:
    """Node counts in p, a, h, u², φ and g, shape (rows, 6).

    The error of a rule of k nodes is estimated as (1 + N)^-k, where N is large if the variable hardly varies over
    draws. The factors were found by comparison with finer rules.
    """
    m = d - n
    steady = np.stack([n / 3.5, n / 2, n * d / m / 2, 1 / (8 / m + 1 / n), n / 1.3, n * d / m / 12], axis=1)
    required = np.ceil(-np.log(_LEFT) / np.log1p(steady))
    counts = _COUNTS[np.minimum(np.searchsorted(_COUNTS, required), len(_COUNTS) - 1)]
    counts[m < _HEAVY, 3] = _HEAVY_COUNT
    return counts


def _integrals(rows: Array, counts: Counts) -> Array:
    """The expectation for rows (angle, n, d, noise, depth, log c, t) with 0 < n < d and equal node counts."""
    laws, law = distinct(rows[:, :3])
    states, state = distinct(rows[:, 1:])
    share, overlap = _moments(laws, counts)
    first, second = _means(states, counts)
    values = np.empty(len(rows))
    for part in _chunks(len(rows), share[0].size):
        linear = np.einsum("rpg,rpg->r", overlap[law[part]], first[state[part]])
        square = np.einsum("rpg,rpg->r", share[law[part]], second[state[part]])
        values[part] = 2 * rows[part, 6] * linear - square
    return values


def _moments(laws: Array, counts: Counts) -> tuple[Array, Array]:
    """E[p ℓ(g)] and E[b ℓ(g)] at t = 1 for laws (angle, n, d), shape (laws, nodes in p, nodes in g) each.

    ℓ are the Lagrange polynomials in g. The caller sums over the nodes in p.
    """
    share, overlap = (np.empty((len(laws), counts[0], counts[5])) for _ in range(2))
    for part in _chunks(len(laws), counts[0] * counts[1] * counts[2] * counts[5]):
        degrees, n, d = laws[part].T
        p, a, h, weight, nodes, scales = _stacked(_subspace, n, d, counts)
        cosine, sine = (each[:, None, None, None] for each in cosine_sine(degrees))
        seen = (cosine * np.sqrt(1 - p) - sine * a * np.sqrt(p)) ** 2 + sine**2 * (1 - a**2) * (1 - h)
        unseen_overlap = cosine * p + sine * a * np.sqrt(p * (1 - p))
        basis = quadrature.interpolation(seen.reshape(len(p), -1), nodes, scales).reshape(*seen.shape, -1)
        share[part] = np.einsum("rpah,rpahg->rpg", weight * p, basis)
        overlap[part] = np.einsum("rpah,rpahg->rpg", weight * unseen_overlap, basis)
    return share, overlap


@functools.lru_cache(maxsize=4096)
def _subspace(n: int, d: int, counts: Counts) -> tuple[Array, ...]:
    """Nodes in p, a and h and their joint weight, over (p, a, h); nodes in g and their barycentric weights.

    Take the part of the target that is orthogonal to e_s. a is its coordinate in the plane of e_s and P⊥e_s, on the
    side of P⊥e_s. h is the share of its other coordinates that the data do not see.
    """
    m = d - n
    p, weight_p = quadrature.beta_rule(m / 2, n / 2, counts[0])
    a, weight_a = quadrature.sphere_rule(d - 1, counts[1])
    h, weight_h = quadrature.beta_rule((m - 1) / 2, (n - 1) / 2, counts[2])
    weight = weight_p[:, None, None] * weight_a[:, None] * weight_h
    nodes, _ = quadrature.beta_rule(n / 2, m / 2, counts[5])
    return p[:, None, None], a[None, :, None], h[None, None, :], weight, nodes, quadrature.barycentric_weights(nodes)


def _means(states: Array, counts: Counts) -> tuple[Array, Array]:
    """E[r | p, g] and E[r² | p, g] for states (n, d, noise, depth, log c, t), (states, nodes in p, nodes in g) each."""
    first, second = (np.empty((len(states), counts[0], counts[5])) for _ in range(2))
    alone = np.ones(len(states), dtype=bool)
    _, member = distinct(states[:, [0, 1, 2, 3, 5]])
    for index in np.flatnonzero(np.bincount(member) > _SCALES):
        rows = np.flatnonzero(member == index)
        interpolated = _between_scales(states[rows], counts)
        if interpolated is not None:
            first[rows], second[rows] = interpolated
            alone[rows] = False
    table = states[alone]
    first[alone], second[alone] = (_remembered if len(table) <= _REMEMBERED else _computed)(table.tobytes(), counts)
    return first, second


def _between_scales(states: Array, counts: Counts) -> tuple[Array, Array] | None:
    """`_means` of states that differ only in c, by interpolation; None if the interpolation is not accurate enough.

    With k = c^(1/L), E[r]/k and E[r²]/k² are smooth functions of k². They are interpolated at Chebyshev nodes, and the
    last coefficients estimate the error. For large c and many layers r changes too sharply in k².
    """
    n, d, noise, depth, _, norm = states[0]
    with np.errstate(under="ignore"):
        layer = np.exp(states[:, 4] / depth)
    top = 2.0 ** np.ceil(2 * np.log2(layer.max()))  # so that most scales have the same nodes
    angles = np.pi * (np.arange(_SCALES) + 0.5) / _SCALES
    nodes = top * (1 - np.cos(angles)) / 2
    table = np.stack(np.broadcast_arrays(n, d, noise, depth, depth / 2 * np.log(nodes), norm), axis=1)
    last = 2 / _SCALES * np.cos(np.arange(_SCALES - 3, _SCALES)[:, None] * angles)
    basis = quadrature.interpolation(layer**2, nodes, quadrature.barycentric_weights(nodes))
    results = []
    for power, values in enumerate(_remembered(table.tobytes(), counts), 1):
        smooth = values / nodes[:, None, None] ** (power / 2)
        if not (np.abs(np.tensordot(last, smooth, 1)) <= _UNSEEN * np.abs(smooth).max(axis=0)).all():
            return None
        results.append(layer[:, None, None] ** power * np.tensordot(basis, smooth, 1))
    return results[0], results[1]


def _computed(packed: bytes, counts: Counts) -> tuple[Array, Array]:
    """`_means` without interpolation; packed: the states as float64 bytes."""
    states = np.frombuffer(packed).reshape(-1, 6)
    first, second = (np.empty((len(states), counts[0], counts[5])) for _ in range(2))
    for noisy in (False, True):
        rows = np.flatnonzero((states[:, 2] > 0) == noisy)
        for part in _chunks(len(rows), counts[0] * counts[5] * (counts[3] * counts[4] if noisy else 1)):
            first[rows[part]], second[rows[part]] = _rescaled(states[rows[part]], counts, noisy)
    return first, second


_remembered = functools.lru_cache(maxsize=64)(_computed)  # a search for a zero asks for the same states again and again


def _rescaled(states: Array, counts: Counts, noisy: bool) -> tuple[Array, Array]:
    """E[r | p, g] and E[r² | p, g]: the mean over u² and φ; without noise r itself. Axes: state, p, g, u², φ."""
    noise, depth, log_c, norm = (column[:, None, None, None, None] for column in states.T[2:])
    p, _, _, _, nodes, _ = _stacked(_subspace, states[:, 0], states[:, 1], counts)
    with np.errstate(divide="ignore"):  # a target of norm 0
        log_fitted = 2 * np.log(norm) + np.log(nodes)[:, None, :, None, None]
    log_weight, weight = np.zeros(1), np.ones(1)
    if noisy:
        log_ratio, log_weight, turn, weight = _stacked(_fitted_noise, states[:, 0], states[:, 1], counts, states[:, 3])
        log_noise = log_ratio + 2 * np.log(noise)
        smaller = np.exp(-np.abs(log_noise - log_fitted) / 2)
        with np.errstate(divide="ignore"):  # with one sample, noise may cancel the signal
            log_fitted = np.maximum(log_noise, log_fitted) + np.log(np.maximum(1 + smaller * (2 * turn + smaller), 0.0))
    log_s = log_squared_norm_of_logs(2 * log_c / depth + np.log(p[..., None]), log_fitted, depth)
    log_r = log_c / depth + (depth - 1) / (2 * depth) * log_s
    with np.errstate(under="ignore"):
        first, second = ((weight * np.exp(k * log_r + log_weight)).sum((-2, -1)) for k in (1, 2))
        return first, second


@functools.lru_cache(maxsize=4096)
def _fitted_noise(n: int, d: int, counts: Counts, depth: float) -> tuple[Array, ...]:
    """Nodes of log u²/σ², logarithms of their weights, nodes of φ, and their weights, over (p, g, u², φ)."""
    log_ratio, log_weight = quadrature.ratio_rule(n, d - n + 1, (depth - 1) / depth, counts[3], d - n < _HEAVY)
    turn, weight = quadrature.sphere_rule(n, counts[4])
    column, row = (None, None, slice(None), None), (None, None, None)
    return log_ratio[column], log_weight[column], turn[row], weight[row]


def _stacked(rule: Callable[..., tuple[Array, ...]], n: Array, d: Array, counts: Counts, *more: Array) -> list[Array]:
    """The results of a rule for all rows, stacked."""
    results = [rule(int(samples), int(dim), counts, *rest) for samples, dim, *rest in zip(n, d, *more, strict=True)]
    return [np.stack(each) for each in zip(*results, strict=True)]


def _chunks(rows: int, each: int) -> list[slice]:
    step = max(1, _CHUNK // each)
    return [slice(first, min(first + step, rows)) for first in range(0, rows, step)]
