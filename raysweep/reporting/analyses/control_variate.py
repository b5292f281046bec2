"""What a control variate brings, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from raysweep.analyses.control_variate import by_reference as by_reference
from raysweep.numbers import number
from raysweep.phrases import counted

if TYPE_CHECKING:
    import pandas as pd


def sentence(table: pd.DataFrame, reference: str) -> str:
    """What the control variate brings, metric by metric."""
    said = []
    for (metric, engine), part in table.dropna(subset=["times_less_variance"]).groupby(
        ["metric", "engine"], sort=False
    ):
        times = np.sort(part["times_less_variance"])  # no quantiles between values, which may be infinite
        low, middle, high = (number(value, 2) for value in (times[0], times[len(times) // 2], times[-1]))
        span = f" ({low} to {high})" if len(part) > 1 else ""
        said.append(f"{metric} of {engine} {middle}{span} in {counted(len(part), 'cell')}")
    return (
        f"{reference} as a control variate: its expectation plus the mean difference to it on the same draws estimates "
        f"an engine's mean without bias (coefficient 1), with a variance smaller by a factor of: {'; '.join(said)} "
        "(median; below 1 the plain mean is the better one)."
    )
