"""What would decide an open setting, and what is known of it, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Needed
from raysweep.numbers import interval_numbers, number
from raysweep.phrases import counted
from raysweep.report.names import called, unit_of
from raysweep.report.phrases import ESTIMATES, IN_X
from raysweep.workloads.declaration import Workload


def located_axis(row: Mapping[str, Any], finding: Finding) -> str:
    """The axis on which a row of `Finding.table` locates a value."""
    return str(row["axis"]) if finding.kind == "joint_optimum" else finding.x


def between_words(finding: Finding, workload: Workload) -> str:
    """Between what the estimate of a single open setting lies: "slope between -0.4 and 0.2 at 95 %". Empty if one end
    is not known."""
    low, high = finding.table[["low", "high"]].to_numpy(float)[0]
    if len(finding.table) > 1 or not np.isfinite([low, high]).all():
        return ""
    (between,) = interval_numbers(np.nan, low, high)
    unit = unit_of(finding.x, workload) if finding.kind in IN_X else ""
    return f"{ESTIMATES.get(finding.kind, 'estimate')} {between}{unit} at {100 * finding.level:g} %"


def needed_words(row: Mapping[str, Any], finding: Finding, workload: Workload) -> str:
    """What would decide an open setting; empty if it is decided. row: one of `Finding.table`."""
    if not row["needed"]:
        return ""
    axis, at = located_axis(row, finding), row["needed_number"]
    x, value = called(axis, workload), f"{number(at)}{unit_of(axis, workload) if axis and np.isfinite(at) else ''}"
    return {
        Needed.MORE_DRAWS: f"more than {counted(int(at), 'seed')}" if np.isfinite(at) else "more runs",
        Needed.MORE_UNITS: f"more than {counted(int(at), called(finding.facts.get('unit', 'cell'), workload))}"
        if np.isfinite(at)
        else "",
        Needed.LARGER_X: f"{x} above {value}",
        Needed.SMALLER_X: f"{x} below {value}",
        Needed.MORE_X: f"more values of {called(finding.facts.get('length', axis), workload)}",
        Needed.MORE_SETTINGS: f"best values in {number(at)} settings",
        Needed.OK_ABOVE: f"rows that are ok above {value}",
        Needed.OK_BELOW: f"rows that are ok below {value}",
        Needed.OK_ROWS: "rows that are ok",
    }[Needed(row["needed"])]
