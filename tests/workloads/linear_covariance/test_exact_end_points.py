"""The exact end points of `linear_covariance` against dense solves, and against gradient descent on real layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from linear_rows import integrate_layers
from workload_rows import table_of

from raysweep.training import draws
from raysweep.workloads.linear_covariance import engines
from raysweep.workloads.linear_covariance.spectrum import SHIFTS, read

DIM = 24
SPECTRA = ("1.5:5,0.3", "2:3,1:4,0.05", "7", "0.1:20,4:4")


def columns(*rows: dict[str, Any]) -> dict[str, np.ndarray]:
    return table_of("linear_covariance", *({"dim": DIM, **row} for row in rows))


def task(row: dict[str, Any], seed: int) -> tuple[np.ndarray, ...]:
    """Inputs, labels, source, target and the eigenvalues of a row."""
    values, counts = read(row["spectrum"], DIM)
    eigenvalues = np.repeat(values, counts.astype(int))
    directions = engines.vectors(seed, DIM, row["spectrum"])
    target = row["target_norm"] * directions[:, engines.TARGET]
    source = target - row["shift_norm"] * directions[:, 2 + SHIFTS.index(row["shift"])]
    n = round(row["gamma"] * DIM)
    inputs = draws.normal(seed, "inputs", n, DIM) * np.sqrt(eigenvalues)
    return inputs, inputs @ target + row["noise"] * draws.normal(seed, "noise", n), source, target, eigenvalues


def dense_risk(row: dict[str, Any], seed: int, start: np.ndarray) -> float:
    """By a pseudo-inverse; deeper networks by bisection on the norm of their end point (T Thm 5.2)."""
    inputs, labels, _, target, eigenvalues = task(row, seed)
    inverse = np.linalg.pinv(inputs)
    unmoved, fitted = start - inverse @ (inputs @ start), inverse @ labels
    power = (row["depth"] - 1) / row["depth"]
    low, high = 0.0, 1e6
    for _ in range(300):
        middle = (low + high) / 2
        end = (middle / np.linalg.norm(start)) ** power * unmoved + fitted if start.any() else fitted
        low, high = (middle, high) if np.linalg.norm(end) > middle else (low, middle)
    return float((end - target) ** 2 @ eigenvalues)


def rows_of_all_kinds() -> list[dict[str, Any]]:
    stream = np.random.default_rng(0)
    results = []
    for i in range(60):
        spectrum = SPECTRA[i % len(SPECTRA)]
        results.append(
            {
                "spectrum": spectrum,
                "shift": SHIFTS[i % 3] if "," in spectrum else ("top", "all")[i % 2],
                "shift_norm": float(stream.uniform(0, 3)),
                "target_norm": float(stream.uniform(0.1, 3)),
                "noise": float(stream.choice([0.0, 0.4])),
                "gamma": float(stream.choice([0.04, 0.25, 0.5, 0.9, 1.0, 1.1, 1.5])),
                "depth": int(stream.choice([1, 2, 5])),
            }
        )
    return results


def test_risks_are_those_of_dense_solves_whatever_the_row() -> None:
    rows = rows_of_all_kinds()
    seeds = np.arange(len(rows)) % 3
    metrics, status = engines.compute(columns(*rows), seeds)
    assert set(status) == {"ok"}
    for i, row in enumerate(rows):
        source = task(row, int(seeds[i]))[2]
        finetuned, scratch = (dense_risk(row, int(seeds[i]), start) for start in (source, np.zeros(DIM)))
        size = finetuned + scratch + 1e-6
        assert abs(metrics["risk_finetune"][i] - finetuned) < 1e-9 * size, row
        assert abs(metrics["risk_scratch"][i] - scratch) < 1e-9 * size, row
        assert metrics["transferability_finetune"][i] == metrics["risk_scratch"][i] - metrics["risk_finetune"][i]


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_flow_of_real_layers_ends_there(depth: int) -> None:
    """Balanced layers whose product is the source, trained on the target; T's theorem for any Σ."""
    maps = {"spectrum": "1.5:5,0.3", "shift": "bottom", "shift_norm": 0.8, "target_norm": 1.2}
    row = {**maps, "noise": 0.2, "gamma": 0.5, "depth": depth}
    inputs, labels, source, target, eigenvalues = task(row, 0)
    size = np.linalg.norm(source)
    end = integrate_layers(inputs, labels, source / size, size ** (1 / depth), depth, 400, range(depth))
    (metrics,) = engines.compute(columns(row), np.zeros(1, int))[0]["risk_finetune"]
    assert metrics == pytest.approx(float((end - target) ** 2 @ eigenvalues), rel=1e-5)
