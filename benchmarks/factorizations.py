"""The floor of `transfer_phase_diagram`: a bare loop over its 400 factorizations, beside the limit engine.

Run with one BLAS thread: OMP_NUM_THREADS=1 python benchmarks/factorizations.py
"""

from __future__ import annotations

import time

import numpy as np
from scipy.linalg import cho_factor, cho_solve

DIM, DRAWS = 500, 20
GAMMAS = np.linspace(0.1, 2.0, 20)
ANGLES = np.linspace(4.5, 90.0, 20)


def floor_seconds() -> float:
    """Wall time of 400 factorizations (20 draws × 20 γ), X given: form the smaller Gram matrix, factor it, solve once.

    The smallest thing a hand-written loop can do: no drawing, no metrics, no care near n = d. The caller pins BLAS to
    one thread.
    """
    generator = np.random.Generator(np.random.Philox(0))
    sizes = [round(float(gamma) * DIM) for gamma in GAMMAS]
    seconds = 0.0
    for _ in range(DRAWS):
        inputs = generator.standard_normal((max(sizes), DIM))
        labels = generator.standard_normal(max(sizes))
        started = time.perf_counter()
        for n in sizes:
            part = inputs[:n]
            if n <= DIM:
                part.T @ cho_solve(cho_factor(part @ part.T), labels[:n])
            else:
                cho_solve(cho_factor(part.T @ part), part.T @ labels[:n])
        seconds += time.perf_counter() - started
    return seconds


def limit_seconds() -> float:
    """Wall time of the limit engine for all 8,000 rows of the diagram, drawing its data included."""
    from raysweep.workloads.declaration import column
    from raysweep.workloads.linear_transfer import WORKLOAD, limit

    gamma, angle, seeds = (part.ravel() for part in np.meshgrid(GAMMAS, ANGLES, np.arange(DRAWS), indexing="ij"))
    columns = {p.name: column(p, [p.default] * len(seeds)) for p in WORKLOAD.parameters}
    columns |= {
        "gamma": gamma,
        "overlap_angle": angle,
        "dim": np.full(len(seeds), DIM),
        "noise": np.full(len(seeds), 0.2),
    }
    started = time.perf_counter()
    limit.compute(columns, seeds)
    return time.perf_counter() - started


if __name__ == "__main__":
    floor, limit = (min(measure() for _ in range(3)) for measure in (floor_seconds, limit_seconds))
    print(f"400 factorizations {floor:.2f} s; limit engine, 8,000 rows {limit:.2f} s; ratio {limit / floor:.2f}")
