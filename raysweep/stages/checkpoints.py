"""One checkpoint of the stage store: a file of weights, and a sealed JSON record that names the file.

The weights are written first, to a name that nobody else uses. The record is created last, in one step, and only if it
does not exist yet. A checkpoint without a record does not exist, so a crash never leaves half a checkpoint.
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
"""Version of records and weights. Raise it if a store with this version cannot be read by the version before."""


class Record(TypedDict):
    """What is kept of a checkpoint in addition to its weights.

    meta: plain data as it was published (plus `computed` and `seconds` if `Store.once` published it).
    weights: the name of their file. bytes, checksum: of that file.
    raysweep: the version that wrote it.
    describe, published: only for a published stage: what it is, and when it was published.
    seconds: only for an intermediate checkpoint: wall time spent on its stage so far.
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
    """A checkpoint that was read and matched its checksum. stage: its id; meta: as in its record."""

    stage: str
    meta: dict[str, Any]
    _record: Record = field(repr=False, compare=False)
    _store: Folder = field(repr=False, compare=False)
    _held: list[np.ndarray] = field(repr=False, compare=False)

    @property
    def size(self) -> int:
        return self._record["bytes"]

    @property
    def seconds(self) -> float:
        return float(self._record.get("seconds", 0.0))

    def tensors(self) -> dict[str, np.ndarray]:
        """The tensors: writable views of one buffer. The first call uses the bytes that were verified when the entry
        was read. Later calls read and verify again; Damaged if the bytes no longer match."""
        return deserialize(self._held.pop() if self._held else _weights(self._store, self._record))


def write(store: Folder, record: str, stage: str, tensors: Mapping[str, np.ndarray], body: Mapping[str, Any]) -> bool:
    """Publish a checkpoint whose record has this name; False if it exists already (then nothing is left behind). body:
    meta and the owner's other data. It must be plain data; otherwise TypeError, before anything is written."""
    seal(body)
    parts = serialize(tensors)
    weights = f"{record.removesuffix('.json')}.{uuid.uuid4().hex[:12]}.safetensors"
    checksum = Checksum()
    store.write(weights, (checksum.add(piece).data for piece in pieces(parts)))
    written = {
        "format": FORMAT,
        "stage": stage,
        "weights": weights,
        "bytes": sum(part.size for part in parts),
        "checksum": checksum.result(),
        "raysweep": __version__,
    }
    created = False
    try:
        created = store.create(record, seal({**body, **written}))
    finally:
        if not created:
            store.remove(weights)
    return created


def look(store: Folder, record: str, stage: str) -> Record | None:
    """A record, without reading its weights; None if missing, Damaged, or InputError if it is of another version."""
    try:
        body = unseal(store.read(record))
    except FileNotFoundError:
        return None
    if (stated := body.get("format")) != FORMAT:
        why = f"{record} was written by format {stated} of the store; this version of raysweep reads {FORMAT}"
        raise InputError(store.root, why)
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
    """The bytes of the weights that a record names; Damaged if they are not the bytes that were written."""
    name, size = record["weights"], record["bytes"]
    if not _WEIGHTS.fullmatch(name):
        raise Damaged("its record names no weights of the store")
    try:
        if (there := store.size(name)) != size:
            raise Damaged(f"{name} has {there:,} bytes where {size:,} were written")
        # plain pages: numpy would ask for huge pages, which cost more than reading the file where this was measured
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
    folder, _, name = record.rpartition("/")
    stem = name.removesuffix(".json") + "."
    weights = [each for each in store.names(folder) if each.startswith(stem) and each.endswith(".safetensors")]
    return [record, *(f"{folder}/{each}" for each in weights)]


def set_aside(store: Folder, record: str, where: str = "damaged") -> bool:
    """Rename a record and all weights that may belong to it into the folder `where`; False if there were none. The
    record goes first: from then on the checkpoint does not exist. Only the holder of the stage's lease calls this."""
    stem, mark = record.removesuffix(".json"), uuid.uuid4().hex[:8]
    target = f"{where}/{stem.rpartition('/')[2]}.{mark}"
    return sum(store.move(name, target + name.removeprefix(stem)) for name in _names(store, record)) > 0


def remove(store: Folder, record: str) -> int:
    """Delete a checkpoint, its record first, so that half a checkpoint never exists; returns the bytes freed."""
    freed = 0
    for name in _names(store, record):
        with contextlib.suppress(FileNotFoundError):
            freed += store.size(name)
            store.remove(name)
    return freed
