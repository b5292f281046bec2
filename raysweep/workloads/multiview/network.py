"""Kernels with a smoothed ReLU, and the gradients that pretrain and train them (paper M, §3.2, Appendices E, G, H).

h_r(X) = Σ_p σ(w_r·x_p) with σ(z) = 0 below 0, z^q / (q ϱ^(q-1)) up to ϱ, z - (1 - 1/q)ϱ above.

Gradients are sums over samples, taken a few samples at a time, so that what a step touches stays in the cache; the
order of the sum, and so its last digits, does not depend on the machine's memory.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_PIECE = 1 << 16  # values of Σ samples x patches x kernels at a time; on a GPU, _GPU_PIECE
_GPU_PIECE = 1 << 26


@dataclass(frozen=True)
class Activation:
    """The smoothed ReLU. power: q. threshold: ϱ."""

    power: int
    threshold: float

    def __call__(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Its value and its slope."""
        bent = seen.clamp(0, self.threshold)
        slope = (bent / self.threshold) ** (self.power - 1)
        return slope * bent / self.power + (seen - self.threshold).clamp_(min=0), slope


def pieces(inputs: Tensor, kernels: Tensor) -> list[slice]:
    """Samples that are computed at a time. inputs: (samples, patches, dim). kernels: (kernels, dim)."""
    values = _GPU_PIECE if inputs.device.type == "cuda" else _PIECE
    count = max(1, values // (inputs.shape[1] * len(kernels)))
    return [slice(first, first + count) for first in range(0, len(inputs), count)]


def encoded(inputs: Tensor, kernels: Tensor, activation: Activation) -> Tensor:
    """h(X), (samples, kernels)."""
    return torch.cat([activation(inputs[some] @ kernels.T)[0].sum(1) for some in pieces(inputs, kernels)])


def teacher_student(inputs: Tensor, kernels: Tensor, activation: Activation, keep: float, teacher: float) -> Tensor:
    """-∇ of the expected loss over masks (M Fact 2.1), mean over samples, (kernels, dim).

    keep: θ, the share of patches that are seen. teacher: τ; the teacher's kernels are τ times the student's, and fixed.
    """

    def gradient(some: Tensor) -> Tensor:
        seen = some @ kernels.T
        value, slope = activation(seen)
        missing = (activation(seen * teacher)[0] - value).sum(1, keepdim=True)
        return _onto((missing - (1 / keep - 1) * value) * slope, some)

    return _mean(gradient, inputs, kernels)


def autoencoder(inputs: Tensor, kernels: Tensor, activation: Activation, keep: float) -> Tensor:
    """-∇ of the expected loss over masks (M Appendix H), mean over samples, (kernels, dim); the decoder is a copy."""

    def gradient(some: Tensor) -> Tensor:
        value, slope = activation(some @ kernels.T)
        left = some - (value @ kernels) / keep
        return _onto(value, left) + _onto(slope * (left @ kernels.T), some)

    return _mean(gradient, inputs, kernels)


def classifier(
    inputs: Tensor, labels: Tensor, kernels: Tensor, head: Tensor, activation: Activation
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean cross-entropy of F(X) = U h(X), its -∇ by kernels (kernels, dim), and by the head U (classes, kernels)."""
    loss, by_kernels, by_head = inputs.new_zeros(()), torch.zeros_like(kernels), torch.zeros_like(head)
    for some in pieces(inputs, kernels):
        value, slope = activation(inputs[some] @ kernels.T)
        hidden = value.sum(1)
        logs = torch.log_softmax(hidden @ head.T, 1)
        right = labels[some, None]
        loss -= logs.gather(1, right).sum()
        left = -logs.exp()
        left.scatter_add_(1, right, torch.ones_like(right, dtype=left.dtype))
        by_head += left.T @ hidden
        by_kernels += _onto((left @ head)[:, None, :] * slope, inputs[some])
    return loss / len(inputs), by_kernels / len(inputs), by_head / len(inputs)


def wrong(inputs: Tensor, labels: Tensor, kernels: Tensor, head: Tensor, activation: Activation) -> float:
    """The share of samples whose class has not the one largest output; NaN if outputs are not finite."""
    outputs = encoded(inputs, kernels, activation) @ head.T
    if not torch.isfinite(outputs).all():
        return float("nan")
    right = outputs.gather(1, labels[:, None])
    return float(((outputs >= right).sum(1) > 1).double().mean())


def class_head(kernels: int, classes: int, like: Tensor) -> Tensor:
    """The head of Allen-Zhu & Li, (classes, kernels): 1 for kernels of the class; kernel r is of class r % classes."""
    ours = torch.arange(kernels, device=like.device) % classes
    return (ours == torch.arange(classes, device=like.device)[:, None]).to(like.dtype)


def _onto(weights: Tensor, inputs: Tensor) -> Tensor:
    """Σ over samples and patches of weights (samples, patches, kernels) times inputs (samples, patches, dim)."""
    return weights.flatten(0, 1).T @ inputs.flatten(0, 1)


def _mean(gradient: Callable[[Tensor], Tensor], inputs: Tensor, kernels: Tensor) -> Tensor:
    total = torch.zeros_like(kernels)
    for some in pieces(inputs, kernels):
        total += gradient(inputs[some])
    return total / len(inputs)
