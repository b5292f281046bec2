"""Whether a line of a segment is a row. A checksum says that it is what was written, and not what wrote it.

This runs for every row of a ledger, which may have millions: it takes one or two microseconds a row.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from raysweep.workloads.declaration import STATUSES

LARGEST = sys.float_info.max
_REQUIRED = frozenset({"cell", "seed", "status", "attempt", "seconds", "code_version", "metrics"})
_STATUSES = frozenset(map(str, STATUSES))


def check(row: Any) -> None:
    """Raise TypeError, KeyError, ValueError or OverflowError if this is no row as `segments.Row` describes it, its
    metrics as numbers. The numbers of its curves are checked where they are decoded."""
    if not (
        type(row["cell"]) is type(row["code_version"]) is str
        and type(row["seed"]) is type(row["attempt"]) is int
        and 0 <= row["seed"] < 2**63 > row["attempt"] >= 0
        and row["status"] in _STATUSES
        and _is_time(row["seconds"])
    ):
        raise ValueError("a line is no row")
    math.hypot(*row["metrics"].values())  # each is a number, which may be NaN or infinite
    for key in row.keys() - _REQUIRED:  # a later version may add others, which pass
        if not _FITS.get(key, lambda value: True)(row[key]):
            raise ValueError(f"{key} is not what a row has")


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= LARGEST


def _are_texts(value: Any) -> bool:
    return type(value) is list and all(type(entry) is str for entry in value)


def _is_asked(value: Any) -> bool:
    """Whether this says which cell of a space with ranges a search asked for."""
    return (
        type(value) is dict
        and type(value.get("number")) is int
        and type(value.get("values")) is dict
        and all(type(entry) is str or abs(entry) <= LARGEST or math.isinf(entry) for entry in value["values"].values())
    )


_FITS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("error", "pack", "host", "identity"), lambda value: type(value) is str),
    "asked": _is_asked,
    "finished": _is_time,
    "stages": lambda value: type(value) is dict and all(map(_are_texts, value.values())),
    "other_code": _are_texts,
    "version": lambda value: type(value) is int,
}
