"""What a search sees of a cell: the draws that are there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Draws = Callable[[int, str], np.ndarray | None]
"""(cell, metric) -> the metric's values in the cell's ok draws, none of a cell most of whose draws diverged or failed;
None while the cell is not complete."""
ATTEMPTS = 20
"""Suggestions for each new cell, because a search may suggest cells again, or cells that are left out."""
