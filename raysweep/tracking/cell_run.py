"""The content of a cell's run in MLflow: its metrics, parameters and tags, as plain values.

MLflow cannot store infinity (in SQLite it becomes 1.8e308, which ruins every chart) and stores NaN as a flagged 0. So
only finite numbers are written. A metric that is NaN or absent in every draw does not apply to the cell and is left
out. A metric that is not finite in some `ok` draw has no honest mean: only its finite draws are written, and the tag
`raysweep.not_finite` names it. The ledger and `results` keep every value.

Learning curves are metric histories. MLflow's charts show one line per run and metric, and a cell has several draws. So
the history of STAGE/METRIC is the mean over the ok draws, at the steps that all of them logged; the ledger keeps each
draw's curve (`raysweep results --curves`). A run that stands for a pack of cells has no histories.
"""

from __future__ import annotations

import hashlib
import math
import posixpath
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep import plain_json as json
from raysweep.ledger.curves import STEP, aligned, are_whole
from raysweep.ledger.segments import Curve, Row
from raysweep.workloads.declaration import FAILED, OK

LAYOUT = 4
"""The version of this content. Raise it when the content for the same rows changes; a replay then writes every cell
again."""
LONGEST_PARAM, LONGEST_TAG = 6000, 5000  # MLflow refuses longer ones
Point = tuple[str, float, int]
"""A point of a metric: key, value, step."""
MOST_POINTS = 100
"""Points of a history. MLflow writes a few thousand points a second, and the ledger keeps more."""
LONGEST_KEY = 240
"""Characters of a key. MLflow takes 250; a prefix may be added."""
DESCRIPTION = (
    "The histories (`STAGE/METRIC`) are learning curves: means over the ok draws, at the steps that all of them "
    f"logged, {MOST_POINTS} points at most. `raysweep results SWEEP --curves` has every draw, with 513 points at most."
)
Cell = tuple[int, Mapping[str, Any], Sequence[Row]]
"""A complete cell: position in the plan, parameters, rows."""


@dataclass(frozen=True)
class Content:
    """The content of one run. status: FINISHED or FAILED. digest: of all that it was made from, except seconds."""

    name: str
    status: str
    metrics: list[Point]
    params: dict[str, str]
    tags: dict[str, str]
    digest: str

    def last(self) -> dict[str, float]:
        """The value of each metric that MLflow shows with a run: that of the last step."""
        points = sorted((step, value, key) for key, value, step in self.metrics)
        return {key: value for _, value, key in points}


def of_cell(
    cell_id: str, axes: Sequence[str], params: Mapping[str, Any], rows: Sequence[Row], stage_ids: Sequence[str]
) -> Content:
    """The content of the run of one complete cell.

    For each metric, NAME is the mean over the ok draws and NAME_se its standard error (with two draws or more); each
    draw's value is in the artifact results.csv. A numeric axis is a metric too, because MLflow sorts parameters as text
    (13.5 before 4.5). The status is FAILED if a draw failed or no draw is ok.

    A metric or an axis of the sweep keeps its name. What is added gives way: if a metric is called acc_se, the standard
    error of acc is raysweep.acc_se.

    rows: their `curves` are those of all stages; the learning curves become histories.
    """
    rows = sorted(rows, key=lambda row: row["seed"])
    good = [row for row in rows if row["status"] == OK]
    metrics: list[Point] = []
    not_finite = []
    names = sorted({name for row in rows for name in row["metrics"]})
    taken = {*names, *axes}
    for name in names:
        values = (row["metrics"].get(name) for row in good)
        draws = [math.nan if value is None else float(value) for value in values]
        finite = [value for value in draws if math.isfinite(value)]
        of_draws = not name.endswith("_theory")  # a closed form is the same for every draw
        if finite and len(finite) == len(draws):
            mean, error = _mean(finite)
            metrics.append((name, mean, 0))
            metrics += [(_added(f"{name}_se", taken), error, 0)] * (of_draws and math.isfinite(error))
        elif not all(map(math.isnan, draws)):
            not_finite.append(name)
    metrics.append((_added("draws_ok", taken), float(len(good)), 0))
    further = {"seconds": math.fsum(float(row.get("seconds") or 0.0) for row in rows)}
    further |= {axis: params[axis] for axis in axes if axis in params}
    metrics += [(name, float(value), 0) for name, value in further.items() if name not in names and _is_number(value)]

    taken |= {key for key, _, _ in metrics}
    curves = histories([row.get("curves", {}) for row in good])
    tags = _tags(cell_id, rows) | ({"mlflow.note.content": DESCRIPTION} if curves else {})
    if stage_ids:
        tags["raysweep.stage_ids"] = _stages(stage_ids)
    if not_finite:
        tags["raysweep.not_finite"] = cut(" ".join(not_finite), LONGEST_TAG)
    return Content(
        name=" ".join(f"{axis}={text(params[axis])}" for axis in axes if axis in params) or cell_id,
        status="FAILED" if len(good) == 0 or any(row["status"] == FAILED for row in rows) else "FINISHED",
        metrics=metrics + [(_added(key, taken), value, step) for key, value, step in curves],
        params={name: cut(text(value), LONGEST_PARAM) for name, value in params.items()},
        tags=tags,
        digest=_digest(params, rows, stage_ids, curves),
    )


def of_pack(pack_id: str, axes: Sequence[str], cells: Sequence[Cell]) -> Content:
    """The content of one run for many complete cells. NAME and every numeric axis have one point per cell; the step is
    the cell's position in the plan."""
    parts = [(position, of_cell(str(position), axes, params, rows, ())) for position, params, rows in cells]
    params = [part.params for _, part in parts]
    return Content(
        name=f"cells {cells[0][0]} to {cells[-1][0]}",
        status="FAILED" if any(part.status == "FAILED" for _, part in parts) else "FINISHED",
        metrics=[(key, value, position) for position, part in parts for key, value, _ in part.metrics],
        params={name: value for name, value in params[0].items() if all(other.get(name) == value for other in params)},
        tags={**_tags(pack_id, [row for _, _, rows in cells for row in rows]), "raysweep.cells": str(len(cells))},
        digest=hashlib.sha256("".join(part.digest for _, part in parts).encode()).hexdigest()[:32],
    )


def histories(draws: Sequence[Mapping[str, Curve]]) -> list[Point]:
    """The histories of a cell: for each STAGE/METRIC the means over its ok draws, given the learning curves of each, by
    stage.

    A history of more than MOST_POINTS points is thinned evenly; its first and last point stay. MLflow's steps are whole
    numbers: if a stage logged at others, the points are numbered from 0. Points that are not finite are left out.
    """
    points: list[Point] = []
    logged = [(stage, name) for curves in draws for stage, curve in curves.items() for name in curve if name != STEP]
    for stage, name in dict.fromkeys(logged):
        steps, means = _mean_curve([curves.get(stage, {}) for curves in draws], name)
        if len(steps) > MOST_POINTS:
            kept = np.linspace(0, len(steps) - 1, MOST_POINTS).round().astype(int)
            steps, means = steps[kept], means[kept]
        key, places = _key(stage, name), steps if are_whole(steps) else np.arange(len(steps))
        finite = ((step, value) for step, value in zip(places, means, strict=True) if math.isfinite(value))
        points += [(key, float(value), int(step)) for step, value in finite]
    return points


def _key(stage: str, name: str) -> str:
    """STAGE/METRIC as MLflow takes it. A name that it does not take is told apart from others by a hash."""
    whole = f"{stage}/{name}"
    if re.fullmatch(r"[-\w. :/]+", whole) and posixpath.normpath(whole) == whole and len(whole) <= LONGEST_KEY:
        return whole
    mark = hashlib.sha256(whole.encode(errors="backslashreplace")).hexdigest()[:16]
    plain = re.sub(r"[^-\w. :]", "_", name)
    return f"{stage}/{plain}"[: LONGEST_KEY - len(mark) - 1] + f"-{mark}"


def _mean_curve(draws: Sequence[Curve], name: str) -> tuple[np.ndarray, np.ndarray]:
    """(steps, means over draws) of one metric, at the steps at which all draws have a finite value of it."""
    if not all(name in curve for curve in draws):
        return np.empty(0), np.empty(0)
    steps, values = aligned([(np.asarray(curve[STEP], float), np.asarray(curve[name], float)) for curve in draws])
    return steps, (values / len(draws)).sum(axis=0)  # divided first: the sum of large values may overflow


def text(value: Any) -> str:
    """A parameter as text for MLflow: 45.0 as 45, other floats in full precision, infinity as inf."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def cut(value: str, longest: int) -> str:
    """Shorten a text to at most `longest` characters; an ellipsis replaces the rest."""
    return value if len(value) <= longest else value[: longest - 1] + "…"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _added(key: str, taken: Collection[str]) -> str:
    """The key of what is added to the metrics of a sweep: not one of the names that are taken by these."""
    while key in taken:
        key = f"raysweep.{key}"
    return key


def _mean(values: list[float]) -> tuple[float, float]:
    """The mean and its standard error, which is NaN for a single value and infinite if it is too large."""
    count = len(values)
    mean = math.fsum(value / count for value in values)  # divided first: the sum of large values may overflow
    if count == 1:
        return mean, math.nan
    spread = math.hypot(*(value - mean for value in values))  # hypot, because squares may overflow
    return mean, spread / math.sqrt(count * (count - 1))


def _tags(name: str, rows: Sequence[Row]) -> dict[str, str]:
    """The name by which a run is found, its draws by status, and logs relative to the tag raysweep.folder."""
    counts = sorted(Counter(str(row["status"]) for row in rows).items())
    logs = dict.fromkeys(f"logs/{row['pack']}-{row['attempt']}.log" for row in rows if "pack" in row)
    tags = {"raysweep.cell": name, "raysweep.draws": ", ".join(f"{count} {status}" for status, count in counts)}
    return tags | ({"raysweep.logs": cut(" ".join(logs), LONGEST_TAG)} if logs else {})


def _stages(stage_ids: Sequence[str]) -> str:
    whole = " ".join(stage_ids)
    if len(whole) <= LONGEST_TAG:
        return whole
    kept = whole[: LONGEST_TAG - 40].rpartition(" ")[0]
    return f"{kept} … ({len(stage_ids)} in all)"


def _digest(params: Mapping[str, Any], rows: Sequence[Row], stage_ids: Sequence[str], curves: Sequence[Point]) -> str:
    """A hash of everything that decides the content, except the seconds: they differ when a row is computed again."""
    texts = {name: str(value) for name, value in params.items()}
    results = [[row["seed"], row["status"], dict(row["metrics"])] for row in rows]
    plain = [LAYOUT, texts, list(stage_ids), results, *([curves] if curves else [])]
    return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()[:32]
