"""Counts the bytes of tensors that exist at a time, without a device and without computing anything.

Every operation is seen as it is dispatched, those of backward passes too. A storage counts from the operation that
makes it until it is freed, rounded up as CUDA's allocator does. Tensors that existed before do not count. On fake
tensors this takes seconds where the real ones would take hundreds of gigabytes.
"""

from __future__ import annotations

import weakref
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

BLOCK = 512  # CUDA's allocator gives out multiples of it


class PeakMemory(TorchDispatchMode):
    """Counts while the block runs.

    held: bytes that exist now.
    peak: the most that existed at a time, with the workspaces of operations.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held = self.peak = 0
        self._known: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        before = {_number(each) for each in tree_iter((args, kwargs)) if isinstance(each, Tensor)}
        result = func(*args, **(kwargs or {}))
        for each in tree_iter(result):
            if isinstance(each, Tensor) and _number(each) not in before:
                self._made(each)
        self.peak = max(self.peak, self.held + workspace(func, args))
        return result

    def _made(self, tensor: Tensor) -> None:
        storage, number = tensor.untyped_storage(), _number(tensor)
        if number in self._known:
            return
        size = -(-storage.nbytes() // BLOCK) * BLOCK
        self._known[number] = size
        self.held += size
        weakref.finalize(storage, self._freed, number)

    def _freed(self, number: int) -> None:
        self.held -= self._known.pop(number)


def _number(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def workspace(func: Any, args: tuple[Any, ...]) -> int:
    """Bytes that an operation takes on a GPU besides its results.

    The gradient of a look-up sorts what it looked up. Flash attention sums the gradient of the queries in float32, at
    lengths rounded up to 128 and widths rounded up to 32, and keeps one more number per position.
    """
    name = func.overloadpacket.__name__
    if name == "embedding_dense_backward":
        return int(40 * args[1].numel())
    if name == "flash_attention_backward":
        count, heads, length, width = args[1].shape
        return int(4 * count * heads * (-(-length // 128) * 128) * (-(-width // 32) * 32 + 1))
    return 0
