"""What is disturbed: four small sweeps, and what each leaves behind when nobody disturbs it."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
KINDS = ("rows", "ray", "mirror", "language", "server")
PATIENCE = 300.0  # seconds after which a driver that has not ended counts as hung


@dataclass(frozen=True)
class Kind:
    """A sweep: its space, how it is run, and whether its numbers may differ in the last digits by how it was packed."""

    name: str
    space: dict[str, Any]
    options: tuple[str, ...]
    tolerance: float = 0.0


@dataclass
class Table:
    """What came out: rows by (cell, seed), children of MLflow by cell with their metrics, and what should not be."""

    rows: dict[tuple[str, str], dict[str, str]]
    children: dict[str, dict[tuple[str, int], float]]
    doubled: int = 0
    orphans: int = 0
    parents: list[str] = field(default_factory=list)


def kinds(room: Path) -> dict[str, Kind]:
    """The sweeps; `room` is where they leave their marks."""
    marks = room / "marks"
    marks.mkdir(exist_ok=True)
    chaos = {
        "name": "chaos",
        "workload": "chaos",
        "axes": {"x": list(range(8))},
        "fixed": {"pause": 0.1, "marks": str(marks)},
        "seeds": 3,
    }
    linear = {
        "name": "linear",
        "workload": "linear_transfer",
        "seeds": 3,
        "fixed": {"dim": 60, "noise": 0.2},
        "axes": {"overlap_angle": [20, 40, 60, 80], "gamma": [0.2, 0.4, 0.6, 0.8, 0.95, 1.05, 1.2, 1.5]},
    }
    language = {
        "name": "language",
        "workload": "language",
        "seeds": 2,
        "fixed": {
            "preset": "tiny",
            "source": "grammar:0",
            "target": "grammar:0.5",
            "finetune_steps": 4,
            "evaluation_tokens": 2048,
        },
        "axes": {"pretrain_length": [16384, 32768], "finetune_lr": [0.001, 0.004]},
    }
    inline, ray = ("--executor", "inline"), ("--executor", "ray", "--workers", "2")
    return {
        "rows": Kind("rows", chaos, inline),
        "ray": Kind("ray", chaos, ray),
        "server": Kind("server", chaos, inline),
        "mirror": Kind("mirror", linear, inline, 1e-9),
        "language": Kind("language", language, inline),
    }


def site(room: Path) -> Path:
    """A folder that, on the path, brings the workload by entry point, as another package would."""
    folder = room / "site"
    folder.mkdir()
    shutil.copy(HERE / "workload.py", folder / "chaos_workload.py")
    information = folder / "raysweep_chaos-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: raysweep-chaos\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[raysweep.workloads]\nchaos = chaos_workload:WORKLOAD\n")
    return folder


def environment(site_folder: Path, **more: str) -> dict[str, str]:
    """For drivers, and for a Ray whose workers import the workload."""
    path = os.pathsep.join(
        entry for entry in (str(site_folder), str(HERE.parent), os.environ.get("PYTHONPATH")) if entry
    )
    return {
        **os.environ,
        "PYTHONPATH": path,
        "RAY_USAGE_STATS_ENABLED": "0",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "OMP_NUM_THREADS": "1",
        **more,
    }


class Sweep:
    """One sweep in a storage of its own, driven by processes of the command line."""

    def __init__(self, kind: Kind, room: Path, env: dict[str, str], server: str | None = None) -> None:
        self.kind, self.env, self.server = kind, env, server
        self.storage = room / "storage"
        self.folder = self.storage / kind.space["name"]
        self.log = room / "said.txt"
        room.mkdir()
        self.space = room / "space.yaml"
        self.space.write_text(yaml.safe_dump(kind.space, sort_keys=False))
        for mark in Path(kind.space["fixed"].get("marks", "/nonexistent")).glob("*"):
            mark.unlink()

    @property
    def exists(self) -> bool:
        """Whether it has a record."""
        return (self.folder / "sweep.json").exists()

    def segments(self) -> int:
        """How many there are in the ledger."""
        return len(list((self.folder / "ledger").glob("*.jsonl")))

    def command(self, word: str) -> list[str]:
        """`run` as the user said it first, or `resume` or `sync`."""
        named = [str(self.space) if word == "run" else self.kind.space["name"], "--storage", str(self.storage)]
        if word != "sync":
            named += ["--no-report", *self.kind.options]
        if word == "run" and self.server:
            named += ["--tracking-uri", self.server]
        return [sys.executable, "-m", "raysweep.main", word, *named]

    def start(self, word: str, **streams: Any) -> subprocess.Popen[bytes]:
        """A driver, in a session of its own; what it says is added to the log."""
        with self.log.open("ab") as log:
            log.write(f"--- {word}\n".encode())
            log.flush()
            return subprocess.Popen(
                self.command(word),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                **{"stderr": log, **streams},
                env=self.env,
                start_new_session=True,
            )

    def finish(self, word: str) -> tuple[int, float]:
        """Exit code and seconds of a driver that is left alone."""
        started = time.monotonic()
        return self.start(word).wait(PATIENCE), time.monotonic() - started

    def table(self, database: Path | None = None) -> Table:
        """What `raysweep results` prints and what MLflow's database holds, read without MLflow."""
        done = subprocess.run(
            [sys.executable, "-m", "raysweep.main", "results", self.kind.space["name"], "--storage", str(self.storage)],
            capture_output=True,
            text=True,
            env=self.env,
            check=True,
        )
        found = Table({}, {})
        for row in csv.DictReader(io.StringIO(done.stdout)):
            key = (row["cell"], row["seed"])
            found.doubled += key in found.rows
            found.rows[key] = {name: value for name, value in row.items() if name not in ("seconds", "sweep")}
        _read_mlflow(database or self.storage / "mlflow.db", self._sweep_id(), found)
        return found

    def _sweep_id(self) -> str:
        return str(json.loads((self.folder / "sweep.json").read_text())["sweep_id"])


def _read_mlflow(database: Path, sweep_id: str, found: Table) -> None:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=60)) as db:
        runs = db.execute(
            "SELECT r.run_uuid, r.status, r.lifecycle_stage FROM runs r JOIN tags t ON "
            "t.run_uuid = r.run_uuid AND t.key = 'raysweep.sweep_id' AND t.value = ?",
            (sweep_id,),
        ).fetchall()
        for run, status, stage in runs:
            tags = dict(db.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (run,)))
            if status == "RUNNING":
                found.orphans += 1
            if stage != "active":
                continue
            if tags.get("raysweep.kind") == "sweep":
                found.parents.append(status)
            elif (cell := tags.get("raysweep.cell")) is None or status not in ("FINISHED", "FAILED"):
                found.orphans += 1
            else:
                found.doubled += cell in found.children
                found.children[cell] = {
                    (key, step): value
                    for key, value, step in db.execute(
                        "SELECT key, value, step FROM metrics WHERE run_uuid = ?", (run,)
                    )
                    if key != "seconds"
                }


def compare(found: Table, expected: Table, tolerance: float) -> Counter[str]:
    """How the one differs from the other: lost, doubled, changed and orphaned things, none if all is well."""
    differences = Counter(doubled=found.doubled, orphans=found.orphans)
    differences["lost rows"] = len(expected.rows.keys() - found.rows.keys())
    differences["strange rows"] = len(found.rows.keys() - expected.rows.keys())
    differences["lost runs"] = len(expected.children.keys() - found.children.keys())
    differences["strange runs"] = len(found.children.keys() - expected.children.keys())
    differences["parents amiss"] = found.parents != ["FINISHED"]
    for key in expected.rows.keys() & found.rows.keys():
        one, other = found.rows[key], expected.rows[key]
        differences["changed rows"] += one.keys() != other.keys() or any(
            not _same(one[name], value, tolerance) for name, value in other.items()
        )
    for cell in expected.children.keys() & found.children.keys():
        ours, theirs = found.children[cell], expected.children[cell]
        differences["changed runs"] += ours.keys() != theirs.keys() or any(
            not math.isclose(ours[key], value, rel_tol=max(tolerance, 1e-12), abs_tol=tolerance * 1e-4)
            for key, value in theirs.items()
        )
    return +differences


def _same(one: str, other: str, tolerance: float) -> bool:
    if one == other:
        return True
    try:
        return tolerance > 0 and math.isclose(float(one), float(other), rel_tol=tolerance, abs_tol=tolerance * 1e-4)
    except ValueError:
        return False
