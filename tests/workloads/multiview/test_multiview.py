"""Multi-view data by counting, gradients against autograd over every mask, and kernels planted on features."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import run
from scipy.optimize import brentq
from workload_rows import row_of

from raysweep.workloads.multiview import network, stages, tasks
from raysweep.workloads.multiview.network import Activation

SMALL = {"fixed": {"classes": 3, "dim": 8, "patches": 6, "samples": 40, "target_samples": 30, "finetune_steps": 12}}


def row(**changes):
    return row_of("multiview", **changes)


def smoothed(seen, power, threshold):
    """As M prints it (section 3.2)."""
    low = seen.clamp(min=0) ** power / (power * threshold ** (power - 1))
    return torch.where(seen < threshold, low, seen - (1 - 1 / power) * threshold)


def some(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def masks(patches, keep):
    """Every mask of so many patches, and its probability."""
    every = itertools.product((0.0, 1.0), repeat=patches)
    return [(torch.tensor(each).double(), keep ** sum(each) * (1 - keep) ** (patches - sum(each))) for each in every]


def test_patches_show_the_features_that_the_definition_asks_for():
    about = row(classes=6, dim=14, patches=26, feature_patches=2, single_view_fraction=0.3, sparsity=1.5)
    samples = tasks.samples(about | {"noise": 0.0, "feature_noise": 0.0}, "training", 4000)
    assert samples.inputs.shape == (4000, 26, 14)
    assert not samples.inputs[:, :, 12:].any(), "features are the first axes, and there is no noise"
    shown = samples.inputs[:, :, :12] > 0
    assert shown.sum(2).max() == 1, "patches of different features are disjoint"
    patches = shown.sum(1)
    reference = np.arange(12) // 2 == samples.labels[:, None]
    assert (patches[reference] == 2).all()
    assert set(np.unique(patches[~reference])) == {0, 2}
    there = (patches[~reference] > 0).mean()
    assert abs(there - 1.5 / 6) < 4 * np.sqrt(0.25 * 0.75 / (4000 * 10))
    assert abs(samples.single.mean() - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 4000)
    assert np.bincount(samples.labels, minlength=6).min() > 4000 / 6 - 4 * np.sqrt(4000 / 6)
    np.testing.assert_array_equal(np.sort(samples.places, axis=2)[:, :, 0] >= 0, patches > 0)


@pytest.mark.parametrize(("repeats", "power"), [(1, 4), (3, 3)])
def test_sums_of_coefficients_lie_in_the_intervals_of_the_definition(repeats, power):
    about = row(classes=4, dim=8, patches=8 * repeats, feature_patches=repeats, power=power, single_view_fraction=0.5)
    samples = tasks.samples(about | {"noise": 0.0, "feature_noise": 0.0}, "training", 3000)
    coefficients = samples.inputs.astype(float)
    sums, powers, least = coefficients.sum(1), (coefficients**power).sum(1), tasks.main_sum(repeats, power)
    reference = np.arange(8) // 2 == samples.labels[:, None]
    close = 1e-6
    weak = reference & (sums < 0.5)
    np.testing.assert_array_equal(
        weak.sum(1), samples.single, "one weak feature in single-view samples, none in others"
    )
    assert weak[:, ::2].sum() == pytest.approx(weak.sum() / 2, abs=4 * np.sqrt(weak.sum() / 4)), "either of the two"
    assert ((sums[weak] > 0.1 - close) & (sums[weak] < 0.2 + close)).all()
    assert sums[weak].min() < 0.105 < 0.195 < sums[weak].max()
    main = reference & ~weak
    assert ((sums[main] > least - close) & (sums[main] < 2 * least + close)).all()
    assert (powers[main] > 1 - close).all()
    assert powers[main].min() < 1.1, "the least sum is no larger than it must be"
    others = sums[~reference & (sums > 0)]
    assert ((others > 0.2 - close) & (others < 0.4 + close)).all()
    np.testing.assert_allclose(sums, samples.sums, atol=1e-5)
    top = coefficients.max(1)
    np.testing.assert_allclose(top * repeats, sums, atol=1e-5, err_msg="spread evenly")


def test_noise_has_the_stated_lengths_with_and_without_a_feature():
    about = row(dim=60, noise=0.3, feature_noise=0.004, sparsity=0.0)
    samples = tasks.samples(about, "training", 400)
    rest = samples.inputs[:, :, 20:].astype(float)
    busy = np.zeros((400, 20), dtype=bool)
    for sample, places in enumerate(samples.places):
        busy[sample, places[places >= 0]] = True
    for which, length in ((busy, 0.3), (~busy, 0.004 * 10)):
        assert np.sqrt((rest[which] ** 2).mean() * 60) == pytest.approx(length, rel=0.03)
    quiet = samples.inputs[~busy][:, :20].mean()
    assert quiet == pytest.approx(0.002, rel=0.1), "feature noise is uniform between 0 and its largest weight"


def test_draws_are_shared_between_sizes_and_shares_and_not_between_roles():
    many, few = tasks.samples(row(), "training", 50), tasks.samples(row(), "training", 20)
    np.testing.assert_array_equal(many.inputs[:20], few.inputs)
    more = tasks.samples(row(single_view_fraction=0.4), "training", 50)
    assert (more.single >= many.single).all()
    np.testing.assert_array_equal(more.inputs[~more.single], many.inputs[~more.single])
    assert not np.array_equal(tasks.samples(row(), "pretraining", 50).labels, many.labels)
    np.testing.assert_array_equal(tasks.initial(row(kernels=5))[:20], tasks.initial(row(kernels=2)))


def over_masks(framework, inputs, start, teacher, bent, keep):
    """The gradient by kernels of the loss, mean over masks one by one. bent: power and threshold."""
    kernels, loss = start.clone().requires_grad_(), torch.zeros((), dtype=torch.float64)
    for mask, probability in masks(inputs.shape[1], keep):
        outputs = smoothed((mask[:, None].to(inputs) * inputs) @ kernels.T, *bent)
        if framework == "teacher_student":
            left = smoothed(inputs @ (teacher * start).T, *bent).sum(1) - outputs.sum(1) / keep
        else:
            left = inputs - outputs @ kernels / keep
        loss = loss + probability * 0.5 * (left**2).sum() / len(inputs)
    return torch.autograd.grad(loss, kernels)[0]


@pytest.mark.parametrize(("power", "keep"), [(2, 0.3), (3, 0.5), (5, 0.9)])
@pytest.mark.parametrize("framework", ["teacher_student", "autoencoder"])
def test_pretraining_follows_the_gradient_over_all_masks(framework, power, keep):
    """The teacher is fixed; the autoencoder's weights are tied."""
    inputs, start, teacher = some(5, 4, 6), 0.5 * some(7, 6, seed=1), 1.7
    gradient = over_masks(framework, inputs, start, teacher, (power, 0.6), keep)
    given = (inputs, start, Activation(power, 0.6), keep)
    result = network.autoencoder(*given) if framework == "autoencoder" else network.teacher_student(*given, teacher)
    torch.testing.assert_close(result, -gradient)


def test_sums_over_samples_do_not_depend_on_how_many_are_taken_at_a_time():
    inputs, kernels = some(700, 20, 30), some(30, 30, seed=1)
    assert len(network.pieces(inputs, kernels)) > 1
    halves = [network.autoencoder(each, kernels, Activation(4, 0.4), 0.5) for each in inputs.split(350)]
    gradient = network.autoencoder(inputs, kernels, Activation(4, 0.4), 0.5)
    torch.testing.assert_close(gradient, (halves[0] + halves[1]) / 2)


def test_a_kernel_beyond_the_threshold_keeps_growing_with_its_teacher():
    """M's Lemma F.1 has a growth that goes to 0 with c_0's last term; a constant part, (1/θ-1)(1-1/q)ϱ, is left."""
    about = row(noise=0.0, feature_noise=0.0, sparsity=0.0, classes=2, dim=4, patches=4)
    samples = tasks.samples(about, "training", 500)
    kernels, keep = torch.tensor([[3.0, 0, 0, 0]]).double(), 0.25
    down = network.teacher_student(
        torch.tensor(samples.inputs).double(), kernels, Activation(3, 0.4), keep, 1 + (1 - keep) / keep
    )
    sums = np.where(samples.sums > 0.5, samples.sums, 0.0)[:, 0]
    expected = (sums * (1 / keep - 1) * (1 - 1 / 3) * 0.4).mean()
    assert float(down[0, 0]) == pytest.approx(expected, rel=0.02)


def test_a_kernel_that_holds_a_feature_takes_up_the_other_one_of_its_class_at_a_lower_power():
    """Growth along a second feature goes with b^(q-1), not b^(2q-1) as alone: what M's eq. 8 leaves out."""
    about = row(noise=0.0, feature_noise=0.0, sparsity=0.0, single_view_fraction=0.0, classes=2, dim=4, patches=4)
    inputs = torch.tensor(tasks.samples(about, "training", 500).inputs).double()

    def growth(first, second):
        kernels = torch.tensor([[first, second, 0, 0]]).double()
        return float(network.teacher_student(inputs, kernels, Activation(3, 0.4), 0.5, 2.0)[0, 1])

    assert growth(2.0, 0.02) / growth(2.0, 0.01) == pytest.approx(2**2, rel=0.01)
    assert growth(0.0, 0.02) / growth(0.0, 0.01) == pytest.approx(2**5, rel=0.01)
    assert growth(2.0, 0.02) > 1000 * growth(0.0, 0.02)
    assert growth(4.0, 3.0) > 1.5 * growth(2.0, 1.5) > 0, "beyond the threshold weights grow in proportion"


def test_an_autoencoder_with_one_kernel_for_each_feature_rests_at_the_weight_of_the_formula():
    """E (σ(az) + σ'(az) az) (z - aσ(az)/θ) = 0 over the sums z of Definition 3.1, by quadrature."""
    about = row(noise=0.0, feature_noise=0.0, single_view_fraction=0.0)
    inputs, activation = torch.tensor(tasks.samples(about, "training", 4000).inputs).double(), Activation(4, 0.4)
    grid = (np.arange(2000) + 0.5) / 2000
    ranges = ((0.1, 1 + grid), (0.18, 0.2 + 0.2 * grid))  # a feature's own class, and others: (k-1)/k times s/k

    def force(weight):
        total = 0.0
        for share, sums in ranges:
            value, slope = (each.numpy() for each in activation(torch.tensor(weight * sums)))
            total += share * ((value + slope * weight * sums) * (sums - weight * value / 0.5)).mean()
        return total

    rest = brentq(force, 0.3, 2)
    assert rest == pytest.approx(0.814, abs=1e-3)
    for weight, sign in ((rest - 0.1, 1), (rest + 0.1, -1)):
        kernels = torch.eye(20, 30).double() * weight
        down = network.autoencoder(inputs, kernels, activation, 0.5)[:, :20]
        assert (down.diagonal() * sign > 0).all()
        np.testing.assert_allclose(down.diagonal().mean(), force(weight), rtol=0.03)
        assert float((down - torch.diag(down.diagonal())).abs().max()) < 1e-12


# Kernels planted on features


def test_planted_kernels_capture_all_features_or_none():
    about = row(classes=4, dim=10)
    every, start = np.zeros((12, 10)), np.zeros((12, 10))
    every[np.arange(8), np.arange(8)] = 0.6
    start[np.arange(8), np.arange(8)] = 0.05
    metrics = stages.captured(about, every, start)
    assert [metrics[f"features_captured{each}"] for each in ("", "_half", "_double")] == [1.0, 1.0, 0.0]
    assert (metrics["features_per_kernel"], metrics["most_features"], metrics["winners"]) == (1.0, 1.0, 1.0)
    assert metrics["correlation"] == pytest.approx(0.6)
    assert stages.captured(about, every, np.roll(start, 1, axis=0))["winners"] == 0.0
    nothing = stages.captured(about, start, start)
    assert nothing["features_captured"] == nothing["most_features"] == 0.0
    assert np.isnan(nothing["features_per_kernel"])
    double = every.copy()
    double[0, :3] = 0.5
    assert stages.captured(about, double, start)["features_per_kernel"] == pytest.approx(10 / 8)
    assert stages.captured(about, double, start)["second_correlation"] == pytest.approx(0.5 / about["init_scale"])


def test_from_scratch_only_kernels_of_the_own_class_count():
    about, kernels = row(classes=3, dim=7), np.zeros((6, 7))
    kernels[1, 2] = kernels[4, 3] = 1.0  # both of class 1, whose features are 2 and 3
    assert stages.captured_by_class(about, kernels) == pytest.approx(2 / 6)
    assert stages.captured_by_class(about, np.roll(kernels, 1, axis=0)) == 0.0
    head = network.class_head(6, 3, torch.zeros(1))
    assert head.argmax(0).tolist() == [0, 1, 2, 0, 1, 2]
    assert head.sum().item() == 6


def test_kernels_with_all_features_err_nowhere_and_with_one_feature_of_each_class_on_half_of_the_single_views():
    about = row(sparsity=5.0, noise=0.1)
    every = torch.zeros(20, 30)
    every[torch.arange(20), torch.arange(20)] = 2.0
    one = every.clone()
    one[1::2] = 0  # no kernel holds the second feature of a class
    head = (torch.arange(20) // 2 == torch.arange(10)[:, None]).float()
    for single, expected in ((False, 0.0), (True, 0.5)):
        samples = tasks.samples(about, "test", 1000, single)
        inputs, labels = torch.tensor(samples.inputs), torch.tensor(samples.labels)
        assert network.wrong(inputs, labels, every, head, Activation(4, 0.4)) == 0
        error = network.wrong(inputs, labels, one, head, Activation(4, 0.4))
        assert error == pytest.approx(expected, abs=0.05 if single else 0.0)


def sweep(storage, **changes):
    return run(storage, {"name": "small", "workload": "multiview", **SMALL, "seeds": 2, **changes})


def test_every_length_gives_the_same_row_alone_and_on_the_way_to_a_longer_one_also_later(tmp_path):
    for lengths in ([0, 10], [0, 10, 20, 33]):
        swept = sweep(
            tmp_path / "together", axes={"pretrain_length": lengths}, scale={"pretrain_length": "linear"}, name="grows"
        )
    together = swept.results()
    alone = sweep(tmp_path / "alone", axes={"pretrain_length": [33]}).results()
    dropped = ["sweep", "code_version", "seconds"]
    long = together[together.pretrain_length == 33].drop(columns=dropped).reset_index(drop=True)
    pd.testing.assert_frame_equal(long, alone.drop(columns=dropped), check_exact=True)
    assert together.groupby("seed").error_scratch.nunique().eq(1).all(), "one network from scratch for all lengths"


@pytest.mark.parametrize("framework", ["teacher_student", "autoencoder"])
def test_pretraining_takes_the_steps_that_the_paper_writes(framework, tmp_path):
    space = {"framework": framework, "init_scale": 0.3, "pretrain_lr": 0.2, "feature_patches": 1}
    fixed = {**SMALL["fixed"], **space}
    swept = sweep(tmp_path, axes={"pretrain_length": [12]}, fixed=fixed, keep=["finetune"])
    first = swept.results().iloc[0]
    tensors = swept.tensors("pretrain", first.cell, int(first.seed))["kernels"]
    about = row(**fixed, seed=int(first.seed))
    inputs = torch.tensor(tasks.samples(about, "pretraining", 40).inputs)
    kernels = torch.tensor(tasks.initial(about))
    for step in range(12):
        teacher = 1 + (1 - 0.5) / 0.5 + 1 / (step + 1)
        kernels = kernels - 0.2 * over_masks(framework, inputs, kernels, teacher, (4, 0.4), 0.5)
    torch.testing.assert_close(torch.as_tensor(tensors), kernels, rtol=1e-4, atol=1e-5)


def test_labels_train_both_networks_by_gradient_descent_and_errors_are_those_of_their_outputs(tmp_path):
    fixed = {**SMALL["fixed"], "init_scale": 0.3, "finetune_steps": 6, "finetune_lr": 3, "kernel_lr_share": 0.1}
    swept = sweep(tmp_path, axes={"pretrain_length": [12]}, fixed=fixed, keep=["finetune"])
    result = swept.results().iloc[1]
    about = row(**fixed, seed=int(result.seed))
    reference = torch.eye(3).repeat(1, 3)
    starts = {
        "scratch": (torch.tensor(tasks.initial(about)), reference, 1.0, 0.0),
        "finetune": (swept.tensors("pretrain", result.cell, 1)["kernels"], torch.zeros(3, 9), 0.3, 3.0),
    }
    samples = tasks.samples(about, "training", 30)
    inputs, labels = torch.tensor(samples.inputs), torch.tensor(samples.labels)
    for stage, (start, head, kernel_rate, head_rate) in starts.items():
        kernels = torch.as_tensor(start).clone()
        for _ in range(6):
            kernels, head = kernels.requires_grad_(), head.clone().requires_grad_()
            loss = torch.nn.functional.cross_entropy(smoothed(inputs @ kernels.T, 4, 0.4).sum(1) @ head.T, labels)
            by_kernels, by_head = torch.autograd.grad(loss, (kernels, head))
            kernels = (kernels - kernel_rate * by_kernels).detach()
            head = (head - head_rate * by_head).detach()
        tensors = swept.tensors(stage, result.cell, 1)
        torch.testing.assert_close(torch.as_tensor(tensors["kernels"]), kernels, rtol=1e-3, atol=1e-4)
        if stage == "finetune":
            torch.testing.assert_close(torch.as_tensor(tensors["head"]), head, rtol=1e-3, atol=1e-4)
        end = "" if stage == "finetune" else "_scratch"
        errors = []
        for name, single in (("multi", False), ("single", True)):
            test = tasks.samples(about, f"{name}-view test", tasks.TEST, single)
            outputs = smoothed(torch.tensor(test.inputs) @ kernels.T, 4, 0.4).sum(1) @ head.T
            errors.append(float((outputs.argmax(1).numpy() != test.labels).mean()))
            assert result[f"error_{name}_view{end}"] == pytest.approx(errors[-1], abs=0.003)
        assert errors[0] != errors[1]
        assert result[f"error{end}"] == pytest.approx(0.9 * errors[0] + 0.1 * errors[1], abs=0.003)
    assert result.transferability == pytest.approx(result.error_scratch - result.error)
