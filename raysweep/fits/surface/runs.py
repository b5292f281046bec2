"""What the runs of each cell say of it: means without the levels of draws, and how the draws scatter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PASSES = 40  # of the two-way fit; designs in which every draw has every cell need two


@dataclass(frozen=True, eq=False)
class Runs:
    """How runs of a cell differ, of values without the levels of their draws.

    shared: (slices, cells, cells), draws that both cells have over the product of their counts: the weight of a draw's
        smooth noise in two means.
    complete: (slices, cells), cells in which every draw of the slice has a run; scatter: (slices, cells, cells) and
        draws: (slices,), the scatter matrix of their draws and its degrees of freedom.
    squares, degrees: (slices, cells), scatter within the other cells and its degrees of freedom.
    """

    shared: np.ndarray
    complete: np.ndarray
    scatter: np.ndarray
    draws: np.ndarray
    squares: np.ndarray
    degrees: np.ndarray


def two_way(
    value: np.ndarray, cell: np.ndarray, in_slice: np.ndarray, draw: np.ndarray, cells: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean of each cell, residual of each row, whether the row's draw has more than one cell of its slice).

    The model is cell + draw, where the draws of a slice average 0: least squares, by alternation. A draw that has one
    cell only adds nothing.
    """
    names, number = np.unique(in_slice * (draw.max() + 1) + draw, return_inverse=True)
    slices, runs = names // (draw.max() + 1), np.bincount(number)
    common, count = runs[number] > 1, np.maximum(np.bincount(cell, minlength=cells), 1)
    level = np.zeros(len(names))
    for _ in range(PASSES):
        mean = np.bincount(cell, value - level[number], cells) / count
        change = np.where(runs > 1, np.bincount(number, value - level[number] - mean[cell]) / runs, 0.0)
        level += change
        level -= (np.bincount(slices, level) / np.maximum(np.bincount(slices), 1))[slices] * (runs > 1)
        if np.abs(change).max(initial=0) <= 1e-10 * np.abs(value).max(initial=1e-300):
            break
    mean = np.bincount(cell, value - level[number], cells) / count
    return mean, value - level[number] - mean[cell], common


def scatter_of(
    residual: np.ndarray,
    cell: np.ndarray,
    draw: np.ndarray,
    slice_of: np.ndarray,
    place: np.ndarray,
    there: np.ndarray,
    count: np.ndarray,
    common: np.ndarray,
) -> Runs:
    """`Runs` of rows without their draw's level.

    residual, cell, draw, common: (rows,). slice_of, place: of each cell. there, count: (slices, cells).
    """
    slices, cells = there.shape
    names, number = np.unique(slice_of[cell] * (draw.max(initial=0) + 1) + draw, return_inverse=True)
    in_slice = names // (draw.max(initial=0) + 1)
    has, every = np.zeros((len(names), cells)), np.zeros((len(names), cells))
    has[number, place[cell]], every[number, place[cell]] = 1.0, residual
    shared, scatter = np.zeros((slices, cells, cells)), np.zeros((slices, cells, cells))
    for s in range(slices):
        rows, values = has[in_slice == s], every[in_slice == s]
        shared[s], scatter[s] = rows.T @ rows, values.T @ values
    shared /= np.maximum(count[:, :, None] * count[:, None, :], 1)
    total = np.bincount(in_slice, minlength=slices)
    complete = (
        there & (count == total[:, None]) & (total[:, None] > 1) & (count.sum(axis=1) > count.max(axis=1))[:, None]
    )
    complete &= (complete.sum(axis=1) > 1)[:, None]
    width = there.sum(axis=1)
    levelled = bool(common.any())
    factor = np.where(levelled & (width > 1), width / np.maximum(width - 1, 1), 1.0)  # the removed level took a degree
    squares = factor[:, None] * np.einsum("snn->sn", scatter)
    alone = there & ~complete & (count > 1)
    matrix = factor[:, None, None] * scatter * complete[:, :, None] * complete[:, None, :]
    draws = np.where(complete.any(axis=1), total - 1, 0)
    return Runs(shared, complete, matrix, draws, np.where(alone, squares, 0.0), np.where(alone, count - 1, 0))
