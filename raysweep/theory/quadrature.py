"""Gauss rules for the distributions of random subspaces, and polynomial interpolation. Weights sum to 1."""

import functools

import numpy as np

Array = np.ndarray

_FALL = 18.0  # the heavy-tailed rule ends where its integrand is e^-18 of its maximum


@functools.lru_cache(maxsize=8192)
def beta_rule(alpha: float, beta: float, count: int) -> tuple[Array, Array]:
    """`count` Gauss nodes and weights of Beta(alpha, beta) on (0, 1). alpha = 0 puts all weight at 0, beta = 0 at 1.

    They come from Golub and Welsch's eigenvalue problem of the Jacobi polynomials, for parameters of any size.
    """
    if alpha == 0 or beta == 0:
        return np.full(count, float(beta == 0)), np.full(count, 1 / count)
    order = np.arange(1, count)
    total = alpha + beta
    twice = 2 * order + total - 2
    with np.errstate(divide="ignore", invalid="ignore"):
        diagonal = (alpha - beta) * (total - 2) / (twice * (twice + 2))
        squares = 4 * order * (order + alpha - 1) * (order + beta - 1) * (order + total - 2)
        squares = squares / (twice**2 * (twice + 1) * (twice - 1))
    diagonal = np.concatenate([[(alpha - beta) / total], diagonal])
    squares[:1] = 4 * alpha * beta / (total**2 * (total + 1))  # the general term is 0/0 at total = 1
    off = np.sqrt(squares)
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    return (1 + nodes) / 2, vectors[0] ** 2


def sphere_rule(dim: int, count: int) -> tuple[Array, Array]:
    """Gauss rule of one coordinate of a uniform point on the unit sphere in R^dim; at dim = 1 count must be even."""
    if dim == 1:
        return np.where(np.arange(count) % 2, 1.0, -1.0), np.full(count, 1 / count)
    nodes, weights = beta_rule((dim - 1) / 2, (dim - 1) / 2, count)
    return 2 * nodes - 1, weights


@functools.lru_cache(maxsize=8192)
def ratio_rule(above: int, below: int, growth: float, count: int, heavy: bool) -> tuple[Array, Array]:
    """Nodes log v and logarithms of the weights, v = χ²_above/χ²_below, for integrands that grow like v^growth.

    The rule is Gauss in v/(1+v). heavy: use the trapezoid rule in a stretched log v instead; heavy tails and fractional
    powers do not slow it down. It needs growth < below/2. The results are logarithms because v and its weights may
    overflow or underflow.
    """
    alpha, beta = above / 2, below / 2
    if not heavy:
        share, weights = beta_rule(alpha, beta, count)
        return np.log(share) - np.log1p(-share), np.log(weights)
    middle, width = np.log(above / below), np.sqrt(1 / alpha + 1 / beta)
    edges = np.arcsinh((np.array(_edges(alpha, beta - growth)) - middle) / width)
    place = np.linspace(edges[0], edges[1], count)
    log_v = middle + width * np.sinh(place)
    log_weight = alpha * log_v - (alpha + beta) * np.logaddexp(0, log_v) + np.log(width * np.cosh(place))
    top = log_weight.max()
    return log_v, log_weight - top - np.log(np.exp(log_weight - top).sum())


def _edges(alpha: float, beta: float) -> list[float]:
    """The points on both sides of the maximum where the concave alpha·l - (alpha+beta) log(1+e^l) is lower by _FALL."""

    def height(log_v: float) -> float:
        return float(alpha * log_v - (alpha + beta) * np.logaddexp(0, log_v))

    top = np.log(alpha / beta)
    floor = height(top) - _FALL
    edges = []
    for side in (-1.0, 1.0):
        step = 1.0
        while height(top + side * step) > floor:
            step *= 2
        inner, outer = top, top + side * step
        for _ in range(30):
            middle = (inner + outer) / 2
            inner, outer = (middle, outer) if height(middle) > floor else (inner, middle)
        edges.append(outer)
    return edges


def barycentric_weights(nodes: Array) -> Array:
    """Weights of the barycentric formula for nodes on the last axis, scaled so that the largest is 1."""
    gaps = nodes[..., :, None] - nodes[..., None, :]
    gaps = np.where(np.eye(nodes.shape[-1], dtype=bool), 1.0, gaps)
    logs = -np.log(np.abs(gaps)).sum(-1)
    return np.prod(np.sign(gaps), axis=-1) * np.exp(logs - logs.max(-1, keepdims=True))


def interpolation(at: Array, nodes: Array, weights: Array) -> Array:
    """The Lagrange polynomials of `nodes` at `at`, shape (..., points, nodes); leading axes broadcast."""
    gaps = at[..., :, None] - nodes[..., None, :]
    hit = gaps == 0
    terms = weights[..., None, :] / np.where(hit, 1.0, gaps)
    terms = np.where(hit.any(-1, keepdims=True), hit, terms)
    return terms / terms.sum(-1, keepdims=True)
