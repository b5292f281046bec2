"""Writes models that a sweep kept as folders that transformers loads."""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from raysweep import __version__
from raysweep.errors import InputError, unknown
from raysweep.numbers import number
from raysweep.phrases import counted
from raysweep.query import stage_store
from raysweep.query.state import State
from raysweep.query.stored_sweep import StoredSweep
from raysweep.stages.store import Store
from raysweep.stages.tensors import pieces, serialize
from raysweep.storage import files
from raysweep.workloads.declaration import FAILED, Metric, Parameter, Workload

Row = dict[str, Any]


def to_folder(sweep: StoredSweep, stage: str, folder: Path, cell: str, seed: int | None) -> None:
    """Write the model of one row to a folder, which appears whole or not at all. Raises InputError if the folder holds
    something, if there is no such row, or if the stage was not kept.

    cell: the hash of a cell, or its beginning. seed: None for the first seed that the cell has.
    """
    state = sweep.state()
    rows = _rows(sweep, state, stage)
    cells = {row["cell"] for row in rows if row["cell"].startswith(cell)}
    if len(cells) != 1:
        why = f"expected the beginning of one cell's hash, it fits {len(cells):,}"
        raise InputError(cell or "CELL", f"{why}; `raysweep results {sweep.name}` lists them")
    chosen = next((row for row in rows if row["cell"] in cells and seed in (None, row["seed"])), None)
    if chosen is None:
        raise InputError("SEED", f"the cell has no row of the seed {seed}")
    _check_kept(sweep, stage, [chosen])
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("--to", f"expected a new folder, {folder} is there")
    others = [row for row in rows if row["id"] == chosen["id"] and row is not chosen]
    content = _content(sweep, state, stage, [chosen, *others])
    folder.parent.mkdir(parents=True, exist_ok=True)
    _write(content, folder, folder.parent)


def model_name(sweep: StoredSweep) -> str:
    return f"raysweep/{_plain(sweep.name)}"


def to_hub(sweep: StoredSweep, stage: str, hub: Path) -> dict[str, str]:
    """Write every model that a stage left to a folder laid out as the cache of huggingface_hub: each is a revision of
    raysweep/SWEEP. What is there already stays; `main` is the last one. Returns the commit of each revision. Raises
    InputError if the stage was not kept."""
    state = sweep.state()
    rows = [row for row in _rows(sweep, state, stage) if row["id"] or row["status"] != FAILED]
    _check_kept(sweep, stage, rows)
    sharing: dict[str, list[Row]] = {}
    for row in rows:
        sharing.setdefault(row["id"], []).append(row)
    chain = sweep.workload.chain
    names = [name for name in sweep.space.axes if name in chain.dependencies[chain.names.index(stage)]]
    model = hub / f"models--{model_name(sweep).replace('/', '--')}"
    for part in ("snapshots", "refs"):
        (model / part).mkdir(parents=True, exist_ok=True)
    commits: dict[str, str] = {}
    for sharers in sharing.values():
        content = _content(sweep, state, stage, sharers)
        commit = _commit(content)
        if not (model / "snapshots" / commit).exists():
            _write(content, model / "snapshots" / commit, hub)
        revision = "-".join(f"{name}-{_plain(_text(sharers[0][name]))}" for name in (*names, "seed"))
        commits[revision] = commit
        for name in (revision, "main"):
            files.replace(model / "refs" / name, commit.encode())
    return commits


def _rows(sweep: StoredSweep, state: State, stage: str) -> list[Row]:
    """The rows in plan order, each with the id of what this stage left, "" if that was not kept."""
    workload = sweep.workload
    if not workload.exports:
        raise InputError(sweep.name, f"the stages of the workload {workload.name} leave no model to export")
    if stage not in workload.exports:
        raise unknown("--stage", f"stage that leaves a model of {workload.name}", stage, workload.exports)
    if not state.rows:
        raise InputError(sweep.name, "there are no rows yet")
    rows: list[Row] = sweep.results(state).to_dict("records")
    for row in rows:
        row["id"] = ["", *state.rows[row["cell"], row["seed"]].get("stages", {}).get(stage, [])][-1]
    return rows


def _check_kept(sweep: StoredSweep, stage: str, rows: Sequence[Row]) -> None:
    """InputError, which says how to keep it, if what the stage left is not there for each of these rows."""
    lacking = sum(not row["id"] for row in rows)
    if lacking or not rows:
        why = f"{stage} was not kept in {lacking:,} of {len(rows):,} rows"
        if not next(one for one in sweep.workload.chain.stages if one.name == stage).keeps:
            why += f"; run the space under another --name with --set keep=[{stage}]: what was kept is not trained again"
        raise InputError("--stage", why)
    store = Store(stage_store.address(sweep.folder, sweep.record))
    for stage_id in {row["id"] for row in rows}:
        if store.look(stage_id) is None:
            raise InputError(sweep.name, f"the stage {stage_id} is no longer in {store.url}")


def _content(sweep: StoredSweep, state: State, stage: str, rows: list[Row]) -> dict[str, list[np.ndarray]]:
    row, export = rows[0], sweep.workload.exports[stage]
    model = export(row, stage, lambda name: sweep.tensors(name, row["cell"], row["seed"], state))
    card = _model_card(sweep.name, sweep.workload, stage, rows, model.note)
    contents = {**model.files, "README.md": card.encode()}
    return {name: [np.frombuffer(content, np.uint8)] for name, content in sorted(contents.items())} | {
        "model.safetensors": serialize(model.weights)
    }


def _commit(content: Mapping[str, list[np.ndarray]]) -> str:
    """40 hexadecimal digits that identify the content."""
    digest = hashlib.sha1()
    for name, parts in content.items():
        digest.update(f"{name} {sum(part.size for part in parts)}\0".encode())
        for part in parts:
            digest.update(part.data)
    return digest.hexdigest()


def _write(content: Mapping[str, list[np.ndarray]], folder: Path, beside: Path) -> None:
    """Write files beside, and rename them to their folder once they are whole."""
    room = beside / f".export-{uuid.uuid4().hex}"
    room.mkdir()
    try:
        for name, parts in content.items():
            files.write(room / name, (piece.data for piece in pieces(parts)))
        os.rename(room, folder)
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+|--+|\.\.+", "-", name).strip("-.")


def _model_card(sweep: str, workload: Workload, stage: str, rows: Sequence[Mapping[str, Any]], note: str) -> str:
    """What a model is, how it was trained and what was measured of it, in Markdown. rows: those that share the model,
    with their parameters and metrics. note: what its workload says of it."""
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
