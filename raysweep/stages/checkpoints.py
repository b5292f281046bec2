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
from io import RawIOBase
from typing import Any

import numpy as np

from raysweep import __version__
from raysweep.errors import InputError
from raysweep.stages.store_format import CHUNK, Checksum, Damaged, deserialize, pieces, seal, serialize, unseal
from raysweep.storage.store_files import Files

_WEIGHTS = re.compile(r"[a-z]+/[\w.-]+\.safetensors")
_FIELDS = {"meta": dict, "weights": str, "bytes": int, "checksum": str}
FORMAT = 1
"""Of records and weights; raised whenever a store of this version could no longer be read by the one before."""


@dataclass(frozen=True)
class Entry:
    """A checkpoint that was read and agreed with its checksum.

    stage: its id; meta: plain data as it was published (and `computed`, `seconds` where `Store.once` published it);
    path: where its weights lie.
    """

    stage: str
    meta: dict[str, Any]
    path: str
    _record: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)
    _files: Files | None = field(repr=False, compare=False, default=None)
    _held: list[np.ndarray] = field(repr=False, compare=False, default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of its weights."""
        return int(self._record["bytes"])

    @property
    def seconds(self) -> float:
        """Of an intermediate checkpoint: wall time spent on its stage until then."""
        return float(self._record.get("seconds", 0.0))

    def tensors(self) -> dict[str, np.ndarray]:
        """The tensors, writable, views into one buffer. The first call hands out the bytes that were verified when the
        entry was read; later ones read and verify again (Damaged if they no longer agree)."""
        content = self._held.pop() if self._held else None
        if content is None:
            assert self._files is not None
            content = _weights(self._files, self._record)
        return deserialize(content)


def write(files: Files, record: str, stage: str, tensors: Mapping[str, np.ndarray], body: Mapping[str, Any]) -> bool:
    """Publish a checkpoint whose record has this name; False, and nothing left behind, if there is one already.

    The body (meta and whatever else its owner keeps) must be plain data: TypeError, before anything is written.
    """
    seal(body)
    parts = serialize(tensors)
    weights = f"{record.removesuffix('.json')}.{uuid.uuid4().hex[:12]}.safetensors"
    checksum = Checksum()
    files.write(weights, (checksum.add(piece).data for piece in pieces(parts)))
    created = False
    try:
        created = files.create(
            record,
            seal(
                {
                    **body,
                    "format": FORMAT,
                    "stage": stage,
                    "weights": weights,
                    "bytes": sum(part.size for part in parts),
                    "checksum": checksum.result(),
                    "raysweep": __version__,
                }
            ),
        )
    finally:
        if not created:
            files.remove(weights)
    return created


def look(files: Files, record: str, stage: str) -> dict[str, Any] | None:
    """What a record says, its weights unread; None without one, Damaged, or InputError if it is of another version."""
    try:
        body = unseal(files.read(record))
    except FileNotFoundError:
        return None
    if body.get("format") != FORMAT:
        raise InputError(
            files.root,
            f"{record} was written by format {body.get('format')} of the store; this version "
            f"of raysweep reads {FORMAT}",
        )
    if body.get("stage") != stage:
        raise Damaged(f"{record} belongs to stage {body.get('stage')}")
    for name, kind in _FIELDS.items():
        if not isinstance(body.get(name), kind):
            raise Damaged(f"{record} has no {name}")
    return body


def read(files: Files, record: str, stage: str) -> Entry | None:
    """A checkpoint with every byte verified; None if there is none, Damaged if a byte is missing or changed."""
    body = look(files, record, stage)
    if body is None:
        return None
    content = _weights(files, body)
    return Entry(stage, body["meta"], f"{files.root}/{body['weights']}", body, files, [content])


def _weights(files: Files, body: Mapping[str, Any]) -> np.ndarray:
    """The bytes of the weights that a record names; Damaged if they are not those that were written."""
    name, size = body.get("weights"), body.get("bytes")
    if not isinstance(name, str) or not _WEIGHTS.fullmatch(name) or not isinstance(size, int):
        raise Damaged("its record names no weights of the store")
    try:
        there = files.size(name)
    except FileNotFoundError:
        raise Damaged(f"{name} is missing") from None
    if there != size:
        raise Damaged(f"{name} has {there:,} bytes where {size:,} were written")
    # plain pages: numpy would ask for huge ones, which where this was measured cost more than reading the file
    content = np.frombuffer(mmap.mmap(-1, max(size, 1)), np.uint8, size)
    checksum, done = Checksum(), 0
    try:
        with files.open(name) as stream:
            while done < size:
                piece = content[done : done + CHUNK]
                if not _fill(stream, piece.data):
                    break
                done += checksum.add(piece).size
            if done != size or stream.read(1):
                raise Damaged(f"{name} has {files.size(name):,} bytes where {size:,} were written")
    except FileNotFoundError:
        raise Damaged(f"{name} is missing") from None
    if checksum.result() != body["checksum"]:
        raise Damaged(f"{name} does not match its checksum")
    return content


def _fill(stream: RawIOBase, view: memoryview) -> bool:
    """Read as much as the view holds; False if the file ends before."""
    while len(view):
        count = stream.readinto(view)
        if not count:
            return False
        view = view[count:]
    return True


def set_aside(files: Files, record: str, stage: str, where: str = "damaged") -> list[str]:
    """Rename a record and all weights that may be its own into a folder of their own; the names they have there.

    The record goes first: from then on the checkpoint does not exist. Only the holder of the stage's lease calls this.
    """
    folder, _, name = record.rpartition("/")
    mark = uuid.uuid4().hex[:8]
    stem = name.removesuffix(".json")
    moved = [
        name,
        *(found for found in files.names(folder) if found.startswith(f"{stem}.") and found.endswith(".safetensors")),
    ]
    return [
        target
        for found in moved
        if files.move(f"{folder}/{found}", target := f"{where}/{stem}.{mark}{found.removeprefix(stem)}")
    ]


def remove(files: Files, record: str) -> int:
    """Delete a checkpoint, its record first (so that no moment shows half of it); bytes that became free."""
    folder, _, name = record.rpartition("/")
    freed = 0
    stem = name.removesuffix(".json")
    weights = [found for found in files.names(folder) if found.startswith(f"{stem}.") and found != name]
    for found in [name, *weights]:
        with contextlib.suppress(FileNotFoundError):
            freed += files.size(f"{folder}/{found}")
            files.remove(f"{folder}/{found}")
    return freed
