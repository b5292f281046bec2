"""Workers that train one model together: which worker takes which sequences, and sums over all workers.

Every worker runs the same code on the same numbers but takes only its share of each batch. The workers' results are
summed with torch.distributed, so all workers then agree to the last bit. Outside a gang there is one worker; it takes
everything, and the functions here change nothing.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

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


def workers() -> int:
    gang = distributed.is_available() and distributed.is_initialized()
    return int(distributed.get_world_size()) if gang else 1


def rank() -> int:
    return distributed.get_rank() if workers() > 1 else 0


def share(sequences: np.ndarray, group: int = 1) -> tuple[np.ndarray, int]:
    """This worker's part of a batch (count, length + 1), and the number of the part's first sequence in the batch.

    All workers get equally many sequences, in whole groups. If the batch does not divide evenly, the last workers also
    get sequences with nothing to predict (every token is -1: read, not predicted). These add nothing to a sum of losses
    or to its gradient.
    """
    each = group * -(-len(sequences) // (workers() * group))
    part = sequences[rank() * each : (rank() + 1) * each]
    if lacking := each - len(part):
        part = np.concatenate([part.astype(np.int32), np.full((lacking, *part.shape[1:]), -1, np.int32)])
    return part, rank() * each


def add_up(values: Tensor) -> Tensor:
    """Sum over the workers, in place; every worker gets the same sum."""
    if workers() > 1:
        distributed.all_reduce(values)
    return values


def of_first(value: float) -> float:
    """Worker 0's value of a number on which workers might differ, such as a time."""
    if workers() == 1:
        return value
    number = torch.tensor(value, dtype=torch.float64)
    distributed.broadcast(number, 0)
    return float(number)
