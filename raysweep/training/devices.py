"""Where a workload computes: on the CPU, or on the GPU that its trial was granted.

A trial states how many GPUs it was granted (`granted`). A workload asks only `device()`, because torch alone would use
any GPU that it sees. A program that calls a workload itself states nothing, and may use every visible GPU.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from raysweep.errors import Halted

if TYPE_CHECKING:
    import torch

VISIBLE = "CUDA_VISIBLE_DEVICES"
_granted: int | None = None  # of this process, which computes one trial at a time; None: not stated


@contextlib.contextmanager
def granted(gpus: int | None) -> Iterator[None]:
    """Allow this process to use this number of GPUs while the block runs; None: all visible ones."""
    global _granted
    before, _granted = _granted, gpus
    try:
        yield
    finally:
        _granted = before


def show_only(gpus: Sequence[int | str]) -> None:
    """Let this process see the GPUs of these names (as in CUDA_VISIBLE_DEVICES) and no other; if empty, none.

    It must run before any library that uses GPUs is loaded. Ray leaves CUDA_VISIBLE_DEVICES unchanged for 0 GPUs, and
    for any number if RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES is set; then all of them are visible.
    """
    os.environ[VISIBLE] = ",".join(map(str, gpus))


def usable() -> bool:
    """Whether there is a GPU that this process may use and that torch sees."""
    import torch

    return _granted != 0 and bool(torch.cuda.is_available())


def device() -> torch.device:
    """The device to compute on.

    Halted if a GPU was granted but torch does not see it: the CPU would take many times as long and hold the GPU idle.
    """
    import torch

    if not usable() and _granted:
        built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
        raise Halted(
            "resources.gpus_per_trial",
            "a GPU was granted to this trial, and torch does not see it (torch "
            f"{torch.__version__} built {built}, {VISIBLE}={os.environ.get(VISIBLE, ' not set')}); install a "
            "build of torch for this GPU's driver and resume, or compute without a GPU: raysweep run … --set "
            "resources.gpus_per_trial=0 (and --set resources.where=[] where its rules ask for GPUs; resume keeps the "
            "resources that are recorded)",
        )
    return torch.device("cuda" if usable() else "cpu")
