"""The Ray that a sweep starts on this machine: nobody else reaches it, wherever the user's folders lie; and what a row
may ask of the Ray in which it is computed."""

import shutil
import tempfile
from pathlib import Path

import pytest
from conftest import QUIET, process, refused
from spaces import small_space, written

import raysweep
from raysweep.executors import temporary
from raysweep.query.sweep import open_sweep

CODE = """
def reached(x, folder, seed):
    import os, pathlib
    from ray._private.worker import _global_node
    session = pathlib.Path(_global_node.get_session_dir_path())
    pathlib.Path(folder, "session.txt").write_text(str(session))
    return float(any(place.stat().st_mode & 0o777 == 0o700 for place in session.parents))
"""


@pytest.fixture
def short():
    """An empty temporary folder with a short path."""
    made = Path(tempfile.mkdtemp(dir="/tmp", prefix="t"))
    yield made
    shutil.rmtree(made)


@pytest.mark.long
def test_ray_starts_without_a_home_and_with_a_long_path_of_temporary_files(tmp_path, storage):
    (tmp_path / "reached.py").write_text(CODE)
    fixed = {"folder": str(tmp_path)}
    space = {"name": "reached", "workload": "reached.py:reached", "axes": {"x": list(range(4))}, "fixed": fixed}
    long = tmp_path / ("long" * 30)
    long.mkdir()
    asked = ["run", written(tmp_path, {**space, "seeds": 1}), "--storage", storage, *QUIET, "--executor", "ray"]
    # the first row is computed before there is a Ray, and fails
    done = process(*asked, env={"HOME": "/dev/null", "TMPDIR": str(long)})
    assert done.code in (0, 1), done
    table = open_sweep("reached", storage).results()
    assert table["value"].dropna().tolist() == [1.0] * (table["status"] == "ok").sum()
    assert (table["status"] == "ok").any()
    assert not Path((tmp_path / "session.txt").read_text()).exists()


def test_a_ray_that_does_not_start_is_one_line(tmp_path, storage):
    first = "import ray\ndef init(**options): raise RuntimeError('timed out\\nduring startup')\nray.init = init"
    asked = ["run", written(tmp_path, small_space()), "--storage", storage, *QUIET, "--executor", "ray"]
    outcome = process(*asked, first=first)
    assert outcome.err.startswith("starting Ray\n")
    message = type(outcome)(outcome.code, outcome.out, outcome.err.removeprefix("starting Ray\n"))
    refused(message, "--executor: Ray cannot be started", "timed out", "--executor inline")
    assert not storage.exists()


def test_what_a_killed_process_left_is_removed_and_nothing_else(short, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    ours = temporary.folder.__wrapped__()
    assert ours.parent == short
    assert ours.stat().st_mode & 0o777 == 0o700
    left, other, elsewhere = short / "raysweep-left", short / "raysweep-other", tmp_path / "elsewhere"
    for made in (left, other, elsewhere):
        made.mkdir()
    for made in (left, elsewhere):
        (made / "lock").touch()
    (short / "raysweep-link").symlink_to(elsewhere)
    temporary.clear_leftovers()
    assert sorted(path.name for path in short.iterdir()) == sorted([ours.name, "raysweep-link", "raysweep-other"])
    assert (elsewhere / "lock").exists()


@pytest.mark.long
def test_a_row_that_starts_tasks_of_ray_is_computed_or_fails_and_waits_for_no_cores(ray_cluster, storage):
    def nested(cores, seed):
        import ray

        if cores < 0:
            return 1.0
        return float(ray.get(ray.remote(lambda: 1.0).options(num_cpus=cores).remote()))

    axes = {"cores": [-1, 1, 0]}
    sweep = raysweep.run(nested, axes=axes, seeds=3, storage=storage, tracking_uri="none", report=False, executor="ray")
    table = sweep.results()
    assert table["status"].tolist() == ["failed" if cores == 1 else "ok" for cores in table["cores"]]
    assert all("No trial resources are available" in row["error"] for row in sweep.failures())
