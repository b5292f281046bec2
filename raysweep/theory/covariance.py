"""Linear regression from a pretrained start, on Gaussian inputs with any covariance Σ (T §4; THEORY §8).

T bounds the risk of the end point r P⊥θ_S + X⁺y (Thm 4.2); here is what it is in the limit of many dimensions, the
deterministic equivalent, with κ, c and r as in THEORY §8. For n > d+1 it is exact. At depth 1, r is 1.

Eigenvalues come in groups of equal ones: `values` (groups,) and `counts` (groups,) how many each has. Vectors enter by
the squared length that they have in each group, (rows, groups).
"""

import numpy as np

from raysweep.theory import finetune

Array = np.ndarray


def resolvent(values: Array, counts: Array, n: Array) -> Array:
    """κ of each n, 0 < n <= d, shape (rows,); 0 at n = d.

    Newton on 1/n - 1/Σ s/(s+κ). The second term is concave in κ, so that Newton from 0 rises to the root.
    """
    size = np.asarray(n, float)
    kappa = np.zeros(len(size))
    for _ in range(100):
        part = values / (values + kappa[:, None])
        total = part @ counts
        step = total * (total / size - 1) / ((part / (values + kappa[:, None])) @ counts)
        kappa = np.maximum(kappa + step, 0.0)
        if not (np.abs(step) > 1e-15 * kappa).any():
            break
    return kappa


def risk(
    values: Array,
    counts: Array,
    n: Array,
    noise: Array,
    source: Array,
    target: Array,
    difference: Array,
    depth: Array | float = 1.0,
) -> Array:
    """Expected risk of the end point in the limit of many dimensions, (rows,); inf where it has no expectation.

    n: target samples. noise: σ. depth: L.
    source, target, difference: squared lengths of θ_S, θ_T and θ_T - θ_S in each group, (rows, groups).

    For θ_S = 0 it is the risk from scratch. No limit holds for n within a few samples of d; n = d and d + 1 with noise
    are inf, as they are at any finite d.
    """
    size, dim = np.asarray(n, float), float(counts.sum())
    sigma = np.broadcast_to(np.asarray(noise, float), size.shape)
    result = np.zeros(len(size))
    none, under, over = size == 0, (size > 0) & (size < dim), size >= dim  # without noise the last is 0
    result[none] = difference[none] @ values
    if under.any():
        layers = np.broadcast_to(np.asarray(depth, float), size.shape)
        n, noise, source, target, apart, layers = (x[under] for x in (size, sigma, source, target, difference, layers))
        kappa = resolvent(values, counts, n)
        part = values / (values + kappa[:, None])
        lost = 1 - (part**2 @ counts) / n
        whole = source.sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            unmoved = np.where(whole > 0, ((1 - part) * source).sum(1) / whole, 0.0)
            fitted = (part * target).sum(1) + noise**2 / kappa
            kept = finetune.rescaling(0.5 * np.log(whole), layers, unmoved, fitted) / np.sqrt(whole)
        kept = np.where((whole > 0) & (layers > 1), kept, 1.0)[:, None]
        # |θ_T - rθ_S|² of each group, from |θ_S|², |θ_T|² and |θ_T - θ_S|²; exactly the last where r = 1
        missed = kept * apart + (1 - kept) * (target - kept * source)
        bias = kappa**2 * ((missed * values) / (values + kappa[:, None]) ** 2).sum(1)
        result[under] = (bias + noise**2 * (1 - lost)) / lost
    noisy = over & (sigma > 0)
    with np.errstate(divide="ignore"):
        result[noisy] = sigma[noisy] ** 2 * dim / np.maximum(size[noisy] - dim - 1, 0.0)
    return result


def spread(values: Array, counts: Array, n: Array, deviation: float = 1.0) -> Array:
    """T's g (Thm 4.2), (rows,): how far the covariance of n samples is from Σ, up to a constant; inf without samples.

    T leaves the constant c open; it is 1 here. Holds with probability 1 - e^-deviation. values: the largest first.
    """
    size, largest = np.asarray(n, float), float(values[0])
    with np.errstate(divide="ignore"):
        share = float(values @ counts) / (size * largest)
        return largest * np.maximum.reduce([np.sqrt(share), share, np.sqrt(deviation / size), deviation / size])


def bound(values: Array, counts: Array, n: Array, difference: Array, deviation: float = 1.0, groups: int = 1) -> Array:
    """T's upper bound (Thm 4.2) up to its constant, (rows,), for m = the directions in the first `groups` groups.

    With c = 1 in g (`spread`) the bound is right in shape and not in size. NaN where the eigenvalues do not fall, and
    inf without samples.
    """
    size = np.asarray(n, float)
    if (np.diff(values) > 0).any():
        return np.full(len(size), np.nan)
    far = spread(values, counts, size, deviation)
    first, rest = difference[:, :groups].sum(1), difference[:, groups:].sum(1)
    with np.errstate(over="ignore", invalid="ignore"):
        inside = np.where(first > 0, 2 * (far**3 / float(values[groups - 1]) ** 2) * first, 0.0)
        return np.asarray(inside + np.where(rest > 0, 2 * far * rest, 0.0))
