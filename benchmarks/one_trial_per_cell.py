"""How it is usually done: one Ray Tune trial per cell, each training its layers in a loop. The baseline of the bench.

Usage: python benchmarks/one_trial_per_cell.py CELLS DIM STEPS. Prints seconds per cell, Ray's own start left out.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time

CELLS, DIM, STEPS = (int(value) for value in sys.argv[1:4])


def train(config: dict[str, float]) -> None:
    """Scratch, linear transfer and fine-tuning of a two-layer linear network with torch.optim, then one report."""
    import math

    import torch
    from ray import tune

    torch.set_num_threads(1)
    torch.manual_seed(0)
    angle, samples = math.radians(config["overlap_angle"]), DIM // 2
    source = torch.zeros(DIM, 1, dtype=torch.float64)
    target = source.clone()
    source[0], target[0], target[1] = 1, math.cos(angle), math.sin(angle)
    inputs = torch.randn(samples, DIM, dtype=torch.float64)
    labels = inputs @ target + 0.2 * torch.randn(samples, 1, dtype=torch.float64)
    risks = []
    for start, trained in (("scratch", 2), ("source", 1), ("source", 2)):
        first = 0.01 * torch.randn(DIM, DIM, dtype=torch.float64)
        last = 0.01 * torch.randn(DIM, 1, dtype=torch.float64)
        if start == "source":
            last = torch.nn.functional.normalize(last, dim=0)
            first = source @ last.T
        layers = [first.requires_grad_(trained == 2), last.requires_grad_()]
        optimizer = torch.optim.SGD([layer for layer in layers if layer.requires_grad], lr=0.02)
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = ((inputs @ (first @ last) - labels) ** 2).mean() / 2
            loss.backward()
            optimizer.step()
        risks.append(float(((first @ last - target) ** 2).sum()))
    tune.report({"transferability_finetune": risks[0] - risks[2]})


if __name__ == "__main__":
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    import ray
    from ray import tune

    ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False)
    angles = [90 * (i + 1) / CELLS for i in range(CELLS)]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        tune.Tuner(
            train,
            param_space={"overlap_angle": tune.grid_search(angles)},
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        ).fit()
        seconds = time.perf_counter() - started
    ray.shutdown()
    print(seconds / CELLS)
