"""Causal attention whose probabilities are dropped, in a plain form and in one for torch's compiler.

The plain form makes a tensor of all pairs of positions. The flexible one is made of FlexAttention, whose kernels take
the pairs in blocks and keep a few numbers for each position. FlexAttention masks scores and has no dropout of
probabilities, but the sums over what is kept and over all are enough. With s the scores, p = softmax(s) and D a mask,

    sum over j of p_j D_j v_j = sum over kept j of softmax(s of the kept)_j v_j · exp(log K - log Z),

where K is the sum of exp(s) over the kept keys and Z that over all keys that a query may hear. Where no key is kept, K
and the result are 0, and so are the gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from raysweep.training import dropout
from raysweep.training.dropout import Masks

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

BLOCK = 128  # positions that FlexAttention takes or leaves together
NARROWEST = 16  # values that it has kernels for


def heard(query: Tensor, key: Tensor, value: Tensor, scale: float, masks: Masks, models: int) -> Tensor:
    """What each position hears with the probabilities dropped, of the shape and type of value.

    query, key, value: (models · batch, heads, length, head width).
    scale: factor of the scores.
    masks: models share them; their rows are numbered by sequence, head and query, their columns are keys.
    """
    # run one by one, the operations of FlexAttention take more time and memory than the plain ones
    form = by_blocks if torch.compiler.is_compiling() else by_pairs
    return form(query, key, value, scale, masks, models)


def by_pairs(query: Tensor, key: Tensor, value: Tensor, scale: float, masks: Masks, models: int) -> Tensor:
    """As `heard`, in plain operations."""

    def attended(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        length = query.shape[2]
        future = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
        probability = (query @ key.mT * scale).masked_fill(future, -torch.inf).softmax(-1).unflatten(0, (models, -1))
        kept = dropout.kept(masks, probability[0].numel() // length, length, query.device).view(probability.shape[1:])
        probability = torch.where(kept, probability * masks.up, probability.new_zeros(()))
        return probability.flatten(0, 1).to(value.dtype) @ value

    # tensors of size length² are computed again in the backward pass, not kept
    found: Tensor = checkpoint(attended, query, key, value, use_reentrant=False, preserve_rng_state=False)
    return found


def by_blocks(query: Tensor, key: Tensor, value: Tensor, scale: float, masks: Masks, models: int) -> Tensor:
    """As `heard`, to rounding, in operations that a compiler makes into few kernels."""
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention  # a second, only where it is used

    everything, heads, length, _ = query.shape
    row, column = dropout.words(masks, everything // models * heads * length, length, query.device)
    row = row.view(-1, heads, length).repeat(models, 1, 1)

    def past(sequence: Tensor, head: Tensor, position: Tensor, other: Tensor) -> Tensor:
        return position >= other

    def kept(sequence: Tensor, head: Tensor, position: Tensor, other: Tensor) -> Tensor:
        return (position >= other) & dropout.stays(row[sequence, head, position], column[other], masks.least)

    def attended(value: Tensor, mask: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        blocks = _blocks(length, query.device, mask)
        found, more = flex_attention(query, key, value, block_mask=blocks, scale=scale, return_aux=AuxRequest(lse=True))
        return found, more.lse

    found, log_kept = attended(value, kept)
    # of all keys only the sum is needed; torch's compiler wants a gradient of what is heard, too
    nothing, log_all = attended(value[..., :NARROWEST].detach(), past)
    share = (log_kept - log_all - 0 * nothing.sum(-1)).exp() * masks.up
    return (found * share.unsqueeze(-1)).to(value.dtype)


def _blocks(length: int, device: torch.device, mask: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> BlockMask:
    """The blocks of keys that blocks of queries hear: their own and earlier ones; the mask says more."""
    from torch.nn.attention.flex_attention import BlockMask

    count = -(-length // BLOCK)
    number = torch.arange(count, dtype=torch.int32, device=device)
    earlier, later = number.repeat(count, 1), (number.unsqueeze(1) + number).clamp(max=count - 1)

    def of_all(tensor: Tensor) -> Tensor:  # sequences and heads
        return tensor.view(1, 1, *tensor.shape)

    keys, queries = (of_all(number + 1), of_all(earlier)), (of_all(count - number), of_all(later))
    return BlockMask(
        (length, length), *keys, None, None, *queries, None, None, BLOCK_SIZE=(BLOCK, BLOCK), mask_mod=mask
    )
