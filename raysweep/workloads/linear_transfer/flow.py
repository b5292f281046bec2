"""Engine `flow`: gradient flow of the end-to-end map on each draw, for any stopping time (THEORY §3-4).

Scratch, linear transfer and fine-tuning run for the flow time finetune_lr * finetune_steps, or to convergence when
finetune_steps is inf (distance to the nearest interpolator below integrator.CONVERGED). Starts: the pretrained map
c e_s and, from scratch, init_scale^L in a random direction, layers balanced, aligned and of rank one. What is
linear in time (depth 1, the last layer alone) is solved in closed form; the rest goes through `integrator.relax`.
With frozen layers only a multiple of e_s moves (T Thm 5.5): the same flow with a single mode.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from raysweep.training import devices, draws
from raysweep.workloads.declaration import DIVERGED, NOT_CONVERGED, OK, Columns
from raysweep.workloads.linear_transfer import target
from raysweep.workloads.linear_transfer.integrator import relax

Array = np.ndarray
SOURCE, PARTNER, SCRATCH = 0, 1, 2  # the directions e_s, e_u and the one that training from scratch starts in
_ELEMENTS = {"cpu": 100_000, "cuda": 20_000_000}  # rows times modes at once: what stays in a core's cache, or 3 GiB


def compute(columns: Columns, seeds: Array) -> tuple[dict[str, Array], Array]:
    """Risks |β - b_t|² of the three trainings and their transferabilities, shape (rows,) each, and the status.

    columns: one entry per row of every declared parameter; seeds: int, shape (rows,). status is ok, or
    not_converged (values kept) where a training ran into integrator.STEP_CAP. Only numbers that overflow are diverged:
    a flow cannot rise.
    """
    rows = len(seeds)
    n, dim = target.samples(columns), np.asarray(columns["dim"])
    keys = [(int(seeds[i]), int(dim[i]), int(n[i])) for i in range(rows)]
    spectra = {key: spectrum(*key) for key in sorted(set(keys))}
    draw = [spectra[key] for key in keys]
    case = _Case(columns, draw)
    scratch, scratch_done = _train(case, SCRATCH, np.ones(rows, dtype=bool))
    whole = np.asarray(columns["frozen_layers"]) == 0
    tuned, tuned_done = _train(case, SOURCE, whole)
    partly, partly_done = _train_frozen(case, ~whole)
    finetune = np.where(whole, tuned, partly)
    linear = _retrain_last_layer(case)
    done = scratch_done & np.where(whole, tuned_done, partly_done)
    status = np.where(done, OK, NOT_CONVERGED).astype(object)
    for risk in (scratch, linear, finetune):
        lost = ~np.isfinite(risk)
        risk[lost], status[lost] = np.nan, DIVERGED
    metrics = {
        "risk_scratch": scratch,
        "risk_linear": linear,
        "risk_finetune": finetune,
        "transferability_linear": scratch - linear,
        "transferability_finetune": scratch - finetune,
    }
    return metrics, status


@dataclass(frozen=True)
class Spectrum:
    """A draw of n inputs seen from the eigenbasis of XᵀX/n, with r = min(n, dim) modes.

    eigenvalues: (r,). directions: (r, 3), the three unit vectors' coordinates. noise: (r,), coordinates of X⁺ε for
    unit noise. outside: (3, 3), inner products of the directions' parts outside the row space of X.
    alignment: e_sᵀXᵀX[e_s, e_u, scratch]/n, (3,), and noise_alignment: e_sᵀXᵀε/n.
    """

    eigenvalues: Array
    directions: Array
    noise: Array
    outside: Array
    alignment: Array
    noise_alignment: float


def spectrum(seed: int, dim: int, n: int) -> Spectrum:
    """The Spectrum of one draw; O(n dim min(n, dim)). It serves every angle, noise, depth and pretraining length."""
    directions = np.vstack([target.teacher_directions(seed, dim), draws.unit_vectors(seed, "scratch", 1, dim)])
    if n == 0:
        nothing = np.zeros(0)
        return Spectrum(nothing, np.zeros((0, 3)), nothing, directions @ directions.T, np.zeros(3), 0.0)
    left, singular, right = np.linalg.svd(target.inputs(seed, n, dim), full_matrices=False)
    coordinates = right @ directions.T
    if n >= dim:
        outside = np.zeros((3, 3))
    else:
        rest = directions.T - right.T @ coordinates
        rest -= right.T @ (right @ rest)  # what is left of the row space after rounding
        outside = rest.T @ rest
    eigenvalues = singular**2 / n
    noise = (left.T @ target.label_noise(seed, n)) / singular
    weighted = eigenvalues * coordinates[:, SOURCE]
    return Spectrum(eigenvalues, coordinates, noise, outside, weighted @ coordinates, float(weighted @ noise))


class _Case:
    """The rows' parameters as arrays, and what of each draw is a scalar."""

    def __init__(self, columns: Columns, draw: list[Spectrum]) -> None:
        self.draw = draw
        self.depth = np.asarray(columns["depth"], float)
        self.frozen = np.asarray(columns["frozen_layers"], float)
        self.noise = np.asarray(columns["noise"], float)
        self.ridge = np.asarray(columns["ridge"], float)
        self.time = np.asarray(columns["finetune_lr"], float) * np.asarray(columns["finetune_steps"], float)
        self.teacher = target.target_coordinates(columns)
        self.scale = {SOURCE: target.layer_scale(columns), SCRATCH: np.asarray(columns["init_scale"], float)}
        self.empty = np.array([len(one.eigenvalues) == 0 for one in draw], dtype=bool)
        alignment = np.array([one.alignment for one in draw]).reshape(len(draw), 3)
        self.curvature = alignment[:, SOURCE]  # |X e_s|²/n
        self.pull = (self.teacher * alignment[:, :2]).sum(1) + self.noise * np.array(
            [one.noise_alignment for one in draw]
        )  # e_s·Xᵀy/n


def _train(case: _Case, direction: int, wanted: Array) -> tuple[Array, Array]:
    """Risk of training every layer from a start in `direction`, shape (rows,), and whether it got to its end.

    Rows not `wanted` are NaN and done. The rows are sorted by their number of modes, and shorter ones padded with modes
    that do not move.
    """
    risk, done = np.full(len(case.draw), np.nan), np.ones(len(case.draw), dtype=bool)
    device = devices.device()
    modes = np.array([len(one.eigenvalues) for one in case.draw], dtype=int)
    order = np.flatnonzero(wanted)
    order = order[np.argsort(modes[order], kind="stable")]
    while len(order):
        # the last rows have the most modes
        count = min(len(order), max(1, _ELEMENTS[device.type] // max(1, int(modes[order[-1]]))))
        rows, order = order[-count:], order[:-count]
        risk[rows], done[rows] = _train_chunk(case, direction, rows, device)
    return risk, done


def _train_chunk(case: _Case, direction: int, rows: Array, device: torch.device) -> tuple[Array, Array]:
    width = max(len(case.draw[row].eigenvalues) for row in rows)
    eigenvalues, best, teacher, start = (np.zeros((len(rows), width)) for _ in range(4))
    for i, row in enumerate(rows):
        one = case.draw[row]
        k = len(one.eigenvalues)
        eigenvalues[i, :k] = one.eigenvalues
        teacher[i, :k] = one.directions[:, :2] @ case.teacher[row]
        best[i, :k] = teacher[i, :k] + case.noise[row] * one.noise
        start[i, :k] = one.directions[:, direction]
    outside = np.array([case.draw[row].outside for row in rows])
    scale, depth, time = case.scale[direction][rows], case.depth[rows], case.time[rows]
    done = np.ones(len(rows), dtype=bool)
    vector = scale[:, None] * start
    power = depth - 1
    single = (depth == 1) & ~case.empty[rows]
    if single.any():
        vector[single] = _decay(eigenvalues[single], best[single], vector[single], time[single, None])
    deep = (depth > 1) & ~case.empty[rows]
    if deep.any():
        fixed = scale**2 * outside[:, direction, direction]
        found, reached = relax(
            *(torch.as_tensor(a[deep], device=device) for a in (eigenvalues, best, vector, fixed, depth, time))
        )
        vector[deep], done[deep] = found.cpu().numpy(), reached.cpu().numpy()
    square = (vector**2).sum(1) + scale**2 * outside[:, direction, direction]
    multiple = np.sqrt(square) ** power
    error = np.zeros((len(rows), 3))  # β - b_t outside the row space, in the three directions
    error[:, direction] = multiple * scale
    error[:, :2] -= case.teacher[rows]
    inside = ((multiple[:, None] * vector - teacher) ** 2).sum(1)
    return inside + np.einsum("ri,rij,rj->r", error, outside, error), done


def _decay(rate: Array, end: Array, start: Array, time: Array) -> Array:
    """x(time) of dx/dt = -rate (x - end): exact, at rate 0 and time inf too."""
    with np.errstate(invalid="ignore"):
        exponent = np.where(rate > 0, rate * time, 0.0)
    return start - np.expm1(-exponent) * (end - start)


def _retrain_last_layer(case: _Case) -> Array:
    """Risk of linear transfer: the last layer on the frozen rank-one features, with the ridge penalty (F eq. 14).

    The features are f e_s·x, f = c^((L-1)/L); only the last layer's component along them, from c^(1/L), moves.
    Without samples it stays (or decays with the ridge), and ends at the minimum-norm solution 0.
    """
    layer = case.scale[SOURCE]
    feature = layer ** (case.depth - 1)
    rate = feature**2 * case.curvature + case.ridge
    end = np.divide(feature * case.pull, rate, out=np.zeros_like(rate), where=rate > 0)
    last = np.where(np.isinf(case.time), end, _decay(rate, end, layer, case.time))
    return _risk_along_source(case.teacher, feature * last)


def _train_frozen(case: _Case, wanted: Array) -> tuple[Array, Array]:
    """Risk of fine-tuning behind frozen first layers, and whether it got to its end; NaN and done if not `wanted`.

    β = f ω^(L-k) e_s with f = c^(k/L) and ω the common scale of the L-k trained layers. A negative least-squares
    multiple is out of reach of two or more layers: they end at 0 (THEORY §2).
    """
    layer = case.scale[SOURCE]
    feature, trained = layer**case.frozen, case.depth - case.frozen
    rate = feature**2 * case.curvature
    end = np.divide(feature * case.pull, rate, out=np.zeros_like(rate), where=rate > 0)
    done = np.ones(len(layer), dtype=bool)
    product = layer**trained
    one = wanted & ~case.empty & (trained == 1)
    product[one] = _decay(rate[one], end[one], layer[one], case.time[one])
    saddle = wanted & ~case.empty & (trained > 1) & (end <= 0) & np.isinf(case.time)
    product[saddle] = 0.0
    several = wanted & ~case.empty & (trained > 1) & ~saddle
    if several.any():
        omega, reached = relax(
            *(
                torch.as_tensor(a[several])
                for a in (rate[:, None], end[:, None], layer[:, None], np.zeros_like(layer), trained, case.time)
            )
        )
        scale = omega[:, 0].numpy()
        product[several] = np.sign(scale) * np.abs(scale) ** trained[several]
        done[several] = reached.numpy()
    risk = np.where(wanted, _risk_along_source(case.teacher, feature * product), np.nan)
    return risk, done


def _risk_along_source(teacher: Array, multiple: Array) -> Array:
    """|multiple e_s - b_t|²."""
    error: Array = (multiple - teacher[:, 0]) ** 2 + teacher[:, 1] ** 2
    return error
