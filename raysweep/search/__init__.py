"""Which packs next. Each kind of search is a file here; all are sources of packs behind one small interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raysweep.errors import InputError

KINDS = ("grid",)


def check(kind: str, options: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a search, validated; InputError names the key."""
    if options:
        raise InputError(f"search.{kind}", f"takes no options, got {options!r}")
    return {}
