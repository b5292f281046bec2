"""Sweeps of plain functions, as tests run them."""

from pathlib import Path
from typing import Any

import raysweep


def edited(body: str, name: str = "train") -> Any:
    """A function of x and seed as a notebook has it after its cell was edited: its source is in no file."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(f"def {name}(x, seed, log=None):\n    {body}", space)
    return space[name]


def quietly(function: Any, storage: Path, **keywords: Any) -> raysweep.Sweep:
    """Run without a report and without MLflow."""
    return raysweep.run(function, **{"storage": storage, "tracking_uri": "none", "report": False, **keywords})
