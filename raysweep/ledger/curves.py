"""The learning curves of rows: what each stage of a row logged while it ran.

What a stage that is not kept logged stands in the row. A kept stage is shared by many rows, so its curve stands once in
each pack, under the id of the stage.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from raysweep.lazy import pd
from raysweep.ledger.results_table import in_order
from raysweep.ledger.segments import Curve, Row, SharedCurves
from raysweep.plan.cells import Cells

STEP = "step"


def of_row(row: Row, shared: SharedCurves) -> dict[str, Curve]:
    """The learning curves of a row: {stage: {"step": [...], METRIC: [...]}}, without stages that logged nothing. The
    points of one stage (epochs, parts of a trunk) are one curve, in their order. shared: the curves of the kept stages
    of the ledger."""
    curves = dict(row.get("curves", {}))
    for stage, ids in row.get("stages", {}).items():
        parts = [shared[identity][1] for identity in ids if identity in shared]
        if parts:
            curves[stage] = one_after_the_other(parts)
    return curves


def one_after_the_other(parts: Sequence[Curve]) -> Curve:
    """Several curves as one. A metric that one of them has not is NaN there."""
    if len(parts) == 1:
        return parts[0]
    names = list(dict.fromkeys(name for part in parts for name in part))
    return {
        name: array("d", (value for part in parts for value in part.get(name) or [math.nan] * len(part[STEP])))
        for name in names
    }


def aligned(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """(x, values[curve, point]) of several curves, at the x, sorted, at which all have a finite value."""
    finite = [(x[np.isfinite(values)], values[np.isfinite(values)]) for x, values in parts]
    if not finite:
        return np.empty(0), np.empty((0, 0))
    first, _ = finite[0]
    if all(np.array_equal(x, first) for x, _ in finite) and bool(np.all(np.diff(first) > 0)):
        return first, np.stack([values for _, values in finite])
    by_x = [dict(zip(x.tolist(), values.tolist(), strict=True)) for x, values in finite]
    common = sorted(set.intersection(*map(set, by_x)))
    return np.array(common), np.array([[one[x] for x in common] for one in by_x])


def are_whole(steps: np.ndarray) -> bool:
    """Whether all steps are whole numbers that are exact as floats (below 2**53), and so can be shown as integers."""
    return bool(np.all((steps == np.round(steps)) & (np.abs(steps) < 2**53)))


def table(
    sweep: str,
    stages: Sequence[str],
    names: Sequence[str],
    cells: Cells,
    seeds: Sequence[int],
    rows: Mapping[tuple[str, int], Row],
    shared: SharedCurves,
) -> pd.DataFrame:
    """One line per point of a learning curve: sweep, cell, seed, status, stage, step, parameters (names), logged
    metrics.

    The lines are in plan order, then by seed, then by stage, then in the order in which they were logged. A metric that
    was not logged at a step is NaN there; one with the name of another column is called NAME_logged. Without any curve,
    the table has no lines and no metrics.

    stages: the names of all stages, first to last. shared: the curves of the kept stages of the ledger.
    """
    order = {stage: place for place, stage in enumerate(stages)}
    pieces: list[tuple[int, Row, str, Curve]] = []
    for index, row in in_order(cells, seeds, rows):
        curves = sorted(of_row(row, shared).items(), key=lambda item: order.get(item[0], len(order)))
        pieces += [(index, row, stage, curve) for stage, curve in curves]
    lengths = np.asarray([len(curve[STEP]) for *_, curve in pieces], dtype=np.int64)
    logged = dict.fromkeys(name for *_, curve in pieces for name in curve if name != STEP)

    def repeated(values: Iterable[Any], kind: Any = object) -> np.ndarray:
        return np.repeat(np.asarray(list(values), dtype=kind), lengths)

    def column(name: str) -> np.ndarray:
        parts = (curve.get(name) or np.full(len(curve[STEP]), np.nan) for *_, curve in pieces)
        return np.concatenate([*map(np.asarray, parts), np.empty(0)])

    steps = column(STEP)
    whole = are_whole(steps)
    at = repeated((index for index, *_ in pieces), np.int64)
    columns = {
        "sweep": np.full(len(steps), sweep, dtype=object),
        "cell": repeated(row["cell"] for _, row, _, _ in pieces),
        "seed": repeated((row["seed"] for _, row, _, _ in pieces), np.int64),
        "status": repeated(row["status"] for _, row, _, _ in pieces),
        "stage": repeated(stage for _, _, stage, _ in pieces),
        STEP: steps.astype(np.int64) if whole else steps,
    }
    columns |= {name: cells.columns[name][at] for name in names}
    taken = set(columns)  # a schedule may log the rate under the name of its axis
    return pd.DataFrame(columns | {f"{name}_logged" if name in taken else name: column(name) for name in logged})
