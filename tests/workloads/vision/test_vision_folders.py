"""Deep nets on folders of images, on what cannot be read or imported, and what the sizes of the papers would cost."""

import re
import shutil
import sys
from pathlib import Path

import image_files
import numpy as np
import pytest
import torch
import yaml
from conftest import refused, run
from PIL import Image
from workload_rows import columns_of, row_of

from raysweep.plan.identity import stage_id
from raysweep.workloads.vision import WORKLOAD, costs, pixels

NET = {"model": "small_cnn", "depth": 2, "image_size": 12, "target_samples": 8, "finetune_steps": 5}


pytestmark = pytest.mark.usefixtures("private_cache")


@pytest.fixture
def folder(tmp_path):
    """Three classes of images in colours of their own, of 10 sizes."""
    root = image_files.write_images(tmp_path / "set", {"a": 10, "b": 10, "c": 10})
    for file in sorted((root / "b").iterdir()):
        with Image.open(file) as picture:
            turned = picture.rotate(90, expand=True)
        turned.save(file)
    for file in sorted((root / "c").iterdir()):
        Image.new("L", (30, 20), 200).save(file)
    return root


def space(folder, **more):
    names = dict.fromkeys(("source", "target"), f"images:{folder}")
    return {"name": "few", "workload": "vision", "axes": {"pretrain_length": [0, 2]}, "fixed": {**NET, **names, **more}}


def row(folder, **more):
    return row_of("vision", **space(folder, **more)["fixed"])


def task(folder, **more):
    return pixels.source(row(folder, **more))


def test_images_are_decoded_when_a_batch_needs_them_as_torchvision_would(folder):
    images = task(folder, flip="upside_down")
    assert not isinstance(images.train_pixels, torch.Tensor), "not all of them at once"
    assert len(images.train_pixels) == len(images.train_labels) == 12, "half of the 24, the target has the other half"
    places = torch.arange(11, -1, -1)
    some = images.train_pixels[places]
    assert (some.dtype, some.shape) == (torch.uint8, (12, 3, 12, 12))
    files = images.train_pixels.files
    expected = files[places.numpy()][:, ::-1].transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(some.numpy(), expected)
    assert [Path(files.files[place]).parent.name for place in places] == [
        "abc"[images.train_labels[place]] for place in places
    ]
    whole = torch.cat(list(images.test_pixels.split(4)))
    np.testing.assert_array_equal(whole, images.test_pixels[:])


def test_labels_by_colour_tell_the_colours_of_files(folder):
    """Of red and blue halves side by side, and one above the other, the upper half has other colours."""
    images = task(folder, label="colour", source_classes="0,1", source_samples=0)
    files = images.train_pixels.files.files
    colours = {(Path(file).parent.name, int(label)) for file, label in zip(files, images.train_labels, strict=True)}
    assert colours in ({("a", 0), ("b", 1)}, {("a", 1), ("b", 0)}), "a class is a colour here"


@pytest.mark.parametrize("more", [{}, {"pretrain": "masked", "eigen_cam_images": 3}])
def test_rows_are_the_same_wherever_the_images_lie(folder, tmp_path, more):
    first = run(tmp_path / "s", space(folder, **more)).results()
    assert (first["status"] == "ok").all()
    before = stage_id(WORKLOAD, 0, row(folder), 0, "")
    shutil.move(folder, tmp_path / "moved")
    assert stage_id(WORKLOAD, 0, row(tmp_path / "moved"), 0, "") == before
    again = run(tmp_path / "other", space(tmp_path / "moved", **more)).results()
    for metric in ("target_loss", "source_accuracy", "target_loss_scratch"):
        np.testing.assert_array_equal(first[metric], again[metric])


@pytest.mark.parametrize("fixed", [{"model": "resnet18"}, {"source": "images:{here}"}])
def test_without_torchvision_nets_and_folders_that_need_it_are_refused_and_others_run(
    fixed, folder, call, storage, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    run = ("run", tmp_path / "space.yaml", "--storage", storage, "--tracking-uri", "none", "--dry-run")
    digits = {**NET, "source": "digits", "target": "digits"}
    asked = space(folder) | {"fixed": digits | {key: value.format(here=folder) for key, value in fixed.items()}}
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(asked))
    refused(call(*run), "torchvision: cannot be imported beside torch ", "pip install --force-reinstall")
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(asked | {"fixed": digits}))
    assert call(*run).code == 0


# The spaces at the size of the papers, on made-up folders of their layout

SPACES = ("pretraining_epochs_full", "label_similarity_full", "masked_images_full")


@pytest.mark.parametrize("name", SPACES)
def test_what_a_space_costs_is_said_once_its_images_are_there(name, call, storage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = ("run", name, "--storage", storage, "--dry-run")
    refused(call(*run), "fixed.source: no folder data/", "expected a folder with folders train and test")
    for role, count in (("source", 20), ("target", 25)):
        image_files.write_images(tmp_path / role, {"a": count, "b": count})
        run = (*run, "--set", f"fixed.{role}=images:{tmp_path / role}")
    outcome = call(*run, "--set", "fixed.target_samples=30")
    assert (outcome.code, outcome.err) == (0, "")
    assert re.search(r"pretrain .* GPU-(second|minute|hour)s", outcome.out)
    assert "GPU time is a guess within a factor of 3 either way" in outcome.out
    assert not storage.exists()


def test_the_cost_of_an_epoch_grows_with_the_images(tmp_path):
    results = []
    for count in (20, 40):
        image_files.write_images(tmp_path / str(count), {"a": count, "b": count})
        given = columns_of("vision", source=f"images:{tmp_path / str(count)}", model="resnet50", image_size=224)
        results.append(costs.pretrain(given, 0, 1))
    small, large = results
    assert large.seconds == pytest.approx(2 * small.seconds, rel=0.05)
    assert large.gpu_seconds == pytest.approx(2 * (small.gpu_seconds or 0), rel=0.05)
    assert costs.pretrain(given, 0, 10).seconds == pytest.approx(10 * large.seconds)


def test_the_speed_of_a_gpu_is_that_which_is_stated():
    """600 images of 224 x 224 a second through ResNet-50, in large batches."""
    given = columns_of(
        "vision", model="resnet50", image_size=224, batch_size=256, target_samples=256, finetune_steps=100
    )
    assert 25_600 / (costs.finetune(given).gpu_seconds or 0) == pytest.approx(600, rel=0.05)
