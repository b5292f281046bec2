"""Bytes of the stage store: sealed JSON records, and tensors in the safetensors format with a digest over every byte.

Weights are written as they lie in memory and read into the memory where they stay, piece by piece, while other threads
hash the pieces: a checkpoint needs no second copy of itself, and a fast disk does not wait for its checksum. Any
safetensors library reads these files. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from raysweep.records import ledger

CHUNK = 8 << 20
"""Bytes a piece: what is hashed by one thread, and written by one call."""
_SEAL = b',"sha256":"'
_SEALED = len(_SEAL) + 64 + len(b'"}\n')
_NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "complex64": "C64", "int64": "I64", "int32": "I32",
          "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL"}
_DTYPES = {short: np.dtype(name).newbyteorder("<") for name, short in _NAMES.items()}


class Damaged(Exception):
    """Bytes that are not those that were published."""


def seal(body: Mapping[str, Any]) -> bytes:
    """A JSON object whose last key is the SHA-256 of all bytes before it. TypeError if a value is not plain data.

    Non-finite numbers stand as {"float": "NaN" | "Infinity" | "-Infinity"}; tuples become lists.
    """
    head = json.dumps(_plain(body), separators=(",", ":"), allow_nan=False).encode()[:-1]
    return head + _ending(head)


def unseal(content: bytes) -> dict[str, Any]:
    """What was sealed; Damaged if any byte of it is missing, added or changed."""
    head = content[:-_SEALED]
    if content != head + _ending(head):
        raise Damaged("its bytes do not match its checksum")
    try:
        body = json.loads(content, object_hook=_restored)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"not a record ({error})") from None
    if not isinstance(body, dict):
        raise Damaged("not a record")
    del body["sha256"]
    return body


def _ending(head: bytes) -> bytes:
    return _SEAL + hashlib.sha256(head).hexdigest().encode() + b'"}\n'


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": ledger.encode(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def _restored(value: dict[str, Any]) -> Any:
    word = value.get("float")
    return ledger.WORDS[word] if len(value) == 1 and isinstance(word, str) and word in ledger.WORDS else value


def serialize(tensors: Mapping[str, np.ndarray]) -> list[memoryview]:
    """The bytes of a safetensors file, in order: its header, then each tensor as it lies in memory (copied only if it
    is not contiguous or not little-endian). TypeError for a dtype that safetensors does not know."""
    arrays = {name: _little_endian(name, np.asarray(tensors[name], order="C")) for name in tensors}
    ordered = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))  # every tensor stays aligned
    header: dict[str, Any] = {}
    offset = 0
    for name in ordered:
        array = arrays[name]
        header[name] = {"dtype": _NAMES[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [memoryview(len(text).to_bytes(8, "little") + text),
            *(arrays[name].reshape(-1).view(np.uint8).data for name in ordered)]


def _little_endian(name: str, array: np.ndarray) -> np.ndarray:
    if name == "__metadata__" or array.dtype.name not in _NAMES:
        raise TypeError(f"tensor {name!r} of {array.dtype} cannot be stored as safetensors")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def deserialize(content: np.ndarray) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file (its bytes, uint8), as views into it."""
    start = 8 + int.from_bytes(content[:8].tobytes(), "little")
    header: dict[str, Any] = json.loads(content[8:start].tobytes())
    found = {}
    for name, described in header.items():
        first, last = described["data_offsets"]
        array = content[start + first:start + last].view(_DTYPES[described["dtype"]])
        found[name] = array.reshape(described["shape"])
    return found


def pieces(parts: Sequence[memoryview]) -> Iterator[list[memoryview]]:
    """The same bytes cut into pieces of CHUNK bytes (the last one shorter), each a list of neighbouring views."""
    piece: list[memoryview] = []
    room = CHUNK
    for part in parts:
        start = 0
        while start < len(part):
            view = part[start:start + room]
            piece.append(view)
            start, room = start + len(view), room - len(view)
            if not room:
                yield piece
                piece, room = [], CHUNK
    if piece:
        yield piece


class Digest:
    """SHA-256 over the SHA-256 of every piece, computed by a few threads while the caller moves them to or from a
    disk. A context: its threads end with it."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(min(4, os.cpu_count() or 1))
        self._digests: list[Future[bytes]] = []

    def __enter__(self) -> Digest:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def add(self, piece: list[memoryview]) -> list[memoryview]:
        """The next piece, which must not change from now on; handed back."""
        self._digests.append(self._pool.submit(_hash, piece))
        return piece

    def result(self) -> str:
        """64 hexadecimal digits, once the threads are done."""
        return hashlib.sha256(b"".join(digest.result() for digest in self._digests)).hexdigest()


def _hash(piece: list[memoryview]) -> bytes:
    state = hashlib.sha256()
    for view in piece:
        state.update(view)
    return state.digest()
