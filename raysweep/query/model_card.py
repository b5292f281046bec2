"""The model card of an exported model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from raysweep import __version__
from raysweep.numbers import number
from raysweep.phrases import counted
from raysweep.workloads.declaration import Metric, Parameter, Workload


def model_card(sweep: str, workload: Workload, stage: str, rows: Sequence[Mapping[str, Any]], note: str) -> str:
    """What a model is, how it was trained and what was measured of it, in Markdown.

    rows: the rows of the sweep that share the model, with their parameters and metrics.
    note: what its workload says of it.
    """
    row, index = rows[0], workload.chain.names.index(stage)
    parameters = [workload.by_name[name] for name in workload.chain.dependencies[index]]
    metrics = [metric for metric in workload.metrics if math.isfinite(row[metric.name])]
    shared = [metric for metric in metrics if len({other[metric.name] for other in rows}) == 1]
    statuses = ", ".join(sorted({str(other["status"]) for other in rows}))
    return f"""---
library_name: transformers
pipeline_tag: text-generation
tags: [raysweep]
---
# {sweep}, after {stage}

Cell {row["cell"]} and seed {row["seed"]} of the sweep {sweep}, computed by raysweep {__version__}: \
{workload.summary}. It belongs to {counted(len(rows), "row")} of the sweep: {statuses}.

{note}

    from transformers import AutoModelForCausalLM, AutoTokenizer
    model = AutoModelForCausalLM.from_pretrained(FOLDER)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)

## How it was trained

{_table("parameter", parameters, row)}

## What was measured, where all of its rows agree

{_table("metric", shared, row)}
"""


def _table(first: str, declared: Sequence[Parameter | Metric], row: Mapping[str, Any]) -> str:
    cells = [(one.name, number(row[one.name], 12), one.unit, one.description) for one in declared]
    lines = [" | ".join(cell.replace("|", "\\|") for cell in line) for line in cells]
    return "\n".join(f"| {line} |" for line in (f"{first} | value | unit | meaning", "--- | --- | --- | ---", *lines))
