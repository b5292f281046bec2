"""The kinds of analysis, one file each."""

from __future__ import annotations

import pkgutil


def names() -> list[str]:
    """The names of all kinds, sorted. No kind is imported."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))
