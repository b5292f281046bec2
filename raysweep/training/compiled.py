"""Functions that torch's compiler makes into few kernels on a GPU; elsewhere they run operation by operation.

Each operation by itself reads and writes all of its tensors. A compiler joins neighbours into one pass over memory. On
a CPU compiling takes longer than the trainings of a sweep gain by it. Whether there is a compiler is tried once in a
process; a function that it fails on, or on whose gradient, runs as written from then on, without a word. torch's own
variable TORCH_COMPILE_DISABLE=1 switches compiling off.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves, tree_map_only

Result = TypeVar("Result")

made: dict[Callable[..., Any], Callable[..., Any]] = {}
"""What the compiler has made of functions in this process; where it failed on one, what runs without a compiler."""


@functools.lru_cache(maxsize=1)
def available() -> bool:
    """Whether there is a compiler for the GPU: a small function and its gradient are compiled."""
    if os.environ.get("TORCH_COMPILE_DISABLE") == "1" or not torch.cuda.is_available():
        return False
    try:
        start = torch.ones(8, device="cuda", requires_grad=True)
        torch.compile(lambda values: values.sin() * 2)(start).sum().backward()
    except Exception:  # of many kinds: no compiler for C, no Triton, too old a GPU
        return False
    return True


def where_possible(
    function: Callable[..., Result], written: Callable[..., Result] | None = None
) -> Callable[..., Result]:
    """`function`, compiled where its first argument is on a GPU and a compiler is there.

    function: without side effects. Its first argument is a tensor.
    written: what runs where there is no compiler, if that is another way to compute the same.
    """
    written = written or function
    differentiated: list[bool] = []

    @functools.wraps(function)
    def call(first: Tensor, *rest: Any) -> Result:
        # under a mode every operation is to be seen, as in tests and in counts of memory
        if first.is_cuda and made.get(function) is not written and watched() is None and available():
            try:
                if function not in made:
                    made[function] = torch.compile(function)
                if torch.is_grad_enabled() and not differentiated and _differentiate(made[function], first, *rest):
                    differentiated.append(True)
                result: Result = made[function](first, *rest)
                return result
            except torch.cuda.OutOfMemoryError:
                raise
            except Exception:
                made[function] = written
        return written(first, *rest)

    return call


def _differentiate(function: Callable[..., Any], *inputs: Any) -> bool:
    """Raise what a gradient would raise, and say whether there is one.

    torch compiles a gradient when it is first asked for, and then it is too late for another way.
    """
    copies = tree_map_only(Tensor, lambda each: each.detach().requires_grad_(each.requires_grad), inputs)
    wanted = [each for each in tree_leaves(copies) if isinstance(each, Tensor) and each.requires_grad]
    if wanted:
        found = [each for each in tree_leaves(function(*copies)) if isinstance(each, Tensor) and each.requires_grad]
        torch.autograd.grad(found, wanted, [torch.zeros_like(each) for each in found], allow_unused=True)
    return bool(wanted)


def for_these_alone(*sizes: int) -> None:
    """Within a function that is compiled: compile it again for other sizes, and not once for all that come later."""
    if torch.compiler.is_compiling():
        from torch._dynamo.comptime import comptime  # three seconds, where it is used

        for size in sizes:
            comptime.force_static(size)


def watched() -> Any:
    """The mode that sees each operation as it is dispatched; None if there is none."""
    return _get_current_dispatch_mode()
