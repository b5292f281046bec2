"""Trained two-layer ReLU networks against autograd, their kernel and the bounds of D and T."""

import numpy as np
import pytest
import torch
import workload_rows
from conftest import run
from workload_rows import row_of

from raysweep.theory import relu
from raysweep.workloads.relu_kernel import network, tasks

SMALL = {"dim": 6, "source_samples": 30, "target_samples": 20, "width": 256.0}
ANGLES = (0.0, 20.0, 60.0, 90.0, 150.0)


def computed(storage, rows, seeds):
    return workload_rows.computed("relu_kernel", storage, [{**SMALL, **row} for row in rows], seeds)


def grid(angles, draws, **same):
    rows = [{"overlap_angle": angle, **same} for _ in range(draws) for angle in angles]
    return rows, [draw for draw in range(draws) for _ in angles]


def start(width, dim):
    return torch.from_numpy(network.initial(0, width, dim, 0.3)), torch.from_numpy(network.signs(0, width))


def test_training_is_gradient_descent_on_half_the_squared_error():
    (weights, signs), inputs = start(40, 5), torch.randn(12, 5, generator=torch.Generator().manual_seed(0)).double()
    inputs = inputs / inputs.norm(dim=1, keepdim=True)
    labels = inputs[:, :2].T.contiguous()
    trained, steps, left = network.trained(weights, signs, inputs, labels, 0.4)
    for each, end, count, rest in zip(labels, trained, steps, left, strict=True):
        by_autograd = weights.clone().requires_grad_()
        for _ in range(count):
            outputs = signs @ torch.relu(by_autograd @ inputs.T) / 40**0.5
            (gradient,) = torch.autograd.grad(0.5 * ((outputs - each) ** 2).sum(), by_autograd)
            by_autograd = (by_autograd - 0.4 * gradient).detach().requires_grad_()
        np.testing.assert_allclose(end, by_autograd.detach(), rtol=1e-8, atol=1e-10)
        error = network.outputs(end, signs, inputs) - each
        assert rest == pytest.approx(float(error.norm() / each.norm()), rel=1e-3)
        assert rest <= network.TOLERANCE
        assert count % network.CHECK == 0


@pytest.mark.long
def test_networks_approach_their_kernel_with_the_root_of_the_width(tmp_path):
    widths = (64.0, 512.0, 4096.0)
    each = [grid((30.0, 90.0), 4, width=width) for width in widths]
    computation = computed(
        tmp_path, [row for rows, _ in each for row in rows], [seed for _, seeds in each for seed in seeds]
    )
    assert set(computation.status) == {"ok"}
    for metric in ("deviation_error", "gradient_error", "output_error"):
        errors = np.sqrt((computation.metrics[metric].reshape(3, -1) ** 2).mean(1))
        assert -0.8 < np.polyfit(np.log(widths), np.log(errors), 1)[0] < -0.3, (metric, errors)


@pytest.mark.long
def test_the_limit_has_the_mean_squares_of_many_initializations(tmp_path):
    """deviation² and the change of the gradient at width = inf, beside the formulas for the samples of each draw."""
    draws = 160
    metrics = computed(tmp_path, *grid((60.0,), draws, width=np.inf, init_scale=2.0)).metrics
    for differences in (
        metrics["deviation"] ** 2 - metrics["deviation_limit"] ** 2,
        metrics["gradient_change"] - metrics["gradient_change_limit"],
    ):
        assert abs(differences.mean()) < 3.5 * differences.std(ddof=1) / np.sqrt(draws)
    assert (metrics["deviation_limit"] > metrics["bound_thm2"]).all()
    assert (metrics["deviation_error"] < 1e-9).all()
    assert (metrics["output_error"] < 1e-9).all()


def test_a_start_that_goes_to_zero_leaves_ds_formulas(tmp_path):
    metrics = computed(tmp_path, *grid(ANGLES, 2, width=np.inf, init_scale=1e-7)).metrics
    np.testing.assert_allclose(metrics["deviation"], metrics["bound_thm2"], rtol=1e-4)
    np.testing.assert_allclose(metrics["deviation_limit"], metrics["bound_thm2"], rtol=1e-4)
    np.testing.assert_allclose(metrics["gradient_change"], metrics["gradient_change_thm1"], atol=1e-4)
    np.testing.assert_allclose(metrics["risk"], metrics["risk_kernel"], rtol=1e-4)


def test_the_squared_gradient_with_respect_to_the_activations_is_the_squared_error(tmp_path):
    """D eq. 16 and 17: Thm 1 is about twice the loss where training starts."""
    row = row_of("relu_kernel", **SMALL, overlap_angle=60.0)
    task = tasks.of_row(row)
    labels = torch.from_numpy(task.labels(np.array([60.0]), np.zeros(1))[0][0])
    weights = torch.from_numpy(network.initial(0, 256, 6, row["init_scale"]))
    signs, inputs = torch.from_numpy(network.signs(0, 256)), torch.from_numpy(task.source)
    rate = 1 / np.linalg.eigvalsh(relu.slopes(task.source, task.source))[-1]
    after = network.trained(weights, signs, inputs, torch.from_numpy(task.source_labels)[None], rate)[0][0]
    squares = []
    for each in (weights, after):
        activations = torch.relu(each @ torch.from_numpy(task.target).T).requires_grad_()
        loss = 0.5 * ((signs @ activations / 256**0.5 - labels) ** 2).sum()
        squares.append(float((torch.autograd.grad(loss, activations)[0] ** 2).sum()))
    metrics = computed(tmp_path, [{"overlap_angle": 60.0}], [0]).metrics
    assert metrics["gradient_change"][0] == pytest.approx(squares[1] - squares[0], rel=1e-9)


@pytest.mark.long
def test_no_bound_is_violated_where_its_hypotheses_hold(tmp_path):
    """T's with both terms (c = 1), in the limit and in networks; D's in the limit of a small start."""
    for width, scale in ((np.inf, 1e-6), (1024.0, 0.1)):
        for samples in (10, 40):
            rows, seeds = grid(ANGLES, 2, width=width, init_scale=scale, source_samples=100, target_samples=samples)
            metrics = computed(tmp_path / f"{width} {scale}", rows, seeds).metrics
            for bound in ("bound_thm61", "bound_cor63"):
                np.testing.assert_array_equal(metrics[f"whole_{bound}"], metrics[bound] + metrics["bound_rest"])
                assert (metrics["risk"] <= metrics[f"whole_{bound}"]).all(), bound
            if scale < 1e-3:
                assert (metrics["deviation"] <= metrics["bound_thm2"] * (1 + 1e-4)).all()


def test_bounds_are_as_the_papers_print_them(tmp_path):
    """By dense inverses: D eq. 4 and 5; T eq. 11 and Cor. 6.3."""
    rows = [{"overlap_angle": angle, "noise": noise} for angle in (0.0, 60.0, 90.0) for noise in (0.0, 0.3)]
    metrics = computed(tmp_path, rows, [2] * 6).metrics
    task = tasks.of_row(row_of("relu_kernel", **SMALL, seed=2))
    of_source, of_target = (np.linalg.inv(relu.slopes(each, each)) for each in (task.source, task.target))
    carried = relu.slopes(task.source, task.target).T @ of_source @ task.source_labels
    smallest = np.linalg.eigvalsh(relu.slopes(task.target, task.target))[0]
    for index, row in enumerate(rows):
        turn = np.deg2rad(row["overlap_angle"])
        labels = np.array([np.cos(turn), np.sin(turn)]) @ task.target_labels + row["noise"] * task.target_noise
        left = labels - carried
        test = np.array([np.cos(turn), np.sin(turn)]) @ task.test_labels + row["noise"] * task.test_noise
        outputs = relu.slopes(task.test, task.source) @ of_source @ task.source_labels
        outputs = outputs + relu.slopes(task.test, task.target) @ of_target @ left
        assert row["noise"] == 0 or np.abs(outputs - test).max() > 1
        expected = {
            "risk_kernel": np.minimum(np.abs(outputs - test), 1).mean(),
            "bound_thm2": np.sqrt(left @ of_target @ left),
            "gradient_change_thm1": left @ left - labels @ labels,
            "bound_cor63": 6 * 2 * np.sin(turn / 2) / np.sqrt(20) if not row["noise"] else np.nan,
            "bound_rest": np.sqrt(np.log(20 / (smallest * 0.05)) / 20),
            "smallest_eigenvalue": smallest,
        }
        for name, value in expected.items():
            np.testing.assert_allclose(metrics[name][index], value, rtol=1e-7, err_msg=name)
        assert metrics["excess_thm2"][index] == pytest.approx(
            metrics["deviation"][index] / metrics["bound_thm2"][index] - 1
        )
        # what T's Thm 6.1 has under the root is the change of the weights that the kernel expects from the same start
        reference = metrics["bound_thm61"][index] * np.sqrt(20) / 2
        assert metrics["deviation_error"][index] == pytest.approx(abs(metrics["deviation"][index] / reference - 1))


def test_the_angle_is_that_of_the_linear_maps_and_noise_is_added_to_the_target_only():
    row = row_of("relu_kernel", seed=4, target_samples=500)
    task = tasks.of_row(row)
    np.testing.assert_allclose(np.linalg.norm(task.target, axis=1), 1)
    maps = np.linalg.lstsq(task.target, task.labels(np.array(ANGLES), np.zeros(5))[0].T, rcond=None)[0]
    source = np.linalg.lstsq(task.source, task.source_labels, rcond=None)[0]
    np.testing.assert_allclose(np.linalg.norm(maps, axis=0), 1)
    np.testing.assert_allclose(source @ maps, np.cos(np.deg2rad(ANGLES)), atol=1e-12)
    plain, noisy = task.labels(np.zeros(2), np.array([0.0, 0.5]))[0]
    assert (noisy - plain).std() == pytest.approx(0.5, rel=0.15)
    fewer = tasks.of_row({**row, "target_samples": 20})
    np.testing.assert_array_equal(fewer.target, task.target[:20])
    np.testing.assert_array_equal(fewer.source, task.source)


def test_labels_of_images_have_the_angle_over_all_training_images():
    pytest.importorskip("sklearn")
    usual = row_of("relu_kernel", data="digits")
    task = tasks.of_row({**usual, "source_samples": 1, "target_samples": 1436})  # all 1,437 but one
    assert task.test.shape == (360, 64)
    np.testing.assert_allclose(np.linalg.norm(task.target, axis=1), 1)
    angles = np.arange(0.0, 181.0, 15.0)
    target, test = task.labels(angles, np.zeros(len(angles)))
    sizes = np.linalg.norm(target, axis=1)
    np.testing.assert_allclose(sizes, sizes[0], rtol=2e-3)
    np.testing.assert_allclose(target @ target[0] / sizes[0] ** 2, np.cos(np.deg2rad(angles)), atol=2e-3)
    assert 0.9 < np.abs(target).max() <= 1
    assert np.abs(test).max() <= 1
    other = tasks.of_row({**usual, "source_samples": 500, "target_samples": 937})
    assert not set(map(bytes, other.source)) & set(map(bytes, other.target)), "source and target share an image"
    np.testing.assert_array_equal(np.concatenate([other.source, other.target])[1:], task.target)


def test_images_are_trained_on_as_the_sphere_is(tmp_path):
    pytest.importorskip("sklearn")
    rows, seeds = grid((0.0, 90.0), 2, data="digits", init_scale=1.0, source_samples=20, target_samples=10)
    computation = computed(tmp_path, rows, seeds)
    assert computation.status.tolist() == ["ok"] * 4
    assert np.isnan(computation.metrics["bound_cor63"]).all()
    assert (computation.metrics["deviation_error"] < 0.2).all()
    assert (np.abs(np.log(computation.metrics["deviation"] / computation.metrics["deviation_limit"])) < 0.5).all()


def swept(storage, name, axes, **fixed):
    """The rows of two draws, and what was said of their stages."""
    lines = []
    space = {"name": name, "workload": "relu_kernel", "axes": axes, "fixed": fixed, "seeds": 2}
    rows = run(storage, space, say=lines.append).results()
    return rows, next(line for line in lines if line.startswith("stages:"))


def test_stages_of_images_are_known_by_their_content_whatever_the_dimension_of_the_sphere(tmp_path):
    pytest.importorskip("sklearn")
    few = {"data": "digits", "width": 64, "source_samples": 5, "target_samples": 5}
    assert ", 0 reused" in swept(tmp_path, "eleven", {}, dim=11, **few)[1]
    assert "2 reused" in swept(tmp_path, "twelve", {}, dim=12, **few)[1]


def test_angles_and_target_samples_share_one_pretraining(tmp_path):
    axes = {"overlap_angle": [0, 45, 90], "target_samples": [10, 20], "noise": [0, 0.1]}
    fixed = {"dim": 6, "source_samples": 30, "width": 64}
    rows, _ = swept(tmp_path, "shared", axes, **fixed)
    assert len(rows) == 24
    assert rows.groupby("seed")["pretrain_steps"].nunique().tolist() == [1, 1]
