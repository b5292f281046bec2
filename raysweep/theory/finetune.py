"""The end point of gradient flow from a (partly) pretrained balanced network of any depth (THEORY §3).

For n < d the end point is r P⊥e_s + X⁺y with r = c^(1/L) s^((L-1)/(2L)), where s is its squared norm. Special cases are
F Thm 3.9 (noiseless, c = 1) and T Thm 5.2. Symbols: depth L, pretrained norm c. `finetune_mean.transferability` is the
expectation at finite d.
"""

import numpy as np
from numpy.typing import ArrayLike

from raysweep.theory.arrays import Array, broadcast


def log_squared_norm(log_scale: ArrayLike, depth: ArrayLike, p: ArrayLike, q: ArrayLike) -> Array:
    """log s, where s is the unique positive root of s = c^(2/L) s^((L-1)/L) p + q (THEORY §3), broadcast.

    log_scale: log c. p, q: |P⊥e_s|² and |X⁺y|², not negative; the result is -inf where both are 0.

    The root is found by Newton on log s - log(c^(2/L) p s^((L-1)/L) + q). This function increases and is concave, so
    that Newton from below converges without overshoot.
    """
    log_c, layers, orthogonal, fitted = broadcast(log_scale, depth, p, q)
    with np.errstate(divide="ignore"):
        return log_squared_norm_of_logs(2 * log_c / layers + np.log(orthogonal), np.log(fitted), layers)


def log_squared_norm_of_logs(log_kept: Array, log_fitted: Array, layers: Array) -> Array:
    """`log_squared_norm` from log c^(2/L) p and log q, so that the numbers themselves may overflow or underflow."""
    power = (layers - 1) / layers
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        y = np.maximum(log_fitted, layers * log_kept)  # s >= q and s^(1/L) >= c^(2/L) p
        open_rows = np.isfinite(y)
        for _ in range(100):
            total = np.logaddexp(log_kept + power * y, log_fitted)
            share = np.exp(log_kept + power * y - total)
            step = np.where(open_rows, (total - y) / (1 - power * share), 0.0)
            y = y + step
            if not (np.abs(step) > 1e-15 * layers * np.maximum(1.0, np.abs(y))).any():
                break
    return y


def rescaling(log_scale: ArrayLike, depth: ArrayLike, p: ArrayLike, q: ArrayLike) -> Array:
    """r in the end point r P⊥e_s + X⁺y, broadcast: the norm that the unmoved part of the source keeps."""
    log_c, layers, orthogonal, fitted = broadcast(log_scale, depth, p, q)
    log_s = log_squared_norm(log_c, layers, orthogonal, fitted)
    with np.errstate(invalid="ignore", under="ignore"):
        return np.exp(log_c / layers + np.where(layers == 1, 0.0, (layers - 1) / (2 * layers) * log_s))
