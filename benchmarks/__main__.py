"""The benchmark table of docs/speed.md, every ratio taken in one run: `make bench`, or `python -m benchmarks`; with
--write FILE, the table is put into the document.

F is a bare single-threaded loop over the 400 factorizations of `transfer_phase_diagram`, E an empty Ray Tune job that
imports torch. Times are of whole processes unless a line says otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import document

HERE = Path(__file__).parent
COMMAND = [sys.executable, "-m", "raysweep.main"]
CELLS, DIM, STEPS = 40, 40, 300  # the small problem of the trial-per-cell comparison
PACKED_CELLS = 400  # as many as make the start of a trial a small part of the packs


def seconds(command: list[str], folder: str) -> tuple[float, str]:
    """Wall time and stdout of a command that must succeed."""
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return time.perf_counter() - started, done.stdout


def peak_megabytes(command: list[str], folder: str) -> float:
    """Peak resident memory of a command, its children apart."""
    code = (
        "import resource, runpy, sys\nsys.argv = sys.argv[1:]\ntry:\n runpy.run_module('raysweep.main', "
        "run_name='__main__')\nexcept SystemExit:\n pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], cwd=folder, check=True, capture_output=True, text=True
    )
    return float(done.stdout.splitlines()[-1])


@contextmanager
def scratch() -> Iterator[str]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="raysweep-bench-") as folder:
        yield folder


def floor() -> float:
    """F, in a process of its own with one BLAS thread."""
    code = "from benchmarks.factorizations import floor_seconds; print(min(floor_seconds() for _ in range(3)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=HERE.parent,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    return float(done.stdout)


def diagram(*options: str) -> float:
    """The whole phase diagram, once."""
    with scratch() as folder:
        return seconds([*COMMAND, "run", "transfer_phase_diagram", *options], folder)[0]


def report_seconds(space: str, folder: str) -> float:
    """Processor time of the report of a packaged space whose rows are in the folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds([*COMMAND, "report", space, "--storage", folder], folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def per_row(mirrored: bool, rows: int) -> float:
    """Milliseconds of plumbing a row, by a workload that computes nothing, the report left out."""
    code = (
        "import sys, time\nfrom raysweep import sweep, workloads\nworkloads.BUILT_IN['empty'] = 'benchmarks.empty'\n"
        f"space = {{'name': 'empty', 'workload': 'empty', 'axes': {{'first': list(range({rows}))}}}}\n"
        "started = time.perf_counter()\n"
        "sweep.run(space, storage=sys.argv[1], executor='inline', report=False, "
        f"tracking_uri={'None' if mirrored else repr('none')})\n"
        f"print((time.perf_counter() - started) / {rows} * 1000)"
    )
    with scratch() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code, folder], cwd=HERE.parent, check=True, capture_output=True, text=True
        )
    return float(done.stdout)


def packed_cells(count: int) -> tuple[float, float]:
    """Seconds a cell of `count` cells of the small problem by engine network in packs: on a Ray that is up already,
    and in this process."""
    space = {
        "name": "packs",
        "workload": "linear_transfer",
        "axes": {"overlap_angle": {"linspace": [90 / count, 90, count]}},
        "fixed": {
            "engine": "network",
            "dim": DIM,
            "gamma": 0.5,
            "noise": 0.2,
            "finetune_lr": 0.02,
            "finetune_steps": STEPS,
        },
    }
    code = (
        "import json, sys, time\nfrom raysweep import sweep\nfrom raysweep.executors import ray_tune\n"
        "from raysweep.space.resources import Resources\n"
        "ray_tune.connect(None, [Resources()], lambda line: None)\nstarted = time.perf_counter()\n"
        "sweep.run(json.loads(sys.argv[1]), storage=sys.argv[2], executor=sys.argv[3], report=False, "
        "tracking_uri='none')\n"
        f"print((time.perf_counter() - started) / {count})"
    )
    with scratch() as folder:
        found = {}
        for executor in ("ray", "inline"):
            done = subprocess.run(
                [sys.executable, "-c", code, json.dumps(space), f"{folder}/{executor}", executor],
                check=True,
                capture_output=True,
                text=True,
            )
            found[executor] = float(done.stdout.splitlines()[-1])
    return found["ray"], found["inline"]


def of_function(rows: int) -> float:
    """Milliseconds that a row of a plain function costs in process beside the function, without mirror and report."""
    code = (
        "import time, raysweep\n"
        "def quick(x, seed):\n    return x * 0.5\n"
        "def took(rows):\n"
        "    started = time.perf_counter()\n"
        "    raysweep.run(quick, axes={'x': list(range(rows // 10))}, seeds=10, name=f'rows{rows}', "
        "tracking_uri='none', report=False)\n"
        "    return time.perf_counter() - started\n"
        "took(10)\n"
        f"print(took({rows}) / {rows} * 1000)"
    )
    with scratch() as folder:
        return statistics.median(float(seconds([sys.executable, "-c", code], folder)[1]) for _ in range(3))


def main() -> None:
    """Measure, and print the table; with --write, put it into a document."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=Path, help="the document in which the table stands")
    asked = parser.parse_args()
    f = floor()
    with scratch() as folder:
        e, _ = seconds([sys.executable, str(HERE / "empty_ray_job.py")], folder)
        help_seconds = statistics.median(seconds([*COMMAND, "--help"], folder)[0] for _ in range(5))
        dry, _ = seconds([*COMMAND, "run", "transfer_phase_diagram", "--dry-run"], folder)
        naive = float(
            seconds([sys.executable, str(HERE / "one_trial_per_cell.py"), str(CELLS), str(DIM), str(STEPS)], folder)[
                1
            ].split()[-1]
        )
    bare = ("--executor", "inline", "--tracking-uri", "none", "--no-report")
    inline = statistics.median(diagram(*bare) for _ in range(3))
    whole = diagram("--executor", "ray")
    on_ray, in_process = packed_cells(PACKED_CELLS)
    few_on_ray, few_in_process = packed_cells(CELLS)
    with scratch() as folder:
        small = peak_megabytes(["raysweep", "run", "transfer_phase_diagram", *bare, "--set", "seeds=2"], folder)
        large = peak_megabytes(["raysweep", "run", "transfer_phase_diagram", *bare, "--name", "large"], folder)
    reports = []
    with scratch() as folder:
        for space in ("quickstart", "transfer_phase_diagram"):
            seconds([*COMMAND, "run", space, *bare, "--storage", folder], folder)
            reports.append(min(report_seconds(space, folder) for _ in range(3)))
    ms, mirrored = per_row(False, 10_000), per_row(True, 1_000)
    rows = [
        ("F: bare loop over the 400 factorizations", f"{f:.2f} s", ""),
        ("E: empty Ray Tune job that imports torch", f"{e:.1f} s", ""),
        (
            "phase diagram (400 cells x 20 draws), in process, no mirror, no report",
            f"{inline:.2f} s = {inline / f:.2f} F",
            f"2 F + 2 s = {2 * f + 2:.1f} s",
        ),
        (
            "the same on Ray, with mirror and report",
            f"{whole:.1f} s",
            f"4 F + 4 s + E + 4 ms a cell + 8 s = {4 * f + 4 + e + 1.6 + 8:.1f} s",
        ),
        ("report of `quickstart`, processor time of the command", f"{reports[0]:.1f} s", "2 s"),
        ("report of the phase diagram, the same", f"{reports[1]:.1f} s", "8 s"),
        ("plumbing a row, empty workload, 10,000 cells, no mirror", f"{ms:.2f} ms", "5 ms"),
        ("the same mirrored into sqlite, 1,000 cells, waiting for the mirror", f"{mirrored:.1f} ms a cell", "4 ms"),
        ("a row of a plain function, 1,000 rows in process, no mirror", f"{of_function(1_000):.2f} ms", "0.1 ms"),
        (
            f"one Ray Tune trial per cell training its layers ({CELLS} cells, dim {DIM}, {STEPS} steps)",
            f"{naive * 1000:,.0f} ms a cell",
            "",
        ),
        (
            f"the same {CELLS} cells by engine network in one pack: on Ray that is up / in this process",
            f"{few_on_ray * 1000:,.0f} / {few_in_process * 1000:,.0f} ms a cell: {naive / few_on_ray:.0f} x / "
            f"{naive / few_in_process:.0f} x less",
            "50 x",
        ),
        (
            f"{PACKED_CELLS} such cells: on Ray that is up / in this process",
            f"{on_ray * 1000:,.0f} / {in_process * 1000:,.1f} ms a cell: {naive / on_ray:.0f} x / "
            f"{naive / in_process:.0f} x less",
            "50 x",
        ),
        ("`raysweep --help`", f"{help_seconds:.2f} s", "0.5 s"),
        ("`raysweep run transfer_phase_diagram --dry-run`", f"{dry:.2f} s", "3 s"),
        ("peak memory in process, 800 rows / 8,000 rows", f"{small:.0f} / {large:.0f} MB", ""),
    ]
    from benchmarks import (
        covariance,
        language,
        shared_stages,
        stages,
        vision,
    )  # imports torch, which the processes above are better off without

    modules = (covariance, stages, shared_stages, language, vision)
    rows += [row for module in modules for row in module.rows()]
    lines = ["| what | measured | bound |", "| --- | --- | --- |", *(f"| {' | '.join(row)} |" for row in rows)]
    print("\n".join(lines))
    if asked.write:
        document.write(asked.write, "bench", lines)


if __name__ == "__main__":
    main()
