"""The stage store as a gang sees it: its first worker alone reads, takes leases and publishes, and tells the others.

Every worker makes the same calls in the same order. What the first one reads goes to the others by broadcast, so that
none depends on when a shared file system shows it a new file. Needs torch.distributed, initialised; bytes travel as
they lie in the store and nothing is pickled.

The first worker may be long at the store, where another trial computes what it asks for: the others wait for it in a
group of their own (`waiting_group`), as long as it takes. Before, all make sure that each has come so far (`_meet`), by
the patience that they have with each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from raysweep.stages.store import Computed, Store
from raysweep.stages.tensors import CHUNK, deserialize, pieces, serialize
from raysweep.storage import leases
from raysweep.storage.sealed import seal, unseal

_AS_LONG_AS_IT_TAKES = timedelta(days=30)  # whether the first worker lives is known from Ray


def waiting_group() -> Any:
    """The workers as those who wait for the store; to be called by all."""
    return dist.new_group(backend="gloo", timeout=_AS_LONG_AS_IT_TAKES)


@dataclass(frozen=True)
class SharedEntry:
    """A checkpoint that all workers hold; as `checkpoints.Entry`."""

    stage: str
    meta: dict[str, Any]
    seconds: float
    _content: np.ndarray = field(repr=False, compare=False)

    def tensors(self) -> dict[str, np.ndarray]:
        """The tensors, writable, anew each time."""
        return deserialize(self._content.copy())


class GangStages:
    """What a workload needs of the store. waiting: what `waiting_group` gave."""

    def __init__(self, store: Store, waiting: Any) -> None:
        self._store, self._waiting = store if dist.get_rank() == 0 else None, waiting

    def fetch(self, stage: str) -> SharedEntry | None:
        """A published stage, or None if there is none."""
        _meet()
        return _share(self._store.fetch(stage) if self._store else None, self._waiting)

    def once(self, stage: str, compute: Callable[[Any], Computed], *, describe: dict[str, Any]) -> SharedEntry:
        """As `Store.once`: if the first worker gets the lease, all compute together and it publishes."""
        _meet()
        if self._store is None:
            while _broadcast({"compute": None}, self._waiting)["compute"]:
                compute(_SharedProgress(None, self._waiting))
                _meet()
            entry = None
        else:

            def lead(progress: Any) -> Computed:
                _broadcast({"compute": True}, self._waiting)
                shared = _SharedProgress(progress, self._waiting)
                result = compute(shared)
                _meet()
                if shared.lost:
                    raise leases.Lost(stage)
                return result

            entry = self._store.once(stage, lead, describe=describe)
            _broadcast({"compute": False}, self._waiting)
        found = _share(entry, self._waiting)
        assert found is not None
        return found


class _SharedProgress:
    """Intermediate checkpoints: the first worker, which alone has `progress`, loads and saves them, and the others
    begin where it does.

    A lease that is lost ends its saving, not its part in the work: the others could not be told in the middle of a
    step.
    """

    def __init__(self, progress: Any | None, waiting: Any) -> None:
        self._progress, self._waiting, self.lost = progress, waiting, False

    def load(self) -> SharedEntry | None:
        _meet()
        return _share(self._progress.load() if self._progress else None, self._waiting)

    def save(self, tensors: Any, meta: dict[str, Any]) -> None:
        if self._progress and not self.lost:
            try:
                self._progress.save(tensors, meta)
            except leases.Lost:
                self.lost = True

    def seconds(self) -> float:
        return float(self._progress.seconds()) if self._progress else 0.0


def _meet() -> None:
    """Wait until every worker is here; an error if one does not come."""
    dist.all_reduce(torch.zeros(1))  # of a CPU, so by gloo


def _share(entry: Any, waiting: Any) -> SharedEntry | None:
    """What the first worker holds (None if it holds none), on every worker."""
    parts = serialize(entry.tensors()) if entry is not None else []
    own = {} if entry is None else {"stage": entry.stage, "meta": entry.meta, "seconds": entry.seconds}
    told = _broadcast({**own, "bytes": sum(part.size for part in parts)}, waiting)
    if "stage" not in told:
        return None
    content = np.empty(told["bytes"], np.uint8)
    chunks = pieces(parts)
    for start in range(0, len(content), CHUNK):
        piece = content[start : start + CHUNK]
        if parts:
            piece[:] = next(chunks)
        dist.broadcast(torch.from_numpy(piece), 0, waiting)
    return SharedEntry(told["stage"], told["meta"], told["seconds"], content)


def _broadcast(body: dict[str, Any], waiting: Any) -> dict[str, Any]:
    """Plain data of the first worker, on every worker; that of the others is ignored."""
    content = np.frombuffer(bytearray(seal(body)), np.uint8)
    size = torch.tensor([len(content)])
    dist.broadcast(size, 0, waiting)
    if dist.get_rank():
        content = np.empty(int(size), np.uint8)
    dist.broadcast(torch.from_numpy(content), 0, waiting)
    return unseal(content.tobytes())
