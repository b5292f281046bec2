"""`raysweep run --download`: what is fetched, from a server on the loopback, and what stays when that fails."""

import functools
import hashlib
import io
import tarfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import image_files
import pytest
import yaml
from conftest import refused
from torchvision import datasets

from raysweep.workloads import image_data
from raysweep.workloads.image_data import folders

DIGITS = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
CIFAR = {
    "cifar10": (
        "cifar-10-batches-bin",
        [f"data_batch_{batch}.bin" for batch in range(1, 6)] + ["test_batch.bin", "batches.meta.txt"],
    ),
    "cifar100": ("cifar-100-binary", ["train.bin", "test.bin", "fine_label_names.txt"]),
}


class Site:
    """A server of the files in a folder. asked: the paths that were asked for."""

    def __init__(self, folder):
        self.folder, self.asked = folder, []
        site = self

        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, *arguments):
                site.asked.append(self.path)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def put(self, name, content):
        """Serve a file; its MD5."""
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_bytes(content)
        return hashlib.md5(content).hexdigest()


def archived(site, kind, content):
    name = f"{kind}.tar.gz"
    folders.ARCHIVES[kind] = (name, (f"{site.address}/{name}",), site.put(name, content))


@pytest.fixture
def site(monkeypatch, tmp_path_factory):
    """All sets at one server, with few bytes each: too few to be read, which is another matter."""
    result = Site(tmp_path_factory.mktemp("site"))
    for each in (datasets.MNIST, datasets.FashionMNIST):
        packed = [f"{name}.gz" for name in DIGITS]
        made = [(name, result.put(f"{each.__name__}/{name}", f"{each} {name}".encode())) for name in packed]
        monkeypatch.setattr(each, "resources", made)
        monkeypatch.setattr(each, "mirrors", [f"{result.address}/gone/", f"{result.address}/{each.__name__}/"])
    parts = {}
    for part in ("train", "test", "extra"):
        name = f"{part}_32x32.mat"
        parts[part] = [f"{result.address}/{name}", name, result.put(name, part.encode())]
    monkeypatch.setattr(datasets.SVHN, "split_list", parts)
    for kind, (folder, names) in CIFAR.items():
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name in [*names, "readme.html"]:
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size = len(name)
                archive.addfile(entry, io.BytesIO(name.encode()))
        monkeypatch.setitem(folders.ARCHIVES, kind, ())
        archived(result, kind, packed.getvalue())
    thread = threading.Thread(target=result.server.serve_forever, args=(0.02,))
    thread.start()
    yield result
    result.server.shutdown()
    thread.join()
    result.server.server_close()


def fetched(name):
    """Why the images of that name could not be fetched; "" if they were."""
    problem = image_data.fetch({"model": "lenet", "depth": 3, "data": name}, lambda line: None)
    return f"{problem[0]}: {problem[1]}" if problem else ""


def files(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


PUT = {  # as torchvision puts them, and archives have them
    **{
        kind: {f"{which.__name__}/raw/{name}.gz": f"{which} {name}.gz".encode() for name in DIGITS}
        for kind, which in (("mnist", datasets.MNIST), ("fashion_mnist", datasets.FashionMNIST))
    },
    "svhn": {"train_32x32.mat": b"train", "test_32x32.mat": b"test"},  # without its extra images
    **{kind: {f"{folder}/{name}": name.encode() for name in names} for kind, (folder, names) in CIFAR.items()},
}


@pytest.mark.parametrize("kind", PUT)
def test_files_are_put_where_they_are_read_and_fetched_once(site, tmp_path, kind):
    assert fetched(f"{kind}:{tmp_path / 'new' / 'data'}") == ""
    assert files(tmp_path / "new" / "data") == PUT[kind]
    site.asked.clear()
    assert fetched(f"{kind}:{tmp_path / 'new' / 'data'}") == ""
    assert site.asked == []


def test_only_what_is_missing_is_fetched_and_to_where_the_rest_lies(site, tmp_path):
    for name in DIGITS[:3]:
        (tmp_path / name).write_bytes(b"mine")
    assert fetched(f"mnist:{tmp_path}") == ""
    assert files(tmp_path).keys() == {*DIGITS[:3], f"{DIGITS[3]}.gz"}
    assert (tmp_path / DIGITS[0]).read_bytes() == b"mine"
    assert {path.rpartition("/")[2] for path in site.asked} == {f"{DIGITS[3]}.gz"}
    folder, names = CIFAR["cifar100"]
    (tmp_path / folder).mkdir()
    (tmp_path / folder / names[0]).write_bytes(b"mine")
    assert fetched(f"cifar100:{tmp_path}") == ""
    assert [(tmp_path / folder / name).read_bytes() for name in names] == [
        b"mine",
        *(name.encode() for name in names[1:]),
    ]


BROKEN = {
    "no such page": ("mnist", lambda site: (site.folder / f"MNIST/{DIGITS[3]}.gz").unlink(), "gz: File not found)"),
    "another checksum": ("svhn", lambda site: site.put("test_32x32.mat", b"other"), "File not found or corrupted"),
    "an archive without the files": (
        "cifar10",
        lambda site: archived(site, "cifar10", (site.folder / "cifar100.tar.gz").read_bytes()),
        "data_batch_1.bin is not in what was loaded",
    ),
    "an archive that is none": (
        "cifar100",
        lambda site: archived(site, "cifar100", b"<html>"),
        "cifar100.tar.gz: cannot be unpacked",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_download_that_fails_leaves_nothing(site, tmp_path, case):
    kind, happens, message = BROKEN[case]
    happens(site)
    assert message in fetched(f"{kind}:{tmp_path / 'new' / 'data'}")
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_is_interrupted_leaves_nothing(site, tmp_path, monkeypatch):
    def interrupted(line):
        if DIGITS[2] in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        image_data.fetch({"source": f"mnist:{tmp_path / 'data'}"}, interrupted)
    assert f"/MNIST/{DIGITS[1]}.gz" in site.asked
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_and_images_of_ones_own_are_one_line(site, tmp_path):
    (tmp_path / "file").touch()
    assert fetched(f"svhn:{tmp_path / 'file'}") == f"data: {tmp_path / 'file'}: cannot be written (File exists)"
    assert "images of your own, which cannot be downloaded" in fetched(f"images:{tmp_path / 'none'}")
    assert fetched("digits") == ""
    assert site.asked == []


@pytest.fixture
def space(tmp_path):
    asked = {
        "name": "few",
        "workload": "image_regression",
        "axes": {"data": ["digits", f"fashion_mnist:{tmp_path / 'data'}"]},
        "fixed": {"target_samples": 5, "repeats": 2, "pretrain_length": 0},
    }
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(asked))
    return tmp_path / "space.yaml"


def test_a_space_runs_with_the_data_that_it_fetched(site, space, tmp_path, call, storage, monkeypatch):
    made = image_files.write(tmp_path / "made", "fashion_mnist", packed=True)
    files = [f"{name}.gz" for name in DIGITS]
    expected = [(name, site.put(f"FashionMNIST/{name}", (made / name).read_bytes())) for name in files]
    monkeypatch.setattr(datasets.FashionMNIST, "resources", expected)
    run = ("run", space, "--storage", storage, "--executor", "inline", "--tracking-uri", "none", "--no-report")
    refused(call(*run), f"axes.data: no folder {tmp_path / 'data'}; expected", "Debian", "--download")
    refused(call(*run, "--download", "--dry-run"), "--download: a dry run creates nothing")
    assert not (tmp_path / "data").exists()
    assert site.asked == []
    outcome = call(*run, "--download")
    assert outcome.code == 0, outcome.err
    assert f"Fashion-MNIST: loading {DIGITS[0]}.gz from " in outcome.err
    assert "2 rows" in outcome.err


def test_what_cannot_be_fetched_is_one_line_and_no_sweep(site, space, tmp_path, call, storage, monkeypatch):
    monkeypatch.setattr(datasets.FashionMNIST, "mirrors", ["http://127.0.0.1:1/"])
    run = ("run", space, "--storage", storage, "--executor", "inline", "--tracking-uri", "none", "--download")
    outcome = call(*run)
    lines = outcome.err.splitlines()
    assert (outcome.code, outcome.out, len(lines)) == (2, "", 2), "what is fetched is said; then why it was not"
    assert lines[1].startswith("axes.data: cannot be downloaded (http://127.0.0.1:1/train-images")
    assert sorted(tmp_path.iterdir()) == [space]
    refused(call("run", "quickstart", *run[2:]), "--download: linear_transfer reads no files")
