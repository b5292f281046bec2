"""What keeps a GPU busy: batches of the next steps, made by one thread, and kernels that are recorded once.

A training step only starts work on a GPU. A thread that also made the batches would leave the GPU idle meanwhile, and
the kernels of a small model take less time than a host takes to start each of them. On a CPU the cores are busy anyway:
every batch is made when its step begins.
"""

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

Batch = TypeVar("Batch")
AHEAD = 8  # batches: text is made in chunks of several batches, and the GPU need not wait for one


def in_turn(make: Callable[[int], Batch], steps: range, where: torch.device) -> Generator[Batch]:
    """Gives make(step) for each of `steps`, for training on a device. Close it: its thread ends with it.

    The first batch, for which gigabytes of text may have to be read, is made when it is asked for, so that it can be
    interrupted; those after it by a thread. What make raises for a step is raised where that step is asked for.
    """
    if where.type != "cuda" or not steps:
        yield from map(make, steps)
        return
    yield make(steps[0])
    waiting: deque[Future[Batch]] = deque()
    # a new thread would use the first GPU for what it pins, and take memory there
    thread = ThreadPoolExecutor(1, "batches", torch.cuda.set_device, (torch.cuda.current_device(),))
    try:
        for place in range(1, len(steps)):
            for step in steps[place + len(waiting) : place + AHEAD]:
                waiting.append(thread.submit(make, step))
            yield waiting.popleft().result()
    finally:
        thread.shutdown(cancel_futures=True)


def recorded(run: Callable[..., Tensor], *like: Tensor) -> Callable[..., Tensor]:
    """A function of tensors shaped like these that does what `run` does, as a CUDA graph: one call starts its kernels.
    It gives the same tensor each time.

    `run` starts the same kernels whatever the values are, waits for none, and writes its results in place. It was
    called before with such tensors: what is compiled or allocated at a first call cannot be recorded.
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
