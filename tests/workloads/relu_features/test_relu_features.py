"""Rows of `relu_features`: risks and residuals by other means, and what rows share."""

import re
from unittest import mock

import numpy as np
import pytest
from workload_rows import row_of, table_of

from raysweep.plan.cells import enumerate_cells
from raysweep.space import space_files
from raysweep.stages.store import Store
from raysweep.theory import relu as kernels
from raysweep.training import draws
from raysweep.trial import chain
from raysweep.workloads.relu_features import WORKLOAD, costs, descent, heavy_tailed, stages

USUAL = {"dim": 6, "width": 30, "teacher_width": 10, "steps": 60, "target_samples": 20}


def columns_of(*rows):
    return table_of("relu_features", *(USUAL | dict(row) for row in rows))


def computed(store, *rows, seeds=None):
    """The metrics and statuses of rows."""
    seeds = np.zeros(len(rows), int) if seeds is None else np.asarray(seeds)
    computation = chain.Walk(WORKLOAD, columns_of(*rows), seeds, Store(store), ()).through()
    return computation.metrics, [str(status) for status in computation.status]


def plain(row, seed=0):
    return row_of("relu_features", **USUAL | dict(row) | {"seed": seed})


def relu(rows, inputs):
    return np.maximum(inputs @ rows.T, 0)


def fresh_risk(weights, features, fresh, target):
    return float(((relu(features, fresh) @ weights - target) ** 2).mean())


def outside(features, fresh, target):
    """The mean square of what least squares on these features leaves of the target."""
    hidden = relu(features, fresh)
    return fresh_risk(np.linalg.lstsq(hidden, target, rcond=None)[0], features, fresh, target)


def test_risks_are_means_over_fresh_inputs(tmp_path):
    row = {"ablation": 0.4, "noise": 0.1}
    metrics, status = computed(tmp_path, row)
    values = {name: each[0] for name, each in metrics.items()}
    reference, fresh = plain(row), np.random.default_rng(0).standard_normal((200_000, 6))
    teacher, weights, start = stages.teacher_of(reference), stages.source_weights(reference), stages.start_of(reference)
    target, tensor = relu(teacher, fresh).mean(1), stages.torch.as_tensor
    inputs = draws.normal(0, "inputs 0", 20, 6)
    labels = relu(teacher, inputs).mean(1) + 0.1 * draws.normal(0, "noise 0", 20)
    recipe = {"init_scale": 1e-7, "learning_rate": 1.0, "steps": 60, "tolerance": 1e-6}
    begun = tensor(start)[None]
    net = descent.descend(descent.on_population(tensor(teacher), tensor(weights[None])), begun, recipe)
    features, outputs = net.features[0], net.outputs[0]
    scratch = descent.descend(
        descent.on_samples(tensor(inputs)[None], tensor(labels)[None]), tensor(start)[None], recipe
    )
    descended = stages.descended(relu(features, inputs), labels, outputs, recipe) / 30
    expected = {
        "risk_linear": fresh_risk(np.linalg.pinv(relu(features, inputs)) @ labels, features, fresh, target),
        "risk_scratch": fresh_risk(scratch.outputs[0] / 30, scratch.features[0], fresh, target),
        "risk_linear_descent": fresh_risk(descended, features, fresh, target),
        "target_variance": target.var(),
        "residual_source": outside(teacher[4:], fresh, target),
    }
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, rel=0.02), name
    assert values["residual"] == pytest.approx(outside(features, fresh, target), rel=0.05, abs=1e-8)
    assert values["residual_share"] == pytest.approx(values["residual"] / (target**2).mean(), rel=0.01)
    source = relu(teacher[4:], fresh).mean(1)
    assert values["pretrain_loss"] == pytest.approx(fresh_risk(outputs / 30, features, fresh, source) / 2, rel=0.05)
    assert values["scratch_loss"] == scratch.loss[0]
    for name in ("linear", "linear_descent"):
        assert values[f"transferability_{name}"] == values["risk_scratch"] - values[f"risk_{name}"]
    assert status == ["ok"]


def test_the_kernel_distance_is_that_of_the_kernels_on_pairs_of_inputs():
    stream = np.random.default_rng(1)
    one, other = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in (stream.standard_normal((7, 3)), stream.standard_normal((4, 3)))
    )
    left, right = stream.standard_normal((2, 200_000, 3))
    kernels = [(relu(rows, left) * relu(rows, right)).mean(1) for rows in (one, other)]
    expected = np.sqrt(((kernels[0] - kernels[1]) ** 2).mean() / (kernels[1] ** 2).mean())
    assert stages.kernel_distance(one, other) == pytest.approx(expected, rel=0.03)
    assert stages.kernel_distance(np.tile(one, (3, 1)), one) == pytest.approx(0, abs=1e-7)


def test_networks_from_scratch_serve_every_ablation(tmp_path):
    rows = [{"ablation": a, "target_samples": n, "datasets": 2} for a in (0.2, 0.6) for n in (10, 25)]
    with mock.patch.object(descent, "on_samples", wraps=descent.on_samples) as scratch:
        together, _ = computed(tmp_path / "all", *rows)
    assert scratch.call_count == 4  # two numbers of samples, two data sets
    assert together["risk_scratch"][:2].tolist() == together["risk_scratch"][2:].tolist()
    assert len(set(together["risk_linear"].tolist())) == 4


def test_data_sets_differ_and_risks_are_means_over_them(tmp_path):
    row = {"ablation": 0.2}
    several, _ = computed(tmp_path / "several", {**row, "datasets": 3})
    with mock.patch.object(stages, "data_of", wraps=stages.data_of) as asked:
        computed(tmp_path / "again", {**row, "datasets": 3})
    references = []
    for number in (call.args[1] for call in asked.call_args_list):
        with mock.patch.object(
            stages, "data_of", lambda one, _, number=number, real=asked._mock_wraps: real(one, number)
        ):
            references.append(computed(tmp_path / f"own {number}", row)[0])
    for name in ("risk_scratch", "risk_linear", "risk_linear_descent", "scratch_loss"):
        values = [one[name][0] for one in references]
        assert len(set(values)) == 3
        assert several[name][0] == pytest.approx(np.mean(values), rel=1e-12)


def test_a_larger_sample_contains_a_smaller_one_and_noise_only_moves_labels():
    small, large = (stages.data_of(plain({"target_samples": n}), 1) for n in (8, 20))
    assert (large[0][:8] == small[0]).all()
    assert large[1][:8] == pytest.approx(small[1], rel=1e-14)
    noisy = stages.data_of(plain({"target_samples": 8, "noise": 0.5}), 1)
    assert (noisy[0] == small[0]).all()
    assert noisy[1] - small[1] == pytest.approx(0.5 * draws.normal(0, "noise 1", 8))


def test_a_whole_source_leaves_nothing_and_pretraining_brings_its_kernel_nearer(tmp_path):
    computed_rows, _ = computed(tmp_path, {"ablation": 0.0}, {"ablation": 0.0, "steps": 0})
    assert computed_rows["residual_source"][0] < 1e-12
    assert computed_rows["kernel_distance"][0] < 0.8 * computed_rows["kernel_distance_before"][0]
    assert computed_rows["kernel_distance"][1] == computed_rows["kernel_distance_before"][1]
    whole = computed_rows["residual"][1] / computed_rows["residual_share"][1]
    assert computed_rows["risk_scratch"][1] == pytest.approx(whole, rel=1e-5)  # init_scale is 1e-7


def test_equal_weights_leave_outside_what_f_shows_and_random_signs_far_more():
    """F Fig. 4d, at F's size: some hundredths at an ablation of 0.75; why the teachers' output weights are all 1."""
    ablations, shares = (0.1, 0.2, 0.4, 0.6, 0.8), []
    for seed in range(5):
        reference = plain({"dim": 100, "teacher_width": 100}, seed)
        teacher, signs = stages.teacher_of(reference), np.sign(np.random.default_rng(seed).standard_normal(100))
        for ablation in ablations:
            there = teacher[stages.source_weights({**reference, "ablation": ablation}) > 0]
            outside, whole = kernels.residual(there, teacher, np.stack([np.ones(100), signs]))
            shares.append(outside / whole)
    equal, random = np.reshape(shares, (5, len(ablations), 2)).mean(0).T
    assert equal == pytest.approx([0.0016, 0.0036, 0.0097, 0.024, 0.073], rel=0.03)  # as relu_features_full says
    assert (random[2:] > 0.2).all()


def test_steps_are_a_budget_and_the_metrics_say_whether_it_was_enough(tmp_path):
    computed_rows, status = computed(
        tmp_path, {"steps": 3}, {"tolerance": 1e-3}, {"tolerance": 1e-3, "target_samples": 500, "steps": 8}
    )
    assert status == ["ok"] * 3
    assert computed_rows["scratch_converged"].tolist() == [0, 1, 0]
    assert computed_rows["pretrain_converged"].tolist() == [0, 1, 0]
    for name in ("scratch", "pretrain"):
        assert computed_rows[f"{name}_converged"].tolist() == [0, *(computed_rows[f"{name}_loss"][1:] <= 1e-3)]


@pytest.mark.parametrize(("samples", "steps", "tolerance"), [(8, 300, 0), (40, 300, 0), (20, 2000, 3e-4), (20, 0, 0)])
def test_output_weights_descend_as_step_by_step(samples, steps, tolerance):
    stream = np.random.default_rng(3)
    hidden, outputs = np.maximum(stream.standard_normal((samples, 30)), 0), stream.standard_normal(30)
    labels = 0.1 * stream.standard_normal(samples)
    row = {"learning_rate": 0.8, "steps": steps, "tolerance": tolerance}
    result = stages.descended(hidden, labels, outputs, row)
    weights, taken = outputs.copy(), 0
    while taken < steps and ((hidden @ weights / 30 - labels) ** 2).mean() / 2 > tolerance:
        weights -= 0.8 * hidden.T @ (hidden @ weights / 30 - labels) / samples
        taken += 1
    assert (taken < steps) == (tolerance > 0)
    np.testing.assert_allclose(result, weights, rtol=1e-9, atol=1e-11)


def test_a_plan_keeps_all_ablations_of_a_draw_together_and_counts_scratch_once(call, storage):
    message = call("run", "relu_features", "--dry-run", "--storage", storage, "--set", "seeds=2").out
    assert "to compute in 2 packs" in message
    assert re.search(r"pretrain +16 distinct: 16 new", message)
    assert re.search(r"target +144 distinct: 144 new", message)
    table = enumerate_cells(space_files.read("relu_features", {})).columns
    expected = 2 * (costs.target(table).seconds + 8 * costs.pretrain({k: v[:1] for k, v in table.items()}).seconds)
    minutes = re.search(r"together ([\d.]+) core-minutes", message)
    assert float(minutes[1]) == pytest.approx(expected / 60, rel=0.1)  # and about 20 ms a stage in the store


def test_interpolation_with_as_many_samples_as_neurons_is_known_to_have_no_variance():
    table = columns_of({"target_samples": 20}, {"target_samples": 29}, {"target_samples": 40})
    assert heavy_tailed("risk_linear", table).tolist() == [False, True, False]
    assert not heavy_tailed("risk_linear_descent", table).any()
