"""Workers that train one model together: who takes which sequences, and sums over all of them (torch.distributed).

Every worker runs the same code on the same numbers and only takes its share of each batch; what it computes of it is
added up over all workers, and from there on they agree to the last bit. Outside a gang there is one worker, which has
everything, and nothing here does anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, distributed

_apart = False


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Meanwhile this worker computes as if it were alone, and waits for nobody."""
    global _apart
    _apart = True
    try:
        yield
    finally:
        _apart = False


def workers() -> int:
    """How many train together."""
    if _apart or not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return int(distributed.get_world_size())


def rank() -> int:
    """Which of them this is, from 0."""
    return distributed.get_rank() if workers() > 1 else 0


def share(sequences: np.ndarray) -> tuple[np.ndarray, int]:
    """This worker's part of a batch (count, length + 1), and the number of its first sequence in it.

    All have equally many: where the batch is no multiple of the workers, the last get sequences with nothing to predict
    (every token -1, read and not predicted), which add nothing to a sum of losses or to its gradient.
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
    """The sum over workers, in place and the same everywhere."""
    if workers() > 1:
        distributed.all_reduce(values)
    return values


def least(value: float) -> float:
    """The smallest over workers of a number that each has measured for itself."""
    if workers() == 1:
        return value
    number = torch.tensor(value, dtype=torch.float64, device=_device())
    distributed.all_reduce(number, op=distributed.ReduceOp.MIN)
    return float(number)


def greatest(value: float) -> float:
    """The largest over workers of a number that each has measured for itself."""
    return -least(-value)


def of_first(value: float) -> float:
    """What worker 0 says of a number on which the others might differ, such as a time."""
    if workers() == 1:
        return value
    number = torch.tensor(value, dtype=torch.float64, device=_device())
    distributed.broadcast(number, 0)
    return float(number)


def _device() -> str:
    return "cuda" if "nccl" in str(distributed.get_backend()) else "cpu"
