"""What the stages measure of a row besides its accuracy, and rows of masked pretraining."""

import numpy as np
import pytest
import torch
import workload_rows
from conftest import run
from scipy import ndimage
from torch.nn.functional import cross_entropy
from workload_rows import row_of

from raysweep.workloads.vision import eigen_cam, examination, masked, models, pixels, stages

SMALL = {
    "source_classes": "0-4",
    "target_classes": "5-7",
    "pretrain_length": 1,
    "target_samples": 30,
    "finetune_steps": 20,
}
EXAMINED = {"examined_images": 30, "eigenvalues": 4, "landscape_points": 3}


def whole(row):
    return row_of("vision", **SMALL | row)


def computed(storage, rows, seeds):
    return workload_rows.computed("vision", storage, [SMALL | row for row in rows], seeds)


def test_nothing_is_examined_unless_it_is_asked_for(tmp_path):
    computation = computed(tmp_path, [{}, {"examined_images": 30, "eigenvalues": 0}], [0, 0])
    for when in examination.WHEN:
        for name in (*examination.CURVATURE, *examination.GRADIENTS, *examination.LANDSCAPE):
            there = np.isfinite(computation.metrics[f"{name}{when}"])
            assert there.tolist() == [False, name in examination.GRADIENTS], name
    assert np.isfinite(computation.metrics["deviation"]).all()


def test_frozen_layers_deviate_by_zero_and_the_head_alone_by_what_it_moved(tmp_path):
    computation = computed(tmp_path, [{"frozen_layers": 2}, {"frozen_layers": 1}, {"finetune_steps": 0}], [0, 0, 0])
    by_layer = np.array([curve["evaluate"]["deviation_of_layer"] for curve in computation.curves])
    assert by_layer[0, :2].tolist() == [0, 0]
    assert by_layer[1, 0] == 0 < by_layer[1, 1]
    np.testing.assert_allclose(computation.metrics["deviation"], by_layer.sum(1), rtol=1e-12)
    np.testing.assert_array_equal(computation.metrics["deviation_head"], by_layer[:, 2])
    assert computation.metrics["deviation"][2] == 0
    during = computation.curves[1]["finetune"]["deviation"]
    assert during[-1] == pytest.approx(computation.metrics["deviation"][1], rel=1e-12)
    assert during[0] < during[-1]


def test_before_is_a_row_without_steps_and_the_middle_of_its_landscape_is_the_loss(tmp_path):
    computation = computed(tmp_path, [EXAMINED, {**EXAMINED, "finetune_steps": 0}], [1, 1])
    for name in (*examination.CURVATURE, *examination.GRADIENTS, *examination.LANDSCAPE):
        before, after = computation.metrics[f"{name}_before"], computation.metrics[name]
        assert before[0] == before[1] == after[1], name
        assert np.isfinite(after).all()
    task = pixels.target({**whole({}), "seed": 1})
    net = stages.before({**whole({"pretrain_length": 0}), "seed": 1}, None, task)
    scratch = computed(tmp_path, [{**EXAMINED, "pretrain_length": 0, "finetune_steps": 0}], [1])
    curve = scratch.curves[0]["examine"]
    loss = float(cross_entropy(net(pixels.scaled(task.train_pixels)), task.train_labels).detach())
    for name in ("landscape", "landscape_before", "landscape_of_layer_1_before", "landscape_of_layer_3_before"):
        assert np.array(curve[name])[4] == pytest.approx(loss, rel=1e-6), name
    assert [curve["direction_1"][place] for place in (0, 4, 8)] == [-1, 0, 1]
    assert [curve["direction_2"][place] for place in (0, 2, 6)] == [-1, 1, -1]
    directions = examination.directions(net, 1)
    surface = examination.losses(net, directions, 3, pixels.scaled(task.train_pixels), task.train_labels)
    np.testing.assert_allclose(curve["landscape"][:9], surface.ravel(), rtol=1e-6)


def test_a_large_landscape_is_logged_on_every_second_point_and_kept_whole():
    row = {**whole({"examined_images": 30, "eigenvalues": 0, "landscape_points": 23}), "seed": 0}
    task = pixels.target(row)
    net = models.build("small_cnn", 2, (1, 8), task.classes, 0)
    logged = {}
    tensors, _ = examination.measured(row, net, net, task, lambda step, **result: logged.update({step: result}))
    assert tensors["landscape"].shape == (23, 23)
    points = [each for each in logged.values() if "landscape" in each]
    assert len(points) == 11 * 11
    middle = next(each for each in points if each["direction_1"] == each["direction_2"] == 0)
    assert middle["landscape"] == tensors["landscape"][11, 11]
    corner = next(each for each in points if min(each["direction_1"], each["direction_2"]) > 0.9)
    assert corner["landscape"] == tensors["landscape"][21, 21]


def test_a_net_that_is_not_finite_is_said_to_be_so_and_nothing_fails(tmp_path):
    both = {**EXAMINED, "eigen_cam_images": 2, "pretrain_length": 12}
    rows = [{**both, rate: 1e3} for rate in ("finetune_lr", "pretrain_lr")]
    computation = computed(tmp_path, rows, [0, 0])
    assert computation.status.tolist() == ["diverged", "diverged"]
    assert np.isnan(computation.metrics["eigen_cam_peaks"]).all()
    assert np.isfinite(computation.metrics["sharpness_before"][0])
    assert np.isnan(computation.metrics["sharpness"][0])
    assert torch.isfinite(torch.tensor(computation.metrics["landscape_rise_before"][0]))


# Masked pretraining and Eigen-CAM

MASKED = {"pretrain": "masked", "pretrain_length": 2, "pretrain_lr": 0.1}
MASKED |= {"source_samples": 100, "target_samples": 20, "finetune_steps": 5}


def masked_row():
    return row_of("vision", **MASKED, seed=3)


def masked_rows(storage, *rows):
    """The metrics of rows of the seed 3, all of which are ok."""
    computation = workload_rows.computed("vision", storage, [MASKED | row for row in rows], [3] * len(rows))
    assert computation.status.tolist() == ["ok"] * len(rows)
    return {name: values.tolist() for name, values in computation.metrics.items()}


def test_masked_epochs_continue_each_other_as_one_training_does(tmp_path):
    computation = masked_rows(tmp_path, {"pretrain_length": 1}, {"pretrain_length": 3})
    task = pixels.source(masked_row())
    net = models.build("small_cnn", 3, (1, 8), 10, 3)
    model = masked.Reconstruction(net.spatial, (1, 8), masked_row())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    expected = []
    for epoch in (1, 2, 3):
        batches = models.epoch_of(3, "source", epoch, 100, 32)
        for number, places in enumerate(batches):
            shown = pixels.scaled(task.train_pixels[torch.from_numpy(places)])
            at = masked.masks(3, f"masks of epoch {epoch}, batch {number}", len(places), 8, 0.6)
            optimizer.zero_grad()
            masked.loss(model(shown, at), shown, at).backward()
            optimizer.step()
        expected.append(model.held_out_loss(task.test_pixels))
    assert computation["reconstruction_loss"] == pytest.approx([expected[0], expected[2]], rel=1e-5)
    assert computation["reconstruction_loss"][1] < computation["reconstruction_loss"][0]


def test_masked_pretraining_learns_no_labels_and_changes_what_is_fine_tuned(tmp_path):
    computation = masked_rows(tmp_path, {}, {"pretrain": "none"}, {"pretrain": "supervised", "pretrain_lr": 0.01})
    assert np.isfinite(computation["reconstruction_loss"]).tolist() == [True, False, False]
    for name in ("source_accuracy", "source_loss", "source_accuracy_after", "source_loss_after"):
        assert np.isfinite(computation[name]).tolist() == [False, False, True]
    assert len(set(computation["target_loss"])) == 3
    assert len(set(computation["target_loss_scratch"])) == 1
    assert computation["transferability"][1] == 0
    assert np.isnan(computation["eigen_cam_peaks"]).all()


def test_heat_maps_are_those_of_the_fine_tuned_net_and_are_kept(tmp_path):
    space = {
        "name": "maps",
        "workload": "vision",
        "fixed": {**MASKED, "eigen_cam_images": 12},
        "seeds": [3],
        "keep": ["finetune", "examine"],
    }
    sweep = run(tmp_path, space)
    (only,) = sweep.results().itertuples()
    maps = torch.as_tensor(sweep.tensors("examine", only.cell, 3)["heat_maps"])
    net = models.build("small_cnn", 3, (1, 8), 10, 3)
    net.load_state_dict(
        {name: torch.as_tensor(some) for name, some in sweep.tensors("finetune", only.cell, 3)["net"].items()}
    )
    shown = pixels.scaled(pixels.target(masked_row()).test_pixels[:12])
    assert torch.allclose(maps, eigen_cam.heat_maps(net.eval().spatial(shown).detach(), 8))
    assert only.eigen_cam_peaks == np.mean([ndimage.label(each > (each.min() + each.max()) / 2)[1] for each in maps])


def test_the_mask_ratio_of_other_pretrainings_shares_their_stages(tmp_path):
    messages = []
    for pretrain, ratio in (("supervised", 0.6), ("supervised", 0.3), ("masked", 0.6), ("masked", 0.3)):
        fixed = MASKED | {"pretrain": pretrain, "mask_ratio": ratio, "pretrain_lr": 0.01, "pretrain_length": 1}
        space = {"name": f"{pretrain}{ratio}", "workload": "vision", "fixed": fixed, "seeds": [3]}
        run(tmp_path, space, say=messages.append)
    stages = [line for line in messages if line.startswith("stages:")]
    assert [", 0 reused" in line for line in stages] == [True, False, True, True]
