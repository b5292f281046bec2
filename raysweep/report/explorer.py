"""What the script of a page draws of a finding: its data with labels, and the text of each point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from raysweep.analyses.explored import labels, plain_number
from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.rows import varying
from raysweep.report.names import axis_label, called, settings
from raysweep.report.notes import title
from raysweep.report.phrases import IN_X
from raysweep.report.tables import table_of
from raysweep.workloads.declaration import Workload


def labelled(data: Mapping[str, Any], finding: Finding, workload: Workload) -> dict[str, Any]:
    """The data of `analyses.explored` for report.js. Each setting gets its values as text, its places among the values
    of each key, and, if the finding has a row of it, `place` (estimate, low, high, theory) and `lines`. Those of
    parallel coordinates get labels for parallel.js."""
    if data.get("form") == "parallel":
        axes = [{**axis, "label": axis_label(axis["name"], workload)} for axis in data["axes"]]
        return {**data, "axes": axes, "metric": called(data["metric"], workload), "settings": ()}
    names = [key["name"] for key in data["keys"]]
    numbers = [key["name"] for key in data["keys"] if key["number"]]
    texts = zip(*(labels(one["values"]) for one in data["settings"]), strict=True)
    varied = [name for name, column in zip(names, texts, strict=False) if len(set(column)) > 1]
    rows, lines, out = [one["row"] for one in data["settings"] if one["row"] is not None], dict[int, list[str]](), []
    if rows:
        table = table_of(finding, workload, rows)
        keys = varying([key for key in finding.keys if key != "axis"], finding.table)
        first = int(bool(keys) and finding.kind != "search")  # without the setting
        for row, line in zip(rows, table.rows, strict=True):
            pairs = list(zip(table.head, line, strict=True))[first:]
            lines[row] = [f"{head}: {text}." for head, text in pairs if text != "–"]
    for one in data["settings"]:
        values = dict(zip(names, one["values"], strict=True))
        more: dict[str, Any] = {}
        if one["row"] is not None:
            more["lines"] = lines[one["row"]]
            if finding.kind in IN_X:
                row = finding.table.iloc[one["row"]]
                at = row["estimate"], row["low"], row["high"], row["theory"]
                more["place"] = [plain_number(float(f"{value:.6g}")) for value in at]
                more["located"] = bool(row["outcome"] == Outcome.LOCATED and np.isfinite(row["estimate"]))
        out.append(
            {
                **{key: value for key, value in one.items() if key not in ("row", "values")},
                "said": settings({name: values[name] for name in varied}, workload),
                "values": list(labels(one["values"])),
                "at": [plain_number(values[name]) if name in numbers else None for name in names],
                **more,
            }
        )
    has_places = any("place" in one for one in out)
    return {
        "metric": axis_label(data["metric"], workload),
        "name": data["metric"],
        "x": axis_label(data["x"], workload) if data["x"] in workload.by_name else data["x"],
        "log": data["log"],
        "width": data["linear_width"],
        "categories": data["categories"],
        "keys": [{**key, "label": axis_label(key["name"], workload)} for key in data["keys"]],
        "along": names.index(numbers[0]) if numbers and has_places else -1,
        "what": title(finding, workload) if has_places else "",
        "grids": data["grids"],
        "settings": out,
    }
