"""Best values from one or two runs per cell: a fit of all slices at once, with the noise pooled over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from raysweep.fits.draws import check_options, usable
from raysweep.fits.lost_draws import losses_of, most
from raysweep.fits.optimum import COLUMNS, in_log
from raysweep.fits.reasons import Reason, because
from raysweep.fits.result import Fit, Status, overall
from raysweep.fits.statistics import LEVEL
from raysweep.fits.surface.best import FEWEST, best
from raysweep.fits.surface.posterior import Cells, Surface, fit_surface
from raysweep.workloads.declaration import DIVERGED

if TYPE_CHECKING:
    import pandas as pd

FEW = 2
"""With at most so many draws per cell, slices cannot be fitted one by one."""
CELLS = 15
"""From so many cells on, their roughness says how large the noise is."""
METHOD = "posterior of the whole surface, noise pooled over its slices"


def has_few_draws(frame: pd.DataFrame, x: str, y: str, by: Sequence[str]) -> bool:
    """Whether half of the cells have at most `FEW` draws with a value, and there are enough cells to pool them."""
    values = frame[np.isfinite(frame[y].to_numpy(float)) & (frame[x].notna()).to_numpy()]
    draws = values.groupby([x, *by], dropna=False).size()
    return len(draws) >= CELLS and bool(draws.median() <= FEW)


def fit_few_draws(
    frame: pd.DataFrame,
    x: str,
    y: str,
    by: Sequence[str],
    level: float = LEVEL,
    *,
    turn: str = "min",
    logarithmic: bool | None = None,
    error: str | None = None,
    kind: str = "optimum",
) -> Fit:
    """Estimate where a metric is best along x in every slice, from one or two runs per cell.

    frame, x, y, level, turn, logarithmic: as in `fit_optimum`. by: the columns of the slices, which share
        hyperparameters and noise. A value of 0 on a logarithmic axis is left out. error: the column of the known
        standard error of each run, which takes the place of the noise.

    The table has two more columns: choice, the value of x of least expected regret, and regret, how much worse than the
    best the metric is expected to be there.

    Status of a slice: as in `fit_optimum`, and undetermined with fewer than five values of x.
    """
    import pandas as pd

    check_options(level, turn)
    keys, frame = list(by), frame.reset_index(drop=True)
    rows, dropped = usable(frame, y, [x, *(["seed"] if "seed" in frame else []), *keys])
    logarithmic = in_log(frame[x].to_numpy(np.float64)) if logarithmic is None else logarithmic
    sign = -1.0 if turn == "max" else 1.0
    bad = losses_of(frame, y, (DIVERGED,))
    slices = list(frame.groupby(keys, sort=True, dropna=False)) if keys else [((), frame)]
    parts, limits = [], []
    for _, part in slices:
        inside = rows.loc[part.index.intersection(rows.index)]
        inside = inside[(inside[x] > 0) | (not logarithmic)]
        groups = inside.groupby(x, sort=True)[y]
        lost = [value for value, some in part.groupby(x) if most(bad[some.index])]
        lost = [value for value in lost if value > 0 or not logarithmic]
        limits.append(min((value for value in lost if len(inside) and value > inside[x].min()), default=np.inf))
        sizes, known = groups.size(), np.full(len(groups), np.nan)
        if error is not None:
            known = np.sqrt(inside.groupby(x, sort=True)[error].apply(lambda some: (some**2).sum())) / sizes
        parts.append((groups.mean() * sign, sizes, groups.var(ddof=0).fillna(0) * sizes, known, lost))
    cells = _cells(parts, logarithmic)
    lines = []
    with threadpool_limits(1):  # the matrices are small: more threads only wait for each other
        try:
            surface = fit_surface(cells)
        except ValueError:
            surface = None  # all cells are equal
        answers = [
            _line(surface, cells, s, level, logarithmic, len(parts[s][0]), limit) for s, limit in enumerate(limits)
        ]
    for s, ((values, _), (means, *_), limit) in enumerate(zip(slices, parts, limits, strict=True)):
        found = answers[s]
        about = {"diverged_from": limit, "points": len(means), "draws": int(parts[s][1].max() if len(means) else 0)}
        lines.append({**dict(zip(keys, values, strict=True)), **found, **about, "turn": turn})
    table = pd.DataFrame(lines)
    table = table.reindex(columns=[*keys, *COLUMNS, "choice", "regret"])
    return Fit(
        kind=kind,
        level=level,
        points=int(rows[x].nunique()),
        draws=int(table["draws"].max()),
        rows=len(rows),
        dropped=dropped,
        scale="linear",
        method=METHOD,
        table=table,
        crossings=pd.DataFrame(),
        notes=(),
        **overall(table),
    )


def _cells(parts: Sequence[tuple[Any, ...]], logarithmic: bool) -> Cells:
    """The cells of all slices. parts: means, draws, scatter and known errors by x, and the values of x at which
    most draws diverged."""
    x = np.concatenate([np.r_[means.index.to_numpy(float), lost] for means, *_, lost in parts])
    lost = np.concatenate([np.r_[np.zeros(len(means)), np.ones(len(lost))] for means, *_, lost in parts]) > 0
    columns = [
        np.concatenate([np.r_[np.asarray(part[k], dtype=float), np.full(len(part[-1]), fill)] for part in parts])
        for k, fill in ((0, np.inf), (1, 1.0), (2, 0.0), (3, np.nan))
    ]
    return Cells(
        x=(np.log(x) if logarithmic else x)[:, None],
        y=columns[0],
        slices=np.repeat(np.arange(len(parts)), [len(part[0]) + len(part[-1]) for part in parts]),
        draws=columns[1],
        scatter=columns[2],
        error=columns[3],
        diverged=lost,
    )


def _line(
    surface: Surface | None, cells: Cells, s: int, level: float, logarithmic: bool, values: int, limit: float
) -> dict[str, Any]:
    """The fit of a slice as a row of the table. limit: the lowest x above some ok cell at which most draws diverged."""
    back = np.exp if logarithmic else np.asarray
    out: dict[str, Any] = dict.fromkeys(("estimate", "low", "high", "choice", "regret", "method_spread"), np.nan)
    out |= {"exact": False, "halved": False, "method": METHOD, "low_simultaneous": np.nan, "high_simultaneous": np.nan}
    own = cells.x[(cells.slices == s) & ~cells.diverged, 0]
    if surface is None or values < FEWEST:
        reason = Reason.FLAT if surface is None else Reason.TOO_FEW_POINTS
        return out | {"status": Status.UNDETERMINED} | because(reason, points=values, least=FEWEST)
    top = own.max() if limit == np.inf else np.log(limit) if logarithmic else limit
    found = best(surface, s, level, low=own.min(), high=float(top), values=values)
    ends = {"low": found.low, "high": found.high, "estimate": found.estimate, "choice": found.choice}
    out |= {name: float(back(end)) if np.isfinite(end) else end for name, end in ends.items()}
    if logarithmic and found.low == -np.inf:
        out["low"] = 0.0
    return out | {"regret": found.regret, "status": found.status} | because(found.reason)
