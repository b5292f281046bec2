"""Tensors without content on the CPU that have the types which CUDA's autocast to bfloat16 would give them.

Backward passes of tensors that are said to be on `cuda` need a real device in torch; those of the CPU do not. The CPU's
autocast has other lists of operations: those that matter here are brought into line, and
test_peak_memory.py compares the operations of forward passes, one by one, with those of tensors on `cuda`.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from raysweep.training import optimizer

_IN_FLOAT32 = ("softmax.int", "sum", "sum.dim_IntList")  # as CUDA's autocast has them, and the CPU's has not


@contextlib.contextmanager
def cuda_types() -> Iterator[None]:
    """While the block runs, tensors have no content, and training has the types and operations of a GPU."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(kernels("AutocastCPU"))
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(mock.patch.object(optimizer, "in_bfloat16", return_value=True))
        stack.enter_context(mock.patch.object(Tensor, "is_cuda", property(lambda tensor: True)))
        yield


@contextlib.contextmanager
def kernels(autocast: str) -> Iterator[None]:
    """Under an autocast (AutocastCPU, AutocastCUDA), operations without content that take what CUDA's kernels take."""
    library, own = torch.library.Library("aten", "IMPL"), torch.library.Library("pretended", "FRAGMENT")
    try:
        for schema, made in _KERNELS.items():
            own.define(schema)
            own.impl(schema.partition("(")[0], made, "Meta")
        if autocast == "AutocastCPU":
            for name in _IN_FLOAT32:
                library.impl(name, _in_float32(name), autocast)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*[Oo]verrid")
            library.impl("rms_norm", _rms_norm, autocast, allow_override=True)
            library.impl("scaled_dot_product_attention", _attention, autocast, allow_override=True)
        yield
    finally:
        own._destroy()
        library._destroy()


def _below() -> Any:
    """Kernels called in this block are those below autocast."""
    return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU))


def _in_float32(name: str) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    operation = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def run(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        with _below():
            return operation(tensor.float() if tensor.is_floating_point() else tensor, *args, **kwargs)

    return run


class _RmsNorm(torch.autograd.Function):
    """CUDA's fused kernel; the CPU's is made of several operations, each of which keeps something."""

    @staticmethod
    def forward(context: Any, tensor: Tensor, weight: Tensor | None) -> Tensor:
        """The result; keeps the input and one number per row."""
        found, rows = torch.ops.pretended.rms_norm(tensor, weight)
        context.save_for_backward(tensor, weight, rows)
        return found

    @staticmethod
    def backward(context: Any, above: Tensor) -> tuple[Tensor, Tensor | None]:
        """The gradients."""
        tensor, weight, rows = context.saved_tensors
        found, *of_weight = torch.ops.pretended.rms_norm_backward(above, tensor, weight, rows)
        return found, of_weight[0] if of_weight else None


class _FlashAttention(torch.autograd.Function):
    """Flash attention on CUDA."""

    @staticmethod
    def forward(context: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """The result; keeps it with its inputs, and one float32 number per position."""
        found, rows = torch.ops.pretended.flash_attention(query, key, value)
        context.save_for_backward(query, key, value, found, rows)
        return found

    @staticmethod
    def backward(context: Any, above: Tensor) -> tuple[Tensor, ...]:
        """The gradients."""
        return tuple(torch.ops.pretended.flash_attention_backward(above, *context.saved_tensors))


def _empty_rms_norm(tensor: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    return torch.empty_like(tensor), tensor.new_empty(*tensor.shape[:-1], 1)


def _empty_rms_norm_backward(above: Tensor, tensor: Tensor, weight: Tensor | None, rows: Tensor) -> list[Tensor]:
    return [torch.empty_like(each) for each in (tensor, weight) if each is not None]


def _empty_attention(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    count, heads, length, _ = query.shape
    found = torch.empty_like(value.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)
    return found, query.new_empty(count, heads, length, dtype=torch.float32)


def _empty_attention_backward(
    above: Tensor, query: Tensor, key: Tensor, value: Tensor, heard: Tensor, rows: Tensor
) -> tuple[Tensor, ...]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


_KERNELS: dict[str, Callable[..., Any]] = {
    "rms_norm(Tensor tensor, Tensor? weight) -> (Tensor, Tensor)": _empty_rms_norm,
    "rms_norm_backward(Tensor above, Tensor tensor, Tensor? weight, Tensor rows) -> Tensor[]": _empty_rms_norm_backward,
    "flash_attention(Tensor query, Tensor key, Tensor value) -> (Tensor, Tensor)": _empty_attention,
    "flash_attention_backward(Tensor above, Tensor query, Tensor key, Tensor value, Tensor heard, Tensor rows) "
    "-> (Tensor, Tensor, Tensor)": _empty_attention_backward,
}
"""Operations of CUDA that the CPU has not, by their schemas, and what makes their results, which have no content."""


def _rms_norm(tensor: Tensor, shape: list[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    found: Tensor = _RmsNorm.apply(tensor.float(), weight)
    return found


def _attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    found: Tensor = _FlashAttention.apply(*(each.to(torch.bfloat16) for each in (query, key, value)))
    return found
