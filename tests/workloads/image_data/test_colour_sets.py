"""SVHN and CIFAR: the files that are read, written here by others, and what is said of files that are not theirs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import image_files
import numpy as np
import pytest
from scipy.io import savemat

from raysweep.workloads import image_data, image_regression
from raysweep.workloads.image_data import svhn


@pytest.fixture(scope="module", autouse=True)
def small_svhn() -> Iterator[None]:
    """SVHN of one hundredth of its images."""
    with mock.patch.dict(svhn.PARTS, {"train_32x32.mat": 733, "test_32x32.mat": 261}):
        yield


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("colour")
    image_files.write_svhn(root / "svhn")
    image_files.write_cifar(root / "cifar-10-batches-bin", 10)
    image_files.write_cifar(root / "cifar-100-binary", 100)
    return root


def test_svhn_is_read_with_the_digit_0_as_class_0(published: Path) -> None:
    data = image_data.load(f"svhn:{published / 'svhn'}")
    assert (data.white, data.classes) == (255, tuple("0123456789"))
    for part, count in ((data.train, 733), (data.test, 261)):
        images = np.arange(count)
        assert part.pixels.shape == (count, 32, 32, 3)
        np.testing.assert_array_equal(part.labels, (images % 10 + 1) % 10)
        assert (part.pixels[images, images % 32, 5, 1] == 200).all()
        assert np.count_nonzero(part.pixels) == count


@pytest.mark.parametrize(
    ("kind", "folder", "classes"),
    [
        ("cifar10", "cifar-10-batches-bin", 10),
        pytest.param("cifar100", "cifar-100-binary", 100, marks=pytest.mark.long),
    ],
)
def test_cifar_is_read_in_its_binary_version(published: Path, kind: str, folder: str, classes: int) -> None:
    data = image_data.load(f"{kind}:{published}")
    assert data.classes == tuple(f"class{number}" for number in range(classes))
    for part, count in ((data.train, 50_000), (data.test, 10_000)):
        images = np.arange(count)
        assert part.pixels.shape == (count, 32, 32, 3)
        np.testing.assert_array_equal(part.labels, images % classes)
        places = images % 10_000 % 32 if kind == "cifar10" else images % 32
        assert (part.pixels[images, places, 7, 2] == 100).all()
        assert np.count_nonzero(part.pixels) == count
    assert image_data.digest_of(f"{kind}:{published / folder}") == data.digest, "the place is no part of what they are"


def test_classes_of_a_pair_are_those_of_the_set(published: Path) -> None:
    row = {"data": f"cifar100:{published}", "target_samples": 10}
    assert image_regression.check({**row, "pair": "2-3:5-99"}) is None
    message = image_regression.check({**row, "pair": "2-3:5-100"})
    assert message == ("pair", f"expected classes from 0 to 99, which {row['data']} has, got 100")


def linked(folder: Path, target: Path) -> None:
    folder.mkdir()
    for file in target.iterdir():
        (folder / file.name).symlink_to(file)


def instead(file: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / file).unlink()
        make(folder / file)

    return change


def cut(file: str, left: float) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = (folder / file).read_bytes()
        (folder / file).unlink()
        (folder / file).write_bytes(content[: int(left * len(content))])

    return change


def wrong_labels(file: Path) -> None:
    np.zeros((10_000, 3073), np.uint8).tofile(file)


BROKEN: dict[str, tuple[str, str, Callable[[Path], object], tuple[str, ...]]] = {
    # the kind named, the files, what happens to them, what is said
    "the test part of SVHN in place of its training part": (
        "svhn",
        "svhn",
        instead("train_32x32.mat", lambda file: shutil.copy(file.with_name("test_32x32.mat"), file)),
        ("train_32x32.mat: expected the array X of 32 x 32 x 3 x 733 values", "261", "those of test_32x32.mat"),
    ),
    "SVHN cut within its images": (
        "svhn",
        "svhn",
        cut("test_32x32.mat", 0.5),
        ("the array y of 261 x 1 values, got none (is the file cut short?)",),
    ),
    "SVHN cut within its labels": ("svhn", "svhn", cut("test_32x32.mat", 0.99), ("test_32x32.mat: ",)),
    "a page in place of SVHN": (
        "svhn",
        "svhn",
        instead("test_32x32.mat", lambda file: file.write_bytes(b"<html>404</html>" * 40)),
        ("test_32x32.mat: expected a file of MATLAB 5",),
    ),
    "an empty file in place of SVHN": (
        "svhn",
        "svhn",
        instead("test_32x32.mat", lambda file: file.touch()),
        ("test_32x32.mat: expected a file of MATLAB 5",),
    ),
    "other arrays than those of SVHN": (
        "svhn",
        "svhn",
        instead("test_32x32.mat", lambda file: savemat(file, {"images": np.zeros(3)})),
        ("test_32x32.mat: expected the array X of", "got none (is the file cut short?)"),
    ),
    "labels that SVHN has not": (
        "svhn",
        "svhn",
        instead(
            "test_32x32.mat",
            lambda file: savemat(
                file,
                {"X": np.zeros((32, 32, 3, 261), np.uint8), "y": np.zeros((261, 1), np.uint8)},
                do_compression=True,
            ),
        ),
        ("test_32x32.mat: expected pixels as bytes and labels from 1 to 10",),
    ),
    "half of SVHN": ("svhn", "svhn", lambda folder: (folder / "test_32x32.mat").unlink(), ("test_32x32.mat missing",)),
    "CIFAR-10 under the name of CIFAR-100": (
        "cifar100",
        "cifar-10-batches-bin",
        lambda folder: None,
        ("no CIFAR-100 in it; it has CIFAR-10 (cifar10:)", "cifar-100-binary.tar.gz"),
    ),
    "CIFAR-100 under the name of CIFAR-10": (
        "cifar10",
        "cifar-100-binary",
        lambda folder: None,
        ("no CIFAR-10 in it; it has CIFAR-100 (cifar100:)",),
    ),
    "a batch of CIFAR-10 cut short": (
        "cifar10",
        "cifar-10-batches-bin",
        cut("data_batch_3.bin", 0.9),
        ("data_batch_3.bin: expected 30,730,000 bytes, it has 27,657,000",),
    ),
    "a batch of CIFAR-10 missing": (
        "cifar10",
        "cifar-10-batches-bin",
        lambda folder: (folder / "data_batch_3.bin").unlink(),
        ("data_batch_3.bin missing", "--download"),
    ),
    "labels of something else": (
        "cifar10",
        "cifar-10-batches-bin",
        instead("data_batch_3.bin", wrong_labels),
        ("data_batch_1.bin to data_batch_5.bin: expected the labels of CIFAR-10, 5,000 images of each class",),
    ),
    "names of fewer classes": (
        "cifar100",
        "cifar-100-binary",
        instead("fine_label_names.txt", lambda file: file.write_text("apple\n")),
        ("fine_label_names.txt: expected the names of 100 classes",),
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_files_that_are_not_the_set_are_refused(published: Path, tmp_path: Path, case: str) -> None:
    kind, files, happens, message = BROKEN[case]
    linked(tmp_path / files, published / files)
    happens(tmp_path / files)
    complaint = image_data.complaint(f"{kind}:{tmp_path / files}")
    assert complaint is not None
    for part in (*message, str(tmp_path / files)):
        assert part in complaint


@pytest.mark.parametrize(("kind", "folder"), [("cifar10", "cifar-10-batches-py"), ("cifar100", "cifar-100-python")])
def test_who_has_the_version_for_python_is_told_why_it_is_not_read(tmp_path: Path, kind: str, folder: str) -> None:
    """Nothing in it is opened: it would be unpickled."""
    (tmp_path / folder).mkdir()
    for name in (f"{kind}:{tmp_path}", f"{kind}:{tmp_path / folder}"):
        message = str(image_data.complaint(name))
        assert "made of pickles" in message
        assert "-binary.tar.gz" in message
        assert "--download" in message
