"""The stage store for a gang. Only the first worker reads, takes leases and publishes; it sends results to the others.

Every worker makes the same calls in the same order. The first worker broadcasts what it reads, so that no worker
depends on when a shared file system shows it a new file. torch.distributed must be initialised. Bytes are sent as they
are stored, and nothing is pickled.

The first worker may wait long for the store while another trial computes the stage. The others wait for it in a
separate process group (`waiting_group`) without a practical limit. Before this wait, all workers check that every one
of them has arrived (`parallel.meet`), with the time limit that they have for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from raysweep.training import parallel

_AS_LONG_AS_IT_TAKES = timedelta(days=30)  # Ray reports if the first worker dies


def waiting_group() -> Any:
    """A process group of all workers, for waiting for the store. Every worker must call this."""
    return dist.new_group(backend="gloo", timeout=_AS_LONG_AS_IT_TAKES)


@dataclass(frozen=True)
class SharedEntry:
    """A checkpoint that all workers hold: what a workload needs of a `checkpoints.Entry`."""

    stage: str
    meta: dict[str, Any]
    _content: np.ndarray = field(repr=False, compare=False)

    def tensors(self) -> dict[str, np.ndarray]:
        """The tensors. Each call returns new, writable arrays."""
        return deserialize(self._content.copy())


class GangStages:
    """The part of the store's interface that a workload needs. waiting: the group from `waiting_group`."""

    def __init__(self, store: Store, waiting: Any) -> None:
        self._store, self._waiting = store if dist.get_rank() == 0 else None, waiting

    def fetch(self, stage: str) -> SharedEntry | None:
        """A published stage, or None if there is none."""
        parallel.meet()
        return _share(self._store.fetch(stage) if self._store else None, self._waiting)

    def look(self, stage: str) -> dict[str, Any] | None:
        """The meta of a published stage, under "meta"; None if there is none. Its weights are not read."""
        parallel.meet()
        record = self._store.look(stage) if self._store else None
        meta = _broadcast({"meta": None if record is None else record["meta"]}, self._waiting)["meta"]
        return None if meta is None else {"meta": meta}

    def once_together(
        self, stages: Mapping[str, dict[str, Any]], compute: Callable[[list[str], Any], Sequence[Computed]]
    ) -> list[SharedEntry]:
        """Like `Store.once_together`. If the first worker gets leases, all workers compute together, and it publishes.
        If it raises leases.Held, all of them do."""
        parallel.meet()
        entries: list[Any] = [None] * len(stages)
        if self._store is None:
            while (message := _broadcast({}, self._waiting))["compute"]:
                compute(message["compute"], _SharedProgress(None, self._waiting))
                parallel.meet()
            held = message["held"]
        else:
            held = ""

            def lead(ids: list[str], progress: Any) -> Sequence[Computed]:
                _broadcast({"compute": ids}, self._waiting)
                shared = _SharedProgress(progress, self._waiting)
                results = compute(ids, shared)
                parallel.meet()
                if shared.lost:
                    raise leases.Lost(ids[0])
                return results

            try:
                entries = list(self._store.once_together(stages, lead))
            except leases.Held as other:
                held = other.stage
            _broadcast({"compute": [], "held": held}, self._waiting)
        if held:
            raise leases.Held(held)
        received = [_share(entry, self._waiting) for entry in entries]
        assert all(received)
        return [entry for entry in received if entry is not None]


class _SharedProgress:
    """Intermediate checkpoints for a gang: the first worker loads and saves, and the others begin with what it loads.
    If the lease is lost, it only stops saving, because it cannot tell the others in the middle of a step."""

    def __init__(self, progress: Any | None, waiting: Any) -> None:
        self._progress, self._waiting, self.lost = progress, waiting, False

    def load(self) -> SharedEntry | None:
        parallel.meet()
        return _share(self._progress.load() if self._progress else None, self._waiting)

    def save(self, tensors: Any, meta: dict[str, Any]) -> None:
        if self._progress and not self.lost:
            try:
                self._progress.save(tensors, meta)
            except leases.Lost:
                self.lost = True
        parallel.meet()


def _share(entry: Any, waiting: Any) -> SharedEntry | None:
    """Send the first worker's entry (or None) to every worker, and return it there."""
    parts = serialize(entry.tensors()) if entry is not None else []
    header = {} if entry is None else {"stage": entry.stage, "meta": entry.meta}
    message = _broadcast({**header, "bytes": sum(part.size for part in parts)}, waiting)
    if "stage" not in message:
        return None
    content = np.empty(message["bytes"], np.uint8)
    chunks = pieces(parts)
    for start in range(0, len(content), CHUNK):
        piece = content[start : start + CHUNK]
        if parts:
            piece[:] = next(chunks)
        dist.broadcast(torch.from_numpy(piece), 0, waiting)
    return SharedEntry(message["stage"], message["meta"], content)


def _broadcast(body: dict[str, Any], waiting: Any) -> dict[str, Any]:
    """Send the first worker's plain data to every worker, and return it there. The others' `body` is ignored."""
    content = np.frombuffer(bytearray(seal(body)), np.uint8)
    size = torch.tensor([len(content)])
    dist.broadcast(size, 0, waiting)
    if dist.get_rank():
        content = np.empty(int(size), np.uint8)
    dist.broadcast(torch.from_numpy(content), 0, waiting)
    return unseal(content.tobytes())
