"""One checkpoint of the stage store: weights under a name of their own, and a sealed JSON record that names them.

The weights go first, to a name that nobody else uses; the record is created last, in one step, and only if there is
none. Without its record a checkpoint does not exist, so what a crash leaves behind is never half an entry.
"""

from __future__ import annotations

import contextlib
import mmap
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict, cast

import numpy as np

from raysweep import __version__
from raysweep.errors import InputError
from raysweep.stages.tensors import CHUNK, Checksum, deserialize, pieces, serialize
from raysweep.storage.folder import Folder
from raysweep.storage.sealed import Damaged, seal, unseal

_WEIGHTS = re.compile(r"[a-z]+/[\w.-]+\.safetensors")
FORMAT = 1
"""Of records and weights; raised whenever a store of this version could no longer be read by the one before."""


class Record(TypedDict):
    """What is kept of a checkpoint beside its weights.

    meta: plain data as it was published (and `computed`, `seconds` where `Store.once` published it)
    weights: the name of their file
    bytes, checksum: of that file
    raysweep: the version that wrote it
    describe, published: of a published stage: what it is, and when it was published
    seconds: of an intermediate checkpoint: wall time spent on its stage until then
    """

    format: int
    stage: str
    meta: dict[str, Any]
    weights: str
    bytes: int
    checksum: str
    raysweep: str
    describe: NotRequired[dict[str, Any]]
    published: NotRequired[str]
    seconds: NotRequired[float]


_REQUIRED = {"meta": dict, "weights": str, "bytes": int, "checksum": str}


@dataclass(frozen=True)
class Entry:
    """A checkpoint that was read and agreed with its checksum. stage: its id; meta: as in its record."""

    stage: str
    meta: dict[str, Any]
    _record: Record = field(repr=False, compare=False)
    _store: Folder = field(repr=False, compare=False)
    _held: list[np.ndarray] = field(repr=False, compare=False)

    @property
    def size(self) -> int:
        """Bytes of its weights."""
        return self._record["bytes"]

    @property
    def seconds(self) -> float:
        """Of an intermediate checkpoint: wall time spent on its stage until then."""
        return float(self._record.get("seconds", 0.0))

    def tensors(self) -> dict[str, np.ndarray]:
        """The tensors, writable, views into one buffer. The first call hands out the bytes that were verified when the
        entry was read; later ones read and verify again (Damaged if they no longer agree)."""
        return deserialize(self._held.pop() if self._held else _weights(self._store, self._record))


def write(store: Folder, record: str, stage: str, tensors: Mapping[str, np.ndarray], body: Mapping[str, Any]) -> bool:
    """Publish a checkpoint whose record has this name; False, and nothing left behind, if there is one already.

    The body (meta and whatever else its owner keeps) must be plain data: TypeError, before anything is written.
    """
    seal(body)
    parts = serialize(tensors)
    weights = f"{record.removesuffix('.json')}.{uuid.uuid4().hex[:12]}.safetensors"
    checksum = Checksum()
    store.write(weights, (checksum.add(piece).data for piece in pieces(parts)))
    own = {
        "format": FORMAT,
        "stage": stage,
        "weights": weights,
        "bytes": sum(part.size for part in parts),
        "checksum": checksum.result(),
        "raysweep": __version__,
    }
    created = False
    try:
        created = store.create(record, seal({**body, **own}))
    finally:
        if not created:
            store.remove(weights)
    return created


def look(store: Folder, record: str, stage: str) -> Record | None:
    """What a record says, its weights unread; None without one, Damaged, or InputError if it is of another version."""
    try:
        body = unseal(store.read(record))
    except FileNotFoundError:
        return None
    if body.get("format") != FORMAT:
        raise InputError(
            store.root,
            f"{record} was written by format {body.get('format')} of the store; this version "
            f"of raysweep reads {FORMAT}",
        )
    if body.get("stage") != stage:
        raise Damaged(f"{record} belongs to stage {body.get('stage')}")
    for name, kind in _REQUIRED.items():
        if not isinstance(body.get(name), kind):
            raise Damaged(f"{record} has no {name}")
    return cast(Record, body)


def read(store: Folder, record: str, stage: str) -> Entry | None:
    """A checkpoint with every byte verified; None if there is none, Damaged if a byte is missing or changed."""
    body = look(store, record, stage)
    return None if body is None else Entry(stage, body["meta"], body, store, [_weights(store, body)])


def _weights(store: Folder, record: Record) -> np.ndarray:
    """The bytes of the weights that a record names; Damaged if they are not those that were written."""
    name, size = record["weights"], record["bytes"]
    if not _WEIGHTS.fullmatch(name):
        raise Damaged("its record names no weights of the store")
    try:
        if (there := store.size(name)) != size:
            raise Damaged(f"{name} has {there:,} bytes where {size:,} were written")
        # plain pages: numpy would ask for huge ones, which where this was measured cost more than reading the file
        content = np.frombuffer(mmap.mmap(-1, max(size, 1)), np.uint8, size)
        checksum = Checksum()
        with store.open(name) as stream:
            for start in range(0, size, CHUNK):
                piece = content[start : start + CHUNK]
                filled = 0
                while filled < len(piece):
                    if not (count := stream.readinto(piece[filled:].data)):
                        raise Damaged(f"{name} ends before the {size:,} bytes that were written")
                    filled += count
                checksum.add(piece)
    except FileNotFoundError:
        raise Damaged(f"{name} is missing") from None
    if checksum.result() != record["checksum"]:
        raise Damaged(f"{name} does not match its checksum")
    return content


def _names(store: Folder, record: str) -> list[str]:
    """A record and all weights that may be its own."""
    folder, _, name = record.rpartition("/")
    stem = name.removesuffix(".json") + "."
    weights = [found for found in store.names(folder) if found.startswith(stem) and found.endswith(".safetensors")]
    return [record, *(f"{folder}/{found}" for found in weights)]


def set_aside(store: Folder, record: str, where: str = "damaged") -> bool:
    """Rename a record and all weights that may be its own into a folder of their own; False if there were none.

    The record goes first: from then on the checkpoint does not exist. Only the holder of the stage's lease calls this.
    """
    stem, mark = record.removesuffix(".json"), uuid.uuid4().hex[:8]
    target = f"{where}/{stem.rpartition('/')[2]}.{mark}"
    return sum(store.move(name, target + name.removeprefix(stem)) for name in _names(store, record)) > 0


def remove(store: Folder, record: str) -> int:
    """Delete a checkpoint, its record first (so that no moment shows half of it); bytes that became free."""
    freed = 0
    for name in _names(store, record):
        with contextlib.suppress(FileNotFoundError):
            freed += store.size(name)
            store.remove(name)
    return freed
