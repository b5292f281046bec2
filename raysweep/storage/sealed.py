"""JSON for files: records that carry their own checksum, and numbers that JSON cannot write."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from raysweep import plain_json as json

WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""The words for non-finite numbers, and their values."""
_SEAL = b',"sha256":"'
_SEALED = len(_SEAL) + 64 + len(b'"}\n')


class Damaged(Exception):
    """Bytes differ from the bytes that were published."""


def encode(value: float) -> float | str:
    """A number in a form that JSON can write."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def plain(value: Any) -> Any:
    """A value in a form that JSON can write: non-finite numbers become {"float": "NaN" | "Infinity" | "-Infinity"},
    tuples become lists, and NumPy's numbers become Python's."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": encode(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def restored(value: dict[str, Any]) -> Any:
    """The object hook for `json.loads` that undoes `plain`."""
    word = value.get("float")
    return WORDS[word] if len(value) == 1 and isinstance(word, str) and word in WORDS else value


def seal(body: Mapping[str, Any]) -> bytes:
    """A JSON object whose last key is the SHA-256 of all bytes before it. TypeError if a value is not plain data."""
    head = json.dumps(plain(body), separators=(",", ":"), allow_nan=False).encode()[:-1]
    return head + _ending(head)


def unseal(content: bytes) -> dict[str, Any]:
    """The body of sealed bytes; Damaged if any byte is missing, added or changed."""
    head = content[:-_SEALED]
    if content != head + _ending(head):
        raise Damaged("its bytes do not match its checksum")
    try:
        body = json.loads(content, object_hook=restored)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"not a record ({error})") from None
    if not isinstance(body, dict):
        raise Damaged("not a record")
    del body["sha256"]
    return body


def _ending(head: bytes) -> bytes:
    return _SEAL + hashlib.sha256(head).hexdigest().encode() + b'"}\n'
