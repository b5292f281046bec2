"""Part of a training step as a CUDA graph: its kernels are recorded once, and then started by one call.

The kernels of a small model take less time than a host takes to start each of them. A recorded part must start the same
kernels whatever the values are, wait for none, and write its results in place.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def recorded(run: Callable[..., Tensor], *like: Tensor) -> Callable[..., Tensor]:
    """A function of tensors shaped like these that does what `run` does. It gives the same tensor each time.

    `run` was called before with such tensors: what is compiled or allocated at a first call cannot be recorded.
    """
    inputs = [each.clone() for each in like]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # another thread pins the next batches meanwhile
        result = run(*inputs)

    def replay(*tensors: Tensor) -> Tensor:
        for place, values in zip(inputs, tensors, strict=True):
            place.copy_(values)
        graph.replay()
        return result

    return replay
