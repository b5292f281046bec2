"""Batches of the next steps, made by one thread while a GPU computes.

A training step only starts work on a GPU, so a thread that also made the batches would leave the GPU idle meanwhile. On
a CPU the cores are busy anyway: every batch is made when its step begins.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Batch = TypeVar("Batch")
AHEAD = 8  # batches: text is made in chunks of several batches, and the GPU need not wait for one


@contextlib.contextmanager
def in_turn(make: Callable[[int], Batch], steps: range, where: torch.device) -> Iterator[Callable[[], Batch]]:
    """Gives a function that returns make(step) of the next of `steps` at each call, for training on a device.

    The first batch, for which gigabytes of text may have to be read, is made when it is asked for, so that it can be
    interrupted; those after it by a thread that ends with the block. What make raises for a step is raised by the call
    for that step.
    """
    remaining = iter(steps)
    if where.type != "cuda":
        yield lambda: make(next(remaining))
        return
    waiting: deque[Future[Batch]] = deque()
    # a new thread would use the first GPU for what it pins, and take memory there
    with ThreadPoolExecutor(1, "batches", torch.cuda.set_device, (torch.cuda.current_device(),)) as thread:

        def following() -> Batch:
            found = waiting.popleft().result() if waiting else make(next(remaining))
            while len(waiting) < AHEAD and (step := next(remaining, None)) is not None:
                waiting.append(thread.submit(make, step))
            return found

        try:
            yield following
        finally:
            thread.shutdown(cancel_futures=True)
