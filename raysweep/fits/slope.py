"""The slope of log optimal rate over log length: least squares, the draw as the unit, bounds for what is censored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import draw_curves, usable
from raysweep.fits.optimum import without_cliffs
from raysweep.fits.places import all_places
from raysweep.fits.result import LOCATED, Fit
from raysweep.fits.signs import t_quantile
from raysweep.fits.two_way_anova import two_way_anova
from raysweep.reporting.analyses.against_theory import normal_quantile

if TYPE_CHECKING:
    import pandas as pd


def slice_values(
    frame: pd.DataFrame, row: Any, lr: str, length: str, y: str, seed: str, turn: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(log rates, values[draw, rate] to be minimized, draws' names) of one length, as the optimum fit sees them."""
    rows, _ = usable(frame[(frame[length] == row[length]) & (frame[lr] < row["diverged_from"])], y, [lr, seed])
    curves = draw_curves(rows, lr, y, seed)
    return np.log(curves.x), curves.values if turn == "min" else -curves.values, np.sort(rows[seed].unique())


class Slopes:
    """Least-squares slopes of log rate over log length, of all draws and with each draw left out."""

    def __init__(
        self, table: pd.DataFrame, frame: pd.DataFrame, fit: Fit, lr: str, length: str, y: str, seed: str, turn: str
    ) -> None:
        self.x = np.log(table[length].to_numpy(float))
        centred = self.x - self.x.mean() if len(self.x) else self.x
        self.weights = centred / max(float((centred**2).sum()), 1e-300)
        self.located = (table["status"] == LOCATED).to_numpy()
        names = np.sort(frame[seed].unique())
        self.draws = fit.draws
        # log rate [interpolation, draw left out (the last: none), located length], and what the grid leaves open
        places, slack = [], []
        for row in table[self.located].to_dict("records"):
            u, values, seeds = slice_values(frame, row, lr, length, y, seed, turn)
            bent = without_cliffs(values)
            whole = two_way_anova(bent).curve
            curves = [
                two_way_anova(bent[seeds != name]).curve if name in seeds and len(seeds) > 1 else whole
                for name in names
            ]
            where = np.stack(all_places(u, np.stack([*curves, whole])))
            places.append(where)
            spread = float(np.log1p(row["method_spread"] / row["estimate"]))
            slack.append(max(spread - float(np.ptp(where[:, -1])), 0.0))
        self.places = np.stack(places, axis=-1) if places else np.empty((3, len(names) + 1, 0))
        self.slack = np.array(slack)
        bounded = table[~self.located]
        low, high = bounded["low"].to_numpy(float), bounded["high"].to_numpy(float)
        ceiling = bounded["diverged_from"].to_numpy(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.low = np.where(low > 0, np.log(low), -np.inf)
            self.high = np.log(np.minimum(high, ceiling))

    def line(self) -> tuple[float, float]:
        """(slope, intercept) of all draws, when every length is located."""
        rates = self.places[:2, -1].mean(axis=0)
        slope = float(rates @ self.weights)
        return slope, float(rates.mean() - slope * self.x.mean())

    def interval(self, level: float, exact: bool) -> tuple[float, float]:
        """(low, high) of the slope: Student's t on the located lengths, the farthest that the bounds of the others
        allow, and what the grid leaves open."""
        weights = self.weights[self.located]
        slopes = self.places @ weights
        left_out, whole = slopes[:2, :-1], slopes[:, -1]
        n = left_out.shape[1]
        half = 0.0
        if not exact:
            scatter = ((left_out - left_out.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
            half = t_quantile(level, n - 1) * float(np.sqrt((n - 1) / n * scatter).max())
        # what the grid leaves open at a length lies anywhere in that range, at each length for itself
        half = float(np.hypot(half, normal_quantile(level) * np.sqrt(((weights * self.slack) ** 2).sum() / 12)))
        rest = self.weights[~self.located]
        with np.errstate(invalid="ignore"):
            ends = np.stack([rest * self.low, rest * self.high]) if len(rest) else np.zeros((2, 0))
        ends = np.where(rest == 0, 0.0, ends)  # a length in the middle does not tilt the line
        return (float(whole.min() - half + ends.min(axis=0).sum()), float(whole.max() + half + ends.max(axis=0).sum()))
