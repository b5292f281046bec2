"""The closed forms of rows, column by column from their parameters."""

from collections.abc import Iterator

import numpy as np

from raysweep.theory import covariance
from raysweep.workloads.declaration import Array, Columns
from raysweep.workloads.linear_covariance.spectrum import read, shifted


def samples(columns: Columns) -> Array:
    """Target samples n = round(gamma * dim) of each row, shape (rows,), int64 (halves round to even)."""
    return np.round(np.asarray(columns["gamma"], float) * np.asarray(columns["dim"], float)).astype(np.int64)


def signs(columns: Columns) -> dict[str, Array]:
    """The columns whose negation flips a sign of the draw, each with the rows in which that makes a difference.

    The difference between target and source and the label noise are normal, or their directions: flipping one is the
    draw at -shift_norm or at -noise. Flipping the target is flipping both, up to the sign of everything.
    """
    return {name: np.asarray(columns[name]) != 0 for name in ("shift_norm", "noise")}


def risks(columns: Columns) -> dict[str, Array]:
    """risk_{scratch,finetune} and transferability_finetune of each row, (rows,) each, in the limit of many dimensions
    (theory/covariance.py): means over the directions of the maps."""
    result = {name: np.full(len(columns["dim"]), np.nan) for name in ("risk_scratch", "risk_finetune")}
    for rows, part, values, counts in _alike(columns):
        n, noise = samples(part), np.asarray(part["noise"], float)
        difference, target = squares(part, counts)
        nothing = np.zeros_like(target)
        result["risk_scratch"][rows] = covariance.risk(values, counts, n, noise, nothing, target, target)
        depth, source = np.asarray(part["depth"], float), target + difference
        result["risk_finetune"][rows] = covariance.risk(values, counts, n, noise, source, target, difference, depth)
    with np.errstate(invalid="ignore"):
        result["transferability_finetune"] = result["risk_scratch"] - result["risk_finetune"]
    return result


def bounds(columns: Columns) -> Array:
    """T's bound (Thm 4.2) of each row, (rows,)."""
    result = np.full(len(columns["dim"]), np.nan)
    for rows, part, values, counts in _alike(columns):
        result[rows] = covariance.bound(values, counts, samples(part), squares(part, counts)[0])
    return result


def squares(columns: Columns, counts: Array) -> tuple[Array, Array]:
    """Squared lengths in each group, (rows, groups): of the difference of the maps, and of the target on average.

    Their product is 0 on average, so that the source has the sum of both.
    """
    inside = np.array([shifted(shift, counts) for shift in np.asarray(columns["shift"]).tolist()])
    spread = inside * counts
    difference = spread / spread.sum(1, keepdims=True) * np.asarray(columns["shift_norm"], float)[:, None] ** 2
    return difference, counts / counts.sum() * np.asarray(columns["target_norm"], float)[:, None] ** 2


def _alike(columns: Columns) -> Iterator[tuple[Array, Columns, Array, Array]]:
    """Row numbers of one dim and spectrum, their columns, and the spectrum's eigenvalues and counts."""
    keys = list(zip(np.asarray(columns["spectrum"]).tolist(), np.asarray(columns["dim"]).tolist(), strict=True))
    for key in dict.fromkeys(keys):
        rows = np.array([i for i, other in enumerate(keys) if other == key])
        yield rows, {name: np.asarray(column)[rows] for name, column in columns.items()}, *read(key[0], int(key[1]))
