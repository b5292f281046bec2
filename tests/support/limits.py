"""THEORY §3 for many dimensions: fine-tuning as d → ∞ at γ = n/d < 1. Symbols as in `theory.finetune`; broadcast."""

import numpy as np

from raysweep.theory import finetune, relu


def rescaling(gamma, noise, depth, log_scale=0.0, norm=1.0):
    """r at p = 1-γ, q = t²γ + σ²γ/(1-γ)."""
    ratio, sigma = np.asarray(gamma, float), np.asarray(noise, float)
    return finetune.rescaling(log_scale, depth, 1 - ratio, norm**2 * ratio + sigma**2 * ratio / (1 - ratio))


def transferability(angle, gamma, noise, depth, log_scale=0.0, norm=1.0):
    """𝒯_ft = (1-γ) r (2 t cos θ - r); at σ = 0, c = t = 1 it is F's (17): (γ-1)(1 - 2 cos θ)."""
    r = rescaling(gamma, noise, depth, log_scale, norm)
    return (1 - np.asarray(gamma)) * r * (2 * norm * np.cos(np.deg2rad(angle)) - r)


def inflection_log_scale(angle, depth, gamma, noise):
    """log c0*, above which more pretraining hurts: c0* = cos^L θ / s^((L-1)/2), s = cos²θ (1-γ) + γ + σ² γ/(1-γ)."""
    along = np.cos(np.deg2rad(angle))
    s = along**2 * (1 - gamma) + gamma + noise**2 * gamma / (1 - gamma)
    return float(depth * np.log(along) - (depth - 1) / 2 * np.log(s))


def length_squared(inputs, residual):
    """rᵀ H∞⁻¹ r: the squared change of the weights that fits the residual r, (samples, ...) to (...).

    With r = y_Q - y_{P→Q} its root is the bound of D's Thm 2 without the terms that vanish; with r = ỹ, the residual
    where fine-tuning starts, it stands in T's Thm 6.1.
    """
    return np.asarray((residual * relu.solver(inputs)(residual)).sum(0))
