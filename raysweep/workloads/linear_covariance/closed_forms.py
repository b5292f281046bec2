"""What needs no engine: the spectrum of a covariance as text, closed forms of rows, and what rows cost; without SciPy.

Constants of costs were measured on one core of a 2-core x86 machine (float64, one BLAS thread), within a factor of 2.
"""

import functools
import math
from collections.abc import Iterator

import numpy as np

from raysweep.theory import covariance
from raysweep.theory.arrays import alike, samples
from raysweep.workloads import symmetric
from raysweep.workloads.declaration import Array, Columns, Cost

FORM = "eigenvalues with their counts, the last filling up, as in 1.5:50,0.3"
SHIFTS = ("top", "bottom", "all")
SMALLEST, LARGEST = 1e-12, 1e12  # so far apart end points still agree with rational arithmetic to nine digits
_FLOPS = 2e10


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
    for (text, dim), rows in alike(columns["spectrum"], columns["dim"]):
        yield rows, {name: np.asarray(column)[rows] for name, column in columns.items()}, *read(text, int(dim))


@functools.lru_cache(maxsize=4096)
def read(text: str, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The eigenvalues that `text` names and how many each has, shapes (groups,), in its order, read-only.

    VALUE:COUNT, or VALUE for a single one; the last without a count is as many as are left.
    ValueError says what was expected.
    """
    values: list[float] = []
    counts: list[int] = []
    parts = str(text).split(",")
    for part in parts:
        number, colon, count = part.partition(":")
        value = _number(number, text)
        if not value > 0:
            raise ValueError(f"expected eigenvalues above 0, got {number.strip()} in {text!r}")
        if not SMALLEST <= value <= LARGEST:
            raise ValueError(f"expected eigenvalues from {SMALLEST:g} to {LARGEST:g}, got {number.strip()} in {text!r}")
        values.append(value)
        counts.append(_count(count, text) if colon else 1)
    if ":" not in parts[-1]:
        counts[-1] = max(dim - sum(counts[:-1]), 1)
    if sum(counts) != dim:
        raise ValueError(f"expected eigenvalues for dim = {dim:,} directions, got {sum(counts):,} in {text!r}")
    groups = np.array(values), np.array(counts, float)
    for each in groups:
        each.setflags(write=False)
    return groups


def in_words(text: str) -> str:
    """A spectrum for a reader: "50 directions of variance 1.5, the others of 0.3"."""
    parts = [part.strip().partition(":") for part in text.split(",")]
    one = [f"{count} direction{'' if count == '1' else 's'} of variance {value}" for value, _, count in parts if count]
    rest = [value for value, _, count in parts if not count]
    if not one or rest != [parts[-1][0]]:
        return f"spectrum {text}"
    return ", ".join([*one, f"the others of {rest[0]}"])


def shifted(shift: str, counts: np.ndarray) -> np.ndarray:
    """Which groups the difference between target and source lies in, boolean (groups,): the first, the others, all."""
    first = np.arange(len(counts)) == 0
    return first if shift == "top" else ~first if shift == "bottom" else np.ones(len(counts), bool)


def _number(part: str, text: str) -> float:
    try:
        value = float(part)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"expected {FORM}; got {part.strip()!r} in {text!r}")
    return value


def _count(part: str, text: str) -> int:
    value = _number(part, text)
    if value != int(value) or value < 1:
        raise ValueError(f"expected a whole count of at least 1, got {part.strip()} in {text!r}")
    return int(value)


def of_rows(columns: Columns) -> Cost:
    """Seconds and peak bytes of all rows of one draw, which share engine, dim and spectrum."""
    rows, dim = len(columns["dim"]), float(columns["dim"][0])
    base = Cost(1e-3 + 2e-5 * rows, 1e6 + 2000.0 * rows)
    if columns["engine"][0] == "theory":
        return base
    base += Cost(2e-5 * (len(symmetric.expanded(columns, signs(columns))[1]) - rows), 0.0)
    sizes = np.unique(samples(columns)).astype(float)
    under, over = sizes[sizes <= dim], sizes[sizes > dim] * bool((np.asarray(columns["noise"]) > 0).any())
    most, longest = under.max(initial=0.0), over.max(initial=0.0)
    flops = 4 * most**2 * (dim - most / 3) + 30 * dim * most + 60 * dim * len(under) + 2 * dim**2 * longest
    drawn = 2e-8 * dim * sizes.max(initial=0.0)
    return Cost(base.seconds + drawn + flops / _FLOPS, base.peak_bytes + 8 * dim * (3 * most + 3 * longest + 20))
