"""What a surface says: best values, sets not told from the best, regret, zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import check_options
from raysweep.fits.reasons import Reason, because
from raysweep.fits.result import Status
from raysweep.fits.statistics import LEVEL
from raysweep.fits.surface.cells import cells_of
from raysweep.fits.surface.paths import Posterior, posterior_of
from raysweep.fits.surface.places import PATHS, Places, clarity, least_clarity, paths_below_walls, places_of

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 5  # values of an axis
FEWEST_DEGREES = 3  # of the noise, over all slices
WIDEST = 50.0  # units: more regret says no more
THIN = 0.02  # smallest singular value of the scaled cells of two axes, over the largest, below which they lie on a line


def fit_surface(
    frame: pd.DataFrame,
    x: Sequence[str],
    y: str,
    by: Sequence[str] = (),
    seed: str | None = None,
    *,
    turn: str = "min",
    error: str | None = None,
    logarithmic: Sequence[bool | None] | None = None,
    compressed: bool = True,
) -> Surface:
    """Fit one posterior to a metric over one or two axes, in slices of others, with any number of runs per cell.

    frame: one row per run. Rows that diverged (status diverged; without a `status` column no finite value) say that the
        metric is worse than everything; other rows without a value say nothing.
    x: the columns of the optimized axes, one or two. y: the metric. by: the columns that tell slices apart.
    seed: the column of the draw; None if every row is a draw of its own. Its level within a slice is removed.
    turn: min or max, the better extremum of the metric.
    error: a column of known standard errors of the rows; noise is then not estimated.
    logarithmic: of each axis whether it is read in log; None chooses by its values.
    compressed: compress heights, for extrema; without it, the values themselves, for zeros.

    Raises ValueError for unknown columns or options, for x that is not finite (or not above 0 in log), and if no row
    has a value.
    """
    check_options(LEVEL, turn)
    if len(x) not in (1, 2):
        raise ValueError(f"x: expected one or two columns, got {len(x)}")
    cells = cells_of(frame, x, y, by, seed, turn=turn, error=error, logarithmic=logarithmic, compressed=compressed)
    return Surface(posterior_of(cells), tuple(x), tuple(by), turn)


@dataclass(frozen=True, eq=False)
class Surface:
    """A posterior over a metric in all slices. x, by: names of its axes and of those of its slices."""

    posterior: Posterior
    x: tuple[str, ...]
    by: tuple[str, ...]
    turn: str

    @cached_property
    def places(self) -> Places:
        """Sample paths of all slices and their minima."""
        return places_of(self.posterior)

    def best(self, level: float = LEVEL) -> pd.DataFrame:
        """The best value of each axis, jointly of two: one row per slice and axis.

        Columns: those of the slice; axis; estimate (NaN unless located), low, high, status (see `Status`); reason and
        note (see `Reason`); cells: with a value; runs.
        """
        import pandas as pd

        check_options(level)
        rows: list[dict[str, Any]] = []
        for axis in range(len(self.x)):
            found = self._best(axis, level)
            rows += [{**self._key(s), "axis": self.x[axis], **row, **self._size(s)} for s, row in enumerate(found)]
        order = sorted(range(len(rows)), key=lambda k: k % len(self.posterior.cells.keys))
        return pd.DataFrame([rows[k] for k in order])

    def regret(self, choice: pd.DataFrame, level: float = LEVEL) -> pd.DataFrame:
        """What a choice costs: how much worse the mean metric is there than at the best values, by slice.

        choice: the columns of the slice and of x, one row per choice. Adds regret (expected), regret_low, regret_high.
        """
        cells, places = self.posterior.cells, self.places
        names = {key: s for s, key in enumerate(cells.keys)}
        slices = np.array([names[key] for key in choice[list(self.by)].itertuples(index=False, name=None)], dtype=int)
        u = np.column_stack(
            [axis.coordinate(choice[x].to_numpy(float)) for x, axis in zip(self.x, cells.axes, strict=True)]
        )
        every = np.concatenate([places.u[slices], u[:, None]], axis=1)
        loss = cells.value(paths_below_walls(self.posterior, every, PATHS, 3, slices))
        loss = np.clip(loss[..., -1] - loss.min(axis=2), 0, WIDEST * cells.unit)
        low, high = np.quantile(loss, [(1 - level) / 2, (1 + level) / 2], axis=1)
        return choice.assign(regret=loss.mean(axis=1), regret_low=low, regret_high=high)

    def choices(self, eps: float = 0.0, level: float = LEVEL) -> pd.DataFrame:
        """The choice of least expected regret in each slice, and the ranges of values that are as good.

        Columns: those of the slice; each x; regret, regret_low, regret_high: of the choice; and for each axis
        NAME_alike_low, NAME_alike_high: the values (at some value of the other axis) that are not told from the choice
        at this level, and NAME_within_low, NAME_within_high: those that may lie within eps of the best.
        """
        import pandas as pd

        cells, places = self.posterior.cells, self.places
        tail, rows = (1 - level) / 2, []
        for s, key in enumerate(cells.keys):
            loss = np.minimum(cells.value(places.paths[s]), WIDEST * cells.unit)
            regret = loss - loss.min(axis=1, keepdims=True)
            index = int(regret.mean(axis=0).argmin())
            alike = (loss <= loss[:, [index]]).mean(axis=0) > tail
            within = (regret <= eps).mean(axis=0) > 1 - level
            row: dict[str, Any] = dict(zip(self.by, key, strict=True))
            row |= {
                name: axis.place(places.u[s, index, k])
                for k, (name, axis) in enumerate(zip(self.x, cells.axes, strict=True))
            }
            row |= {"regret": regret[:, index].mean()}
            row |= dict(
                zip(("regret_low", "regret_high"), np.quantile(regret[:, index], [tail, 1 - tail]), strict=True)
            )
            for k, (name, axis) in enumerate(zip(self.x, cells.axes, strict=True)):
                for word, chosen in (("alike", alike), ("within", within)):
                    u = places.u[s, chosen, k] if chosen.any() else np.array([np.nan])
                    row |= {f"{name}_{word}_low": axis.place(u.min()), f"{name}_{word}_high": axis.place(u.max())}
            rows.append(row)
        return pd.DataFrame(rows)

    def zero(self, level: float = LEVEL) -> pd.DataFrame:
        """Where the metric crosses zero along the one axis, per slice; of several crossings the first.

        Columns as of `best`. The surface must not be compressed.
        """
        import pandas as pd

        cells, places = self.posterior.cells, self.places
        if cells.compressed or len(self.x) != 1:
            raise ValueError("a zero needs one axis and a surface that is not compressed")
        rows = []
        for s in range(len(cells.keys)):
            order = np.argsort(places.u[s, :, 0])
            u, paths = places.u[s, order, 0], places.paths[s][:, order]
            rows.append({**self._key(s), "axis": self.x[0], **self._zero(s, u, paths, level), **self._size(s)})
        return pd.DataFrame(rows)

    def _key(self, s: int) -> dict[str, Any]:
        return dict(zip(self.by, self.posterior.cells.keys[s], strict=True))

    def _size(self, s: int) -> dict[str, int]:
        cells = self.posterior.cells
        valued = cells.valued[s]
        return {"cells": int(valued.sum()), "runs": int(cells.count[s][valued].sum())}

    def missing(self, s: int, axis: int) -> dict[str, Any]:
        """Why a slice is not enough to say anything of an axis; empty if it is."""
        cells = self.posterior.cells
        if not cells.valued[s].any():
            return because(Reason.NO_ROWS)
        if (few := int(cells.values[s, axis])) < FEWEST:
            return because(Reason.TOO_FEW_POINTS, points=few, least=FEWEST)
        if cells.flat[s]:
            return because(Reason.FLAT)
        if len(self.x) > 1:
            z = cells.z[s][cells.valued[s]]
            sizes = np.linalg.svd(z - z.mean(axis=0), compute_uv=False)
            if sizes[-1] < THIN * sizes[0] or cells.valued[s].sum() < FEWEST + self.posterior.model.terms - 1:
                return because(Reason.TOO_FEW_CELLS, least=FEWEST + self.posterior.model.terms - 1)
        if not cells.errors_known and cells.noise_degrees < FEWEST_DEGREES:
            return because(Reason.NOISE_UNKNOWN)
        return {}

    def _best(self, axis: int, level: float) -> list[dict[str, Any]]:
        """The row of each slice, without its keys."""
        places, place = self.places, self.posterior.cells.axes[axis].place
        tail = (1 - level) / 2
        at = places.at[:, :, axis]
        low, middle, high = np.quantile(at, [tail, 0.5, 1 - tail], axis=1)
        first, last = places.low[:, axis], places.high[:, axis]
        margin = 1e-9 * (last - first)
        at_low, at_high = (at <= (first + margin)[:, None]).mean(axis=1), (at >= (last - margin)[:, None]).mean(axis=1)
        fall, climb = clarity(*places.profile(axis), middle)
        least, out = least_clarity(level), []
        for s in range(len(at)):
            if why := self.missing(s, axis):
                out.append(answer(Status.UNDETERMINED, np.nan, np.nan, np.nan, why))
                continue
            falls, climbs = fall[s] >= least, climb[s] >= least
            edges = place(first[s]), place(last[s])
            if falls and climbs and max(at_low[s], at_high[s]) <= tail:
                out.append(
                    answer(Status.LOCATED, place(middle[s]), place(low[s]), place(high[s]), because(Reason.NONE))
                )
            elif falls and at_low[s] <= tail:
                reason = Reason.TOWARDS_HIGH if at_high[s] > 0.5 else Reason.HIGH_EDGE_ALIKE
                end = edges[1] if climbs else np.inf
                out.append(answer(Status.CENSORED_HIGH, np.nan, place(low[s]), end, because(reason)))
            elif climbs and at_high[s] <= tail:
                reason = Reason.TOWARDS_LOW if at_low[s] > 0.5 else Reason.LOW_EDGE_ALIKE
                end = edges[0] if falls else -np.inf
                out.append(answer(Status.CENSORED_LOW, np.nan, end, place(high[s]), because(reason)))
            else:
                reason = Reason.INSIDE_UNCLEAR if falls or climbs else Reason.NO_CLEAR_CHANGE
                out.append(answer(Status.UNDETERMINED, np.nan, np.nan, np.nan, because(reason)))
        return out

    def _zero(self, s: int, u: np.ndarray, paths: np.ndarray, level: float) -> dict[str, Any]:
        if why := self.missing(s, 0):
            return answer(Status.UNDETERMINED, np.nan, np.nan, np.nan, why)
        tail, place = (1 - level) / 2, self.posterior.cells.axes[0].place
        signs = np.sign(paths.mean(axis=0))
        clear = np.maximum((paths > 0).mean(axis=0), (paths < 0).mean(axis=0)) >= 1 - tail
        first, last = signs[0] * clear[0], signs[-1] * clear[-1]
        change = np.signbit(paths[:, 1:]) != np.signbit(paths[:, :-1])
        crosses, k = change.any(axis=1), change.argmax(axis=1)
        rows = np.arange(len(paths))
        share = paths[rows, k] / np.where(crosses, paths[rows, k] - paths[rows, k + 1], 1.0)
        at = np.where(crosses, u[k] + share * (u[k + 1] - u[k]), np.nan)
        if first * last < 0:
            low, middle, high = (place(each) for each in np.quantile(at[crosses], [tail, 0.5, 1 - tail]))
            return answer(Status.LOCATED, middle, low, high, because(Reason.NONE))
        every = (paths > 0).all(axis=1).mean(), (paths < 0).all(axis=1).mean()
        if max(every) >= 1 - tail:
            reason = Reason.POSITIVE_EVERYWHERE if every[0] > every[1] else Reason.NEGATIVE_EVERYWHERE
            return answer(Status.MONOTONE, np.nan, np.nan, np.nan, because(reason))
        sign = float(first or last)
        if bool(first) == bool(last):
            return answer(Status.UNDETERMINED, np.nan, np.nan, np.nan, because(Reason.NO_CLEAR_SIGN))
        if first:
            low = place(float(np.quantile(np.where(crosses, at, u[-1]), tail)))
            return answer(Status.CENSORED_HIGH, np.nan, low, np.inf, because(Reason.HIGH_SIGN_UNCLEAR, sign=sign))
        high = place(float(np.quantile(np.where(crosses, at, u[0]), 1 - tail)))
        return answer(Status.CENSORED_LOW, np.nan, -np.inf, high, because(Reason.LOW_SIGN_UNCLEAR, sign=sign))


def answer(status: Status, estimate: float, low: float, high: float, why: dict[str, Any]) -> dict[str, Any]:
    """The columns of one answer."""
    return {"estimate": estimate, "low": low, "high": high, "status": status, **why}
