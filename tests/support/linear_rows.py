"""Rows of linear_transfer for tests of engines and closed forms: as columns, and their data from the definitions."""

import functools
import math
from itertools import pairwise

import numpy as np
from scipy.integrate import solve_ivp
from workload_rows import columns_of, table_of

from raysweep.training import draws


def table(rows):
    return table_of("linear_transfer", *rows)


def columns(**values):
    return columns_of("linear_transfer", **values)


def z_score(values, expected):
    """How many standard errors the mean of independent values is from what is expected."""
    return float((np.mean(values) - expected) / (np.std(values, ddof=1) / np.sqrt(len(values))))


def data(row, seed):
    """X, y, b_t and the direction e_s of one row, from the definitions."""
    dim, angle = row["dim"], math.radians(row["overlap_angle"])
    along, across = draws.unit_vectors(seed, "teachers", 2, dim)
    n = round(row["gamma"] * dim)
    X = draws.normal(seed, "inputs", n, dim)
    goal = row.get("target_norm", 1.0) * (math.cos(angle) * along + math.sin(angle) * across)
    return X, X @ goal + row.get("noise", 0.0) * draws.normal(seed, "noise", n), goal, along


def integrate_layers(X, y, direction, scale, depth, time, trained, ridge=0.0):
    """End-to-end map after gradient flow of the layer matrices themselves, balanced and aligned at the start."""
    dim, n = len(direction), len(y)
    between = np.random.default_rng(5).standard_normal((depth, dim))
    between /= np.linalg.norm(between, axis=1, keepdims=True)
    chain = [direction, *between[: depth - 1], np.ones(1)]
    matrices = [scale * np.outer(above, below) for below, above in pairwise(chain)]
    sizes = np.cumsum([m.size for m in matrices])[:-1]

    def unpack(flat):
        return [part.reshape(m.shape) for part, m in zip(np.split(flat, sizes), matrices, strict=True)]

    def product(parts, size=dim):
        return functools.reduce(lambda below, above: above @ below, parts, np.eye(size))

    def velocity(_, flat):
        parts = unpack(flat)
        g = X.T @ (X @ product(parts)[0] - y) / n
        change = [np.zeros_like(part) for part in parts]
        for i in trained:
            above = product(parts[i + 1 :], len(parts[i]))
            change[i] = -np.outer(above[0], product(parts[:i]) @ g)
        change[-1] = change[-1] - ridge * parts[-1]
        return np.concatenate([c.ravel() for c in change])

    solution = solve_ivp(
        velocity, (0, time), np.concatenate([m.ravel() for m in matrices]), method="DOP853", rtol=1e-11, atol=1e-13
    )
    assert solution.success
    return product(unpack(solution.y[:, -1]))[0]


def end_point(X, y, direction, scale, depth):
    """Limit of the flow from scale * direction (THEORY §3), by the fixed-point iteration for its squared norm."""
    fitted = np.linalg.pinv(X) @ y
    outside = direction - np.linalg.pinv(X) @ (X @ direction)
    s = scale**2
    for _ in range(2000):
        s = scale ** (2 / depth) * s ** ((depth - 1) / depth) * (outside @ outside) + fitted @ fitted
    return scale ** (1 / depth) * s ** ((depth - 1) / (2 * depth)) * outside + fitted
