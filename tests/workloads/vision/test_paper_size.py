"""The spaces at the size of the papers, planned on made-up folders of their layout: what they would cost."""

import re

import image_files
import pytest
from conftest import refused
from workload_rows import columns_of

from raysweep.workloads.vision import costs

SPACES = ("pretraining_epochs_full", "label_similarity_full", "masked_images_full")


pytestmark = pytest.mark.usefixtures("private_cache")


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
