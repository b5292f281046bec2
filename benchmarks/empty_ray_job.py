"""The floor of any Ray run: start, four Tune trials that import torch, stop."""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
import ray
from ray import tune


def trial(config: dict[str, int]) -> None:
    """Import torch and report."""
    import torch

    tune.report({"threads": torch.get_num_threads()})


ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False)
with tempfile.TemporaryDirectory() as folder:
    tune.Tuner(
        trial,
        param_space={"number": tune.grid_search([1, 2, 3, 4])},
        run_config=tune.RunConfig(storage_path=folder, verbose=0),
    ).fit()
ray.shutdown()
