"""Counts the bytes that operations read and write, and how many of them a GPU would be told to start."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


class Traffic(TorchDispatchMode):
    """Counts while the block runs, operations of backward passes too.

    Views cost nothing. Looking up or changing single entries counts as those entries alone.

    bytes: read and written, each tensor once an operation.
    launches: operations that compute or copy.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.launches = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if func.is_view or name in ("detach", "alias", "lift_fresh", "_unsafe_view") or name.startswith("empty"):
            return result
        read, written = (
            [each for each in tree_iter(of) if isinstance(each, Tensor)] for of in ((args, kwargs), result)
        )
        if name in ("gather", "scatter_add_"):
            read, written = [read[-1]], [read[-1]]
        elif "out" in (kwargs or {}):
            read = [each for each in tree_iter(args) if isinstance(each, Tensor)]
        self.launches += 1
        self.bytes += sum(each.numel() * each.element_size() for each in (*read, *written))
        return result
