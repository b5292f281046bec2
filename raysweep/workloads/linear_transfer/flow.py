"""Engine `flow`: gradient flow of the end-to-end map on each draw, for any stopping time (THEORY §3-4).

Scratch, linear transfer and fine-tuning run for the flow time finetune_lr * finetune_steps. If finetune_steps is inf,
they run to convergence (distance to the nearest interpolator below integrator.CONVERGED). Fine-tuning starts from the
pretrained map c e_s; scratch starts from a map of norm init_scale^L in a random direction. The layers are balanced,
aligned and of rank one. Flows that are linear in the map (depth 1, the last layer alone) are solved in closed form; the
others are integrated by `integrator.relax`. With frozen layers only a multiple of e_s moves (T Thm 5.5): the same flow
with a single mode.
"""

from collections.abc import Set
from dataclasses import dataclass
from itertools import groupby, repeat
from operator import itemgetter

import numpy as np
import torch

from raysweep.theory.arrays import floats, samples
from raysweep.theory.transfer import with_gains
from raysweep.training import devices, draws
from raysweep.workloads.declaration import DIVERGED, NOT_CONVERGED, OK, Array, Columns
from raysweep.workloads.linear_transfer import target
from raysweep.workloads.linear_transfer.decompositions import singular
from raysweep.workloads.linear_transfer.integrator import relax

Draw = tuple[int, int, int]  # seed, dim, n
SOURCE, PARTNER, SCRATCH = 0, 1, 2  # the directions e_s, e_u, and the one in which scratch starts
_shape = itemgetter(1, 2)  # of a draw: dim, n
_ELEMENTS = {"cpu": 100_000, "cuda": 20_000_000}  # rows times modes at once: what fits in a core's cache, or 3 GiB


def compute(columns: Columns, seeds: Array) -> tuple[dict[str, Array], Array]:
    """Risks |β - b_t|² of the three trainings and their transferabilities, shape (rows,) each, and the status.

    The status is ok, or not_converged (with its numbers) if a training reached integrator.STEP_CAP. A row is diverged
    only if its numbers overflow, because the loss of a flow cannot rise.
    """
    rows = len(seeds)
    table = np.stack([seeds, columns["dim"], samples(columns)], axis=1)
    keys = [(seed, dim, n) for seed, dim, n in table.tolist()]
    spectrum = spectra(set(keys), devices.device())
    draw = [spectrum[key] for key in keys]
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
    return with_gains(scratch, linear, finetune), status


@dataclass(frozen=True)
class Spectrum:
    """A draw of n inputs in the eigenbasis of XᵀX/n, with r = min(n, dim) modes.

    eigenvalues: (r,). directions: (r, 3), the coordinates of the three unit vectors.
    noise: (r,), coordinates of X⁺ε for unit noise.
    outside: (3, 3), inner products of the parts of the directions outside the row space of X.
    alignment: (3,), e_sᵀXᵀX[e_s, e_u, scratch]/n. noise_alignment: e_sᵀXᵀε/n.
    """

    eigenvalues: Array
    directions: Array
    noise: Array
    outside: Array
    alignment: Array
    noise_alignment: float


def spectra(keys: Set[Draw], device: torch.device) -> dict[Draw, Spectrum]:
    """The Spectrum of each draw (seed, dim, n); those of one shape are decomposed together on a GPU.

    A draw takes O(n dim min(n, dim)). It serves all angles, noises, depths and lengths.
    """
    result: dict[Draw, Spectrum] = {}
    for (dim, n), alike in groupby(sorted(keys, key=_shape), _shape):
        some = list(alike)
        parts = singular((target.inputs(seed, n, dim) for seed, *_ in some), device) if n else repeat(None)
        result |= {key: _spectrum(*key, decomposition) for key, decomposition in zip(some, parts, strict=False)}
    return result


def _spectrum(seed: int, dim: int, n: int, parts: tuple[Array, Array, Array] | None) -> Spectrum:
    """parts: the singular value decomposition of the inputs; None if there are none. Nothing depends on its signs."""
    directions = np.vstack([target.teacher_directions(seed, dim), draws.unit_vectors(seed, "scratch", 1, dim)])
    if parts is None:
        nothing = np.zeros(0)
        return Spectrum(nothing, np.zeros((0, 3)), nothing, directions @ directions.T, np.zeros(3), 0.0)
    left, values, right = parts
    coordinates = right @ directions.T
    if n >= dim:
        outside = np.zeros((3, 3))
    else:
        rest = directions.T - right.T @ coordinates
        rest -= right.T @ (right @ rest)  # removes what rounding left of the row space
        outside = rest.T @ rest
    eigenvalues = values**2 / n
    noise = (left.T @ target.label_noise(seed, n)) / values
    weighted = eigenvalues * coordinates[:, SOURCE]
    return Spectrum(eigenvalues, coordinates, noise, outside, weighted @ coordinates, float(weighted @ noise))


class _Case:
    """The rows' parameters as arrays, and the scalars of each row's draw."""

    def __init__(self, columns: Columns, draw: list[Spectrum]) -> None:
        self.draw = draw
        names = "depth", "frozen_layers", "noise", "ridge", "finetune_lr", "finetune_steps"
        self.depth, self.frozen, self.noise, self.ridge, lr, steps = floats(columns, *names)
        self.time = lr * steps
        self.teacher = target.target_coordinates(columns)
        self.scale = {SOURCE: target.layer_scale(columns), SCRATCH: np.asarray(columns["init_scale"], float)}
        self.empty = np.array([len(one.eigenvalues) == 0 for one in draw], dtype=bool)
        alignment = np.array([one.alignment for one in draw]).reshape(len(draw), 3)
        self.curvature = alignment[:, SOURCE]  # |X e_s|²/n
        noise_alignment = np.array([one.noise_alignment for one in draw])
        self.pull = (self.teacher * alignment[:, :2]).sum(1) + self.noise * noise_alignment  # e_s·Xᵀy/n


def _train(case: _Case, direction: int, selected: Array) -> tuple[Array, Array]:
    """Train every layer from a start in `direction`. Returns the risk, shape (rows,), and whether each training ended.

    Rows that are not `selected` have risk NaN and count as ended. Rows are sorted by their number of modes; rows with
    fewer modes are padded with modes that do not move.
    """
    risk, done = np.full(len(case.draw), np.nan), np.ones(len(case.draw), dtype=bool)
    device = devices.device()
    modes = np.array([len(one.eigenvalues) for one in case.draw], dtype=int)
    order = np.flatnonzero(selected)
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
        arrays = (eigenvalues, best, vector, fixed, depth, time)
        relaxed, reached = relax(*(torch.as_tensor(array[deep], device=device) for array in arrays))
        vector[deep], done[deep] = relaxed.cpu().numpy(), reached.cpu().numpy()
    square = (vector**2).sum(1) + scale**2 * outside[:, direction, direction]
    multiple = np.sqrt(square) ** power
    error = np.zeros((len(rows), 3))  # β - b_t outside the row space, along the three directions
    error[:, direction] = multiple * scale
    error[:, :2] -= case.teacher[rows]
    inside = ((multiple[:, None] * vector - teacher) ** 2).sum(1)
    return inside + np.einsum("ri,rij,rj->r", error, outside, error), done


def _decay(rate: Array, end: Array, start: Array, time: Array) -> Array:
    """x(time) of dx/dt = -rate (x - end), exactly, including rate 0 and time inf."""
    with np.errstate(invalid="ignore"):
        exponent = np.where(rate > 0, rate * time, 0.0)
    return start - np.expm1(-exponent) * (end - start)


def _retrain_last_layer(case: _Case) -> Array:
    """Risk of linear transfer: the last layer on frozen rank-one features, with the ridge penalty (F eq. 14).

    The features are f e_s·x with f = c^((L-1)/L). Only the component of the last layer along them moves; it starts at
    c^(1/L). Without samples it stays, or decays because of the ridge; at time inf it is then the minimum-norm solution
    0.
    """
    layer = case.scale[SOURCE]
    feature = layer ** (case.depth - 1)
    rate = feature**2 * case.curvature + case.ridge
    end = np.divide(feature * case.pull, rate, out=np.zeros_like(rate), where=rate > 0)
    last = np.where(np.isinf(case.time), end, _decay(rate, end, layer, case.time))
    return _risk_along_source(case.teacher, feature * last)


def _train_frozen(case: _Case, selected: Array) -> tuple[Array, Array]:
    """Fine-tune behind frozen first layers. Gives the risk and whether each training ended (not `selected`: NaN, True).

    β = f ω^(L-k) e_s, where f = c^(k/L) and ω is the common scale of the L-k trained layers. Two or more trained layers
    cannot reach a negative least-squares multiple; they end at 0 (THEORY §2).
    """
    layer = case.scale[SOURCE]
    feature, trained = layer**case.frozen, case.depth - case.frozen
    rate = feature**2 * case.curvature
    end = np.divide(feature * case.pull, rate, out=np.zeros_like(rate), where=rate > 0)
    done = np.ones(len(layer), dtype=bool)
    product = layer**trained
    one = selected & ~case.empty & (trained == 1)
    product[one] = _decay(rate[one], end[one], layer[one], case.time[one])
    saddle = selected & ~case.empty & (trained > 1) & (end <= 0) & np.isinf(case.time)
    product[saddle] = 0.0
    several = selected & ~case.empty & (trained > 1) & ~saddle
    if several.any():
        arrays = (rate[:, None], end[:, None], layer[:, None], np.zeros_like(layer), trained, case.time)
        omega, reached = relax(*(torch.as_tensor(array[several]) for array in arrays))
        scale = omega[:, 0].numpy()
        product[several] = np.sign(scale) * np.abs(scale) ** trained[several]
        done[several] = reached.numpy()
    risk = np.where(selected, _risk_along_source(case.teacher, feature * product), np.nan)
    return risk, done


def _risk_along_source(teacher: Array, multiple: Array) -> Array:
    """|multiple e_s - b_t|²."""
    return np.asarray((multiple - teacher[:, 0]) ** 2 + teacher[:, 1] ** 2)
