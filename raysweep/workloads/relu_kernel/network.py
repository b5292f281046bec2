"""Two-layer ReLU networks, f(x) = (1/√m) Σ_r a_r σ(w_r·x), trained by gradient descent on W, in float64.

The loss is ½‖y - f‖² over all samples (D §6.1). Networks that share inputs and their start are trained side by side. A
step costs two products of (networks · width, dim) and (dim, samples), and four passes over (networks, width, samples).
"""

import numpy as np
import torch
from torch import Tensor

from raysweep.training import draws
from raysweep.workloads.relu_kernel.costs import STEP_CAP

TOLERANCE = 1e-5  # of ‖y - f‖ relative to ‖y‖, where training ends
CHECK = 16  # steps from one look at the residuals to the next
_BYTES = {"cpu": 4 << 20, "cuda": 4 << 30}  # that networks trained at once hold: what fits in a cache, a part of a GPU


def signs(seed: int, width: int) -> np.ndarray:
    """a_r, ±1 with equal chance, (width,)."""
    return 2.0 * draws.generator(seed, f"signs of {width} neurons").integers(0, 2, width) - 1


def initial(seed: int, width: int, dim: int, scale: float) -> np.ndarray:
    """W(0), (width, dim): independent N(0, scale²) numbers, for each width its own."""
    return scale * draws.normal(seed, f"weights of {width} neurons", width, dim)


def outputs(weights: Tensor, signs: Tensor, inputs: Tensor) -> Tensor:
    """f(inputs): weights (width, dim), signs (width,), inputs (samples, dim) -> (samples,)."""
    parts = [signs @ (weights @ some.T).clamp_(min=0) for some in inputs.split(max(1, (8 << 20) // (8 * len(weights))))]
    return torch.cat(parts) / len(weights) ** 0.5


def trained(
    start: Tensor, signs: Tensor, inputs: Tensor, labels: Tensor, lr: float
) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """Networks that start at the same weights, each trained on its own labels of the same inputs.

    start: (width, dim). signs: (width,). inputs: (samples, dim). labels: (networks, samples). lr: of each step.

    Gives the weights at the end, (networks, width, dim), how many steps they took, and the norm of what is left of the
    labels relative to that of the labels, (networks,) each. A network ends at the first look, every CHECK steps, at
    which that is below TOLERANCE or not finite, or after STEP_CAP steps. It does not depend on its neighbours.
    """
    count = max(1, _BYTES[start.device.type] // (16 * len(start) * len(inputs)))
    parts = [_descended(start, signs, inputs, some, lr) for some in labels.split(count)]
    weights, steps, left = zip(*parts, strict=True)
    return torch.cat(weights), np.concatenate(steps), np.concatenate(left)


def _descended(
    start: Tensor, signs: Tensor, inputs: Tensor, labels: Tensor, lr: float
) -> tuple[Tensor, np.ndarray, np.ndarray]:
    networks, (width, dim) = len(labels), start.shape
    weights = start.repeat(networks, 1, 1)
    ended = weights.clone()
    steps, left = np.zeros(networks, np.int64), np.full(networks, np.nan)
    going, step = np.arange(networks), 0
    out, back, size = signs / width**0.5, (-lr / width**0.5) * signs[:, None], labels.norm(dim=1)
    seen, fired = (torch.empty(networks, width, len(inputs), dtype=start.dtype, device=start.device) for _ in range(2))
    while True:
        torch.matmul(weights.view(-1, dim), inputs.T, out=seen.view(-1, len(inputs)))
        torch.clamp(seen, min=0, out=fired)
        error = torch.matmul(out, fired) - labels
        if step % CHECK == 0 or step == STEP_CAP:
            rest = (error.norm(dim=1) / size).cpu().numpy()
            done = ~(rest > TOLERANCE) | ~np.isfinite(rest) | (step == STEP_CAP)
            if done.any():
                out_of, into, stay = (
                    torch.as_tensor(each, device=start.device)
                    for each in (np.flatnonzero(done), going[done], np.flatnonzero(~done))
                )
                ended[into] = weights[out_of]
                steps[going[done]], left[going[done]] = step, rest[done]
                if done.all():
                    return ended, steps, left
                weights, labels, size, error = weights[stay], labels[stay], size[stay], error[stay]
                seen, fired, going = seen[stay], fired[: len(stay)].clone(), going[~done]
        seen.gt_(0).mul_(error[:, None, :])
        weights += (seen.view(-1, len(inputs)) @ inputs).view_as(weights).mul_(back)
        step += 1
