"""The two halves of a layer on a CPU, with their gradients written out.

Training a small model on a CPU spends more time between the matrix products than in them: in passes over memory, in
fresh memory, and in starting operations. Here each half is one node of the graph. It writes into memory that it has
already, and turns queries and keys by one product of complex numbers. The formulas are those of layer.py, which serves
where a gradient is itself to be differentiated.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from raysweep.workloads.language import layer

_aten = torch.ops.aten


def serves(stream: Tensor) -> bool:
    """Whether these functions can compute for a stream: on a CPU, without autocast."""
    return not stream.is_cuda and not torch.is_autocast_enabled("cpu")


def normalize(stream: Tensor, gain: Tensor) -> Tensor:
    """As layer.normalize; differentiable once, as all here."""
    found: Tensor = _Normalize.apply(stream, gain)
    return found


def mlp(stream: Tensor, gain: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """As layer.mlp."""
    found: Tensor = _Mlp.apply(stream, gain, gate_up, down)
    return found


def attention(stream: Tensor, gain: Tensor, mix: Tensor, out: Tensor, length: int, heads: int) -> Tensor:
    """As layer.attention, without dropout."""
    found: Tensor = _Attention.apply(stream, gain, mix, out, length, heads)
    return found


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, stream: Tensor, gain: Tensor) -> Tensor:
        """The normalized stream."""
        rows, inverse = _normalized(stream, gain)
        context.save_for_backward(stream, gain, inverse)
        return rows

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Any, ...]:
        """Gradients in stream and gain."""
        stream, gain, inverse = context.saved_tensors
        return _through_norm(above, stream, gain, inverse)


class _Mlp(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, stream: Tensor, gain: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
        """What the MLP adds to the stream."""
        rows, inverse = _normalized(stream, gain)
        both = torch.bmm(rows, gate_up)
        gate, up = both.chunk(2, -1)
        active = functional.silu(gate)
        inner = active * up
        context.save_for_backward(stream, gain, gate_up, down, rows, inverse, both, active, inner)
        return torch.bmm(inner, down)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Any, ...]:
        """Gradients in stream, gain and both matrices."""
        stream, gain, gate_up, down, rows, inverse, both, active, inner = context.saved_tensors
        gate, up = both.chunk(2, -1)
        of_inner, of_both = torch.bmm(above, down.mT), torch.empty_like(both)
        of_gate, of_up = of_both.chunk(2, -1)
        torch.mul(of_inner, active, out=of_up)
        _aten.silu_backward.grad_input(of_inner.mul_(up), gate, grad_input=of_gate)
        of_norm = _through_norm(torch.bmm(of_both, gate_up.mT), stream, gain, inverse)
        return *of_norm, torch.bmm(rows.mT, of_both), torch.bmm(inner.mT, above)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, stream: Tensor, gain: Tensor, mix: Tensor, out: Tensor, length: int, heads: int
    ) -> Tensor:
        """What attention adds to the stream."""
        rows, inverse = _normalized(stream, gain)
        paired, each = _in_pairs(mix, heads), stream.shape[-1] // heads
        mixed = torch.bmm(rows, paired)
        forth, back = _turns(length, heads, each, stream.dtype)
        _query_key(mixed, forth).mul_(forth)
        parts = mixed.view(-1, length, 3, heads, each).transpose(1, 3).unbind(2)
        heard, sums = _aten._scaled_dot_product_flash_attention_for_cpu(
            *parts, 0.0, True, scale=layer.score_scale(each)
        )
        context.save_for_backward(stream, gain, out, rows, inverse, paired, *parts, heard, sums, back)
        context.length, context.heads = length, heads
        return torch.bmm(heard.transpose(1, 2).reshape(stream.shape), out)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Any, ...]:
        """Gradients in stream, gain and both matrices."""
        stream, gain, out, rows, inverse, paired, *parts, heard, sums, back = context.saved_tensors
        length, heads = context.length, context.heads
        each = stream.shape[-1] // heads
        of_heard = torch.bmm(above, out.mT).view(-1, length, heads, each).transpose(1, 2)
        of_parts = _aten._scaled_dot_product_flash_attention_for_cpu_backward(
            of_heard, *parts, heard, sums, 0.0, True, scale=layer.score_scale(each)
        )
        of_mixed = torch.stack(of_parts, 2).transpose(1, 3).reshape(*rows.shape[:2], -1)
        _query_key(of_mixed, back).mul_(back)
        of_norm = _through_norm(torch.bmm(of_mixed, paired.mT), stream, gain, inverse)
        of_mix = _in_pairs(torch.bmm(rows.mT, of_mixed), heads, back=True)
        return *of_norm, of_mix, torch.bmm(heard.transpose(1, 2).reshape(stream.shape).mT, above), None, None


def _in_pairs(matrix: Tensor, heads: int, back: bool = False) -> Tensor:
    """The columns of queries, keys and values, with the two that are turned together side by side.

    So they are one complex number. That changes the order of a head's coordinates, not their product. back: the
    columns in the order that they had.
    """
    models, width, columns = matrix.shape
    half = width // heads // 2
    order = (half, 2) if back else (2, half)
    split = matrix.view(models, width, 3 * heads, *order)
    turned, value = split[:, :, : 2 * heads].transpose(3, 4), split[:, :, 2 * heads :]
    return torch.cat((turned, value.reshape(models, width, heads, *order[::-1])), 2).view(models, width, columns)


def _query_key(mixed: Tensor, turn: Tensor) -> Tensor:
    """The queries and keys of (models, N, 3·width) as complex numbers (models · batch, length, width)."""
    return torch.view_as_complex(mixed.view(-1, len(turn), mixed.shape[-1] // 2, 2))[:, :, : turn.shape[1]]


def _turns(length: int, heads: int, head_width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """By what queries and keys are multiplied, complex (length, width): exp(i·angle) of each pair, and its inverse."""
    forth, back = _both_turns(length, heads, head_width, dtype == torch.float64)
    return torch.as_tensor(forth), torch.as_tensor(back)


@functools.lru_cache(maxsize=16)
def _both_turns(length: int, heads: int, head_width: int, wide: bool) -> tuple[np.ndarray, np.ndarray]:
    frequencies = layer.ROTARY_BASE ** (-np.arange(0, head_width, 2) / head_width)
    forth = np.exp(1j * np.outer(np.arange(length), np.tile(frequencies, 2 * heads)))
    forth = forth.astype(np.complex128 if wide else np.complex64)
    return forth, forth.conj()


def _normalized(stream: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
    """The normalized stream, and by what its rows were multiplied before the gain, (models, N, 1)."""
    square = stream.square().mean(-1, keepdim=True).add_(layer.EPSILON)
    inverse = square.rsqrt().add_(square, alpha=0)  # NaN where the square overflows, as layer.overflow
    return (stream * inverse).mul_(gain.unsqueeze(1)), inverse


def _through_norm(above: Tensor, stream: Tensor, gain: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of RMSNorm in the stream and the gain, from that of its result."""
    unit, scaled = stream * inverse, above * gain.unsqueeze(1)
    along = (scaled * unit).mean(-1, keepdim=True)
    of_gain = (above * unit).sum(1)
    return scaled.addcmul_(unit, along, value=-1).mul_(inverse), of_gain
