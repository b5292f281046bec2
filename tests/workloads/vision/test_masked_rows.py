"""Rows of masked pretraining and Eigen-CAM, from the command's end to the numbers; the labels and turns of a source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import workload_rows
from conftest import run
from scipy import ndimage
from workload_rows import row_of

from raysweep.workloads import image_data
from raysweep.workloads.image_data import ImageData, Images
from raysweep.workloads.vision import eigen_cam, masked, models, pixels, training

pytest.importorskip("sklearn")
SMALL: dict[str, Any] = {
    "pretrain": "masked",
    "pretrain_length": 2,
    "pretrain_lr": 0.1,
    "source_samples": 100,
    "target_samples": 20,
    "finetune_steps": 5,
    "seed": 3,
}


def row(**given: Any) -> dict[str, Any]:
    return row_of("vision", **SMALL | given)


def computed(storage: Path, *rows: dict[str, Any]) -> dict[str, list[float]]:
    """The metrics of rows of the seed 3, all of which are ok."""
    metrics = workload_rows.computed("vision", storage, [SMALL | some for some in rows], [3] * len(rows))
    assert metrics.status.tolist() == ["ok"] * len(rows)
    return {name: values.tolist() for name, values in metrics.metrics.items()}


def test_masked_epochs_continue_each_other_as_one_training_does(tmp_path: Path) -> None:
    computation = computed(tmp_path, {"pretrain_length": 1}, {"pretrain_length": 3})
    task = pixels.source(row())
    net = models.build("small_cnn", 3, (1, 8), 10, 3)
    model = masked.Reconstruction(net.spatial, (1, 8), row())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    expected = []
    for epoch in (1, 2, 3):
        batches = training.epoch_of(3, "source", epoch, 100, 32)
        for number, places in enumerate(batches):
            shown = pixels.scaled(task.train_pixels[torch.from_numpy(places)])
            at = masked.masks(3, f"masks of epoch {epoch}, batch {number}", len(places), 8, 0.6)
            optimizer.zero_grad()
            masked.loss(model(shown, at), shown, at).backward()
            optimizer.step()
        expected.append(model.held_out_loss(task.test_pixels))
    assert computation["reconstruction_loss"] == pytest.approx([expected[0], expected[2]], rel=1e-5)
    assert computation["reconstruction_loss"][1] < computation["reconstruction_loss"][0]


def test_masked_pretraining_learns_no_labels_and_changes_what_is_fine_tuned(tmp_path: Path) -> None:
    computation = computed(tmp_path, {}, {"pretrain": "none"}, {"pretrain": "supervised", "pretrain_lr": 0.01})
    assert np.isfinite(computation["reconstruction_loss"]).tolist() == [True, False, False]
    for name in ("source_accuracy", "source_loss", "source_accuracy_after", "source_loss_after"):
        assert np.isfinite(computation[name]).tolist() == [False, False, True]
    assert len(set(computation["target_loss"])) == 3
    assert len(set(computation["target_loss_scratch"])) == 1
    assert computation["transferability"][1] == 0
    assert np.isnan(computation["eigen_cam_peaks"]).all()


def test_heat_maps_are_those_of_the_fine_tuned_net_and_are_kept(tmp_path: Path) -> None:
    space = {
        "name": "maps",
        "workload": "vision",
        "fixed": {name: value for name, value in SMALL.items() if name != "seed"} | {"eigen_cam_images": 12},
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
    shown = pixels.scaled(pixels.target(row()).test_pixels[:12])
    assert torch.allclose(maps, eigen_cam.heat_maps(net.eval().spatial(shown).detach(), 8))
    assert only.eigen_cam_peaks == np.mean([ndimage.label(each > (each.min() + each.max()) / 2)[1] for each in maps])


def test_the_mask_ratio_of_other_pretrainings_shares_their_stages(tmp_path: Path) -> None:
    messages: list[str] = []
    for pretrain, ratio in (("supervised", 0.6), ("supervised", 0.3), ("masked", 0.6), ("masked", 0.3)):
        fixed = {name: value for name, value in SMALL.items() if name != "seed"}
        fixed |= {"pretrain": pretrain, "mask_ratio": ratio, "pretrain_lr": 0.01, "pretrain_length": 1}
        space = {"name": f"{pretrain}{ratio}", "workload": "vision", "fixed": fixed, "seeds": [3]}
        run(tmp_path, space, say=messages.append)
    stages = [line for line in messages if line.startswith("stages:")]
    assert [", 0 reused" in line for line in stages] == [True, False, True, True]


# What a source shows and says


def test_brightness_labels_rank_images_by_their_upper_half_in_classes_of_equal_size() -> None:
    plain, ranked = (pixels.source(row(label=label)) for label in ("class", "brightness"))
    assert torch.equal(plain.train_pixels, ranked.train_pixels)
    light = ranked.train_pixels[:, 0, :4].double().mean((1, 2))
    order = np.argsort(light.numpy(), kind="stable")
    assert (np.diff(ranked.train_labels.numpy()[order]) >= 0).all()
    assert ranked.classes == 10
    assert np.abs(np.bincount(ranked.train_labels, minlength=10) - 10).max() <= 2


def test_colour_labels_rank_images_by_hue_and_not_by_brightness(monkeypatch: pytest.MonkeyPatch) -> None:
    light_and_dark = [(200, 20, 20), (10, 90, 10), (20, 20, 250), (60, 5, 5), (15, 120, 15), (9, 9, 70)]
    painted = np.random.default_rng(0).integers(0, 256, (120, 8, 8, 3), dtype=np.uint8)
    painted[:, :4] = np.tile(np.array(light_and_dark, np.uint8), (20, 1))[:, None, None]
    some = Images(painted, np.arange(120) // 6 % 3)
    monkeypatch.setattr(image_data, "load", lambda name, *_: ImageData(255, ("a", "b", "c"), some, some, digest=name))
    task = pixels.source(row(source="painted", target="painted too", source_samples=0, label="colour"))
    blue_red_green = task.test_pixels[:, [2, 0, 1], 0, 0].argmax(1)
    assert torch.equal(task.test_labels, blue_red_green)
