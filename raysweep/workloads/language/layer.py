"""The two halves of a layer, attention and MLP, in plain operations of torch. Tensors have a leading axis of models.

by_hand.py has the same for one model on a CPU, with the gradients written out.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from raysweep.training import compiled
from raysweep.training.dropout import Masks
from raysweep.workloads.language import dropped_attention

EPSILON = 1e-6  # inside RMSNorm
ROTARY_BASE = 10_000.0


def normalize(stream: Tensor, gain: Tensor) -> Tensor:
    """RMSNorm of (models, N, width) with gains (models, width)."""
    if len(gain) == 1:  # one pass over memory
        return functional.rms_norm(stream, stream.shape[-1:], gain.squeeze(0), EPSILON)
    return functional.rms_norm(stream, stream.shape[-1:], eps=EPSILON) * gain.unsqueeze(1)


@torch.no_grad()
def overflow(stream: Tensor) -> Tensor:
    """0 for each row, (models, N, 1), but NaN where its squares overflow: RMSNorm makes finite zeros of such a row.

    For the last norm: a stream that overflowed in a layer has done so at the end.
    """
    return torch.linalg.vector_norm(stream, dim=-1, keepdim=True).mul_(0)


def mlp(stream: Tensor, gain: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """What the MLP, SwiGLU of the normalized stream (models, N, width), adds to it."""
    gate, up = torch.bmm(normalize(stream, gain), gate_up).chunk(2, -1)
    return torch.bmm(functional.silu(gate) * up, down)


def attention(
    stream: Tensor,
    gain: Tensor,
    mix: Tensor,
    out: Tensor,
    length: int,
    heads: int,
    turns: tuple[Tensor, Tensor],
    masks: Masks | None = None,
) -> Tensor:
    """What causal attention of the normalized stream (models, batch · length, width) adds to it.

    mix: the matrices of queries, keys and values side by side, (models, width, 3·width).
    out: the matrices behind attention, (models, width, width).
    turns: cosine and sine, from `rotation`.
    masks: of the dropout of the probabilities, as in dropped_attention.
    """
    mixed = torch.bmm(normalize(stream, gain), mix)
    # (models · batch, heads, 3, length, head width); split, because the gradient of [:2] is filled with zeros first
    parts = mixed.view(-1, length, 3, heads, stream.shape[-1] // heads).transpose(1, 3)
    query_key, value = parts.split([2, 1], 2)
    (query, key), value = apply_rotary(query_key, *turns).unbind(2), value.squeeze(2)
    scale = score_scale(query.shape[-1])
    if masks is None:
        heard = functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
    else:
        heard = dropped_attention.heard(query, key, value, scale, masks, len(stream))
    return torch.bmm(heard.transpose(1, 2).reshape(stream.shape), out)


def attention_with_dropout(
    stream: Tensor,
    gain: Tensor,
    mix: Tensor,
    out: Tensor,
    length: int,
    heads: int,
    turns: tuple[Tensor, Tensor],
    masks: Masks,
) -> Tensor:
    """As `attention`; a function of its own, because a compiler may fail on the one and serve the other."""
    # FlexAttention wants to know the sizes of heads; the numbers of models and of sequences may change
    compiled.for_these_alone(length, heads, stream.shape[2], *mix.shape[1:], *out.shape[1:])
    compiled.for_these_alone(*turns[0].shape, *turns[1].shape)
    return attention(stream, gain, mix, out, length, heads, turns, masks)


def score_scale(head_width: int) -> float:
    """The factor of the products of queries and keys: the usual 1/8 at a head width of 64."""
    return math.sqrt(64) / head_width


def apply_rotary(vectors: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions: rotate coordinates i and i + half of (…, length, head width) by an angle ∝ position."""
    first, second = vectors.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, first * sine + second * cosine), -1).to(vectors.dtype)


def rotation(length: int, head_width: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the angle by which each position turns each pair of coordinates, (length, head width / 2)."""
    device, dtype = like.device, like.dtype
    frequencies = ROTARY_BASE ** (-torch.arange(0, head_width, 2, device=device, dtype=torch.float64) / head_width)
    angles = torch.outer(torch.arange(length, device=device, dtype=torch.float64), frequencies)
    return angles.cos().to(dtype), angles.sin().to(dtype)
