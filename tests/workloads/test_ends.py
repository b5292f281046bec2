"""How rows end: one that diverges or is too slow says so, and those beside it are as they are alone."""

import numpy as np
import pytest
from workload_rows import computed

from raysweep.workloads.linear_spectrum import network as spectrum_network
from raysweep.workloads.linear_transfer import integrator
from raysweep.workloads.linear_transfer import network as transfer_network
from raysweep.workloads.relu_kernel import network as relu_network

TRANSFER = {"gamma": 0.5, "dim": 12, "overlap_angle": 60.0, "finetune_lr": 0.02}
SPECTRUM = {"engine": "network", "dim": 6, "source_spectrum": "2,1.2,0.7", "target_spectrum": "0.9,1.1,0.6"}
RELU = {"dim": 6, "width": 30, "teacher_width": 10, "steps": 1000, "target_samples": 20}
VIEWS = {"classes": 3, "dim": 8, "patches": 6, "samples": 40, "target_samples": 30, "framework": "teacher_student"}
NET = {"source_samples": 70, "target_samples": 20, "batch_size": 64, "pretrain_length": 2}
WILD = {  # a row, what makes it diverge, and a metric that it then has not
    "linear_transfer": (TRANSFER | {"engine": "network", "finetune_steps": 400}, {"finetune_lr": 5.0}, "risk_finetune"),
    "linear_spectrum": (SPECTRUM | {"finetune_steps": 200}, {"finetune_lr": 5.0}, "pretrain_loss_after"),
    "relu_features": (RELU, {"learning_rate": 1000.0, "init_scale": 1000.0}, "transferability_linear"),
    "multiview": (VIEWS | {"pretrain_length": 40}, {"pretrain_lr": 50.0, "init_scale": 0.5}, "transferability"),
    "vision": (NET | {"finetune_steps": 40}, {"finetune_lr": 1e3}, "target_loss"),
}


@pytest.mark.parametrize("workload", WILD)
def test_a_row_that_diverges_says_so_and_leaves_its_neighbours_alone(workload, tmp_path):
    row, wild, metric = WILD[workload]
    together = computed(workload, tmp_path / "together", [row, row | wild, row], [0, 0, 1])
    assert together.status.tolist() == ["ok", "diverged", "ok"]
    assert not np.isfinite(together.metrics[metric][1])
    alone = computed(workload, tmp_path / "alone", [row, row], [0, 1])
    for name, values in alone.metrics.items():
        np.testing.assert_allclose(together.metrics[name][[0, 2]], values, rtol=1e-10, err_msg=name)


FEW = {"finetune_steps": 5000}
LAYERS = TRANSFER | {"engine": "network", "dim": 2, "finetune_lr": 1e-6}
MODES = {"engine": "network", "dim": 2, "source_spectrum": "1,0.5"}  # one of which must vanish, and does so like 1/t
SLOW = {  # the number of steps allowed, a row that takes more, what makes it end sooner, and a metric
    "flow": (integrator, 4, "linear_transfer", {"engine": "flow", "dim": 20}, {"depth": 1}, "risk_finetune"),
    "layers": (transfer_network, 5000, "linear_transfer", LAYERS, FEW, "risk_finetune"),
    "modes": (spectrum_network, 5000, "linear_spectrum", MODES, FEW, "finetune_loss"),
    "neurons": (relu_network, 100, "relu_kernel", {"dim": 6, "width": 64.0}, {"width": np.inf}, "deviation"),
}


@pytest.mark.parametrize("case", SLOW)
def test_a_row_that_takes_too_many_steps_says_so_and_keeps_its_values(case, tmp_path, monkeypatch):
    module, cap, workload, row, quick, metric = SLOW[case]
    monkeypatch.setattr(module, "STEP_CAP", cap)
    row = {"finetune_lr": 1e-3, "target_spectrum": "1", "finetune_steps": np.inf, **row}
    result = computed(workload, tmp_path, [row, row | quick], [0, 0])
    assert result.status.tolist() == ["not_converged", "ok"]
    assert np.isfinite(result.metrics[metric]).all()
    if quick == FEW:
        assert result.metrics[metric][0] == pytest.approx(result.metrics[metric][1], rel=1e-12)
