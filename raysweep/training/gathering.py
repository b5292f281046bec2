"""Shares of a spread model's weights on their way to all workers, and its gradients on their way back (sharding.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed

from raysweep.training import parallel


class Gathering:
    """Shares of all workers on their way to each of them, in pieces."""

    def __init__(self, shares: Sequence[Tensor]) -> None:
        self._under_way = [_sent(share.contiguous()) for share in shares]

    def end(self) -> tuple[Tensor, ...]:
        """Wait for them (a GPU waits, not this process). Returns all workers' shares, one after the other."""
        for _, _, work in self._under_way:
            work.wait()
        return tuple(gathered for gathered, _, _ in self._under_way)


def _sent(share: Tensor) -> tuple[Tensor, Tensor, Any]:
    gathered = share.new_empty(len(share) * parallel.workers())
    return gathered, share, distributed.all_gather_into_tensor(gathered, share, async_op=True)


class Gathered(torch.autograd.Function):
    """The bundles of a unit, gathered from all workers' shares; the backward pass sums their gradients and returns this
    worker's shares."""

    @staticmethod
    def forward(context: Any, gathering: Gathering, *own: Tensor) -> tuple[Tensor, ...]:
        """The whole bundles."""
        context.types = [share.dtype for share in own]
        return gathering.end()

    @staticmethod
    def backward(context: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        """This worker's shares of the gradients summed over the workers."""
        return None, *(summed(each.to(kind)) for each, kind in zip(above, context.types, strict=True))


def summed(gradient: Tensor) -> Tensor:
    """This worker's share of a gradient (workers · each,), summed over the workers."""
    each = len(gradient) // parallel.workers()
    if gradient.is_cuda:
        own = gradient.new_empty(each)
        distributed.reduce_scatter_tensor(own, gradient.contiguous())
        return own
    # some versions of gloo cannot do reduce-scatter
    return parallel.add_up(gradient.clone())[parallel.rank() * each :][:each].clone()
