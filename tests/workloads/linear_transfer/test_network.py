"""The network engine against autograd, the exact end point and itself; distances between data against brute force."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from linear_rows import columns, data, end_point, table, z_score
from workload_rows import grid

from raysweep.training import draws
from raysweep.workloads.linear_transfer import engines, flow, layers, network, target

RISKS = "risk_scratch", "risk_linear", "risk_finetune"


def run(rows, seeds):
    metrics, status = network.compute(table(rows), np.array(seeds))
    return metrics, list(status)


def test_gradients_are_those_of_autograd():
    drawn = {"generator": torch.Generator().manual_seed(0), "dtype": torch.float64}
    for depth in (1, 2, 4):
        rows, dim, n = 3, 5, 7
        hidden = [torch.randn(rows, dim, dim, **drawn).requires_grad_() for _ in range(depth - 1)]
        last = torch.randn(rows, dim, **drawn).requires_grad_()
        X, y = torch.randn(rows, n, dim, **drawn), torch.randn(rows, n, **drawn)
        output = X.transpose(1, 2)
        for layer in hidden:
            output = layer @ output
        loss = ((torch.einsum("rd,rdn->rn", last, output) - y) ** 2).sum() / (2 * n)
        expected = torch.autograd.grad(loss, [*hidden, last])
        with torch.no_grad():
            # the engine's own step of size 1: what it subtracts is the gradient
            gram, moment, one = X.mT @ X / n, torch.einsum("rnd,rn->rd", X, y) / n, torch.ones(rows).double()
            copies, group = [layer.detach().clone() for layer in (*hidden, last)], torch.arange(rows)
            parts = copies[:-1], copies[-1], gram, 0 * gram, group, moment
            stepped = layers.Networks(*parts, lr=one, steps=one, frozen=0 * group, collapse=-one)
            layers.descend(stepped, 0.0, 1)
        for before, after, gradient in zip([*hidden, last], [*stepped.hidden, stepped.last], expected, strict=True):
            torch.testing.assert_close(before.detach() - after, gradient, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("depth", "frozen"), [(1, 0), (2, 0), (3, 0), (3, 1)])
def test_the_end_point_tends_to_that_of_gradient_flow_linearly_in_the_step(depth, frozen):
    task = {"gamma": 0.4, "dim": 16, "overlap_angle": 50.0, "noise": 0.3, "pretrain_length": 1.5}
    row = {**task, "depth": depth, "init_scale": 0.3, "frozen_layers": frozen}
    rates = (0.04, 0.02, 0.01)
    metrics, status = run([{**row, "finetune_lr": rate} for rate in rates], [2, 2, 2])
    assert status == ["ok"] * 3
    X, y, goal, along = data(row, 2)
    c = float(np.exp(target.log_pretrain_scale(table([row])))[0])
    scratch = draws.unit_vectors(2, "scratch", 1, 16)[0]
    linear = (X @ along) @ y / ((X @ along) @ (X @ along)) * along
    maps = {  # exact (THEORY §2-3)
        "risk_scratch": end_point(X, y, scratch, 0.3**depth, depth),
        "risk_finetune": linear if frozen else end_point(X, y, along, c, depth),
        "risk_linear": linear,
    }
    for name, map_ in maps.items():
        exact = float(((map_ - goal) ** 2).sum())
        errors = np.abs(metrics[name] - exact)
        if name == "risk_linear" or depth == 1 or (frozen and name == "risk_finetune"):
            assert (errors < 1e-6).all(), name  # the step does not move these end points
        else:
            assert errors[2] < 0.02 * max(exact, 0.1)
            assert (np.abs(np.log2(errors[:-1] / errors[1:]) - 1) < 0.25).all(), (name, errors)


def test_a_small_step_follows_the_flow_for_a_finite_time():
    rows = grid(
        {"dim": [12], "overlap_angle": [70.0], "noise": [0.2], "init_scale": [0.4], "ridge": [0.2]},
        {"finetune_lr": [5e-4], "finetune_steps": [6000]},
        {"depth": [1, 2, 3, 3], "frozen_layers": [0, 0, 0, 1]},
        {"gamma": [0.5, 2.0]},
    )
    seeds = list(range(len(rows)))
    metrics, status = run(rows, seeds)
    exact, _ = flow.compute(table(rows), np.array(seeds))
    assert set(status) == {"ok"}
    for name in RISKS:
        np.testing.assert_allclose(metrics[name], exact[name], rtol=3e-3, atol=1e-4)


@pytest.mark.parametrize("rate", [1e-9, 0.05, 0.3, 0.8])  # the last overshoots in every step
def test_linear_transfer_is_what_stepping_the_last_layer_gives(rate):
    task = {"gamma": 0.7, "dim": 10, "overlap_angle": 40.0, "noise": 0.2, "source_norm": 1.4}
    row = {**task, "depth": 3, "ridge": 0.4, "finetune_lr": rate, "finetune_steps": 7}
    X, y, goal, along = data(row, 0)
    feature, weight = 1.4 ** (2 / 3), 1.4 ** (1 / 3)
    for _ in range(7):
        g = X.T @ (X @ (feature * weight * along) - y) / len(y)
        weight -= rate * (feature * along @ g + 0.4 * weight)
    metrics, _ = run([row], [0])
    assert metrics["risk_linear"][0] == pytest.approx(((feature * weight * along - goal) ** 2).sum(), rel=1e-12)


def test_a_number_of_steps_is_a_budget_and_training_without_end_is_not():
    """One layer, and a step by which distances grow: finite after 60 steps, and neither after many nor at the end."""
    row = {"depth": 1, "gamma": 4.0, "dim": 6, "overlap_angle": 60.0, "noise": 0.0, "finetune_lr": 4.0}
    steps = [60.0, 5000.0, math.inf]
    metrics, status = run([{**row, "finetune_steps": count} for count in steps], [0] * 3)
    assert status == ["ok", "diverged", "diverged"]
    X, y, goal, along = data(row, 0)
    gram, moment = X.T @ X / len(X), X.T @ y / len(X)
    c = float(np.exp(target.log_pretrain_scale(table([row])))[0])
    beta, scalar = c * along, c  # fine-tuning, and linear transfer on the output of the pretrained map
    for _ in range(60):
        beta = beta - 4.0 * (gram @ beta - moment)
        scalar = scalar - 4.0 * along @ (gram @ (scalar * along) - moment)
    for name in RISKS:
        assert np.isfinite(metrics[name][0]), name
        assert np.isnan(metrics[name][1:]).all(), name
    assert metrics["risk_finetune"][0] > 1e20
    assert metrics["risk_finetune"][0] == pytest.approx(((beta - goal) ** 2).sum(), rel=1e-6)
    assert metrics["risk_linear"][0] == pytest.approx(((scalar * along - goal) ** 2).sum(), rel=1e-6)


# Distances between source and target data


def test_kl_divergence_is_the_mean_log_ratio():
    angle, noise, source_norm, target_norm = 50.0, 0.8, 1.3, 0.6
    random = np.random.default_rng(0)
    inputs = random.standard_normal((200_000, 2))
    source = np.array([source_norm, 0.0])
    teacher = target_norm * np.array([np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))])
    labels = inputs @ source + noise * random.standard_normal(len(inputs))
    log_ratio = ((labels - inputs @ teacher) ** 2 - (labels - inputs @ source) ** 2) / (2 * noise**2)
    distances = engines.kl_divergence(
        columns(overlap_angle=angle, noise=noise, source_norm=source_norm, target_norm=target_norm, dim=2)
    )
    assert abs(z_score(log_ratio, distances[0])) < 4


def test_kl_divergence_without_noise():
    distances = engines.kl_divergence(columns(overlap_angle=[0.0, 0.0, 30.0], source_norm=[1.0, 2.0, 1.0], noise=0.0))
    assert distances.tolist() == [0.0, np.inf, np.inf]


def test_wasserstein_is_the_best_matching_on_average():
    """300 seeds against 300 independent samples matched by trying every permutation."""
    size, dim, angle, noise = 4, 3, 70.0, 0.5
    random = np.random.default_rng(2)
    teachers = np.zeros((2, dim))
    teachers[0, 0] = 1.2
    teachers[1, :2] = 2 * np.cos(np.deg2rad(angle)), 2 * np.sin(np.deg2rad(angle))
    brute = []
    for _ in range(300):
        points = []
        for teacher in teachers:
            inputs = random.standard_normal((size, dim))
            points.append(np.column_stack([inputs, inputs @ teacher + noise * random.standard_normal(size)]))
        gaps = np.linalg.norm(points[0][:, None] - points[1][None], axis=2)
        brute.append(min(gaps[np.arange(size), list(order)].mean() for order in permutations(range(size))))
    norms = {"source_norm": 1.2, "target_norm": 2.0}
    rows = columns(distance_samples=np.full(300, size), dim=dim, overlap_angle=angle, noise=noise, **norms)
    distances = engines.wasserstein_1(rows, np.arange(300))
    difference = np.mean(distances) - np.mean(brute)
    assert abs(difference) < 4 * np.sqrt((np.var(distances) + np.var(brute)) / 300)
    assert np.std(distances) > 0
