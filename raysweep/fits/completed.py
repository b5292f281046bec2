"""Draws that were not computed, predicted from the same draws of other cells: cross-fitted prediction-powered means.

Cells of all slices share their draws. Where a cell has n of N draws, its N - n others are predicted by ridge regression
on the cells that have more, and its own n draws correct the prediction by their leave-one-out residuals (Angelopoulos
et al. 2023, Zrnic and Candès 2024). However bad the predictions are, the mean stays unbiased, and the scatter of the
completed draws says how well it is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from raysweep.fits.draws import usable
from raysweep.lazy import pd

# Of the ridge regression, in units of the mean square of a feature; the last one predicts the mean.
PENALTIES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 1e6)
FEWEST = 6  # with fewer draws nothing is predicted
DIGITS = 9  # of what decisions read: the last digits may depend on the machine


def completed_rows(frame: pd.DataFrame, x: str, y: str, keys: Sequence[str], seed: str = "seed") -> pd.DataFrame:
    """The rows of a table with those of each slice `completed` from all others.

    frame: one row per (slice, x, draw). keys: the columns that tell slices apart. Other rows than usable ones stay as
        they are. Draws are taken in the order of how many cells have them.
    """
    rows, _ = usable(frame.reset_index(drop=True), y, [x, seed, *keys])
    if rows.duplicated([*keys, x, seed]).any():
        return frame
    order = rows[seed].value_counts(sort=False).sort_values(ascending=False, kind="stable").index
    parts = [part for _, part in rows.groupby(list(keys), sort=True, dropna=False)] if keys else [rows]
    tables = [part.pivot(index=seed, columns=x, values=y).reindex(order) for part in parts]
    pieces = []
    for part, table, values in zip(parts, tables, completed([table.to_numpy(float) for table in tables]), strict=True):
        filled = pd.DataFrame(values, table.index, table.columns).stack().rename(y).reset_index()
        about = part.drop_duplicates(x).drop(columns=[y, seed])
        pieces.append(filled.merge(about, on=x, how="left", validate="many_to_one"))
    others = frame.reset_index(drop=True).drop(index=rows.index)
    return pd.concat([*pieces, others], ignore_index=True)


def completed(slices: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The values of slices, (draws, points) each, with as many draws in every cell as in the cell that has most.

    slices: of each point the first draws, NaN where it has none. What a draw adds to a whole slice is left out.

    The mean of a result over its draws estimates the mean of a cell; its covariance over them, divided by their number,
    is that of the means. Cells with a gap among their draws, or fewer than `FEWEST`, keep the draws that they have.
    """
    most = max((len(values) for values in slices), default=0)
    values = _rounded(np.hstack([np.pad(v, ((0, most - len(v)), (0, 0)), constant_values=np.nan) for v in slices]))
    finite = np.isfinite(values)
    counts = np.where(finite.cumprod(axis=0).sum(axis=0) == finite.sum(axis=0), finite.sum(axis=0), 0)
    counts[counts < FEWEST] = 0
    ends = np.cumsum([v.shape[1] for v in slices])
    plain, level = values.copy(), np.zeros(values.shape[1])
    for cells in np.split(np.arange(values.shape[1]), ends[:-1]):
        shared = values[:, cells[(counts[cells] == counts[cells].max(initial=0)) & (counts[cells] > 0)]]
        if shared.size:
            shared = shared.mean(axis=1, keepdims=True)
            level[cells] = np.nanmean(shared)
            plain[:, cells] -= shared
    draws, *fewer = np.unique(counts[counts > 0])[::-1].tolist() or [0]
    filled = plain[:draws].copy()
    for count in fewer:
        more, some = np.flatnonzero(counts > count), np.flatnonzero(counts == count)
        filled[:, some] = _predicted(plain[:count, more], filled[:, more], plain[:count, some])
    values[:draws] = np.where(counts > 0, filled, plain[:draws]) + level
    return np.split(_rounded(values), ends[:-1], axis=1)


def _predicted(x: np.ndarray, every: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(all draws, targets): predictions, with the residuals of the draws that are there.

    x: features of these draws, (draws, features). every: of all draws. y: (draws, targets).
    """
    n, total = len(x), len(every)
    centre, scale = x.mean(axis=0), x.std(axis=0)
    good = scale > 0
    a, b = ((z - centre)[:, good] / scale[good] / np.sqrt(max(good.sum(), 1)) for z in (x, every))
    mean, centred = y.mean(axis=0), y - y.mean(axis=0)
    w, v = np.linalg.eigh(a @ a.T)
    w, u = np.maximum(w, 0), v.T @ centred
    best = np.full(y.shape[1], np.inf)
    residual, dual = np.zeros_like(y), np.zeros_like(y)
    for penalty in PENALTIES:
        hat = (v * (w / (w + penalty))) @ v.T
        left = (centred - hat @ centred) / (1 - np.diag(hat) - 1 / n)[:, None]
        size = (left**2).sum(axis=0)
        better = size < best
        best = np.where(better, size, best)
        residual[:, better] = left[:, better]
        dual[:, better] = ((v / (w + penalty)) @ u)[:, better]
    out = mean + b @ (a.T @ dual)
    residual = residual - residual.mean(axis=0)
    out[:n] += residual * total / n * np.sqrt((n - 1) / (n - 3))
    return out


def _rounded(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = 10.0 ** (np.floor(np.log10(np.abs(values))) - DIGITS + 1)
        rounded = np.round(values / unit) * unit
    return np.where(np.isfinite(rounded), rounded, values)
