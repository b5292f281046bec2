"""The sweep of `covariance` against its bare factorizations: `python -m benchmarks.covariance`.

Bare: for each of the 20 draws, X given, one QR of the 1,000 x 1,000 matrix Xᵀ with its Q formed. The first n columns
of Q span the first n samples, so this is all that the 22 sample sizes above 0 need of cubic cost. The sweep draws X and
the maps, and plans, computes and records its 1,380 rows, without mirror and report. Both are measured in seconds of the
processor in processes with one BLAS thread, and take turns; the least of each counts, since another process on the
machine only ever adds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

DIM, DRAWS, ROUNDS = 1000, 20, 3
ALLOWED = 3.0  # of the bare factorizations


def bare() -> float:
    """Seconds of the processor for one QR a draw."""
    from scipy.linalg import lapack

    generator = np.random.Generator(np.random.Philox(0))
    spent = 0.0
    for _ in range(DRAWS):
        inputs = generator.standard_normal((DIM, DIM))
        started = time.process_time()
        factor, reflectors, _, _ = lapack.dgeqrf(inputs.T, lwork=64 * DIM)
        lapack.dorgqr(factor, reflectors, lwork=64 * DIM, overwrite_a=1)
        spent += time.process_time() - started
    return spent


def whole_sweep() -> float:
    """Seconds of the processor for the packaged space, from reading it to its last row."""
    from raysweep import sweep

    with tempfile.TemporaryDirectory(prefix="raysweep-bench-") as folder:
        started = time.process_time()
        quiet = {"report": False, "tracking_uri": "none", "say": lambda line: None}
        sweep.run("covariance", seeds=DRAWS, storage=folder, executor="inline", **quiet)
        return time.process_time() - started


def measure() -> dict[str, float]:
    """The least seconds of each."""
    found: dict[str, list[float]] = {"bare": [], "whole_sweep": []}
    for _ in range(ROUNDS):
        for name, seconds in found.items():
            done = subprocess.run(
                [sys.executable, "-c", f"from benchmarks import covariance; print(covariance.{name}())"],
                cwd=Path(__file__).parent.parent,
                check=True,
                capture_output=True,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
            seconds.append(float(done.stdout.splitlines()[-1]))
    return {name: min(seconds) for name, seconds in found.items()}


def rows() -> list[tuple[str, str, str]]:
    """What was measured, as rows of the benchmark table."""
    found = measure()
    return [
        (
            f"sweep of `covariance` (d = {DIM:,}) against one bare QR for each of its {DRAWS} draws",
            f"{found['whole_sweep']:.2f} s = {found['whole_sweep'] / found['bare']:.2f} x",
            f"at most {ALLOWED:g} x",
        )
    ]


if __name__ == "__main__":
    for row in rows():
        print("| " + " | ".join(row) + " |")
