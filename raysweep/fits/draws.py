"""Turn tidy rows into one curve per draw, and choose between a linear and a logarithmic x."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.fits.lost_draws import among_lost, can_be_fitted
from raysweep.fits.reasons import Reason, message
from raysweep.lazy import pd


@dataclass(frozen=True)
class DrawCurves:
    """One curve per draw."""

    x: np.ndarray  # (points,), sorted, without duplicates
    values: np.ndarray  # (draws, points); NaN where a draw has no usable value at a point
    seeds: np.ndarray  # (draws,), the seed of each draw, sorted

    def without_zero(self) -> DrawCurves:
        """The same without x = 0, and without draws that have no other value."""
        points = self.x != 0
        draws = np.isfinite(self.values[:, points]).any(axis=1)
        return DrawCurves(self.x[points], self.values[np.ix_(draws, points)], self.seeds[draws])


@dataclass(frozen=True)
class Axis:
    """The coordinate along which x is interpolated: x itself, or log(x / unit)."""

    logarithmic: bool
    unit: float = 1.0

    def coordinate(self, x: np.ndarray) -> np.ndarray:
        """The coordinate of each x."""
        return np.log(x / self.unit) if self.logarithmic else x

    def place(self, coordinate: float) -> float:
        """The x of a coordinate; inf and nan are returned unchanged."""
        if self.logarithmic and np.isfinite(coordinate):
            return self.unit * float(np.exp(coordinate))
        return float(coordinate)

    def in_units_of_x(self, answer: Any, *fields: str) -> dict[str, Any]:
        """The `estimate`, `method_spread` and these fields of an answer along the coordinate, in the units of x."""
        converted = {field: self.place(getattr(answer, field)) for field in ("estimate", *fields)}
        spread = answer.method_spread
        spread = converted["estimate"] * float(np.expm1(spread)) if self.logarithmic else spread
        return converted | {"method_spread": spread}


def check_options(level: float, turn: str = "min") -> None:
    """Raise ValueError unless 0 < level < 1 and turn is min or max."""
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level!r}")
    if turn not in ("min", "max"):
        raise ValueError(f"turn: expected min or max, got {turn!r}")


def usable(frame: pd.DataFrame, value: str, needed: list[str]) -> tuple[pd.DataFrame, dict[str, int]]:
    """Select the rows that a fit can use: status ok (if there is a `status` column), finite value, x not NaN, and most
    draws at their point not lost (`lost_draws.losses`).

    needed: the other columns that the fit reads: x, the draw, and what else tells points apart.

    Returns the selected rows and how many rows were dropped, by reason. The columns of x and of the value are converted
    to float, because a table read from a text file may hold them as text. Raises ValueError for a missing column and
    for text that is not a number.
    """
    missing = [name for name in [*needed, value] if name not in frame.columns]
    if missing:
        raise ValueError(f"no column {missing[0]!r}; there are: {', '.join(map(str, frame.columns))}")
    dropped: dict[str, int] = {}
    survives = among_lost(frame, value, [needed[0], *needed[2:]])
    if "status" in frame.columns and value != "status":
        counts = frame["status"].value_counts(dropna=False)
        dropped = {str(word): int(count) for word, count in counts.items() if word != "ok"}
        ok = (frame["status"] == "ok").to_numpy()
        frame, survives = frame[ok], survives[ok]
    numbers = {}
    for name in (needed[0], value):  # a slice or a draw may have any label
        try:
            numbers[name] = frame[name].to_numpy(dtype=np.float64)
        except ValueError as error:
            raise ValueError(f"column {name!r}: expected numbers ({error})") from None
    frame = frame.assign(**numbers)
    finite = can_be_fitted(numbers[value]) & ~np.isnan(numbers[needed[0]])
    if not finite.all():
        dropped["no finite value"] = int((~finite).sum())
    if (survives & finite).any():
        dropped["at a point where most draws diverged or failed"] = int((survives & finite).sum())
    return frame[finite & ~survives], dropped


def draw_curves(frame: pd.DataFrame, x: str, value: str, seed: str, turn: str = "min") -> DrawCurves:
    """Arrange rows as one curve per draw.

    With turn="max" the values change sign, so that the extremum is always a minimum. If a draw was measured several
    times at one x, the mean of these values is used.
    """
    at, values, seeds = arranged(frame, x, value, seed)
    measured = ~np.isnan(values).all(axis=0)
    values = np.ascontiguousarray(values[:, measured])  # the order in memory decides the last digits of sums
    return DrawCurves(at[measured].astype(np.float64), values if turn == "min" else -values, seeds)


def arranged(frame: pd.DataFrame, x: str, value: str, seed: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the different x, sorted; the values (seeds, x), NaN where there is none; the different seeds, sorted).

    The mean is taken over rows that repeat a draw at one x.
    """
    if all(isinstance(frame[name].dtype, np.dtype) and frame[name].dtype.kind in "iuf" for name in (x, seed)):
        at, column = np.unique(frame[x].to_numpy(), return_inverse=True)
        seeds, row = np.unique(frame[seed].to_numpy(), return_inverse=True)
        place = row * len(at) + column
        without_nan = not any(values.dtype.kind == "f" and np.isnan(values).any() for values in (at, seeds))
        if without_nan and len(np.unique(place)) == len(place):  # pandas takes ten times as long for so simple a table
            out = np.full((len(seeds), len(at)), np.nan)
            out[row, column] = frame[value].to_numpy(dtype=np.float64)
            return at, out, seeds
    table = frame.assign(**{value: frame[value].astype(np.float64)}).pivot_table(
        index=seed, columns=x, values=value, aggfunc="mean", dropna=False
    )
    return table.columns.to_numpy(), table.to_numpy(dtype=np.float64), table.index.to_numpy()


def means_with_errors(rows: pd.DataFrame, by: Sequence[str], value: str, error: str) -> pd.DataFrame:
    """The mean over the rows of each point, sorted: `by`, the value, its standard error in `error`, and _runs, how many
    there are. error: the column of the standard error of each row, left out without one; rows err independently."""
    rows = rows[rows[error] > 0]
    values, squares = rows[value].astype(np.float64), rows[error].astype(np.float64) ** 2
    groups = rows[list(by)].assign(_value=values, _square=squares).groupby(list(by), dropna=False)
    points = groups.agg(**{value: ("_value", "mean"), error: ("_square", "sum"), "_runs": ("_square", "size")})
    return points.assign(**{error: np.sqrt(points[error]) / points["_runs"]}).reset_index()


def repeated(frame: pd.DataFrame, keys: list[str], where: str = "point") -> list[str]:
    """A note that says how many rows repeat an earlier row in `keys`; an empty list if no row does."""
    twice = int(frame.duplicated(keys).sum())
    return [message(Reason.REPEATED_ROWS, rows=twice, place=where)] if twice else []


def decades(x: np.ndarray) -> bool:
    """Whether all x are positive and span more than a factor of ten."""
    return bool(len(x) > 1 and x.min() > 0 and x.max() / x.min() > 10)


def not_zero(x: np.ndarray) -> np.ndarray:
    """x without 0. A 0 ("none") stands apart from a logarithmic axis and says nothing of its scale."""
    return np.asarray(x[x != 0])


def log_axis(x: np.ndarray, asked: bool | None = None) -> bool:
    """Whether sorted x is interpolated and drawn in log x.

    asked: the caller's choice; True has no effect unless all x are positive. None chooses log x if x spans more than a
        decade and its points are spread more evenly in log x than in x. (Angles from 4.5 to 90 degrees in equal steps
        are linear.)
    """
    if asked is None:
        return decades(x) and (len(x) < 3 or even_in_log(x))
    return even_in_log(x, asked) and bool(x[0] > 0)


def even_in_log(x: np.ndarray, asked: bool | None = None) -> bool:
    """Whether sorted x, apart from a 0, is positive and read in log x.

    asked: the caller's choice. None chooses log x if the points are spread more evenly in log x than in x.
    """
    x = not_zero(x)
    if asked is not None:
        return asked and len(x) > 0 and bool(x[0] > 0)
    if len(x) < 3 or not x[0] > 0:
        return False
    plain, logarithmic = np.diff(x), np.diff(np.log(x))
    return bool(logarithmic.std() / logarithmic.mean() < plain.std() / plain.mean())


def in_log(rates: np.ndarray) -> bool:
    """Whether rates are interpolated in log if the caller did not choose: if all but a 0 are above 0 and they span more
    than a decade or are spread more evenly in log."""
    every = not_zero(np.unique(rates))
    return decades(every) or even_in_log(every)
