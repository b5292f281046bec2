"""Which draws are lost, and where most of them are: the mean of the few that are left there is that of survivors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from raysweep.lazy import pd
from raysweep.workloads.declaration import DIVERGED, FAILED, OK, STATUSES

LARGEST = 1e150  # the square of a value up to this size is still a finite float
LOST = (DIVERGED, FAILED)
MOST = 0.5  # a larger share of the draws is most of them


def can_be_fitted(values: np.ndarray) -> np.ndarray:
    """Whether each value and its square are finite; a boolean array of the same shape."""
    return np.abs(values) <= LARGEST


def losses(values: np.ndarray, status: np.ndarray | None, lost: Sequence[str] = LOST) -> np.ndarray:
    """1 for each draw that is lost, 0 for each that is not, NaN for each that is missing. The mean is their share.

    values: (draws,), those of a metric.
    status: (draws,), None for rows without one: then a draw whose value cannot be fitted is lost.
    lost: the statuses of draws that are lost. An ok draw is lost if its value is too large, and missing if it is NaN,
        which says that the metric has no value there. A draw without a status was never computed: it is missing too.
        A draw that did not converge or was stopped has numbers, so that it is neither.
    """
    if status is None or ((status == OK).all() and can_be_fitted(values).all()):  # words of many rows take time
        return (~can_be_fitted(values)).astype(np.float64)
    words = status.astype(str)
    ok, valued = words == OK, ~np.isnan(values)
    computed = np.isin(words, STATUSES) & (valued | ~ok)
    return np.where(computed, np.isin(words, lost) | (ok & ~can_be_fitted(values)), np.nan)


def losses_of(frame: pd.DataFrame, value: str, lost: Sequence[str] = LOST) -> np.ndarray:
    """`losses` of the rows of a table. value: the column of the metric; the one of the status, if any, is `status`."""
    status = frame["status"].to_numpy(dtype=object) if "status" in frame.columns and value != "status" else None
    return losses(pd.to_numeric(frame[value], errors="coerce").to_numpy(np.float64), status, lost)


def most(lost: np.ndarray) -> bool:
    """Whether most draws are lost. lost: (draws,), from `losses`."""
    computed = lost[~np.isnan(lost)]
    return bool(len(computed) and computed.mean() > MOST)


def among_lost(frame: pd.DataFrame, value: str, by: Sequence[str]) -> np.ndarray:
    """Whether most draws of the point or cell of each row are lost, (rows,). by: the columns that tell these apart."""
    lost = losses_of(frame, value)
    if not (lost > 0).any():
        return np.zeros(len(frame), dtype=bool)
    share = frame[list(by)].assign(_lost=lost).groupby(list(by), dropna=False)["_lost"].transform("mean")
    return np.asarray(share > MOST, dtype=bool)
