"""The entry point of the workload, and the closed forms of THEORY §5 for its rows, and whether their conditions hold.

There are two kinds. The exact forms follow every mode by its own formula, whether it is learned or not. They need
shared singular vectors, noise or fine-tuning but not both, and a stable rate (they are the limit as the rate goes to
0). O's forms count whole modes: n modes are learned and the rest are 0. They also need every mode to be close to that.
"""

import numpy as np

from raysweep.theory import spectrum
from raysweep.theory.arrays import distinct
from raysweep.workloads import symmetric
from raysweep.workloads.declaration import Array, Columns, deferred
from raysweep.workloads.linear_spectrum import METRICS, SYMMETRY
from raysweep.workloads.linear_spectrum.tasks import Tasks, by_dim, signs, with_even_layers

HOLDS, COUPLED, BOTH, UNSTABLE, ESCAPED, PARTIAL = range(6)
TOLERANCE = 1e-3  # largest distance of a mode from its whole-mode value, relative to the mode's singular values

LOSSES = ("pretrain_loss", "pretrain_loss_after", "finetune_loss", "sensitivity")
Results = tuple[dict[str, Array], Array]
AFTER = ("pretrain_loss_after", "finetune_loss", "sensitivity")


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
    goal = spectrum.goal_modes(start, task.target, penalty)
    end = spectrum.follow(task.weights, goal, (1 + penalty) * task.time[:, None], depth) ** depth
    whole = np.where(learned, task.source, 0.0)
    whole_end = np.where(learned & tuned[:, None], spectrum.goal_modes(task.source, task.target, penalty), whole)
    curvature = spectrum.curvature(goal, penalty, depth)
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


def compute(columns: Columns, seeds: Array) -> Results:
    """All metrics of all rows, shape (rows,) each, and the status of each row.

    The metrics after fine-tuning are NaN for a diverged row, and for a row of engine theory if its closed form fails.
    """
    seeds = np.asarray(seeds)
    columns = {name: np.asarray(values) for name, values in columns.items()}
    # without noise, rows that differ only in seed are equal
    drawn = np.where((columns["noise"] > 0) & (columns["engine"] != "theory"), seeds, -1)
    keys = list(zip(drawn.tolist(), *(values.tolist() for values in columns.values()), strict=True))
    index = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    inverse = np.array([index[key] for key in keys], dtype=np.int64)
    rows = np.unique(inverse, return_index=True)[1]
    metrics, status = _compute({name: values[rows] for name, values in columns.items()}, seeds[rows])
    return {name: values[inverse] for name, values in metrics.items()}, status[inverse]


def _compute(columns: Columns, seeds: Array) -> Results:
    description = describe(columns)
    metrics = {metric.name: description.get(metric.name, np.full(len(seeds), np.nan)) for metric in METRICS}
    metrics |= {name: description[f"{name}_closed"] for name in AFTER}
    engines = {name: deferred(f"raysweep.workloads.linear_spectrum.{name}:compute") for name in ("flow", "network")}
    engines["theory"] = lambda columns: {}  # closed forms describe rows of any engine
    return symmetric.solved(with_even_layers(columns), seeds, metrics, engines, signs, SYMMETRY.metrics)


def measured(maps: Array, source: Array, target: Array, before: Array) -> dict[str, Array]:
    """The metrics AFTER, shape (rows,) each.

    maps: end-to-end maps, (rows, d, d). source, target: the tasks' matrices. before: the loss before fine-tuning.
    """
    after = ((maps - source) ** 2).sum((1, 2))
    return dict(zip(AFTER, (after, ((maps - target) ** 2).sum((1, 2)), after - before), strict=True))
