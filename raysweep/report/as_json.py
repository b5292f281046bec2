"""Findings as JSON: `report.json`, whose schema is docs/report.schema.json."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pandas as pd

from raysweep import plain_json
from raysweep.analyses.finding import Finding

VERSION = 1
"""The version of the schema. It rises when a field changes its meaning or goes."""
INFINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
"""JSON has no infinity. NaN, a number that is not there, is null."""
NOT_DATA = ("table", "plots", "explored", "fits")
"""The fields of a finding that are objects; the rows of `table` are `settings`."""
DEEP = 4
"""The levels of the file down to a setting, which stands in one line."""


def report_json(sweeps: Sequence[str], findings: Sequence[Finding], answers: Sequence[str]) -> str:
    """The text of `report.json`.

    sweeps: the names of the sweeps. findings: in the order of the report. answers: a sentence for each.
    """
    listed = [{**as_json(one), "answer": answer} for one, answer in zip(findings, answers, strict=True)]
    report = {"version": VERSION, "sweeps": list(sweeps), "findings": listed}
    return in_lines(report, DEEP) + "\n"


def in_lines(value: Any, deep: int) -> str:
    """JSON in which what stands in an object or a list has a line of its own, down to `deep` levels."""
    inside = ",\n".join
    if deep and value and isinstance(value, dict):
        return f"{{\n{inside(f'{_encoded(key)}: {in_lines(one, deep - 1)}' for key, one in value.items())}\n}}"
    if deep and value and isinstance(value, list):
        return f"[\n{inside(in_lines(one, deep - 1) for one in value)}\n]"
    return _encoded(value)


def _encoded(value: Any) -> str:
    return plain_json.dumps(value, ensure_ascii=False, allow_nan=False)


def as_json(finding: Finding) -> dict[str, Any]:
    """A finding as plain data. Its complete tables are named; they lie next to `report.json` as tables/NAME.csv."""
    values = {one.name: getattr(finding, one.name) for one in fields(finding) if one.name not in NOT_DATA}
    values |= {"moves": [asdict(move) for move in finding.moves], "tables": list(finding.tables)}
    return {**plain(values), "settings": records(finding.table)}


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """One object per row, in types that JSON has."""
    columns = {str(name): list(map(plain, table[name].tolist())) for name in table.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def plain(value: Any) -> Any:
    """The value in types that JSON has: NaN is null, infinities are texts, enums and NumPy's scalars plain values."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):  # first, since most are numbers
        return None if math.isnan(value) else INFINITE.get(value, value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(one) for one in value]
    if isinstance(value, (str, int)) or value is None:
        return str(value) if isinstance(value, str) else value
    return {str(key): plain(one) for key, one in value.items()} if isinstance(value, Mapping) else value
