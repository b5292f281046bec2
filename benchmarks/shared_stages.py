"""How often each stage is computed when two Ray workers share them: `python -m benchmarks.shared_stages`.

Every kind of staged workload once: `language` with one pretraining a length, `language` whose lengths share a trunk,
and docs/digits, whose epochs continue each other and whose fine-tunings are kept. What was computed is counted from
what the trials wrote into their logs, not from the store, in which a stage computed twice would still be one file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

DIGITS = Path(__file__).parent.parent / "docs" / "digits"
_LANGUAGE: dict[str, Any] = {
    "workload": "language",
    "axes": {
        "pretrain_length": [2**15, 2**16, 2**17],
        "finetune_lr": {"geomspace": [3e-4, 3e-2, 9]},
        "noise": [0.0, 0.1],
    },
    "fixed": {"preset": "tiny", "finetune_steps": 2, "evaluation_tokens": 1024},
    "seeds": 2,
}


def spaces() -> dict[str, dict[str, Any]]:
    """The sweeps, by what they show."""
    trunk = {**_LANGUAGE["fixed"], "pretrain_schedule": "wsd"}
    return {
        "language": {**_LANGUAGE, "name": "language"},
        "language with a shared trunk": {**_LANGUAGE, "name": "trunk", "fixed": trunk},
        "docs/digits": yaml.safe_load((DIGITS / "digits.yaml").read_text()),
    }


def counted(space: dict[str, Any], storage: str) -> dict[str, int]:
    """The rows of a sweep that two workers compute, its distinct kept stages, and how many were computed."""
    from raysweep import sweep
    from raysweep.plan.row_stages import RowStages

    found = sweep.run(
        space, storage=storage, executor="ray", workers=2, report=False, tracking_uri="none", say=lambda line: None
    )
    stages = RowStages(found.workload, found.cells.columns, found.space.keep)
    rows = [(cell, seed) for cell in range(len(found.cells)) for seed in found.space.seeds]
    distinct = {own.id for row in rows for own in stages.of_row(*row) if own.kept}
    logs = [path.read_text() for path in (Path(storage) / found.name / "logs").iterdir()]
    begun = [
        stage for log in logs for line in re.findall(r"stage (\S.*): computing", log) for stage in line.split(", ")
    ]
    if not distinct.issuperset(begun):
        raise AssertionError(f"stages of no row were computed: {set(begun) - distinct}")
    return {"rows": len(found.rows()), "distinct": len(distinct), "computed": len(begun)}


def measure() -> dict[str, dict[str, int]]:
    """The counts of each sweep, from a process in which docs/digits is installed."""
    with tempfile.TemporaryDirectory(prefix="raysweep-bench-") as folder:
        installed = Path(folder) / "digits-1.0.dist-info"
        installed.mkdir()
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: digits\nVersion: 1.0\n")
        (installed / "entry_points.txt").write_text("[raysweep.workloads]\ndigits = digits:WORKLOAD\n")
        path = os.pathsep.join([folder, str(DIGITS), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.shared_stages", f"{folder}/sweeps"],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
            env={**os.environ, "PYTHONPATH": path},
        )
    found: dict[str, dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return found


def rows() -> list[tuple[str, str, str]]:
    """What was counted, as rows of the benchmark table."""
    return [
        (
            f"stages computed by two workers for {found['rows']} rows of {name}",
            f"{found['computed']}",
            f"as many as are distinct = {found['distinct']}",
        )
        for name, found in measure().items()
    ]


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(json.dumps({name: counted(space, sys.argv[1]) for name, space in spaces().items()}))
    else:
        for row in rows():
            print("| " + " | ".join(row) + " |")
