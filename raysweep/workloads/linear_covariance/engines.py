"""The entry point of the workload: the exact end point of each draw, or the limit of many dimensions.

One factorization per (seed, dim, spectrum) serves every n, shift, norm, noise and depth. For n <= d, Xᵀ = QR: the first
n columns of Q span the first n samples, and the coordinates R⁻ᵀε of X⁺ε do not depend on n. So the vectors that rows
need, P⊥θ_T, P⊥δ and X⁺ε, are sums over columns of Q, made for one n after the other. For n > d nothing is left of the
start, and Σ^{1/2}X⁺ε is that of inputs without a covariance. No Gram matrix is formed, so n near d loses no digits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import lapack

from raysweep.theory import finetune
from raysweep.theory.arrays import alike, floats, samples
from raysweep.training import draws
from raysweep.workloads import least_squares, symmetric
from raysweep.workloads.declaration import OK, Array, Columns
from raysweep.workloads.linear_covariance import METRICS, SYMMETRY, closed_forms
from raysweep.workloads.linear_covariance.closed_forms import SHIFTS, read, shifted

TARGET, NOISE = 0, 1  # places among the vectors; a shift has 2 + its place in SHIFTS


def compute(columns: Columns, seeds: Array) -> tuple[dict[str, Array], Array]:
    """All metrics of all rows, shape (rows,) each, and the status of each row, which is always ok."""
    columns = {name: np.asarray(values) for name, values in columns.items()}
    metrics = {metric.name: np.full(len(seeds), np.nan) for metric in METRICS}
    metrics["bound_thm42"] = closed_forms.bounds(columns)
    engines: dict[str, Callable[..., Any]] = {"limit": _exact, "theory": closed_forms.risks}
    return symmetric.solved(columns, seeds, metrics, engines, closed_forms.signs, SYMMETRY.metrics)


def _exact(columns: Columns, seeds: Array) -> tuple[dict[str, Array], Array]:
    n = samples(columns)
    weighted, plain, start, along = (np.empty((len(n), *shape)) for shape in ((5, 5), (5, 5), (5, 5), (2,)))
    for (seed, dim, text), rows in alike(seeds, columns["dim"], columns["spectrum"]):
        sizes, position = np.unique(n[rows], return_inverse=True)
        noisy = bool((columns["noise"][rows] != 0).any())
        for into, values in zip((weighted, plain, start, along), products(seed, dim, text, sizes, noisy), strict=True):
            into[rows] = values[position]
    return _risks(columns, n, weighted, plain, start, along), np.full(len(n), OK, dtype=object)


def vectors(seed: int, dim: int, spectrum: str) -> Array:
    """Unit vectors of one draw as columns (dim, 5): the target's direction, zeros in the place of the noise, and the
    difference for each of SHIFTS, each uniform in its eigenspace."""
    _, counts = read(spectrum, dim)
    group = np.repeat(np.arange(len(counts)), counts.astype(int))
    directions = np.zeros((dim, 5))
    directions[:, TARGET] = draws.normal(seed, "target", dim)
    for i, shift in enumerate(SHIFTS):
        directions[:, 2 + i] = draws.normal(seed, "shift", dim) * shifted(shift, counts)[group]
    return np.asarray(directions / np.maximum(np.linalg.norm(directions, axis=0), np.finfo(float).tiny))


def products(seed: int, dim: int, spectrum: str, sizes: Array, noisy: bool = True) -> tuple[Array, ...]:
    """Inner products of one draw at each of `sizes` (increasing, distinct).

    noisy: False for rows without noise; then products with the noise are 0.

    With U the vectors of `vectors`, and V = P⊥U with X⁺ε in the place of the noise: VᵀΣV, VᵀV and UᵀU, (sizes, 5, 5)
    each; and θ_T·X⁺ε and ‖P∥θ_T‖² of the unit θ_T, (sizes, 2).
    """
    values, counts = read(spectrum, dim)
    eigenvalues = np.repeat(values, counts.astype(int))
    given = vectors(seed, dim, spectrum)
    white = draws.normal(seed, "inputs", int(sizes[-1]), dim)
    noise = draws.normal(seed, "noise", int(sizes[-1])) if noisy else np.zeros(int(sizes[-1]))
    weighted, plain, along = np.zeros((len(sizes), 5, 5)), np.zeros((len(sizes), 5, 5)), np.zeros((len(sizes), 2))
    under = sizes[sizes <= dim]
    if len(under):
        most = int(under[-1])
        basis, turned, fit = _factored(white[:most] * np.sqrt(eigenvalues), noise[:most], given)
        current, done = given.copy(), 0
        for i, n in enumerate(under.tolist()):
            step = basis[:, done:n]
            current -= step @ turned[done:n]
            current[:, NOISE] += step @ fit[done:n]
            if n == dim:  # what rounding left
                current[:, [j for j in range(5) if j != NOISE]] = 0.0
            weighted[i], plain[i], done = current.T @ (eigenvalues[:, None] * current), current.T @ current, n
            along[i] = turned[:n, TARGET] @ fit[:n], turned[:n, TARGET] @ turned[:n, TARGET]
    over = slice(len(under), None)
    along[over, 1] = 1.0
    if noisy and len(under) < len(sizes):
        weighted[over, NOISE, NOISE] = least_squares.noise_norms(white, noise, sizes[over])
    return weighted, plain, np.broadcast_to(given.T @ given, plain.shape), along


def _factored(inputs: Array, noise: Array, given: Array) -> tuple[Array, Array, Array]:
    """Q of Xᵀ = QR, Qᵀ times the given vectors, and R⁻ᵀε."""
    count, dim = inputs.shape
    if not count:
        return np.zeros((dim, 0)), np.zeros((0, given.shape[1])), np.zeros(0)
    # inputs.T is Fortran-ordered without a copy; LAPACK overwrites only its own copy
    factor, reflectors, _, _ = lapack.dgeqrf(inputs.T, lwork=64 * dim)
    fit, _ = lapack.dtrtrs(factor[:count], noise, lower=0, trans=1)
    basis, _, _ = lapack.dorgqr(factor, reflectors, lwork=64 * dim, overwrite_a=1)
    return basis, basis.T @ given, fit


def _risks(columns: Columns, n: Array, weighted: Array, plain: Array, start: Array, along: Array) -> dict[str, Array]:
    """The risks of all rows, as quadratic forms of the inner products of their draws."""
    depth, dim, noise, norm, shift = floats(columns, "depth", "dim", "noise", "target_norm", "shift_norm")
    place = 2 + np.array([SHIFTS.index(word) for word in columns["shift"].tolist()])
    rows = np.arange(len(n))
    target, source, error = np.zeros((3, len(n), 5))
    target[rows, TARGET] = norm
    source[rows, TARGET], source[rows, place] = norm, -shift
    error[rows, NOISE] = noise

    def form(matrix: Array, vector: Array) -> Array:
        return np.maximum(np.einsum("ri,rij,rj->r", vector, matrix, vector), 0.0)

    fitted = norm**2 * along[:, 1] + 2 * norm * noise * along[:, 0] + noise**2 * plain[:, NOISE, NOISE]
    whole = form(start, source)
    kept = np.ones(len(n))
    deep = (depth > 1) & (n > 0) & (n < dim) & (whole > 0)
    kept[deep] = finetune.rescaling(
        0.5 * np.log(whole[deep]), depth[deep], form(plain, source)[deep] / whole[deep], np.maximum(fitted[deep], 0.0)
    ) / np.sqrt(whole[deep])
    risk_scratch = form(weighted, error - target)
    risk_finetune = form(weighted, error + kept[:, None] * source - target)
    return {
        "risk_scratch": risk_scratch,
        "risk_finetune": risk_finetune,
        "transferability_finetune": risk_scratch - risk_finetune,
    }
