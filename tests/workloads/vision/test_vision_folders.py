"""Deep nets on folders of images, and on what cannot be read or imported."""

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
from workload_rows import row_of

from raysweep.plan.identity import stage_id
from raysweep.workloads.vision import WORKLOAD, pixels

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
