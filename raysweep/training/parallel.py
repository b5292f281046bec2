"""Workers that train one model together: which worker takes which sequences, and sums over all workers.

Every worker runs the same code on the same numbers but takes only its share of each batch. The workers' results are
summed with torch.distributed, so all workers then agree to the last bit. Outside a gang there is one worker; it takes
everything, and the functions here change nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

_apart = False
_late: Any = None  # the process group of `meet`


def meet_in(group: Any) -> None:
    """Let the workers meet in this process group of all of them, with its time limit."""
    global _late
    _late = group


def meet() -> None:
    """Wait until every worker is here. torch.distributed raises an error if one does not come in time.

    To be called by all workers before they exchange anything where one may be late by minutes, because it reads texts
    or writes a checkpoint. Elsewhere they wait for each other for a shorter time.
    """
    if workers() > 1:
        distributed.all_reduce(torch.zeros(1), group=_late)  # of the host, so that no GPU waits


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Let this worker compute alone while the block runs, without waiting for the others."""
    global _apart
    _apart = True
    try:
        yield
    finally:
        _apart = False


def workers() -> int:
    """How many workers train together."""
    if _apart or not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return int(distributed.get_world_size())


def rank() -> int:
    """The number of this worker, from 0."""
    return distributed.get_rank() if workers() > 1 else 0


def share(sequences: np.ndarray) -> tuple[np.ndarray, int]:
    """This worker's part of a batch (count, length + 1), and the number of the part's first sequence in the batch.

    All workers get equally many sequences. If the batch does not divide evenly, the last workers also get sequences
    with nothing to predict (every token is -1: read, not predicted). These add nothing to a sum of losses or to its
    gradient.
    """
    count = workers()
    if count == 1:
        return sequences, 0
    each = -(-len(sequences) // count)
    first = rank() * each
    own = sequences[first : first + each]
    if len(own) < each:
        own = own.astype(np.int32)
        own = np.concatenate([own, np.full((each - len(own), *own.shape[1:]), -1, np.int32)])
    return own, first


def add_up(values: Tensor) -> Tensor:
    """Sum over the workers, in place; every worker gets the same sum."""
    if workers() > 1:
        distributed.all_reduce(values)
    return values


def least(value: float) -> float:
    """The smallest of the numbers that the workers measured."""
    if workers() == 1:
        return value
    number = torch.tensor(value, dtype=torch.float64)  # of the host, so that no GPU waits
    distributed.all_reduce(number, op=distributed.ReduceOp.MIN)
    return float(number)


def greatest(value: float) -> float:
    """The largest of the numbers that the workers measured."""
    return -least(-value)


def of_first(value: float) -> float:
    """Worker 0's value of a number on which workers might differ, such as a time."""
    if workers() == 1:
        return value
    number = torch.tensor(value, dtype=torch.float64)
    distributed.broadcast(number, 0)
    return float(number)


@contextlib.contextmanager
def out_of_memory_together(where: torch.device) -> Iterator[None]:
    """If the block runs out of a GPU's memory on one worker, raise torch.cuda.OutOfMemoryError on all of them.

    So all of them can try smaller pieces, and none waits for one that has given up. The block must not wait for other
    workers itself. On a CPU nothing is done, because there memory does not run out with an error.
    """
    if workers() == 1 or where.type == "cpu":
        yield
        return
    short = False
    try:
        yield
    except torch.cuda.OutOfMemoryError:  # outside of this clause, nothing of the block holds memory any more
        short = True
    if greatest(short):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory on a worker of this gang")
