"""Sweeps of plain functions, as tests run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import raysweep


def of_notebook(name: str, text: str) -> Any:
    """A function as a notebook has it: its source is in no file."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(f"def {name}(x, seed):\n    return {text}", space)
    return space[name]


def quietly(function: Any, storage: Path, **keywords: Any) -> raysweep.Sweep:
    """Run without a report and without MLflow."""
    return raysweep.run(function, storage=storage, tracking_uri="none", report=False, **keywords)
