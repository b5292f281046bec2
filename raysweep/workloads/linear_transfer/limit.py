"""The exact end point of each draw (THEORY §3): one factorization per draw serves all rows that share it.

A row needs from its X only a few inner products of X⁺ε and of the projections of e_s and e_u. Triangular factors give
all of them, for every n at once. For n <= d with Xᵀ = QR, the first n columns of Q span the first n samples, and the
coordinates R⁻ᵀε of X⁺ε = Q R⁻ᵀε do not depend on n. So sums over the leading (P∥) and trailing (P⊥) coordinates give
the result for every n, without cancellation. For n > d only |X⁺ε|² is needed: the factor of (X, ε) is extended by the
next samples instead of being built anew. No Gram matrix is formed, so n near d loses no digits.
"""

import numpy as np
from scipy.linalg import lapack

from raysweep.theory import finetune
from raysweep.theory.arrays import alike, floats, samples
from raysweep.theory.transfer import effective_ridge, with_gains
from raysweep.workloads import least_squares
from raysweep.workloads.declaration import OK, Array, Columns
from raysweep.workloads.linear_transfer import target

PRODUCTS = (
    *(f"{kind}_{pair}" for kind in ("row", "null") for pair in ("ss", "su", "uu")),
    *("fit_s", "fit_u", "fit_fit", "gram_ss", "gram_su", "gram_se"),
)
"""Inner products of a draw at n: e_i P∥ e_j, e_i P⊥ e_j, e_i·X⁺ε, |X⁺ε|², and |Xe_s|², Xe_s·Xe_u, Xe_s·ε."""


def compute(columns: Columns, seeds: Array) -> tuple[dict[str, Array], Array]:
    """Risks and transferabilities of each row's draw, shape (rows,) each; every status is ok."""
    n, noisy = samples(columns), np.asarray(columns["noise"]) != 0
    gathered = {name: np.empty(len(n)) for name in PRODUCTS}
    for (seed, dim), rows in alike(seeds, columns["dim"]):  # one factorization each
        sizes, position = np.unique(n[rows], return_inverse=True)
        values = products(seed, dim, sizes, bool(noisy[rows].any()))
        for name in PRODUCTS:
            gathered[name][rows] = values[name][position]
    return _end_points(columns, n, gathered), np.full(len(n), OK, dtype=object)


def products(seed: int, dim: int, sizes: Array, noisy: bool = True) -> dict[str, Array]:
    """PRODUCTS of one draw at each of `sizes` (increasing, distinct), shape (len(sizes),) each.

    noisy: False for rows without noise; then no factorization is made for n > dim. There all products are 0 that no row
        needs: e_i P∥ e_j, e_i·X⁺ε and, without noise, |X⁺ε|².
    """
    largest = int(sizes[-1])
    inputs = target.inputs(seed, largest, dim)
    noise = target.label_noise(seed, largest)
    directions = target.teacher_directions(seed, dim)
    result = {name: np.zeros(len(sizes)) for name in PRODUCTS}

    along, across = (inputs @ directions.T).T
    for name, values in (("gram_ss", along**2), ("gram_su", along * across), ("gram_se", along * noise)):
        result[name][:] = _leading(values)[sizes]

    under = sizes[sizes <= dim]
    if len(under):
        _underdetermined(result, inputs[: under[-1]], noise, directions, under)
    if noisy and len(under) < len(sizes):
        result["fit_fit"][len(under) :] = least_squares.noise_norms(inputs, noise, sizes[len(under) :])
    return result


def _underdetermined(result: dict[str, Array], inputs: Array, noise: Array, directions: Array, sizes: Array) -> None:
    count, dim = inputs.shape
    if count:
        # inputs.T is Fortran-ordered without a copy; LAPACK overwrites only its own copy
        factor, reflectors, _, _ = lapack.dgeqrf(inputs.T, lwork=64 * dim)
        turned, _, _ = lapack.dormqr("L", "T", factor, reflectors, directions.T, lwork=64 * dim)
        fit, _ = lapack.dtrtrs(factor[:count], noise[:count], lower=0, trans=1)
    else:
        turned, fit = directions.T, np.zeros(0)
    along, across = turned[:, 0], turned[:, 1]
    part = slice(0, len(sizes))
    for suffix, values in (("ss", along**2), ("su", along * across), ("uu", across**2)):
        result[f"row_{suffix}"][part] = _leading(values)[sizes]
        result[f"null_{suffix}"][part] = _leading(values[::-1])[::-1][sizes]
    for name, values in (("fit_s", along[:count] * fit), ("fit_u", across[:count] * fit), ("fit_fit", fit**2)):
        result[name][part] = _leading(values)[sizes]


def _leading(values: Array) -> Array:
    """Sums over the first 0, 1, ..., len(values) entries."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _end_points(columns: Columns, n: Array, k: dict[str, Array]) -> dict[str, Array]:
    """The end points of all rows, computed from the inner products of their draws."""
    depth, dim, noise, frozen = floats(columns, "depth", "dim", "noise", "frozen_layers")
    along, across = target.target_coordinates(columns).T
    log_scale = target.log_pretrain_scale(columns)

    unseen = along**2 * k["null_ss"] + 2 * along * across * k["null_su"] + across**2 * k["null_uu"]
    risk_scratch = np.maximum(unseen, 0.0) + noise**2 * k["fit_fit"]

    unseen_overlap = along * k["null_ss"] + across * k["null_su"]  # P⊥e_s · b_t
    fitted = (
        along**2 * k["row_ss"]
        + 2 * along * across * k["row_su"]
        + across**2 * k["row_uu"]
        + 2 * noise * (along * k["fit_s"] + across * k["fit_u"])
        + noise**2 * k["fit_fit"]
    )
    under = n < dim
    keep = np.zeros(len(n))
    fitted = np.maximum(fitted, 0.0)
    keep[under] = finetune.rescaling(log_scale[under], depth[under], k["null_ss"][under], fitted[under])
    transferability = np.where(under, keep * (2 * unseen_overlap - keep * k["null_ss"]), 0.0)
    unmoved = keep**2 * k["null_ss"] - 2 * keep * unseen_overlap + unseen  # |P⊥(r e_s - b_t)|²
    risk_finetune = np.maximum(unmoved, 0.0) + noise**2 * k["fit_fit"]

    # a·e_s, where a - t cos θ is written out so that nothing cancels
    pull = across * k["gram_su"] + noise * k["gram_se"]
    penalty = n * effective_ridge(columns["ridge"], depth, log_scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        missed = np.where(n > 0, (pull - along * penalty) / (k["gram_ss"] + penalty), -along)
        missed_free = np.where(n > 0, pull / k["gram_ss"], -along)
    missed = np.where(np.isinf(penalty), -along, missed)
    risk_linear = missed**2 + across**2

    held = (frozen > 0) & (n > 0)
    missed_held = np.where(depth - frozen >= 2, np.maximum(missed_free, -along), missed_free)
    risk_finetune = np.where(held, missed_held**2 + across**2, risk_finetune)
    metrics = with_gains(risk_scratch, risk_linear, risk_finetune)
    return metrics | {"transferability_finetune": np.where(held, metrics["transferability_finetune"], transferability)}
