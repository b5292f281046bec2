"""Tidy rows to one curve per draw, and whether its axis is read in log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


LARGEST = 1e150  # of a value whose square can be reckoned with


@dataclass(frozen=True)
class DrawCurves:
    """values[draw, point] over x (sorted, distinct); NaN where a draw has no usable value at a point."""

    x: np.ndarray
    values: np.ndarray


def usable(frame: pd.DataFrame, value: str, needed: list[str]) -> tuple[pd.DataFrame, dict[str, int]]:
    """The rows that may enter a fit, and how many did not, by reason. The first of `needed`, x, and the value are
    numbers afterwards, also where a table that was read from text has them as text; ValueError if they are none."""
    missing = [name for name in [*needed, value] if name not in frame.columns]
    if missing:
        raise ValueError(f"no column {missing[0]!r}; there are: {', '.join(map(str, frame.columns))}")
    dropped: dict[str, int] = {}
    if "status" in frame.columns and value != "status":
        for word, count in frame["status"].value_counts(dropna=False).items():
            if word != "ok":
                dropped[str(word)] = int(count)
        frame = frame[frame["status"] == "ok"]
    numbers = {name: _numbers(frame, name) for name in (needed[0], value)}  # a slice or a draw may have any label
    frame = frame.assign(**numbers)
    finite = can_be_fitted(numbers[value]) & ~np.isnan(numbers[needed[0]])
    if not finite.all():
        dropped["no finite value"] = int((~finite).sum())
    return frame[finite], dropped


def can_be_fitted(values: np.ndarray) -> np.ndarray:
    """Which values are finite, and not so large that their squares are not; boolean, of the same shape."""
    return np.abs(values) <= LARGEST


def _numbers(frame: pd.DataFrame, name: str) -> np.ndarray:
    try:
        return frame[name].to_numpy(dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"column {name!r}: expected numbers ({error})") from None


def draw_curves(frame: pd.DataFrame, x: str, value: str, seed: str) -> DrawCurves:
    """One curve per draw; a draw that was measured twice at one x enters with its mean there."""
    table = frame.assign(**{value: frame[value].astype(np.float64)}).pivot_table(
        index=seed, columns=x, values=value, aggfunc="mean", dropna=False
    )
    keep = table.notna().any(axis=0)
    table = table.loc[:, keep]
    return DrawCurves(table.columns.to_numpy(dtype=np.float64), table.to_numpy(dtype=np.float64))


def repeated(frame: pd.DataFrame, keys: list[str]) -> int:
    """How many rows repeat an earlier (slice, x, draw)."""
    return int(frame.duplicated(keys).sum())


def decades(x: np.ndarray) -> bool:
    """Whether x is positive and spans more than a decade."""
    return bool(len(x) > 1 and x.min() > 0 and x.max() / x.min() > 10)


def log_axis(x: np.ndarray, asked: bool | None = None) -> bool:
    """Whether sorted x is interpolated and drawn in log x: as asked (log x needs x above 0), else guessed: it spans
    more than a decade, and its points are spread more evenly in log x than in x (angles from 4.5 to 90 degrees in equal
    steps stay as they are)."""
    if asked is not None:
        return asked and len(x) > 0 and bool(x[0] > 0)
    return decades(x) and (len(x) < 3 or even_in_log(x))


def even_in_log(x: np.ndarray, asked: bool | None = None) -> bool:
    """Whether sorted x is positive and, as asked or else by the look of it, spread more evenly in log x than in x."""
    if asked is not None:
        return asked and len(x) > 0 and bool(x[0] > 0)
    if len(x) < 3 or not x[0] > 0:
        return False
    plain, logarithmic = np.diff(x), np.diff(np.log(x))
    return bool(logarithmic.std() / logarithmic.mean() < plain.std() / plain.mean())
