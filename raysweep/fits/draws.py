"""From tidy rows to one curve per draw, and how their x is read: as it is, or in log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


LARGEST = 1e150  # of a value whose square is still a finite number


@dataclass(frozen=True)
class DrawCurves:
    """One curve per draw.

    x: (points,), sorted and distinct.
    values: (draws, points); NaN where a draw has no usable value at a point.
    seeds: (draws,), what names each draw, sorted.
    """

    x: np.ndarray
    values: np.ndarray
    seeds: np.ndarray


@dataclass(frozen=True)
class Axis:
    """How x is read: as it is, or as log(x / unit)."""

    logarithmic: bool
    unit: float = 1.0

    def coordinate(self, x: np.ndarray) -> np.ndarray:
        """Where x lies on the axis."""
        return np.log(x / self.unit) if self.logarithmic else x

    def place(self, coordinate: float) -> float:
        """The x of a coordinate; inf and nan stay."""
        if self.logarithmic and np.isfinite(coordinate):
            return self.unit * float(np.exp(coordinate))
        return float(coordinate)

    def in_units_of_x(self, found: Any, *ends: str) -> dict[str, Any]:
        """Estimate, method spread and the fields `ends` of a place that was found along the coordinate, in the units
        of x; for `dataclasses.replace`."""
        estimate, spread = self.place(found.estimate), found.method_spread
        spread = estimate * float(np.expm1(spread)) if self.logarithmic else spread
        return {"estimate": estimate, "method_spread": spread} | {end: self.place(getattr(found, end)) for end in ends}


def check_options(level: float, turn: str = "min") -> None:
    """ValueError for a level or a turn that no fit knows."""
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level!r}")
    if turn not in ("min", "max"):
        raise ValueError(f"turn: expected min or max, got {turn!r}")


def usable(frame: pd.DataFrame, value: str, needed: list[str]) -> tuple[pd.DataFrame, dict[str, int]]:
    """The rows that may enter a fit, and how many did not, by reason. The first of `needed`, x, and the value are
    numbers afterwards, also where a table that was read from text has them as text; ValueError if they are none."""
    missing = [name for name in [*needed, value] if name not in frame.columns]
    if missing:
        raise ValueError(f"no column {missing[0]!r}; there are: {', '.join(map(str, frame.columns))}")
    dropped: dict[str, int] = {}
    if "status" in frame.columns and value != "status":
        counts = frame["status"].value_counts(dropna=False)
        dropped = {str(word): int(count) for word, count in counts.items() if word != "ok"}
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


def draw_curves(frame: pd.DataFrame, x: str, value: str, seed: str, turn: str = "min") -> DrawCurves:
    """One curve per draw, with turn="max" of -value: the extremum is a minimum then. A draw that was measured twice at
    one x enters with its mean there."""
    table = frame.assign(**{value: frame[value].astype(np.float64)}).pivot_table(
        index=seed, columns=x, values=value, aggfunc="mean", dropna=False
    )
    table = table.loc[:, table.notna().any(axis=0)]
    values = table.to_numpy(dtype=np.float64)
    return DrawCurves(
        table.columns.to_numpy(dtype=np.float64), values if turn == "min" else -values, table.index.to_numpy()
    )


def repeated(frame: pd.DataFrame, keys: list[str], where: str = "point") -> list[str]:
    """A note on rows that repeat an earlier (slice, x, draw); none, no note."""
    twice = int(frame.duplicated(keys).sum())
    return [f"{twice} rows repeat a draw at the same {where}; each such draw enters with its mean"] if twice else []


def decades(x: np.ndarray) -> bool:
    """Whether x is positive and spans more than a decade."""
    return bool(len(x) > 1 and x.min() > 0 and x.max() / x.min() > 10)


def log_axis(x: np.ndarray, asked: bool | None = None) -> bool:
    """Whether sorted x is interpolated and drawn in log x: as asked (log x needs x above 0), else guessed: it spans
    more than a decade, and its points are spread more evenly in log x than in x (angles from 4.5 to 90 degrees in equal
    steps stay as they are)."""
    if asked is None:
        return decades(x) and (len(x) < 3 or even_in_log(x))
    return even_in_log(x, asked)


def even_in_log(x: np.ndarray, asked: bool | None = None) -> bool:
    """Whether sorted x is positive and, as asked or else by the look of it, spread more evenly in log x than in x."""
    if asked is not None:
        return asked and len(x) > 0 and bool(x[0] > 0)
    if len(x) < 3 or not x[0] > 0:
        return False
    plain, logarithmic = np.diff(x), np.diff(np.log(x))
    return bool(logarithmic.std() / logarithmic.mean() < plain.std() / plain.mean())
