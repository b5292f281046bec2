"""Loss of the last layer with its gradient, without holding the logits of all tokens at once.

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

from raysweep.training import compiled
from raysweep.workloads.language.model_config import CHUNK


def loss_sums(stream: Tensor, head: Tensor, wanted: Tensor) -> Tensor:
    """Sum of the losses in nats of each model, (models,). Differentiable once, in stream and head.

    stream: (models, N, width).
    head: (models, width, V); the logits are stream @ head.
    wanted: the words to predict, (N,); -1 where there is nothing to predict.
    """
    found: Tensor = _LossSums.apply(stream, head, wanted)
    return found


@torch.no_grad()
def token_losses(stream: Tensor, head: Tensor, wanted: Tensor) -> Tensor:
    """Loss of each token, (models, N); 0 where there is nothing to predict. Without a gradient."""
    head = head.to(_product_type(stream))
    return torch.cat(
        [_losses(torch.bmm(stream[:, part].to(head.dtype), head), wanted[part]) for part in _chunks(stream, head)], 1
    )


class _LossSums(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, stream: Tensor, head: Tensor, wanted: Tensor) -> Tensor:
        """The sums of losses; saves their gradients for the backward pass."""
        if not any(context.needs_input_grad):
            return token_losses(stream, head, wanted).sum(1)
        own = head.to(_product_type(stream))
        of_stream, of_head, total = [], None, None
        for part in _chunks(stream, own):
            rows = stream[:, part].to(own.dtype)
            gradient, losses = _losses_and_gradient(torch.bmm(rows, own), wanted[part])
            of_stream.append(torch.bmm(gradient, own.mT).to(stream.dtype))
            found = torch.bmm(rows.mT, gradient)
            of_head = found.to(_wide(found)) if of_head is None else of_head.add_(found)
            total = losses.sum(1) if total is None else total + losses.sum(1)
        assert of_head is not None
        assert total is not None
        context.save_for_backward(of_stream[0] if len(of_stream) == 1 else torch.cat(of_stream, 1), of_head)
        context.types = stream.dtype, head.dtype
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Tensor, Tensor, None]:
        """The saved gradients, times the incoming gradient of each model's sum."""
        of_stream, of_head = context.saved_tensors
        each = above.view(-1, 1, 1)
        return of_stream * each.to(of_stream.dtype), (of_head * each).to(context.types[1]), None


def losses_and_gradient(scores: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of the summed losses in the logits (models, n, V), in their own type; and the losses (models, n).

    The gradient is softmax - 1 at the wanted word, and 0 where no word is wanted. Written for a compiler, which makes
    of it a few passes over the logits as they are; in_few_passes does the same by single operations.
    """
    at, given = _where(scores, words)
    wide = scores.to(_wide(scores))
    highest = wide.amax(2, keepdim=True)
    powers = (wide - highest).exp()
    total = powers.sum(2, keepdim=True)
    losses = (total.log() + highest - wide.gather(2, at)) * given
    hot = torch.arange(scores.shape[2], device=scores.device) == at
    return ((powers / total - hot.to(wide.dtype)) * given).to(scores.dtype), losses.squeeze(2)


def in_few_passes(scores: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """As losses_and_gradient. The logits are overwritten by their gradient."""
    at, given = _where(scores, words)
    # loss = log(sum of exp(score - highest)) + highest - score; the highest probability is 1 over that sum
    below = scores.amax(2, keepdim=True).to(given.dtype) - scores.gather(2, at)
    into = scores if given.dtype == scores.dtype else torch.empty_like(scores, dtype=given.dtype)
    softmax = torch.softmax(scores, 2, dtype=given.dtype, out=into)
    losses = (below - softmax.amax(2, keepdim=True).log()) * given
    softmax.scatter_add_(2, at, torch.full_like(below, -1.0))
    return torch.mul(softmax, given, out=scores), losses.squeeze(2)  # rounded as it is written


_losses_and_gradient = compiled.where_possible(losses_and_gradient, in_few_passes)


def _where(scores: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """The wanted word of each row of logits, and 1 or 0 for whether there is one, (models, n, 1)."""
    at = words.clamp(min=0).view(1, -1, 1).expand(len(scores), -1, 1)
    return at, (words >= 0).to(_wide(scores)).view(1, -1, 1)


def _losses(scores: Tensor, words: Tensor) -> Tensor:
    at = words.clamp(min=0).view(1, -1, 1).expand(len(scores), -1, 1)
    likelihoods = functional.log_softmax(scores, 2, dtype=_wide(scores)).gather(2, at).squeeze(2)
    return -likelihoods * (words >= 0)


def _wide(scores: Tensor) -> torch.dtype:
    return torch.promote_types(scores.dtype, torch.float32)


def _chunks(stream: Tensor, head: Tensor) -> Iterator[slice]:
    each = max(1, CHUNK // (len(stream) * head.shape[2]))
    return (slice(start, start + each) for start in range(0, stream.shape[1], each))


def _product_type(stream: Tensor) -> torch.dtype:
    kind = stream.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else stream.dtype
