"""Engine `network`: the real layers, perturbed and fine-tuned by full-batch gradient descent at finetune_lr.

They start as balanced layers in the exact state of gradient flow after pretrain_length. The task's singular vectors are
the axes. That loses no generality: layers, perturbation and descent are the same in any other basis. Modes that are
exactly 0 then stay 0.

Fine-tuning takes finetune_steps steps. At .inf it takes as many as convergence needs; after STEP_CAP steps the row is
not_converged. A network is W_1 … W_L, each d × d, with loss ‖W_1…W_L - M‖_F². Many networks are trained at once; a step
costs about 6 L matrix products of 2 d³ flops.
"""

import functools
import math

import numpy as np
import torch
from torch import Tensor

from raysweep.theory import spectrum
from raysweep.training import devices
from raysweep.workloads import symmetric
from raysweep.workloads.declaration import Array, Columns
from raysweep.workloads.linear_spectrum.closed_forms import measured
from raysweep.workloads.linear_spectrum.tasks import diagonal, perturbed, product, tasks

TOLERANCE, AT_REST, STEP_CAP = 1e-8, 1e-13, 100_000
CHECK_EVERY = 50  # steps between looks at convergence and divergence
BLOWUP = 1e6  # times the goal's size; an endless training whose distance from the goal is larger has diverged
OK, NOT_CONVERGED, DIVERGED = 0, 1, 2
_CHUNK_BYTES = {"cpu": 32 << 20, "cuda": 8 << 30}  # size of the layers that are trained at once


def compute(columns: Columns, seeds: Array) -> tuple[dict[str, Array], Array]:
    """pretrain_loss as trained and the losses after fine-tuning, shape (rows,) each, and the status.

    The losses of a diverged row are NaN.
    """
    device = devices.device()

    def most(dim: int, depth: int) -> float:
        return _CHUNK_BYTES[device.type] / (8 * dim * dim * (3 * depth + 4))

    return symmetric.in_chunks(columns, seeds, (), most, functools.partial(_chunk, device=device))


def _chunk(columns: Columns, seeds: Array, device: torch.device) -> tuple[dict[str, Array], Array]:
    task = tasks(columns)
    start = diagonal(task.weights, int(task.depth[0]))
    source = task.source[:, :, None] * np.eye(task.source.shape[1])
    turns = zip(task.target, task.angle, strict=True)
    target = np.stack([spectrum.turned(values, float(angle)) for values, angle in turns])
    before = ((product(start) - source) ** 2).sum((1, 2))
    start = perturbed(start, task.noises, seeds)
    with np.errstate(over="ignore", invalid="ignore"):
        goal = spectrum.goal_modes(product(start), target, task.penalty[:, None, None])
    parts = [torch.tensor(start[:, index], device=device) for index in range(start.shape[1])]
    given = (goal, (1 + task.penalty) * task.lr, task.steps)
    goal_, lr, steps = (torch.as_tensor(values, dtype=torch.float64, device=device) for values in given)
    status = descend(parts, goal_, lr, steps).cpu().numpy()
    end = np.stack([part.cpu().numpy() for part in parts], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        metrics = measured(product(end), source, target, before)
    status[~np.isfinite(metrics["finetune_loss"])] = DIVERGED
    for values in metrics.values():
        values[status == DIVERGED] = np.nan
    return {"pretrain_loss": before, **metrics}, status


def end_to_end(layers: list[Tensor]) -> Tensor:
    """W_1 W_2 … W_L, (rows, d, d)."""
    return functools.reduce(torch.bmm, layers)


def gradients(layers: list[Tensor], goal: Tensor) -> list[Tensor]:
    """Gradient of the loss with respect to each layer, (rows, d, d) each."""
    after = [layers[-1]]  # after[i] = W_(L-i) … W_L
    for layer in reversed(layers[:-1]):
        after.append(torch.bmm(layer, after[-1]))
    up = 2 * (after[-1] - goal)  # (W_1 … W_(l-1))ᵀ 2(P - M)
    result = []
    for index, layer in enumerate(layers):
        last = index == len(layers) - 1
        result.append(up if last else torch.bmm(up, after[len(layers) - 2 - index].transpose(1, 2)))
        if not last:
            up = torch.bmm(layer.transpose(1, 2), up)
    return result


def descend(layers: list[Tensor], goal: Tensor, lr: Tensor, steps: Tensor) -> Tensor:
    """Train every network in place. Returns how each ended, its place in WORDS, shape (rows,) int64.

    layers: L tensors (rows, d, d). goal: (rows, d, d). lr: (rows,). steps: (rows,); inf for training to convergence.

    Training to convergence ends when ‖P - M‖ <= TOLERANCE · size, where size is the larger of ‖M‖ and ‖P - M‖ at the
    start, or when the gradient is at most AT_REST · size^(2-1/L), or after STEP_CAP steps. A network has diverged if
    its loss is not finite. In training to convergence it has also diverged if its distance exceeds BLOWUP; a training
    of finitely many steps takes all of them, however high the loss. A network that has ended leaves the batch, so that
    no other network waits for it or is disturbed by its divergence.
    """
    depth, rows = len(layers), torch.arange(len(goal), device=goal.device)
    status = torch.full_like(rows, OK)
    batch = list(layers)
    size = torch.maximum((end_to_end(batch) - goal).norm(dim=(1, 2)), goal.norm(dim=(1, 2)))
    step = 0
    while len(rows):
        miss = (end_to_end(batch) - goal).norm(dim=(1, 2))
        endless = torch.isinf(steps)
        lost = ~torch.isfinite(miss) | (endless & (miss > BLOWUP * size))
        rest = miss <= TOLERANCE * size
        if bool(endless.any()):
            slope = torch.stack([each.norm(dim=(1, 2)) for each in gradients(batch, goal)]).norm(dim=0)
            rest |= slope <= AT_REST * size ** (2 - 1 / depth)
        given_up = endless & ~rest & (step >= STEP_CAP)
        done = lost | (endless & rest) | given_up | (steps <= step)
        if bool(done.any()):
            status[rows[given_up]] = NOT_CONVERGED
            status[rows[lost]] = DIVERGED
            for whole, part in zip(layers, batch, strict=True):
                if whole is not part:
                    whole[rows[done]] = part[done]
            keep = torch.nonzero(~done).squeeze(1)
            rows, size, lr, steps, goal = (each[keep] for each in (rows, size, lr, steps, goal))
            batch = [part[keep] for part in batch]
            if not len(rows):
                break
        capped = STEP_CAP if step < STEP_CAP else math.inf
        until = int(min(step - step % CHECK_EVERY + CHECK_EVERY, float(steps.min()), capped))
        rate = lr[:, None, None]
        for _ in range(until - step):
            slopes = gradients(batch, goal)
            for part, slope in zip(batch, slopes, strict=True):
                part.sub_(rate * slope)
        step = until
    return status
