"""The commands of the command line, and what they show. Each is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raysweep.commands import debug, delete, dry_run, exchange, forecasts, listing, status, store

__all__ = ["debug", "delete", "dry_run", "exchange", "forecasts", "listing", "status", "store"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
