"""Which images and classes source and target are: counted; what identifies a row; and what is refused in one line."""

import itertools
import math

import image_files
import numpy as np
import pytest
import torch
from scipy import ndimage
from workload_rows import row_of

from raysweep.workloads import image_data
from raysweep.workloads.image_data import ImageData, Images
from raysweep.workloads.vision import PARAMETERS, pixels, tasks

ANGLES = (0.0, 36.87, 53.13, 66.42, 78.46, 90.0)


def row(seed=0, **more):
    return row_of("vision", seed=seed, **more)


def test_the_cosine_of_the_angle_is_the_share_of_the_targets_classes():
    for seed in range(20):
        sources = [tasks.source_classes(row(seed, target_classes="0-4", overlap_angle=angle)) for angle in ANGLES]
        shared = [set(source) & set(range(5)) for source in sources]
        assert [len(each) for each in shared] == [5, 4, 3, 2, 1, 0]
        assert [len(set(source)) for source in sources] == [5] * 6
        for nearer, further in itertools.pairwise(sources):
            assert len(set(nearer) ^ set(further)) == 2, "angles share their draw"
            assert set(further) & set(range(5)) < set(nearer)
    first = {tuple(tasks.source_classes(row(seed, target_classes="0-4", overlap_angle=78.46))) for seed in range(20)}
    assert len(first) > 10


def test_no_image_serves_both_tasks_and_classes_come_in_turn():
    labels = image_data.load("digits").train.labels
    for seed in (0, 1):
        halves = [tasks.order(labels, list(range(10)), seed, half) for half in (0, 1)]
        assert sorted(np.concatenate(halves).tolist()) == list(range(len(labels)))
        for half in halves:
            assert [sorted(labels[half[start : start + 10]]) for start in (0, 10, 200)] == [list(range(10))] * 3
    few, more = (pixels.target(row(target_samples=count)) for count in (20, 50))
    assert torch.equal(few.train_pixels, more.train_pixels[:20])
    source = pixels.source(row())
    assert len(source.train_labels) + tasks.count(row(), "target") == len(labels)
    assert tasks.count(row(), "source") == len(source.train_labels)
    both = {each.numpy().tobytes() for each in source.train_pixels} & {
        each.numpy().tobytes() for each in pixels.target(row(target_samples=tasks.count(row(), "target"))).train_pixels
    }
    assert not both, "an image of the source is one of the target"


def test_classes_are_numbered_from_zero():
    task = pixels.target(row(target_classes="3,7-8", target_samples=9))
    assert task.classes == 3
    assert sorted(task.train_labels.tolist()) == [0] * 3 + [1] * 3 + [2] * 3
    test = image_data.load("digits").test
    expected = np.isin(test.labels, (3, 7, 8))
    assert len(task.test_labels) == expected.sum()
    assert (task.test_labels.numpy() == np.searchsorted([3, 7, 8], test.labels[expected])).all()


def test_images_are_turned_and_brought_to_one_form():
    usual = pixels.source(row()).train_pixels
    assert usual.shape[1:] == (1, 8, 8)
    assert int(usual.max()) == 255
    down, quarter = (
        pixels.source(row(**change)).train_pixels for change in ({"flip": "upside_down"}, {"rotation": 90.0})
    )
    assert torch.equal(down, usual.flip(2))
    assert torch.equal(pixels.target(row(flip="upside_down")).train_pixels, pixels.target(row()).train_pixels)
    assert torch.equal(quarter, usual.transpose(2, 3).flip(2)), "the right side comes to the top, against the clock"
    larger = pixels.source(row(image_size=28)).train_pixels
    assert larger.shape[1:] == (1, 28, 28)
    assert float(larger.float().mean()) == pytest.approx(float(usual.float().mean()), rel=0.02)
    assert torch.equal(pixels.scaled(torch.tensor([[[[0, 255]]]], dtype=torch.uint8)), torch.tensor([[[[-1.0, 1.0]]]]))


@pytest.mark.parametrize("angle", [90.0, -90.0, 180.0, 35.0])
def test_a_rotated_source_is_turned_against_the_clock(angle):
    plain, turned = (pixels.source(row(rotation=some, image_size=28)) for some in (0.0, angle))
    for before, after in zip(plain.test_pixels[:5, 0].numpy(), turned.test_pixels[:5, 0].numpy(), strict=True):
        expected = ndimage.rotate(before.astype(float), angle, reshape=False, order=1)
        inside = np.hypot(*(np.indices((28, 28)) - 13.5)) < 12
        assert np.abs(expected - after)[inside].max() <= 2


def test_brightness_labels_rank_images_by_their_upper_half_in_classes_of_equal_size():
    plain, ranked = (pixels.source(row(label=label, source_samples=100)) for label in ("class", "brightness"))
    assert torch.equal(plain.train_pixels, ranked.train_pixels)
    light = ranked.train_pixels[:, 0, :4].double().mean((1, 2))
    order = np.argsort(light.numpy(), kind="stable")
    assert (np.diff(ranked.train_labels.numpy()[order]) >= 0).all()
    assert ranked.classes == 10
    assert np.abs(np.bincount(ranked.train_labels, minlength=10) - 10).max() <= 2


def test_colour_labels_rank_images_by_hue_and_not_by_brightness(monkeypatch):
    light_and_dark = [(200, 20, 20), (10, 90, 10), (20, 20, 250), (60, 5, 5), (15, 120, 15), (9, 9, 70)]
    painted = np.random.default_rng(0).integers(0, 256, (120, 8, 8, 3), dtype=np.uint8)
    painted[:, :4] = np.tile(np.array(light_and_dark, np.uint8), (20, 1))[:, None, None]
    some = Images(painted, np.arange(120) // 6 % 3)
    monkeypatch.setattr(image_data, "load", lambda name, *_: ImageData(255, ("a", "b", "c"), some, some, digest=name))
    task = pixels.source(row(source="painted", target="painted too", label="colour"))
    blue_red_green = task.test_pixels[:, [2, 0, 1], 0, 0].argmax(1)
    assert torch.equal(task.test_labels, blue_red_green)


def test_the_target_takes_the_form_of_the_source(tmp_path):
    name = f"fashion_mnist:{image_files.write(tmp_path / 'set', 'fashion_mnist')}"
    assert pixels.target(row(source=name)).train_pixels.shape[1:] == (1, 28, 28)
    assert pixels.target(row(target=name)).train_pixels.shape[1:] == (1, 8, 8)
    assert not tasks.one_set(row(target=name))
    assert tasks.count(row(source=name), "source") == 60_000


def stages(**more):
    """What identifies pretraining and fine-tuning of a row."""
    one = {name: value for name, value in row(**more).items() if name != "seed"}
    reference = {p.name for p in PARAMETERS if p.stage == "pretrain"} - {"pretrain_length"}
    return [
        tasks.identify("pretrain", {name: one[name] for name in reference}, one),
        tasks.identify("finetune", {p.name: one[p.name] for p in PARAMETERS if p.stage != "examine"}, one),
    ]


def test_pretraining_is_shared_by_all_rows_whose_source_is_the_same(tmp_path):
    usual = stages(source_classes="0-4", target_classes="5-9")
    for same in (
        {"source_classes": "0,1,2-4", "target_classes": "5-9"},
        {"source_classes": "0-4", "target_classes": "7"},
        {"source_classes": "0-4", "target_classes": "5-9", "finetune_lr": 1.0},
    ):
        assert stages(**same)[0] == usual[0]
    assert stages(source_classes="0,1,2-4", target_classes="5-9")[1] == usual[1]
    assert stages(source_classes="0-4", target_classes="7")[1] != usual[1]
    for other in ({"source_classes": "0-3"}, {"label": "brightness"}, {"rotation": 5.0}, {"depth": 4}):
        assert stages(**{"source_classes": "0-4", "target_classes": "5-9", **other})[0] != usual[0]
    assert stages(model="lenet", image_size=28, depth=4) == stages(model="lenet", image_size=28)
    angles = [stages(target_classes="0-4", overlap_angle=angle)[0] for angle in (53.13, 53.2, 66.42)]
    assert angles[0] == angles[1] != angles[2]
    scratch = [stages(**more)[1] for more in ({"pretrain": "none"}, {"pretrain_length": 0, "source_classes": "3"})]
    assert scratch[0] == scratch[1]
    first, second = (image_files.write(tmp_path / name, "fashion_mnist") for name in ("one", "two"))
    named = [stages(source=f"fashion_mnist:{folder}") for folder in (first, second)]
    assert named[0] == named[1], "the same images in two folders"
    assert named[0][0]["halved"] is False


def test_an_angle_that_is_not_used_leaves_the_classes_as_they_are():
    assert math.inf == tasks.NO_ANGLE
    assert tasks.source_classes(row(source_classes="1,3")) == [1, 3]
