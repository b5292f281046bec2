"""The model card of an exported model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from raysweep import __version__
from raysweep.numbers import number
from raysweep.phrases import counted
from raysweep.workloads.declaration import Workload


def model_card(sweep: str, workload: Workload, stage: str, rows: Sequence[Mapping[str, Any]], note: str) -> str:
    """What a model is, how it was trained and what was measured of it, in Markdown.

    rows: the rows of the sweep that share the model, with their parameters and metrics.
    note: what its workload says of it.
    """
    row, index = rows[0], workload.chain.names.index(stage)
    known = [workload.by_name[name] for name in workload.chain.dependencies[index]]
    metrics = [metric for metric in workload.metrics if math.isfinite(row[metric.name])]
    shared = [metric for metric in metrics if len({other[metric.name] for other in rows}) == 1]
    return "\n".join(
        [
            "---",
            "library_name: transformers",
            "pipeline_tag: text-generation",
            "tags: [raysweep]",
            "---",
            f"# {sweep}, after {stage}",
            "",
            f"Cell {row['cell']} and seed {row['seed']} of the sweep {sweep}, computed by raysweep {__version__}: "
            f"{workload.summary}. It belongs to {counted(len(rows), 'row')} of the sweep: "
            f"{', '.join(sorted({str(other['status']) for other in rows}))}.",
            "",
            note,
            "",
            "    from transformers import AutoModelForCausalLM, AutoTokenizer",
            "    model = AutoModelForCausalLM.from_pretrained(FOLDER)",
            "    tokenizer = AutoTokenizer.from_pretrained(FOLDER)",
            "",
            "## How it was trained",
            "",
            *_table("parameter", [(p.name, number(row[p.name], 12), p.unit, p.description) for p in known]),
            "",
            "## What was measured, where all of its rows agree",
            "",
            *_table("metric", [(m.name, number(row[m.name], 12), m.unit, m.description) for m in shared]),
            "",
        ]
    )


def _table(first: str, rows: Sequence[tuple[str, ...]]) -> list[str]:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return [
        f"| {first} | value | unit | meaning |",
        "| --- | --- | --- | --- |",
        *(f"| {' | '.join(c)} |" for c in cells),
    ]
