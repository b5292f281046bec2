"""Where a noisy surface changes sign: the zero line of value(x, y), one root in x per slice of y."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import ROUNDING, draw_curves, repeated, usable
from raysweep.fits.result import Fit, overall
from raysweep.fits.zero import Zero, find_zero

if TYPE_CHECKING:
    import pandas as pd

SCALES = ("linear", "asinh", "sign")


def fit_boundary(
    frame: pd.DataFrame,
    x: str,
    y: str | None,
    value: str,
    seed: str,
    level: float = 0.95,
    *,
    scale: str | Mapping[Any, str] | None = None,
    exact: bool = False,
    logarithmic: bool | None = None,
) -> Fit:
    """The zero line of `value` over `x`, one root per value of `y` (y None: one slice).

    frame: one row per (x, y, draw), other columns are ignored; with a `status` column only rows that are ok enter.
    seed: the column that names the draw. Draws may share their randomness over x and y, or not; a draw may be missing
    at some points. level: of each slice's interval (pointwise; the table also has Bonferroni bands for all slices).
    scale: linear; asinh (interpolates a surface that diverges on a bent axis, same zero); sign (zero line of the
    median by a sign test, for draws without a variance, from 6 draws on); None chooses per slice from the data; a
    mapping chooses per y. exact: the values carry no noise; one draw is then enough and the interval is the spread of
    the interpolations. logarithmic: whether x is read in log; None guesses from its values.

    A slice is located if the sign is beyond doubt on both sides (points weighed by how far they are independent);
    censored_low / censored_high if the whole slice has one sign and comes clearly nearer to zero at that edge of x;
    otherwise undetermined, and `.table.note` says why. Raises ValueError for an unknown column, scale or level.

    What the interval covers (measured in COVERAGE.md): lines that are smooth at the distance of the grid points, and
    lines with one kink near the zero, as long as the kink is larger than the noise. What it does not: a line that does
    more between two points than bend once.
    """
    import pandas as pd

    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level!r}")
    for word in [scale] if isinstance(scale, str) else (scale or {}).values():
        if word not in SCALES:
            raise ValueError(f"scale: expected one of {', '.join(SCALES)}, got {word!r}")
    rows, dropped = usable(frame, value, [x, seed] + ([y] if y else []))
    at_infinity = np.isinf(rows[x].to_numpy(dtype=np.float64))
    if at_infinity.any():
        dropped["infinite x"] = int(at_infinity.sum())
        rows = rows[~at_infinity]
    notes = []
    twice = repeated(rows, [x, seed] + ([y] if y else []))
    if twice:
        notes.append(f"{twice} rows repeat a draw at the same point; each such draw enters with its mean")
    size = float(rows[value].abs().max()) if len(rows) else 0.0
    rows = rows.assign(**{value: rows[value].where(rows[value].abs() > ROUNDING * size, 0.0).astype(np.float64)})

    every = frame[y].drop_duplicates().sort_values().tolist() if y else [None]
    strict = 1 - (1 - level) / max(len(every), 1)
    lines, crossings = [], []
    for label in every:
        part = rows[rows[y] == label] if y else rows
        curves = draw_curves(part, x, value, seed)
        wanted = scale if isinstance(scale, str) else (scale or {}).get(label)
        zero = find_zero(curves.x, curves.values, level, strict, wanted, exact, logarithmic)
        key = {y: label} if y else {}
        lines.append({**key, **line(zero)})
        for crossing in zero.crossings:
            crossings.append(
                {
                    **key,
                    "estimate": crossing.estimate,
                    "low": crossing.low,
                    "high": crossing.high,
                    "method_spread": crossing.method_spread,
                    "rising": crossing.rising,
                }
            )
    nothing = find_zero(np.empty(0), np.empty((0, 0)), level)
    table = pd.DataFrame(lines, columns=[*([y] if y else []), *line(nothing)])  # also where there is no slice
    names = ([y] if y else []) + ["estimate", "low", "high", "method_spread", "rising"]
    several = int((table["crossings"] > 1).sum())
    if several:
        notes.append(f"{several} slices change sign more than once: the table has the clearest, .crossings all")
    return Fit(
        kind="boundary",
        level=level,
        points=int(rows[x].nunique()),
        draws=int(rows[seed].nunique()),
        rows=len(rows),
        dropped=dropped,
        scale=one_word(table["scale"]),
        method="t-test inverted on the mean curve, the draw as unit; cubic interpolation, widened to hold for "
        "linear and one-sided parabolic interpolation too, and for a kink where the curve shows one",
        table=table,
        crossings=pd.DataFrame(crossings, columns=names),
        notes=tuple(notes),
        **overall(table),
    )


def line(zero: Zero) -> dict[str, Any]:
    """One slice as a row of the table."""
    best = zero.crossings[0] if zero.crossings else None
    return {
        "estimate": best.estimate if best else np.nan,
        "low": zero.low,
        "high": zero.high,
        "status": zero.status,
        "low_simultaneous": best.low_simultaneous if best else zero.low,
        "high_simultaneous": best.high_simultaneous if best else zero.high,
        "method_spread": best.method_spread if best else np.nan,
        "crossings": len(zero.crossings),
        "points": zero.points,
        "draws": zero.draws,
        "scale": zero.scale,
        "note": zero.note,
    }


def one_word(words: pd.Series) -> str:
    """The word all slices share, or mixed."""
    kinds = words.unique()
    return str(kinds[0]) if len(kinds) == 1 else "mixed"
