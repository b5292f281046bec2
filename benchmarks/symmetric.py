"""How much less the draws of `symmetric: true` vary: `python -m benchmarks.symmetric` (a minute on one core).

First the zero of each draw, the angle at which fine-tuning stops helping, by samples per dimension. Then the metrics of
packaged spaces, some cells of each, on the same draws with the option and without: how much less they vary, and what it
costs. `--relu` flips inputs and label noise of `relu_features` by hand, which has no such option, beside a second data
set at the cost of one flip.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
import time
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np

from raysweep import workloads
from raysweep.plan.cells import enumerate_cells
from raysweep.space import space_files
from raysweep.space.space_files import packaged
from raysweep.training import draws as data
from raysweep.trial.compute import compute
from raysweep.workloads.declaration import SIGN_SPREAD, column
from raysweep.workloads.linear_transfer import WORKLOAD, engines

ANGLES = np.linspace(1, 179, 90)
SPACES = (
    "transfer_phase_diagram",
    "transfer_phase_diagram_noiseless",
    "depth_noise_boundary",
    "pretrain_inflection",
    "ridge_transfer",
    "depth_scale",
    "norm_scale",
    "frozen_layers",
    "covariance",
    "covariance_boundary",
    "four_axes",
    "overtraining_linear",
)
MOST_CELLS = 60  # of each space, evenly spaced


def zeros(dim: int, draws: int, gamma: float, noise: float, depth: int, symmetric: bool) -> np.ndarray:
    """The angle at which the transferability of fine-tuning is 0 in each draw, degrees, (draws,).

    Between the angles of a grid of 2 degrees by a straight line: the curves are smooth, and the error (below 0.01
    degrees) is the same with and without symmetric draws.
    """
    given = {"dim": dim, "gamma": gamma, "noise": noise, "depth": depth, "symmetric": symmetric}
    rows = draws * len(ANGLES)
    columns = {p.name: column(p, [given.get(p.name, p.default)] * rows) for p in WORKLOAD.parameters}
    columns["overlap_angle"] = np.tile(ANGLES, draws)
    metrics, _ = engines.compute(columns, np.repeat(np.arange(draws), len(ANGLES)))
    values = metrics["transferability_finetune"].reshape(draws, len(ANGLES))
    first = (values > 0).cumprod(1).sum(1) - 1  # the last angle before the curve falls below 0
    each = np.arange(draws)
    before, after = values[each, first], values[each, first + 1]
    return np.asarray(ANGLES[first] + (ANGLES[1] - ANGLES[0]) * before / (before - after))


def zero_lines(draws: int) -> Iterator[str]:
    """The standard deviation of a draw's zero, plain and symmetric, at d = 500, noise 0.2 and depth 2."""
    for gamma in (0.1, 0.5, 0.9):
        plain, symmetric = (zeros(500, draws, gamma, 0.2, 2, option) for option in (False, True))
        before, after = plain.std(ddof=1), symmetric.std(ddof=1)
        yield (
            f"gamma {gamma}: zero at {plain.mean():.2f} plain, {symmetric.mean():.2f} symmetric; a draw deviates by "
            f"{before:.2f} and {after:.2f} degrees: {(before / after) ** 2:.0f} times less variance"
        )


def space_lines(name: str, draws: int) -> Iterator[str]:
    """For each metric of a space that is averaged: the variance of plain draws over that of symmetric ones."""
    space = space_files.read(packaged()[name], {})
    workload, cells = workloads.get(space.workload), enumerate_cells(space)
    chosen = np.unique(np.linspace(0, len(cells.ids) - 1, MOST_CELLS).astype(int))
    columns = {key: np.repeat(np.asarray(values)[chosen], draws) for key, values in cells.columns.items()}
    module, _, function = workload.compute.partition(":")
    rows_of, seeds = getattr(importlib.import_module(module), function), np.tile(np.arange(draws), len(chosen))
    rows_of({key: values[:1] for key, values in columns.items()}, seeds[:1])  # imports are not counted
    rows, seconds = {}, {}
    for option in (False, True):
        started = time.process_time()
        rows[option], _ = rows_of(columns | {"symmetric": np.full(len(seeds), option, dtype=object)}, seeds)
        seconds[option] = time.process_time() - started
    took = f"seconds {seconds[False]:.2f} plain, {seconds[True]:.2f} symmetric"
    yield f"{name}: {len(chosen)} cells, {draws} draws; {took}"
    for metric in workload.symmetry.metrics if workload.symmetry else ():
        plain, symmetric, spread = (
            values.reshape(len(chosen), draws)
            for values in (rows[False][metric], rows[True][metric], rows[True][metric + SIGN_SPREAD])
        )
        kept = symmetric.std(1) > 1e-9 * np.abs(symmetric).max()
        if not kept.any():
            continue
        between = symmetric[kept].var(1, ddof=1)
        direct = np.median(plain[kept].var(1, ddof=1) / between)
        low, middle, high = np.quantile(1 + (spread[kept] ** 2).mean(1) / between, [0.1, 0.5, 0.9])
        yield (
            f"  {metric:26} {middle:7.2f} times less variance in the median cell ({low:.2f} to {high:.2f} in the "
            f"middle 80 %; from plain draws themselves {direct:.2f})"
        )


def relu_lines(draws: int, samples: int) -> Iterator[str]:
    """What flips of inputs and label noise bring in relu_features, and what an independent data set brings instead: the
    variance of one data set over that of the mean."""
    workload, normal = workloads.get("relu_features"), data.normal
    given = {"dim": 16, "width": 96, "teacher_width": 16, "steps": 600, "target_samples": samples, "noise": 0.05}
    columns = {p.name: column(p, [given.get(p.name, p.default)] * draws) for p in workload.parameters}

    def metrics(store: str, number: int, signs: dict[str, int]) -> dict[str, np.ndarray]:
        def flipped(seed: int, role: str, *shape: int) -> np.ndarray:
            word = role.split()[0]
            return signs.get(word, 1) * normal(
                seed, f"{word} {number}" if word in ("inputs", "noise") else role, *shape
            )

        with patch.object(data, "normal", flipped):  # pretraining draws neither, and is kept in the store
            return compute(workload, columns, np.arange(draws), store).metrics

    with tempfile.TemporaryDirectory() as store:
        four = [metrics(store, 0, {"inputs": inputs, "noise": noise}) for inputs in (1, -1) for noise in (1, -1)]
        second = metrics(store, 1, {})
    yield f"relu_features, {samples} samples, {draws} draws: times less variance"
    ways = {"-inputs": (four[0], four[2]), "-noise": four[:2], "all four": four, "second set": (four[0], second)}
    for metric in ("risk_scratch", "transferability_linear", "transferability_linear_descent"):
        one = four[0][metric].var(ddof=1)
        said = ", ".join(
            f"{way} {one / np.mean([each[metric] for each in some], axis=0).var(ddof=1):.2f}"
            for way, some in ways.items()
        )
        yield f"  {metric:30} {said}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.symmetric", description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--relu", action="store_true", help="relu_features instead")
    asked = parser.parse_args()
    if asked.relu:
        for samples in (40, 160):
            for line in relu_lines(asked.draws, samples):
                print(line, flush=True)
        return
    for line in zero_lines(asked.draws):
        print(line, flush=True)
    for name in SPACES:
        for line in space_lines(name, min(asked.draws, 12)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
