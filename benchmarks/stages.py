"""What sharing stages costs and saves, and checkpoints against the disk: `python -m benchmarks.stages`.

A sweep of two lengths x 27 rates of the tiny preset, its two pretrainings shared by all rates, is held against a bare
loop over its distinct stages in a process like it: the same pretraining and fine-tuning functions called one after the
other, without plan, trial, ledger and store. Both are measured in seconds of the processor, all threads (one computes),
after a short sweep that does not count, and take turns; the least of each counts, since another process on the machine
only ever adds. The plain grid, which pretrains for every row, is not run: its cost is the fine-tuning as measured, and
each pretraining, as measured, once for each of its rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 2
RATES = 27
SPACE: dict[str, Any] = {
    "name": "stages",
    "workload": "language",
    "axes": {"pretrain_length": [2**18, 2**19], "finetune_lr": {"geomspace": [3e-4, 3e-2, RATES]}},
    "fixed": {"preset": "tiny", "finetune_steps": 4, "evaluation_tokens": 1024},
}
SHORT = {**SPACE, "name": "short", "axes": {"pretrain_length": [2**13], "finetune_lr": [1e-3]}}
MEGABYTES = 256
ALLOWED = 1.05  # of the bare loop
DISK = 0.5  # of its own speed


def _timed(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def _run(folder: str, space: dict[str, Any]) -> None:
    from raysweep import sweep

    sweep.run(space, storage=folder, executor="inline", report=False, tracking_uri="none", say=lambda line: None)


def whole_sweep(folder: str) -> dict[str, float]:
    """Seconds of the sweep, stages that were computed, and distinct stages."""
    from raysweep import sweep
    from raysweep.driver import stage_plan
    from raysweep.plan.row_stages import RowStages
    from raysweep.stages.store import Store

    _run(f"{folder}/first", SHORT)
    total = _timed(lambda: _run(folder, SPACE))
    found = sweep.open("stages", folder)
    stages = RowStages(found.workload, found.cells.columns)
    distinct = {stage.id for cell in range(len(found.cells)) for stage in stages.of_row(cell, 0)}
    records = stage_plan.records(Store(f"{folder}/store"), Store(f"{folder}/store").stages())
    return {
        "seconds": total,
        "distinct": len(distinct),
        "computed": sum(record["meta"]["computed"] for record in records.values()),
    }


def bare_loop(folder: str) -> dict[str, float]:
    """Seconds of the distinct pretrainings, of the fine-tunings, and of the pretrainings once for each row."""
    from raysweep.plan.cells import enumerate_cells
    from raysweep.space.schema import validate
    from raysweep.stages.artifacts import Artifact
    from raysweep.trial.context import Context
    from raysweep.workloads.language import stages
    from raysweep.workloads.rows import Result, Rows

    def artifact(result: Result, parent: Artifact | None) -> Artifact:
        return Artifact(lambda: result.tensors, {}, "ok", {}, parent)

    def finetune(rows: Rows, parent: Artifact) -> None:
        tuned = stages.finetune(rows, parent, Context("finetune", 1))
        stages.evaluate(rows, artifact(tuned, parent), Context("evaluate", 1))

    def loop(space: dict[str, Any]) -> dict[str, float]:
        cells = enumerate_cells(validate(space))
        found = {"pretraining": 0.0, "finetuning": 0.0, "again": 0.0}
        for length in space["axes"]["pretrain_length"]:
            indices = np.flatnonzero(cells.columns["pretrain_length"] == length)
            seed = np.zeros(1, int)
            rows = [Rows({name: v[[i]] for name, v in cells.columns.items()}, seed) for i in indices]
            bases: list[Artifact] = []

            def pretrain(first: Rows = rows[0], bases: list[Artifact] = bases) -> None:
                bases.append(artifact(stages.pretrain(first, None, Context("pretrain", 1)), None))

            spent = _timed(pretrain)
            found["pretraining"] += spent
            found["again"] += spent * len(rows)
            found["finetuning"] += _timed(lambda b=bases, r=rows: [finetune(one, b[0]) for one in r])
        return found

    import torch

    torch.set_num_threads(1)
    loop(SHORT)
    return loop(SPACE)


def measure() -> dict[str, float]:
    """Both in processes of their own, in turn; the least of each."""
    best: dict[str, float] = {}
    for number in range(ROUNDS):
        for which in ("whole_sweep", "bare_loop")[:: 1 if number % 2 else -1]:
            with tempfile.TemporaryDirectory(prefix="raysweep-bench-") as folder:
                done = subprocess.run(
                    [sys.executable, "-m", "benchmarks.stages", which, folder],
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=Path(__file__).parent.parent,
                )
            for name, value in json.loads(done.stdout).items():
                best[name] = min(value, best.get(name, value))
    return best


def rows() -> list[tuple[str, str, str]]:
    """What was measured, as rows of the benchmark table."""
    from benchmarks import store_speed

    found = measure()
    bare, count = found["pretraining"] + found["finetuning"], len(SPACE["axes"]["pretrain_length"]) * RATES
    plain = found["again"] + found["finetuning"]
    with tempfile.TemporaryDirectory(prefix="raysweep-bench-") as folder:
        disk = store_speed.measure(folder, MEGABYTES)
    return [
        (
            f"stages computed for {count} rows of language (2 lengths x {RATES} rates)",
            f"{found['computed']:.0f}",
            f"as many as are distinct = {found['distinct']:.0f}",
        ),
        (
            "processor time of that sweep against a bare loop over its distinct stages",
            f"{found['seconds']:.1f} s = {found['seconds'] / bare:.3f} x",
            f"{ALLOWED} x",
        ),
        (
            "the same as a plain grid that pretrains for every row (from what each stage took)",
            f"{plain:,.0f} s = {plain / found['seconds']:.1f} x",
            "at least 10 x",
        ),
        *(
            (
                f"checkpoint of {MEGABYTES} MB, {verb}: through the store / the same bytes raw",
                f"{disk[ours]:,.0f} / {disk[raw]:,.0f} MB/s = {disk[verb]:.2f} x",
                f"at least {DISK} x",
            )
            for verb, ours, raw in (("write", "publish", "raw_write"), ("read", "fetch", "raw_read"))
        ),
    ]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps({"whole_sweep": whole_sweep, "bare_loop": bare_loop}[sys.argv[1]](sys.argv[2])))
    else:
        for row in rows():
            print("| " + " | ".join(row) + " |")
