"""What the mirror says of one cell: the numbers, parameters and tags of its run in MLflow, as plain values.

MLflow stores no infinity (SQLite gets 1.8e308 in its place, which ruins every chart) and a NaN as a flagged 0, so only
finite numbers are written. A metric that is NaN or absent in every draw does not apply and is left out; one that is not
finite in some draw that is `ok` has no honest mean: its finite draws are written, its mean is not, and the tag
`raysweep.not_finite` names it. The ledger and `results` keep every value.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raysweep.workloads.declaration import FAILED, OK

LAYOUT = 3
"""Raise it when what is written of the same rows changes: replay then writes every cell anew."""
LONGEST_PARAM, LONGEST_TAG = 6000, 5000  # MLflow refuses longer ones


@dataclass(frozen=True)
class Content:
    """One run: `metrics` as (key, value, step); `status` FINISHED or FAILED; `digest` of all that it was made from."""

    name: str
    status: str
    metrics: list[tuple[str, float, int]]
    params: dict[str, str]
    tags: dict[str, str]
    digest: str


def of_cell(
    cell_id: str,
    axes: Sequence[str],
    params: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    stage_ids: Sequence[str],
) -> Content:
    """The run of one complete cell.

    NAME is the mean over the draws that are ok, NAME_se its standard error (two draws or more), NAME_draws one point
    per seed. A numeric axis is a metric too, because MLflow sorts parameters as text (13.5 before 4.5). FAILED where a
    draw failed or none is ok.
    """
    rows = sorted(rows, key=lambda row: row["seed"])
    good = [row for row in rows if row["status"] == OK]
    names = sorted({name for row in rows for name in row["metrics"]})
    metrics: list[tuple[str, float, int]] = []
    not_finite = []
    for name in names:
        values = [row["metrics"].get(name) for row in good]
        values = [math.nan if value is None else float(value) for value in values]
        finite = [value for value in values if math.isfinite(value)]
        of_draws = not name.endswith("_theory")  # a closed form is one number, whatever the draw
        metrics += [
            (f"{name}_draws", value, int(row["seed"]))
            for row, value in zip(good, values, strict=True)
            if of_draws and math.isfinite(value)
        ]
        if finite and len(finite) == len(values):
            metrics += _mean(name, finite)[: None if of_draws else 1]
        elif not all(math.isnan(value) for value in values):
            not_finite.append(name)
    metrics.append(("draws_ok", float(len(good)), 0))
    taken = {*names, "draws_ok"}
    seconds = math.fsum(float(row.get("seconds") or 0.0) for row in rows)
    if "seconds" not in taken and math.isfinite(seconds):
        metrics.append(("seconds", seconds, 0))
    metrics += [(axis, float(params[axis]), 0) for axis in axes if axis not in taken and _is_number(params.get(axis))]

    counts = Counter(str(row["status"]) for row in rows)
    tags = {
        "raysweep.cell": cell_id,
        "raysweep.draws": ", ".join(f"{count} {status}" for status, count in sorted(counts.items())),
    }
    if stage_ids:
        tags["raysweep.stage_ids"] = _stages(stage_ids)
    if logs := _logs(rows):
        tags["raysweep.logs"] = cut(logs, LONGEST_TAG)
    if not_finite:
        tags["raysweep.not_finite"] = cut(" ".join(not_finite), LONGEST_TAG)
    texts = {name: cut(text(value), LONGEST_PARAM) for name, value in params.items()}
    return Content(
        name=" ".join(f"{axis}={text(params[axis])}" for axis in axes if axis in params) or cell_id,
        status="FAILED" if counts[FAILED] or not good else "FINISHED",
        metrics=metrics,
        params=texts,
        tags=tags,
        digest=_digest(params, rows, stage_ids),
    )


def of_pack(
    pack_id: str, axes: Sequence[str], cells: Sequence[tuple[int, Mapping[str, Any], Sequence[Mapping[str, Any]]]]
) -> Content:
    """The run of many complete cells, (position in the plan, parameters, rows) each: for sweeps too large for a run a
    cell. NAME and every numeric axis are histories with one step per cell, its position in the plan."""
    parts = [(position, of_cell(str(position), axes, params, rows, ())) for position, params, rows in cells]
    metrics = [
        (key, value, position)
        for position, part in parts
        for key, value, _ in part.metrics
        if not key.endswith("_draws")
    ]
    shared = {
        name: value
        for name, value in parts[0][1].params.items()
        if all(part.params.get(name) == value for _, part in parts)
    }
    counts = Counter(str(row["status"]) for _, _, rows in cells for row in rows)
    tags = {
        "raysweep.cell": pack_id,
        "raysweep.cells": str(len(cells)),
        "raysweep.draws": ", ".join(f"{count} {status}" for status, count in sorted(counts.items())),
    }
    if logs := _logs([row for _, _, rows in cells for row in rows]):
        tags["raysweep.logs"] = cut(logs, LONGEST_TAG)
    digest = hashlib.sha256("".join(part.digest for _, part in parts).encode()).hexdigest()[:32]
    return Content(
        f"cells {cells[0][0]} to {cells[-1][0]}",
        "FAILED" if any(part.status == "FAILED" for _, part in parts) else "FINISHED",
        metrics,
        shared,
        tags,
        digest,
    )


def text(value: Any) -> str:
    """A parameter as MLflow shows it: 45.0 as 45, other floats in full precision, infinity as inf."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def cut(value: str, longest: int) -> str:
    """At most `longest` characters, with dots where the rest was."""
    return value if len(value) <= longest else value[: longest - 1] + "…"


def _mean(name: str, values: list[float]) -> list[tuple[str, float, int]]:
    count = len(values)
    mean = math.fsum(value / count for value in values)  # divided first: the sum of large values may overflow
    if count == 1:
        return [(name, mean, 0)]
    spread = math.hypot(*(value - mean for value in values))  # hypot, because squares may overflow
    error = spread / math.sqrt(count * (count - 1))
    return [(name, mean, 0), *([(f"{name}_se", error, 0)] if math.isfinite(error) else [])]


def _stages(stage_ids: Sequence[str]) -> str:
    whole = " ".join(stage_ids)
    if len(whole) <= LONGEST_TAG:
        return whole
    kept = whole[: LONGEST_TAG - 40].rpartition(" ")[0]
    return f"{kept} … ({len(stage_ids)} in all)"


def _logs(rows: Sequence[Mapping[str, Any]]) -> str:
    """The logs of the trials that computed these rows, below the folder that the tag raysweep.folder names."""
    return " ".join(dict.fromkeys(f"logs/{row['pack']}-{row['attempt']}.log" for row in rows if "pack" in row))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _digest(params: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], stage_ids: Sequence[str]) -> str:
    """Of all that decides the content except the seconds, which differ when the same row is computed again."""
    plain = [
        LAYOUT,
        {name: str(value) for name, value in params.items()},
        list(stage_ids),
        [[row["seed"], row["status"], dict(row["metrics"])] for row in rows],
    ]
    return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()[:32]
