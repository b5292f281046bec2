"""A deletion has its sweep for itself from first to last; one that is cut short is finished by the next."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import QUIET, Outcome, files_of, refused, run

from raysweep.storage import driver_lock
from raysweep.sweep import open_sweep
from raysweep.tracking import cleanup, server

Call = Callable[..., Outcome]


def test_nobody_begins_to_drive_a_sweep_that_is_being_deleted(
    storage: Path, space: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(storage)
    there = ["--storage", storage]
    outcomes: dict[str, Outcome] = {}

    def forget(*arguments: str) -> None:
        """What takes seconds: MLflow."""
        for command in (
            ["run", space, *QUIET],
            ["run", space, "--set", "seeds=5", *QUIET],
            ["resume", "small", *QUIET],
            ["delete", "small"],
            ["results", "small"],
            ["sync", "small"],
        ):
            outcomes[" ".join(map(str, command[:1] + command[2:]))] = call(*command, *there)
        outcomes["list"] = call("list", *there)

    monkeypatch.setattr(cleanup, "forget", forget)
    assert call("delete", "small", *there, "--tracking-uri", f"sqlite:///{storage / 'mlflow.db'}").code == 0
    listed = outcomes.pop("list")
    assert (listed.code, "is being deleted" in listed.out) == (0, True)
    for told in outcomes.values():
        refused(told, "small: is being deleted")
    assert not (storage / "small").exists()
    assert len(run(storage).results()) == 18


def test_a_deletion_that_mlflow_refuses_leaves_the_sweep_whole(
    storage: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(storage)
    before = files_of(storage)

    def away(*arguments: str) -> None:
        raise server.Unreachable("cannot reach it")

    monkeypatch.setattr(cleanup, "forget", away)
    refused(call("delete", "small", "--storage", storage, "--tracking-uri", "sqlite:///x.db"), "--tracking-uri: ")
    assert files_of(storage) == before
    assert len(open_sweep("small", storage).results()) == 18


KILLED = """
import os, sys, shutil
from pathlib import Path
from raysweep.main import main
usual = shutil.rmtree
def rmtree(path):
    usual(path)
    os._exit(9)
shutil.rmtree = rmtree
main(sys.argv[1:])
"""


def test_a_deletion_that_is_killed_leaves_no_sweep_and_can_be_finished(storage: Path, space: Path, call: Call) -> None:
    run(storage)
    there = ["--storage", storage]
    arguments = ["delete", "small", "--storage", str(storage), "--tracking-uri", "none"]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], stdin=subprocess.DEVNULL, timeout=120, check=False
    )
    assert killed.returncode == 9
    assert (storage / "small").exists()
    for command in (["run", space, *QUIET], ["resume", "small", *QUIET], ["results", "small"], ["status", "small"]):
        refused(
            call(*command, *there),
            "small: is being deleted, or its deletion was cut short",
            f"raysweep delete small --storage {storage}",
        )
    assert "raysweep delete small" in call("list", *there).out
    refused(call("delete", "small", *there, "--tracking-uri", "http://127.0.0.1:9/"), "--tracking-uri: ")
    refused(call("results", "small", *there), "small: is being deleted")  # it has not become a whole one again
    assert call("delete", "small", *there, "--tracking-uri", "none").code == 0
    assert not (storage / "small").exists()
    assert call("run", space, *there, *QUIET).code == 0


def test_a_lock_is_not_that_of_a_sweep_that_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file may be deleted after it was opened and before it is locked; another driver would lock a new one."""
    usual, times = driver_lock._lock, []

    def lock(stream: object) -> None:
        if not times:
            (tmp_path / driver_lock.FILE).unlink()
        times.append(stream)
        usual(stream)

    monkeypatch.setattr(driver_lock, "_lock", lock)
    with driver_lock.held(tmp_path):
        assert driver_lock.is_held(tmp_path)
        with pytest.raises(driver_lock.Busy), driver_lock.held(tmp_path):
            pass
    assert not driver_lock.is_held(tmp_path)
