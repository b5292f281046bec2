"""How cost grows with the number of cells: `make bench-size`, or `python -m benchmarks.size [CELLS]... [--write FILE]`.

One seed of a workload that computes nothing (benchmarks/empty.py, ten metrics a row), so what is measured is the
plumbing. Every figure is taken in a process of its own and leaves the imports out. The ledger is also written and read
in segments of 100 rows, one fsync of file and folder each: far smaller ones than a sweep of this workload would make.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import document

SIZES = (100, 1_000, 10_000, 100_000)
PRELUDE = """
import json, resource, sys, time
from pathlib import Path
import raysweep
from raysweep import workloads
workloads.BUILT_IN["empty"] = "benchmarks.empty"
cells, folder = int(sys.argv[1]), Path(sys.argv[2])
data = {"name": "empty", "workload": "empty", "axes": {"first": list(range(cells // 10)), "second": list(range(10))},
        "analysis": [{"curves": {"x": "second", "metric": "metric_0"}}]}
found = {}
"""
PLAN = """
from raysweep.commands import dry_run
from raysweep.space import space_files
from raysweep.driver.options import Options
started = time.perf_counter()
dry_run.describe(space_files.read(data), Options(storage=folder, executor="inline"))
found["plan"] = time.perf_counter() - started
"""
RUN = """
from raysweep import sweep
started = time.perf_counter()
sweep.run(data, storage=folder, executor="inline", tracking_uri="none", report=False, say=lambda line: None)
found["run"] = time.perf_counter() - started
"""
LEDGER = """
from raysweep.ledger import compaction, segments as ledger
rows = list(raysweep.open("empty", folder).rows().values())
room = folder / "segments"
room.mkdir()
started = time.perf_counter()
for number, first in enumerate(range(0, cells, 100)):
    ledger.write_segment(ledger.segment_path(room, f"{number:016x}", 1), rows[first:first + 100])
found["write"] = cells / (time.perf_counter() - started)
started = time.perf_counter()
assert len(ledger.read(room).rows) == cells
found["reload"] = time.perf_counter() - started
started = time.perf_counter()
compaction.compact(room)
found["merge"] = time.perf_counter() - started
"""
MIRROR = """
from raysweep import sweep
started = time.perf_counter()
sweep.sync("empty", storage=folder, tracking_uri=f"sqlite:///{folder / 'mlflow.db'}", say=lambda line: None)
found["mirror"] = time.perf_counter() - started
"""
STATUS = """
from raysweep.commands import status
started = time.perf_counter()
status.details(raysweep.open("empty", folder))
found["status"] = time.perf_counter() - started
"""
RESULTS = """
from raysweep.ledger import results_table
started = time.perf_counter()
results_table.write(raysweep.open("empty", folder).results(), "csv", folder / "table.csv")
found["results"] = time.perf_counter() - started
"""
REPORT = """
started = time.perf_counter()
raysweep.open("empty", folder).report()
found["report"] = time.perf_counter() - started
"""


def measure(cells: int) -> dict[str, float]:
    """Seconds of each step, `write` in rows a second, `memory` the driver's peak in megabytes."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="raysweep-size-") as folder:
        for step in (PLAN, RUN, LEDGER, MIRROR, STATUS, RESULTS, REPORT):
            code = (
                PRELUDE + step + "found['memory'] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
                "print(json.dumps(found))"
            )
            done = subprocess.run(
                [sys.executable, "-c", code, str(cells), folder],
                cwd=Path(__file__).parent.parent,
                check=True,
                capture_output=True,
                text=True,
            )
            step_found = json.loads(done.stdout.splitlines()[-1])
            memory = step_found.pop("memory")
            found |= step_found
            if step == RUN:
                found["memory"] = memory
    return found


def main() -> None:
    """Measure, and print the table; with --write, put it into a document."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cells", nargs="*", type=int, default=SIZES)
    parser.add_argument("--write", type=Path, help="the document in which the table stands")
    asked = parser.parse_args()
    steps = ("reload", "merge", "mirror", "status", "results", "report")
    names = (
        "cells, plan, run, driver's memory, ledger written, read again, merged, mirrored, `status`, `results`, `report`"
    )
    lines = [f"| {names.replace(', ', ' | ')} |", "| --- " * 11 + "|"]
    print("\n".join(lines))
    for cells in asked.cells:
        found = measure(cells)
        lines.append(
            f"| {cells:,} | {found['plan']:.2f} s | {found['run']:.2f} s | {found['memory']:.0f} MB | "
            f"{found['write']:,.0f} rows/s | {' | '.join(f'{found[name]:.2f} s' for name in steps)} |"
        )
        print(lines[-1], flush=True)
    if asked.write:
        document.write(asked.write, "bench-size", lines)


if __name__ == "__main__":
    main()
