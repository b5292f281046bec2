"""Loss of the last layer with a large vocabulary, without holding the logits of all tokens at once.

With V words, the logits of a token take 4·V bytes (200 kB at 50,304 words), many times the rest that a small model
keeps for it. So tokens are taken in chunks: logits, loss and gradient of a chunk are computed, and then the chunk's
logits are freed. The gradient is computed in the forward pass, where the logits are available, so the head costs 6
operations a weight and token like any other product, not 8. For that, the gradient must be the same multiple of every
token's loss, as it is in a sum. Loss and softmax are in float32 (or wider), products as everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

CHUNK = 2**28
"""Logits that may exist at a time: 1 GB of float32. A constant, so that no result depends on a machine's memory."""


def chunked(models: int, tokens: int, vocabulary: int) -> bool:
    """Whether these logits are too many to hold at once."""
    return models * tokens * vocabulary > CHUNK


def loss_sums(stream: Tensor, head: Tensor, wanted: Tensor, scale: float) -> Tensor:
    """Sum of the losses in nats of each model, (models,). Differentiable once, in stream and head.

    stream: (models, N, width).
    head: (models, width, V); the logits are scale · stream @ head.
    wanted: the words to predict, (N,); -1 where there is nothing to predict.
    """
    found: Tensor = _LossSums.apply(stream, head, wanted, scale)
    return found


@torch.no_grad()
def token_losses(stream: Tensor, head: Tensor, wanted: Tensor, scale: float) -> Tensor:
    """Loss of each token, (models, N); 0 where there is nothing to predict. Without a gradient."""
    head = head.to(_product_type(stream))
    return torch.cat(
        [-_likelihoods(stream[:, part].to(head.dtype), head, wanted[part], scale)[1] for part in _chunks(stream, head)],
        1,
    )


class _LossSums(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, stream: Tensor, head: Tensor, wanted: Tensor, scale: float) -> Tensor:
        """The sums of losses; saves their gradients for the backward pass."""
        own = head.to(_product_type(stream))
        wide = torch.promote_types(stream.dtype, torch.float32)
        total = torch.zeros(len(stream), dtype=wide, device=stream.device)
        differentiable = context.needs_input_grad[0] or context.needs_input_grad[1]
        of_stream = torch.empty_like(stream) if differentiable else None
        of_head = torch.zeros_like(head, dtype=wide) if differentiable else None
        for part in _chunks(stream, own):
            words, rows = wanted[part], stream[:, part].to(own.dtype)
            scores, likelihood = _likelihoods(rows, own, words, scale)
            total -= likelihood.sum(1)
            if of_stream is not None and of_head is not None:
                given = (words >= 0).to(wide).unsqueeze(1)
                gradient = scores.exp_().mul_(given * scale)
                at = words.clamp(min=0).view(1, -1, 1).expand(len(stream), -1, 1)
                gradient.scatter_add_(2, at, (-scale * given).expand(len(stream), -1, 1))
                gradient = gradient.to(own.dtype)
                of_stream[:, part] = torch.bmm(gradient, own.mT).to(stream.dtype)
                of_head += torch.bmm(rows.mT, gradient)
        context.save_for_backward(of_stream, of_head)
        context.types = stream.dtype, head.dtype
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """The saved gradients, times the incoming gradient of each model's sum."""
        of_stream, of_head = context.saved_tensors
        each = above.view(-1, 1, 1)
        return of_stream * each.to(of_stream.dtype), (of_head * each).to(context.types[1]), None, None


def _likelihoods(rows: Tensor, head: Tensor, words: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Log-probability of every word, (models, n, V), and of the wanted word, (models, n); 0 if there is none."""
    wide = torch.promote_types(rows.dtype, torch.float32)
    scores = functional.log_softmax(torch.bmm(rows, head) * scale, 2, dtype=wide)
    at = words.clamp(min=0).view(1, -1, 1).expand(len(rows), -1, 1)
    return scores, scores.gather(2, at).squeeze(2) * (words >= 0)


def _chunks(stream: Tensor, head: Tensor) -> Iterator[slice]:
    each = max(1, CHUNK // (len(stream) * head.shape[2]))
    return (slice(start, start + each) for start in range(0, stream.shape[1], each))


def _product_type(stream: Tensor) -> torch.dtype:
    kind = stream.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else stream.dtype
