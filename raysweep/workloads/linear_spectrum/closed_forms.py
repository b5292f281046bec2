"""The closed forms of THEORY §5 for the rows of a table, and whether their conditions hold.

There are two kinds. The exact forms follow every mode by its own formula, whether it is learned or not. They need
shared singular vectors, noise or fine-tuning but not both, and a stable rate (they are the limit as the rate goes to
0). O's forms count whole modes: n modes are learned and the rest are 0. They also need every mode to be close to that.
"""

import numpy as np

from raysweep.theory import modes, spectrum
from raysweep.theory.arrays import distinct
from raysweep.workloads.declaration import Array, Columns
from raysweep.workloads.linear_spectrum.tasks import Tasks, by_dim

HOLDS, COUPLED, BOTH, UNSTABLE, ESCAPED, PARTIAL = range(6)
TOLERANCE = 1e-3  # largest distance of a mode from its whole-mode value, relative to the mode's singular values

LOSSES = ("pretrain_loss", "pretrain_loss_after", "finetune_loss", "sensitivity")


def losses(columns: Columns) -> dict[str, Array]:
    """Each of LOSSES by its exact closed form, shape (rows,): with noise, the expectation over draws. NaN if it needs
    conditions that fail."""
    everything = describe(columns)
    return {"pretrain_loss": everything["pretrain_loss"], **{name: everything[f"{name}_closed"] for name in LOSSES[1:]}}


def describe(columns: Columns) -> dict[str, Array]:
    """The metrics that need no training, shape (rows,) each. The exact closed forms of the other LOSSES are added with
    `_closed` after the name."""
    rows = len(columns["dim"])
    result: dict[str, Array] = {}
    for index, part in by_dim(columns):
        for name, values in _describe(part, np.asarray(columns["engine"])[index] == "flow").items():
            result.setdefault(name, np.full(rows, np.nan))[index] = values
    return result


def _describe(task: Tasks, flow: Array) -> dict[str, Array]:
    depth, penalty = task.depth[:, None], task.penalty[:, None]
    tuned = task.time > 0
    start = task.weights**depth
    learned = (start >= task.source / 2) & (task.source > 0)
    goal = modes.goal_modes(start, task.target, penalty)
    end = modes.follow(task.weights, goal, (1 + penalty) * task.time[:, None], depth) ** depth
    whole = np.where(learned, task.source, 0.0)
    whole_end = np.where(learned & tuned[:, None], modes.goal_modes(task.source, task.target, penalty), whole)
    curvature = modes.curvature(goal, penalty, depth)
    with np.errstate(divide="ignore"):
        bound = 2 / np.where(learned, curvature, 0.0).max(1)
    bound[~tuned | (task.angle > 0) | (task.noise > 0)] = np.nan

    failure = np.full(len(start), HOLDS)  # if several conditions fail, the last one assigned here is reported
    near = _near(task, end, whole_end)
    failure[(~near & learned).any(1)] = PARTIAL
    failure[(~near & ~learned).any(1)] = ESCAPED
    failure[tuned & ~flow & _unstable(task, start, goal, curvature, end)] = UNSTABLE
    failure[tuned & (task.noise > 0)] = BOTH
    failure[tuned & (task.angle > 0)] = COUPLED
    exact, counted = np.isin(failure, (HOLDS, ESCAPED, PARTIAL)), failure == HOLDS

    before = ((start - task.source) ** 2).sum(1)
    after, domain = _losses(task, end, task.weights, tuned)
    whole_after, whole_domain = _losses(task, whole_end, whole ** (1 / depth), tuned)
    # computed as one difference, which is exact even if hardly anything changes
    gain = ((end - start) * (end + start - 2 * task.source)).sum(1)
    added = spectrum.noise_excess(task.weights, task.noise, task.depth)
    return {
        "pretrain_loss": before,
        "pretrain_loss_after_closed": np.where(exact, after, np.nan),
        "finetune_loss_closed": np.where(exact, domain, np.nan),
        "sensitivity_closed": np.where(exact, np.where(tuned, gain, added), np.nan),
        "learned_modes": learned.sum(1).astype(float),
        "finetune_lr_bound": bound,
        "inflection_modes": np.where(exact, _inflection(task, tuned), np.nan),
        "whole_mode_loss_after": np.where(counted, whole_after, np.nan),
        "whole_mode_finetune_loss": np.where(counted, whole_domain, np.nan),
        "closed_form_valid": exact.astype(float),
        "whole_mode_valid": counted.astype(float),
        "closed_form_failure": failure.astype(float),
    }


def _losses(task: Tasks, learned: Array, weights: Array, tuned: Array) -> tuple[Array, Array]:
    """Source and target loss of these modes; without fine-tuning, plus the excess that noise adds at these weights."""
    excess = np.where(tuned, 0.0, spectrum.noise_excess(weights, task.noise, task.depth))
    source = ((learned - task.source) ** 2).sum(1)
    return source + excess, spectrum.turned_loss(learned, task.target, task.angle) + excess


def _near(task: Tasks, end: Array, whole: Array) -> Array:
    """Whether each mode ends near its value in the whole-mode forms, (rows, d)."""
    scale = np.maximum(task.source, task.target)
    error = np.abs(end - whole)
    # or the effect of the error on either loss is invisible against the largest mode
    unseen = error * (2 * scale + end + whole) <= (TOLERANCE * scale.max(1, keepdims=True)) ** 2
    return (error <= TOLERANCE * scale) | unseen


def _unstable(task: Tasks, start: Array, goal: Array, curvature: Array, end: Array) -> Array:
    """Whether gradient descent at this rate differs from its flow, (rows,).

    That is so if it oscillates about a goal without settling there, or if its first step passes 0.
    """
    depth, rate = task.depth[:, None], task.lr[:, None]
    travels = np.abs(start - goal) > TOLERANCE * np.maximum(task.source, task.target)
    reached = np.abs(end - goal) <= np.abs(end - start)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        leap = 2 * rate * (1 + task.penalty[:, None]) * (start - goal) * task.weights ** (depth - 2)
        settled = np.abs(1 - rate * curvature) ** task.steps[:, None] <= TOLERANCE
    ringing = travels & reached & (rate * curvature > 1) & ~settled
    return ((reached & (rate * curvature >= 2)) | ringing | (travels & (depth > 1) & (leap > 1))).any(1)


def _inflection(task: Tasks, tuned: Array) -> Array:
    """The inflection index of Def. 4.2 for each row, for its noise or its fine-tuning; NaN without either."""
    result = np.full(len(tuned), np.nan)
    for row in np.flatnonzero(tuned):
        result[row] = spectrum.finetune_inflection(task.source[row], task.target[row], float(task.penalty[row]))
    noisy = ~tuned & (task.noise != 0)
    kinds, kind = distinct(np.column_stack([task.noise, task.depth, task.source])[noisy])
    result[noisy] = np.array([spectrum.noise_inflection(each[2:], each[0], int(each[1])) for each in kinds])[kind]
    # fine-tuning to convergence learns every mode, so no inflection of this kind is left (THEORY §5)
    result[tuned & np.isinf(task.time)] = np.nan
    return result
