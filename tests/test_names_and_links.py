"""No name and no link leads out of its folder."""

import hashlib
import json
import os

import numpy as np
import pytest
import yaml
from conftest import QUIET, files_of, ok, refused
from spaces import small_space

import raysweep
from raysweep.errors import InputError
from raysweep.stages import references
from raysweep.stages.store import Store

BAD_NAMES = ["..", "../small", "/small", "a/b", "a\\b", "a\0b", "", " ", ".hidden", "-x", "x" * 65, "a\u2215b"]
BAD_NAMES += ["a\uff0fb", "a\u2028b", "a\nb", "~root", "$HOME", "\u202egnp", "a\x1b[2Jb"]
RESERVED = ["store", "mlflow.db", "mlflow-artifacts"]


@pytest.mark.parametrize("name", BAD_NAMES + RESERVED)
def test_a_new_name_cannot_leave_the_storage(name, call, storage, tmp_path):
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(small_space()))
    refused(call("run", tmp_path / "small.yaml", f"--name={name}", "--storage", storage, *QUIET), "--name: ")
    (tmp_path / "named.yaml").write_text(yaml.safe_dump(small_space(name=name)))
    refused(call("run", tmp_path / "named.yaml", "--storage", storage, *QUIET), "name: ")
    with pytest.raises(InputError):
        raysweep.run(small_space(), name=name, storage=storage)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["named.yaml", "small.yaml"]


@pytest.mark.parametrize("name", [name for name in BAD_NAMES if not name.startswith("-")] + ["../outside", *RESERVED])
def test_the_name_of_a_sweep_finds_nothing_outside_the_storage(name, call, small, tmp_path):
    small.rename(tmp_path / "outside")  # a whole sweep beside the storage
    ok(call("run", tmp_path / "small.yaml", "--name", "other", "--storage", small.parent, *QUIET))
    before = files_of(tmp_path)
    for command in ("status", "resume", "results", "report", "sync", "delete"):
        outcome = call(command, name, "--storage", small.parent, *["--yes"] * (command == "delete"))
        assert outcome.code == 2, (command, outcome)
        assert outcome.err.count("\n") == 1
        assert outcome.err.rstrip("\n").isprintable()
    assert call("debug", "other", name, "--storage", small.parent).code == 2
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("stage", ["../../outside", "/etc/passwd", "a/b", "..", "a\0b", "*"])
def test_the_name_of_a_stage_finds_nothing_outside_the_store(stage, call, tmp_path):
    store = Store(tmp_path / "store")
    store.publish("one", {"w": np.zeros(3)}, {})
    (tmp_path / "outside.json").write_text("{}")
    before = files_of(tmp_path)
    refused(call("store", "prune", stage, "--yes", "--store", tmp_path / "store"), "")
    for action in (
        store.fetch,
        store.look,
        lambda name: store.publish(name, {}, {}),
        lambda name: references.refer(store, "s", [name]),
    ):
        with pytest.raises(ValueError, match="expected a stage id"):
            action(stage)
    with pytest.raises(ValueError, match="expected a plain name"):
        references.refer(store, stage, ["one"])
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("inner", ["", "sweep.json", "driver.lock", "ledger", "logs", "report", "tune"])
def test_a_link_in_the_storage_does_not_lead_out_of_it(inner, call, small, tmp_path):
    outside = tmp_path / "outside"
    path = small / inner if inner else small
    if path.exists():
        path.rename(outside)
    else:
        outside.mkdir()
        (outside / "report.html").write_text("mine")
    path.symlink_to(outside)
    before = files_of(outside) if outside.is_dir() else {"": outside.read_bytes()}
    for words in (
        *([command, "small"] for command in ("status", "resume", "results", "report", "sync", "delete")),
        ["run", str(tmp_path / "small.yaml")],
    ):
        refused(call(*words, "--storage", small.parent), f"{path}: is a link")
    assert (files_of(outside) if outside.is_dir() else {"": outside.read_bytes()}) == before


def test_a_report_and_a_log_write_over_no_link(call, small, tmp_path):
    target = tmp_path / "precious"
    target.write_text("mine")
    (small / "report").mkdir()
    for name in ("report.html", "report.md", ".report-files.json"):
        (small / "report" / name).symlink_to(target)
    (tmp_path / "folder").mkdir()
    (small / "report" / "figures").symlink_to(tmp_path / "folder")
    ok(call("report", "small", "--storage", small.parent))
    for path in list((small / "logs").iterdir()):
        path.unlink()
        path.symlink_to(target)
    for path in (small / "ledger").iterdir():
        path.unlink()
    ok(call("resume", "small", "--storage", small.parent, *QUIET))
    assert target.read_text() == "mine"
    assert not list((tmp_path / "folder").iterdir())
    names = ("../../../precious", str(target), "figures/../../x")
    listed = json.dumps(dict.fromkeys(names, hashlib.sha256(b"mine").hexdigest()))
    (small / "report" / ".report-files.json").write_text(listed)
    ok(call("report", "small", "--storage", small.parent))
    assert target.read_text() == "mine"


def test_a_path_that_no_file_can_have_is_one_line(call, small, tmp_path):
    for words in (
        ["results", "small", "-o", str(tmp_path / "a\0b")],
        ["report", "small", "-o", str(tmp_path / "a\0b")],
        ["results", "small", "-o", str(tmp_path)],
        ["results", "small", "-o", str(tmp_path / ("x" * 300))],
    ):
        refused(call(*words, "--storage", small.parent), "")
    for storage in (str(tmp_path / "a\0b"), str(tmp_path / ("x" * 300))):
        for words in (["run", str(tmp_path / "small.yaml"), *QUIET], ["status", "small"], ["store", "list"]):
            refused(call(*words, "--storage", storage), "")
        listed = call("list", "--storage", storage)
        assert listed.code in (0, 2)
        assert "Traceback" not in listed.err
    refused(call("run", "a\0b.yaml"), "")
    assert os.listdir(tmp_path) == sorted(["small.yaml", "storage"], key=os.listdir(tmp_path).index)
