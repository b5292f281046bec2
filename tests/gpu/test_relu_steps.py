"""Steps of two-layer ReLU networks on a GPU: they never wait between two looks at whether all have ended."""

import numpy as np
import pytest
import torch

from raysweep.training import devices
from raysweep.workloads.relu_features import descent


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("loss_on", ["population", "samples"])
def test_a_step_never_waits(loss_on):
    stream = np.random.default_rng(0)
    shapes = (3, 8, 4), (5, 4), (3, 12, 4), (3, 12)
    start, teacher, inputs, labels = (
        torch.as_tensor(stream.standard_normal(each), device=devices.device()) for each in shapes
    )
    start, teacher = (rows / rows.norm(dim=-1, keepdim=True) for rows in (start, teacher))
    weights = torch.full((3, 5), 0.2, dtype=torch.float64, device=devices.device())
    task = descent.on_population(teacher, weights) if loss_on == "population" else descent.on_samples(inputs, labels)
    steps, taken = descent.LOOK - 2, []

    def watched(features, outputs):
        taken.append(len(taken))
        torch.cuda.set_sync_debug_mode("error" if 1 <= taken[-1] < steps else "default")
        return task(features, outputs)

    try:
        found = descent.descend(watched, start, descent.Recipe(1e-7, 0.5, steps, 0.0))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(taken) == steps + 1
    assert np.isfinite(found.loss).all()
