"""Bad input: exit 2, one line that begins with the path of the key, nothing created, nothing recorded touched."""

import pytest
from bad_spaces import TEXTS, axis
from conftest import QUIET, files_of, ok, process, refused


@pytest.mark.parametrize(("text", "message"), TEXTS, ids=[message for _, message in TEXTS])
def test_a_bad_space_is_refused_in_one_line(text, message, call, tmp_path, storage):
    begins, *parts = message.split("|")
    file = tmp_path / "bad.yaml"
    file.write_text(text, encoding="utf-8")
    refused(call("run", file, "--storage", storage, *QUIET), begins.replace("FILE", str(file)), *parts)
    assert not storage.exists()


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\xff\xfe", "UTF-8"),
        ("name: größe".encode("latin-1"), "UTF-8"),
        (b"\0\1\2\3", ""),
        (b"\xff\xfe" + "name: a".encode("utf-16-le"), "UTF-8"),
    ],
)
def test_a_file_that_is_no_text_is_refused(content, part, call, tmp_path, storage):
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    refused(call("run", file, "--storage", storage, *QUIET), f"{file}: ", part)
    assert not storage.exists()


def test_places_that_are_no_space_are_refused(call, tmp_path, storage):
    refused(call("run", tmp_path / "none.yaml", "--storage", storage), f"{tmp_path / 'none.yaml'}: ")
    refused(call("run", tmp_path, "--storage", storage), f"{tmp_path}: ", "folder")
    refused(call("run", "quikstart", "--storage", storage), "quikstart: ", "did you mean quickstart")
    refused(
        call("run", "train.py", "--storage", storage), "train.py: ", "`workload: train.py:FUNCTION`", "raysweep.run("
    )
    refused(call("run", "train.py:fit", "--storage", storage), "train.py:fit: ", "`workload: train.py:FUNCTION`")
    refused(call("workloads", "train.py:fit"), "train.py:fit: ", "docs/functions.md")
    refused(call("run", "", "--storage", storage), "")
    refused(call("run", "a\0b", "--storage", storage), "")
    assert call("run", "x" * 5000, "--storage", storage).code == 2
    assert not storage.exists()


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("axes.gamma", "--set axes.gamma: expected KEY=VALUE"),
        ("axes.gamma=", "--set axes.gamma=: there is no value after the =; null removes the key"),
        ("=3", "--set"),
        ("axes.gamma=[1", "--set axes.gamma: line 1"),
        ("axes.gamma.9=0.5", "axes.gamma.9: expected a position from 0 to 2"),
        ("axes.gamma.-1=1", "axes.gamma.-1: expected a pos"),
        ("seeds.x=1", "seeds.x: "),
        ("name.first=a", "name.first: "),
        ("axes=3", "axes: expected a mapping"),
        (".=3", ""),
        ("exclude.0.gamma=3", "exclude"),
        ("fixed={dim: 20, dim: 30}", "fixed.dim: repeated key"),
    ],
)
def test_a_bad_change_is_refused(text, begins, call, space, storage):
    refused(call("run", space, "--set", text, "--storage", storage, *QUIET), begins)
    assert not storage.exists()


@pytest.mark.parametrize(
    ("arguments", "begins"),
    [
        (["run"], "SPACE: "),
        (["run", "quickstart", "quickstart"], ""),
        (["rum"], ""),
        (["run", "quickstart", "--workers", "0"], "--workers: "),
        (["run", "quickstart", "--executor", "dask"], "--executor: "),
        (["run", "quickstart", "--name", "../x"], "--name: expected a plain name"),
        (["run", "quickstart", "--set"], "--set"),
        (["run", "quickstart", "--name", "mlflow.db"], "--name: "),
        (["resume"], "SWEEP: "),
        (["debug", "nothing", "0"], "nothing: "),
        *(([word, "nothing"], "nothing: ") for word in ("resume", "status", "results", "report", "delete", "sync")),
        (["resume", "../storage"], "../storage: "),
        (["resume", ""], ""),
        (["results", "nothing", "--format", "xls"], "--format: "),
    ],
)
def test_a_bad_command_is_refused(arguments, begins, call, storage):
    where = ["--storage", str(storage)] if len(arguments) > 1 and arguments[-1] != "--set" else []
    refused(call(*arguments, *where), begins)
    assert not storage.exists()


def test_workloads_names_the_nearest(call):
    refused(call("workloads", "linear"), "linear: ", "linear_transfer")


def test_a_huge_grid_says_its_size_and_asks_for_yes(call, tmp_path, storage):
    file = tmp_path / "huge.yaml"
    file.write_text(axis("{linspace: [0.1, 2, 1000]}") + "seeds: 500\n")
    for more in ([], ["--dry-run"]):
        refused(call("run", file, "--storage", storage, *QUIET, *more), "axes: 1,000,000 rows", "1,000 gamma", "--yes")
    file.write_text(axis("{linspace: [0.1, 2, 1e5]}").replace("[30, 60]", "{linspace: [1, 90, 101]}"))
    refused(call("run", file, "--storage", storage, *QUIET, "--yes"), "axes: 10,100,000 cells", "10,000,000")
    assert not storage.exists()


@pytest.mark.parametrize("where", ["file/below", "/proc/1/x/y"])
def test_a_storage_that_cannot_be_written_is_refused(where, call, space, tmp_path):
    (tmp_path / "file").write_text("in the way")
    before = files_of(tmp_path)
    refused(call("run", space, "--storage", tmp_path / where, *QUIET), "--storage: ", str(tmp_path / where))
    assert files_of(tmp_path) == before


def test_a_sweep_whose_place_is_taken_is_refused(call, space, storage):
    storage.mkdir()
    (storage / "small").write_text("a file")
    refused(call("run", space, "--storage", storage, *QUIET), "--storage: ")
    assert files_of(storage) == {"small": b"a file"}


@pytest.mark.parametrize(
    "uri", ["http://127.0.0.1:9/", "sqlite:////dev/null/x.db", "nonsense", "", "postgresql://nobody@127.0.0.1:9/x"]
)
def test_a_tracking_uri_that_cannot_be_reached_is_refused(uri, call, space, storage):
    outcome = call("run", space, "--storage", storage, "--tracking-uri", uri, "--no-report")
    refused(outcome, "--tracking-uri: ")
    assert outcome.err.count("--tracking-uri: ") == 1
    assert not storage.exists()


@pytest.fixture
def recorded(call, space, storage):
    """A finished sweep `small`; returns the file of its space."""
    ok(call("run", space, "--storage", storage, *QUIET))
    return space


@pytest.mark.parametrize(
    ("changes", "begins"),
    [
        (["axes.gamma=[0.3, 0.7]"], "axes.gamma: "),
        (["axes.gamma=null"], "axes.gamma: "),
        (["fixed.noise=0.3"], "fixed.noise: "),
        (["seeds=2", "axes.gamma=[0.3, 0.5, 0.7, 1.0]"], "seeds: "),
        (["seeds=[1, 2, 3, 4]"], "seeds: "),
        (["seeds=1", "fixed.noise=0.3"], "fixed.noise: "),
        (["name=other"], "name: "),
        (["exclude=[{gamma: 0.3}]"], "exclude: "),
        (["axes.overlap_angle=[30, 60, 90]", "zip=[[overlap_angle, gamma]]"], "zip: "),
    ],
)
def test_an_existing_sweep_with_another_space_is_refused_and_untouched(changes, begins, call, recorded, storage):
    before = files_of(storage)
    sets = [word for change in changes for word in ("--set", change)]
    for more in ([], ["--dry-run"]):
        outcome = call("run", recorded, "--name", "small", *sets, "--storage", storage, *QUIET, *more)
        refused(outcome, begins, "small", "--name")
    assert files_of(storage) == before


def test_bad_input_leaves_an_existing_sweep_untouched(call, recorded, storage, tmp_path):
    before = files_of(storage)
    good = recorded.read_text()
    for text, message in TEXTS[::9]:
        recorded.write_text(text)
        assert call("run", recorded, "--storage", storage, *QUIET).code == 2, message
    recorded.write_text(good)
    away = ("--tracking-uri", "http://127.0.0.1:9/")
    refused(call("run", recorded, "--name", "new", "--storage", storage, *away), "--tracking-uri: ", "raysweep sync")
    refused(call("run", recorded, "--storage", storage, *away), "--tracking-uri: ")
    refused(call("resume", "small", "--storage", storage, *away), "--tracking-uri: ")
    refused(call("delete", "small", "--yes", "--storage", storage, *away), "--tracking-uri: ")
    refused(call("sync", "small", "--storage", storage), "--tracking-uri: ")
    refused(call("resume", "smal", "--storage", storage), "smal: ", "did you mean small")
    refused(call("debug", "small", "zzzz", "--storage", storage), "zzzz: ")
    refused(call("debug", "small", "", "--storage", storage), "", "6")
    refused(call("debug", "small", "a", "x", "--storage", storage), "[SEED]: ")
    cell = call("results", "small", "--storage", storage).out.splitlines()[1].split(",")[1]
    refused(call("debug", "small", cell, "-1", "--storage", storage), "")
    nowhere = tmp_path / "no" / "table.csv"
    refused(call("results", "small", "-o", nowhere, "--storage", storage), f"{nowhere}: ")
    refused(call("results", "small", "-o", tmp_path, "--storage", storage), str(tmp_path))
    refused(call("results", "small", "other", "--storage", storage), "other: ")
    assert files_of(storage) == before


def test_a_process_says_the_same(tmp_path, storage):
    file = tmp_path / "bad.yaml"
    file.write_text(axis("[0.3]").replace("gamma", "gama"))
    outcome = process("run", file, "--storage", storage, env={"COLUMNS": "20"})
    refused(outcome, "axes.gama: unknown parameter", "did you mean gamma")
    assert not storage.exists()
