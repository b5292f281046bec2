"""Weights of a checkpoint as bytes: the safetensors format, and a checksum over every byte.

Weights are written piece by piece from their place in memory, and read into the memory where they stay. Each piece is
summed while it is in the processor's cache. So a checkpoint needs no second copy in memory, and the checksum hardly
slows a fast disk. The safetensors library computes no digest while it writes and reads: a separate checksum would take
another pass or a copy in memory, and a third to two thirds more time. Any safetensors library reads these files.
Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from raysweep import plain_json as json
from raysweep.storage.sealed import Damaged

CHUNK = 1 << 22
"""Bytes of a piece, which is summed and written at once."""
ROW = 4096
"""Bytes of one row of a piece in `checksum`: damage within one row is always noticed."""
CODES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8")
"""The dtypes that are stored, as NumPy abbreviates them."""
_SPELLED = ("BOOL", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "F16", "F32", "F64", "C64")
_DTYPES = {name: np.dtype(f"<{code}") for name, code in zip(_SPELLED, CODES, strict=True)}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def serialize(tensors: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The bytes of a safetensors file, in order, as uint8: its header, then each tensor as it lies in memory, copied
    only if it is not contiguous or not little-endian. TypeError for a dtype that safetensors does not know."""
    arrays = {name: _little_endian(name, np.asarray(tensors[name], order="C")) for name in tensors}
    arrays = dict(sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])))  # every tensor is aligned
    header: dict[str, Any] = {}
    offset = 0
    for name, array in arrays.items():
        place = [offset, offset := offset + array.nbytes]
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": place}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    head = np.frombuffer(len(text).to_bytes(8, "little") + text, np.uint8)
    return [head, *(array.reshape(-1).view(np.uint8) for array in arrays.values())]


def _little_endian(name: str, array: np.ndarray) -> np.ndarray:
    dtype = array.dtype.newbyteorder("<")
    if name == "__metadata__" or dtype not in _NAMES:
        raise TypeError(f"tensor {name!r} of {array.dtype} cannot be stored as safetensors")
    return array.astype(dtype, copy=False)


def deserialize(content: np.ndarray) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file (its bytes, uint8) as views of it; Damaged if it is not a safetensors file."""
    start = 8 + int.from_bytes(content[:8].tobytes(), "little")
    tensors = {}
    try:
        header: dict[str, Any] = json.loads(content[8:start].tobytes())
        for name, described in header.items():
            first, last = described["data_offsets"]
            array = content[start + first : start + last].view(_DTYPES[described["dtype"]])
            tensors[name] = array.reshape(described["shape"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"not safetensors ({error})") from None
    return tensors


def pieces(parts: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    """The bytes of these arrays (uint8) one after the other, in pieces of CHUNK bytes; the last piece may be shorter. A
    piece is valid until the next one is requested."""
    piece = np.empty(CHUNK, np.uint8)
    filled = 0
    for part in parts:
        start = 0
        while start < part.size:
            taken = part[start : start + CHUNK - filled]
            piece[filled : filled + taken.size] = taken
            start, filled = start + taken.size, filled + taken.size
            if filled == CHUNK:
                yield piece
                filled = 0
    if filled:
        yield piece[:filled]


class Checksum:
    """SHA-256 over the sums, modulo 2**64, of the rows and the columns of every piece, as a table of 64-bit words.

    Damage within ROW bytes always changes the sum of its column or columns. Other damage is missed only if all its rows
    and columns cancel (less than once in 2**64). It runs at 4 to 5 GB/s a core, where SHA-256 of the bytes themselves
    runs at 1 and CRC-32 at 2, so it does not slow a disk. It does not protect against forgery: whoever can change the
    weights can change the record too.
    """

    def __init__(self) -> None:
        self._state = hashlib.sha256()

    def add(self, piece: np.ndarray) -> np.ndarray:
        """Add the next piece (uint8, CHUNK bytes except for the last) to the checksum; returns the piece."""
        whole = piece.size // ROW * ROW
        words = piece[:whole].view("<u8").reshape(-1, ROW // 8)
        self._state.update(np.add.reduce(words, 0).tobytes() + np.add.reduce(words, 1).tobytes())
        self._state.update(piece[whole:].tobytes())
        return piece

    def result(self) -> str:
        return self._state.hexdigest()
