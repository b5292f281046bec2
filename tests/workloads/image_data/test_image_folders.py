"""Folders of images, written here by PIL: which images there are, how they are decoded, and what is refused."""

import os
import shutil
from pathlib import Path

import image_files
import numpy as np
import pytest
from PIL import Image

from raysweep.workloads import image_data

pytestmark = pytest.mark.usefixtures("private_cache")


@pytest.fixture
def split(tmp_path):
    return image_files.write_split(tmp_path / "set")


def names(images):
    return [f"{file.parent.name}/{file.stem}" for file in map(Path, images.pixels.files)]


@pytest.mark.parametrize("test", ["test", "val"])
def test_classes_and_images_stand_in_the_order_of_their_names(split, test):
    (split / "test").rename(split / test)
    (split / "train" / "dog" / ".DS_Store").write_text("no image, and hidden")
    (split / "README").write_text("no class")
    data = image_data.load(f"images:{split}")
    assert (data.white, data.classes) == (255, ("cat", "dog"))
    assert names(data.train) == ["cat/000", "cat/001", "dog/000", "dog/001", "dog/002"]
    assert data.train.labels.tolist() == [0, 0, 1, 1, 1]
    assert names(data.test) == ["cat/000", "cat/001", "dog/000"]
    assert names(data.train.select((1,))) == ["dog/000", "dog/001", "dog/002"]


def test_without_a_split_every_fifth_image_of_a_class_is_a_test_image(tmp_path):
    image_files.write_images(tmp_path / "set", {"a": 11, "b": 2})
    data = image_data.load(f"images:{tmp_path / 'set'}")
    assert names(data.test) == ["a/000", "a/005", "a/010", "b/000"]
    assert names(data.train) == [f"a/{n:03}" for n in (1, 2, 3, 4, 6, 7, 8, 9)] + ["b/001"]


def test_images_are_resized_by_their_shorter_side_and_cut_to_the_centre(split):
    pixels = image_data.load(f"images:{split}").train.pixels
    assert (len(pixels), pixels.shape, pixels.ndim) == (5, (5, 224, 224, 3), 4)
    small = pixels.at(20)
    assert small.shape == (5, 20, 20, 3)
    some = small[np.array([4, 0])]
    assert (some.dtype, some.shape) == (np.uint8, (2, 20, 20, 3))
    for image, file in zip(some, (small.files[4], small.files[0]), strict=True):
        with Image.open(file) as picture:
            width = int(20 * picture.width / picture.height)
            resized = np.asarray(picture.resize((width, 20), Image.Resampling.BILINEAR))
        left = round((width - 20) / 2)
        np.testing.assert_array_equal(image, resized[:, left : left + 20])
    np.testing.assert_array_equal(small[1:3], small[np.array([False, True, True, False, False])])
    np.testing.assert_array_equal(small[0], small[[0]][0])


def test_grey_images_and_others_become_coloured_ones(split):
    folder = split / "train" / "cat"
    for number, mode in enumerate(("L", "P", "RGBA", "1")):
        Image.new(mode, (30, 30), 1).save(folder / f"other{number}.png")
    Image.new("CMYK", (30, 30)).save(folder / "other4.jpg")
    assert image_data.complaint(f"images:{split}", folder=True) is None
    assert image_data.load(f"images:{split}").train.pixels.at(8)[:].shape == (10, 8, 8, 3)


def test_the_set_is_known_by_what_is_in_its_files_wherever_they_lie(split, tmp_path, monkeypatch):
    before = image_data.digest_of(f"images:{split}")
    shutil.copytree(split, tmp_path / "copy")
    assert image_data.digest_of(f"images:{tmp_path / 'copy'}") == before
    monkeypatch.chdir(tmp_path / "copy")
    assert image_data.digest_of("images:.") == before
    digests = {before}

    def another(change):
        change()
        digest = image_data.digest_of(f"images:{split}")
        seen = digest in digests
        digests.add(digest)
        return not seen

    file = split / "train" / "cat" / "001.jpg"
    assert another(lambda: shutil.copy(split / "train" / "dog" / "002.jpg", file)), "another image"
    assert another(lambda: file.rename(split / "train" / "dog" / "003.jpg")), "another class"
    assert another(lambda: shutil.move(split / "train" / "dog" / "003.jpg", split / "test" / "dog")), "another part"
    assert another(lambda: [(split / part / "cat").rename(split / part / "bat") for part in ("train", "test")])


def test_files_are_read_again_only_when_their_size_or_time_changed(split):
    before, file = image_data.digest_of(f"images:{split}"), split / "test" / "dog" / "000.png"
    at, content = file.stat(), bytearray(file.read_bytes())
    content[-20] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert image_data.digest_of(f"images:{split}") == before, "the memory of names, sizes and times"
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns + 1))
    assert image_data.complaint(f"images:{split}", folder=True)


def test_the_set_is_never_in_memory_as_a_whole(split, monkeypatch):
    """Nothing is decoded to list, check and choose images."""
    monkeypatch.setattr(Image.Image, "load", lambda image: pytest.fail("decoded"))
    for file in split.rglob("*.png"):  # a JPEG need not be decoded to see that it is whole
        shutil.copy(split / "train" / "dog" / "000.jpg", file.with_suffix(".jpg"))
        file.unlink()
    data = image_data.load(f"images:{split}")
    assert len(data.train.select((0,)).pixels.at(10)) == 2
