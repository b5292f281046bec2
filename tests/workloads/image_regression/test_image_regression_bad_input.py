"""What the workload refuses, by the command line: one line that begins with the key, exit 2, nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import image_files
import pytest
import yaml
from conftest import Outcome

CASES: dict[str, tuple[dict[str, object], str, tuple[str, ...]]] = {
    "a pair of nothing": ({"pair": "2-3"}, "fixed.pair: expected SOURCE:TARGET", ("2-3:5-6",)),
    "a class twice": ({"pair": "2-2:5-6"}, "fixed.pair: expected SOURCE:TARGET", ("different",)),
    "a class that there is not": ({"pair": "2-3:5-10"}, "fixed.pair: ", ("0 to 9",)),
    "a class in two digits": ({"pair": "02-3:5-6"}, "fixed.pair: expected SOURCE:TARGET", ("02-3:5-6",)),
    "more images than there are": (
        {"target_samples": 295},
        "fixed.target_samples: expected at most 294, the training images of classes 5 and 6 in digits, got 295",
        (),
    ),
    "no image": ({"target_samples": 0}, "fixed.target_samples: ", ("at least 1",)),
    "images of another name": ({"data": "cifar10"}, "fixed.data: expected digits, mnist:PATH, ", ()),
    "no folder": ({"data": "mnist:{here}/none"}, "fixed.data: no folder {here}/none", ("torchvision", "npm")),
    "an empty folder": ({"data": "fashion_mnist:{here}"}, "fixed.data: {here}: no Fashion-MNIST in it", ("Debian",)),
    "half a folder": ({"data": "mnist:{here}/half"}, "fixed.data: {here}/half: t10k-labels-idx1-ubyte missing", ()),
    "another set": ({"data": "mnist:{here}/fashion"}, "fixed.data: {here}/fashion/", ("those of Fashion-MNIST",)),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = tmp_path_factory.mktemp("here")
    image_files.write(result / "fashion", "fashion_mnist")
    image_files.write(result / "half", "mnist")
    (result / "half" / "t10k-labels-idx1-ubyte").unlink()
    return result


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_computed_is_refused_in_one_line(
    case: str, here: Path, call: Callable[..., Outcome], storage: Path, tmp_path: Path
) -> None:
    fixed, begins, parts = CASES[case]
    asked = {
        "name": "bad",
        "workload": "image_regression",
        "axes": {"repeats": [1, 2]},
        "fixed": {key: value.format(here=here) if isinstance(value, str) else value for key, value in fixed.items()},
    }
    space = tmp_path / "space.yaml"
    space.write_text(yaml.safe_dump(asked))
    before = sorted(tmp_path.iterdir())
    for more in ((), ("--dry-run",)):
        outcome = call("run", space, "--storage", storage, "--executor", "inline", "--tracking-uri", "none", *more)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1), outcome.err
        assert outcome.err.startswith(begins.format(here=here)), outcome.err
        for part in parts:
            assert part in outcome.err
        assert sorted(tmp_path.iterdir()) == before
