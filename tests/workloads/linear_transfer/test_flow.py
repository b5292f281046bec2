"""The flow engine against integration of the real layers, against the end point, and against itself in other packs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from linear_rows import data, end_point, integrate_layers, table
from workload_rows import grid

from raysweep.training import draws
from raysweep.workloads.linear_transfer import flow, integrator, target

RISKS = "risk_scratch", "risk_linear", "risk_finetune"


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_only_numbers_that_overflow_are_diverged() -> None:
    row = {"depth": 1, "dim": 6, "finetune_steps": 50}
    metrics, status = flow.compute(
        table([{**row, "source_norm": 1e160}, {**row, "source_norm": 1e60}]), np.zeros(2, int)
    )
    assert list(status) == ["diverged", "ok"]
    assert np.isnan(metrics["risk_finetune"]).tolist() == [True, False]
    assert metrics["risk_finetune"][1] > 1e100
    assert np.isfinite(metrics["risk_scratch"]).all()


CASES = [(depth, gamma, time) for depth in (1, 2, 3, 5) for gamma, time in ((0.5, 2.0), (0.5, 40.0), (1.5, 9.0))]


@pytest.mark.parametrize(("depth", "gamma", "time"), CASES)
def test_finite_time_agrees_with_integrating_the_layers(depth: int, gamma: float, time: float) -> None:
    task = {"gamma": gamma, "dim": 6, "overlap_angle": 70.0, "noise": 0.3, "source_norm": 1.3, "target_norm": 0.8}
    row = {**task, "depth": depth, "init_scale": 0.5, "finetune_lr": 0.01, "finetune_steps": 100 * time}
    X, y, goal, along = data(row, 3)
    metrics, status = flow.compute(table([row]), np.array([3]))
    assert list(status) == ["ok"]
    starts = {
        "risk_scratch": (draws.unit_vectors(3, "scratch", 1, 6)[0], 0.5),
        "risk_finetune": (along, 1.3 ** (1 / depth)),
    }
    for name, (direction, scale) in starts.items():
        map_ = integrate_layers(X, y, direction, scale, depth, time, range(depth))
        assert metrics[name][0] == pytest.approx(((map_ - goal) ** 2).sum(), rel=1e-8)


@pytest.mark.parametrize("frozen", [1, 2])
@pytest.mark.parametrize("angle", [40.0, 150.0])
def test_frozen_layers_agree_with_integrating_the_others(frozen: int, angle: float) -> None:
    pretrained = {"gamma": 2.0, "dim": 5, "overlap_angle": angle, "pretrain_length": 1.5, "init_scale": 0.6}
    row = {**pretrained, "depth": 4, "frozen_layers": frozen, "finetune_lr": 0.1, "finetune_steps": 45}
    X, y, goal, along = data(row, 0)
    metrics, _ = flow.compute(table([row]), np.array([0]))
    scale = float(target.layer_scale(table([row]))[0])
    map_ = integrate_layers(X, y, along, scale, 4, 4.5, range(frozen, 4))
    assert metrics["risk_finetune"][0] == pytest.approx(((map_ - goal) ** 2).sum(), rel=1e-8)


def test_linear_transfer_trains_the_last_layer_with_its_ridge() -> None:
    task = {"gamma": 1.5, "dim": 6, "overlap_angle": 50.0, "noise": 0.2, "source_norm": 0.7}
    row = {**task, "depth": 3, "ridge": 0.3, "finetune_lr": 0.1, "finetune_steps": 20}
    X, y, goal, along = data(row, 1)
    map_ = integrate_layers(X, y, along, 0.7 ** (1 / 3), 3, 2.0, range(2, 3), ridge=0.3)
    metrics, _ = flow.compute(table([row]), np.array([1]))
    assert metrics["risk_linear"][0] == pytest.approx(((map_ - goal) ** 2).sum(), rel=1e-8)


def test_convergence_reaches_the_exact_end_point_of_every_draw() -> None:
    rows = grid(
        {"dim": [20], "init_scale": [0.1]},
        {"depth": [1, 2, 3, 6]},
        {"gamma": [0.05, 0.5, 0.95, 1.0, 1.1, 3.0]},
        {"overlap_angle": [0.0, 65.0, 180.0]},
        {"noise": [0.0, 0.4], "pretrain_length": [math.inf, 0.5]},
    )
    seeds = np.arange(len(rows)) % 4
    columns = table(rows)
    metrics, status = flow.compute(columns, seeds)
    assert set(status) == {"ok"}
    scale = np.exp(target.log_pretrain_scale(columns))
    for i, row in enumerate(rows):
        X, y, goal, along = data(row, int(seeds[i]))
        scratch = draws.unit_vectors(int(seeds[i]), "scratch", 1, 20)[0]
        for name, direction, c in (("risk_scratch", scratch, 0.1 ** row["depth"]), ("risk_finetune", along, scale[i])):
            expected = ((end_point(X, y, direction, c, row["depth"]) - goal) ** 2).sum()
            assert metrics[name][i] == pytest.approx(expected, rel=1e-6, abs=1e-9), (name, row)


def test_a_start_of_norm_1e_minus_30_leaves_the_origin() -> None:
    row = {"depth": 10, "gamma": 0.5, "dim": 30, "overlap_angle": 60.0, "noise": 0.2, "init_scale": 1e-3}
    X, y, goal, _ = data(row, 0)
    metrics, status = flow.compute(table([row]), np.array([0]))
    assert status[0] == "ok"
    map_ = end_point(X, y, draws.unit_vectors(0, "scratch", 1, 30)[0], 1e-30, 10)
    assert metrics["risk_scratch"][0] == pytest.approx(((map_ - goal) ** 2).sum(), rel=1e-8)


def test_a_thousand_layers_stay_put_in_finite_time_and_converge_without_limit() -> None:
    row = {"depth": 1000, "gamma": 0.5, "dim": 20, "overlap_angle": 30.0}
    columns = table([{**row, "finetune_steps": 1000}, row])
    metrics, status = flow.compute(columns, np.array([0, 0]))
    assert list(status) == ["ok", "ok"]
    assert metrics["risk_scratch"][0] == pytest.approx(1.0)  # still at the origin
    X, y, goal, _ = data(row, 0)
    assert metrics["risk_scratch"][1] == pytest.approx(((np.linalg.pinv(X) @ y - goal) ** 2).sum(), rel=0.05)


def test_a_negative_multiple_is_out_of_reach_of_two_trained_layers() -> None:
    row = {"gamma": 5.0, "dim": 20, "overlap_angle": 170.0, "target_norm": 1.5, "frozen_layers": 1}
    metrics, status = flow.compute(table([{**row, "depth": 3}, {**row, "depth": 2}]), np.array([0, 0]))
    X, y, goal, along = data({**row, "depth": 2}, 0)
    seen = X @ along
    assert metrics["risk_finetune"][0] == pytest.approx(1.5**2)
    assert metrics["risk_finetune"][1] == pytest.approx((((seen @ y) / (seen @ seen) * along - goal) ** 2).sum())
    assert list(status) == ["ok", "ok"]


def test_too_few_steps_are_reported_and_the_values_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integrator, "STEP_CAP", 4)
    rows = [{"depth": 3, "gamma": 0.9, "dim": 20, "overlap_angle": 60.0}, {"depth": 1, "gamma": 0.9, "dim": 20}]
    metrics, status = flow.compute(table(rows), np.array([0, 0]))
    assert list(status) == ["not_converged", "ok"]
    assert np.isfinite(metrics["risk_finetune"]).all()
