"""Gradient descent of two-layer ReLU networks side by side: on the population, in closed form, or on samples.

f(x) = (1/m) Σ_i c_i σ(w_i·x), |w_i| = 1. Gradients come multiplied by the width m, as the step size is. Rates up to 1
end near gradient flow, whose time is rate times steps (a test holds the loss to 3 %); F's is 0.01.

Networks side by side stand along the first axis. On a CPU they train one after the other, which keeps every row equal
to the last digit however rows are packed, and is no slower at these sizes.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raysweep.training import sizes

LOOK = 50  # steps between two looks at whether all networks have ended: on a GPU a look waits for it
GPU_BYTES = 8e9  # what the networks side by side may take on a GPU

Row = Mapping[str, Any]
Task = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""(features (nets, width, dim), outputs (nets, width)) -> the loss (nets,) and m times its gradient by outputs (nets,
width) and by features over the output (nets, width, dim)."""


@dataclass(frozen=True)
class Trained:
    """Networks after training: features (nets, width, dim), outputs (nets, width), loss (nets,)."""

    features: np.ndarray
    outputs: np.ndarray
    loss: np.ndarray


def descend(task: Task, start: Tensor, row: Row) -> Trained:
    """Train networks until the loss of each is at most the tolerance, not finite, or the steps are over.

    start: features before training, (nets, width, dim), with rows of length 1. row: has init_scale, learning_rate,
        steps and tolerance.
    """
    features, outputs = start, torch.full_like(start[:, :, 0], row["init_scale"])
    alive = torch.ones_like(outputs[:, 0], dtype=torch.bool)
    for step in range(row["steps"] + 1):
        loss, by_output, over_output = task(features, outputs)
        alive = alive & (loss > row["tolerance"]) & torch.isfinite(loss)
        if step == row["steps"] or (step % LOOK == 0 and not alive.any()):
            break
        move = row["learning_rate"] * alive[:, None]
        along = (over_output * features).sum(2, keepdim=True)
        shifted = features - (move * outputs)[:, :, None] * (over_output - along * features)
        features, outputs = shifted / shifted.norm(dim=2, keepdim=True), outputs - move * by_output
    return Trained(features.cpu().numpy(), outputs.cpu().numpy(), loss.cpu().numpy())


def on_population(teacher: Tensor, weights: Tensor) -> Task:
    """Half of E(f - f_s)² over x ~ N(0, I), f_s = Σ_j weights_j σ(w*_j·x).

    teacher: w*, (teachers, dim), rows of length 1. weights: (nets, teachers).

    E σ(u·x)σ(v·x) of unit rows is [sin θ + (π - θ) cos θ]/2π, and its gradient by u, tangent to the sphere, that part
    of (π - θ)v/2π (F eq. 153, and its derivative).
    """
    count = len(weights)
    others = teacher.expand(count, *teacher.shape)
    _, kernel = _angles(others, others)
    whole = (weights[:, :, None] * weights[:, None, :] * kernel).sum((1, 2))

    def task(features: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        share = outputs / outputs.shape[1]
        rows = torch.cat([features, others], 1)
        signed = torch.cat([share, -weights], 1)
        angle, kernel = _angles(features, rows)
        error = torch.bmm(kernel, signed[:, :, None])[:, :, 0]  # E (f - f_s) σ(w_i·x)
        along_teacher = torch.bmm(kernel[:, :, outputs.shape[1] :], weights[:, :, None])[:, :, 0]
        loss = ((share * error).sum(1) - (share * along_teacher).sum(1) + whole) / 2
        return loss, error, torch.bmm(angle / (2 * math.pi), signed[:, :, None] * rows)

    return task


def _angles(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """π - θ of all pairs of unit rows, and E σσ, (nets, left, right) each."""
    cosine = torch.bmm(left, right.transpose(1, 2)).clamp_(-1, 1)
    angle = torch.arccos(-cosine)
    sine = torch.addcmul(torch.ones_like(cosine), cosine, cosine, value=-1).sqrt_()
    return angle, sine.addcmul_(angle, cosine).div_(2 * math.pi)


def on_samples(inputs: Tensor, labels: Tensor) -> Task:
    """Half of the mean square over samples: inputs (nets, samples, dim), labels (nets, samples)."""
    count = labels.shape[1]

    def task(features: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = torch.bmm(inputs, features.transpose(1, 2)).relu_()
        error = torch.bmm(hidden, outputs[:, :, None] / outputs.shape[1])[:, :, 0] - labels
        loss, error = (error**2).mean(1) / 2, error[:, :, None] / count
        by_output = torch.bmm(hidden.transpose(1, 2), error)[:, :, 0]
        active = hidden.gt_(0).mul_(error)
        return loss, by_output, torch.bmm(active.transpose(1, 2), inputs)

    return task


def side_by_side(count: int, values_each: float, task: Callable[[slice], Task], start: Tensor, row: Row) -> Trained:
    """Train `count` networks that start alike, as many at a time as the device holds.

    values_each: numbers that each holds at a time. task: that of some of them. start: (width, dim).
    """
    fitting = 1 if start.device.type == "cpu" else max(1, int(GPU_BYTES / (8 * values_each)))
    size = sizes.models(min(count, fitting))
    runs = [slice(first, min(first + size, count)) for first in range(0, count, size)]
    parts = [descend(task(run), start.expand(run.stop - run.start, *start.shape), row) for run in runs]
    return Trained(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Trained)))
