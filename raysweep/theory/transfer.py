"""The closed forms of `linear_transfer`, computed column by column from the parameters of its rows."""

from collections.abc import Mapping

import numpy as np

from raysweep.theory import finetune_mean, linear, pretraining

Array = np.ndarray


def closed_form(columns: Mapping[str, Array]) -> dict[str, Array]:
    """risk_{scratch,linear,finetune} and transferability_{linear,finetune} of each row, shape (rows,) each.

    All are expectations over draws at the row's n = round(gamma·dim) and dim. The transferability of fine-tuning is
    integrated numerically (`finetune_mean`); the risk of fine-tuning is the scratch risk minus it. With frozen_layers
    >= 1 it is the expectation over least-squares multiples of the source (T Thm 5.5). A risk is inf if its expectation
    is. The difference of two infinite risks is NaN; without frozen layers this occurs only in transferability_linear.
    """
    gamma, dim, depth, noise, norm, angle, frozen = (
        np.asarray(columns[name], float)
        for name in ("gamma", "dim", "depth", "noise", "target_norm", "overlap_angle", "frozen_layers")
    )
    n = np.round(gamma * dim)
    log_scale = pretraining.log_scale(columns["pretrain_length"], depth, columns["init_scale"], columns["source_norm"])
    risk_scratch = linear.scratch_risk(n, dim, noise, norm)
    risk_linear = linear.risk(angle, n, noise, norm, effective_ridge(columns["ridge"], depth, log_scale))
    held = (frozen > 0) & (n > 0)  # without samples fine-tuning stays at its start, with or without frozen layers
    transferability = finetune_mean.transferability(angle, n, dim, noise, np.where(held, 1, depth), log_scale, norm)
    with np.errstate(invalid="ignore"):
        risk_finetune = risk_scratch - transferability
        several = depth - frozen >= 2
        for some, risk in ((held & ~several, linear.risk), (held & several, linear.risk_nonnegative)):
            if some.any():
                risk_finetune[some] = risk(angle[some], n[some], noise[some], norm[some])
        transferability[held] = (risk_scratch - risk_finetune)[held]
        return {
            "risk_scratch": risk_scratch,
            "risk_linear": risk_linear,
            "risk_finetune": risk_finetune,
            "transferability_linear": risk_scratch - risk_linear,
            "transferability_finetune": transferability,
        }


def effective_ridge(ridge: Array, depth: Array, log_scale: Array) -> Array:
    """ridge/φ² (broadcast): the penalty on features of scale 1 that has the effect of `ridge` on features of scale φ.

    The L-1 frozen layers of a balanced network with end-to-end scale c have scale φ = c^((L-1)/L) (F eq. 14).
    """
    layers = np.asarray(depth, float)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        shrink = np.exp(2 * (layers - 1) / layers * np.asarray(log_scale, float))
        return np.where(np.asarray(ridge) > 0, np.asarray(ridge, float) / shrink, 0.0)
