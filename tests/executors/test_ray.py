"""On Ray a sweep gives the rows it gives in one process, whatever becomes of a worker; nobody else reaches a Ray that
it starts, wherever the user's folders lie; and what a row may ask of the Ray in which it is computed."""

import functools
import shutil
import tempfile
from pathlib import Path

import pytest
from conftest import QUIET, assert_same_rows, files_of, process, refused, rows, until
from conftest import run as run_anywhere
from spaces import language_space, sandbox_space, small_space, written

import raysweep
from raysweep.errors import Halted, InputError
from raysweep.executors import local_ray
from raysweep.query.sweep import open_sweep

run = functools.partial(run_anywhere, executor="ray")


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_rows_are_the_same_on_any_number_of_workers(workers, ray_cluster, sandbox, storage):
    space = small_space(
        workload="apart",  # several packs for each worker
        axes={"overlap_angle": [30, 60], "gamma": [0.3, 0.9, 1.0, 1.5], "dim": [20, 100]},
        fixed={"noise": 0.2},
        seeds=8,
    )
    sweep = run(storage, space, workers=workers)
    assert len(list((sweep.folder / "ledger").iterdir())) >= 3 * workers
    assert_same_rows(rows(sweep), rows(run(storage / "inline", space, executor="inline")))
    assert sorted(path.name for path in sweep.folder.iterdir()) == ["driver.lock", "ledger", "logs", "sweep.json"]
    recorded = files_of(sweep.folder / "ledger")
    run(storage, {**space, "seeds": 9}, workers=workers)
    extended = files_of(sweep.folder / "ledger")
    assert {name: extended[name] for name in recorded} == recorded
    assert len(open_sweep("small", storage).results()) == 16 * 9


def test_a_worker_killed_in_mid_pack_costs_no_row(ray_cluster, sandbox, storage, tmp_path):
    table = run(storage, sandbox_space(tmp_path, ["compute", "die_once", "compute", "die_once"])).results()
    assert table["status"].tolist() == ["ok"] * 4
    assert table["y"].tolist() == [0, 1, 2, 3]
    assert len(list(tmp_path.glob("die_once-*"))) == 2  # both did die


def test_a_cluster_that_cannot_hold_a_trial_says_so(ray_cluster, storage):
    import ray

    with pytest.raises(InputError, match="^resources.gpus_per_trial: .* 1 GPU"):
        run(storage, small_space(resources={"gpus_per_trial": 1}))
    with pytest.raises(InputError, match="^resources.cpus_per_trial: .* 3 CPU"):
        run(storage, small_space(name="other", resources={"cpus_per_trial": 3}))
    assert ray.is_initialized()  # a Ray that was there before stays


@pytest.mark.long
def test_a_halt_on_ray_waits_for_no_trial_that_still_runs(ray_cluster, sandbox, storage, tmp_path):
    space = sandbox_space(tmp_path, ["compute", "halt", "wait"])
    written(tmp_path, space)
    with pytest.raises(Halted, match="^fixed.folder: .*; 1 row is kept; .* raysweep resume sandy"):
        run(storage, space, workers=2)
    (waiting,) = tmp_path.glob("wait-*")
    until(lambda: not Path(f"/proc/{waiting.read_text()}").exists())
    assert open_sweep("sandy", storage).results()["y"].tolist() == [0]  # and no row that gave up waiting
    (tmp_path / "mended").touch()
    (tmp_path / "go").touch()
    run(storage, space, executor="inline")
    assert open_sweep("sandy", storage).results()["y"].tolist() == [0, 1, 2]


@pytest.mark.long
def test_a_relative_path_is_found_from_where_the_command_was_given(ray_cluster, storage, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("\n\n".join(f"line {n} of a text to be read" for n in range(400)))
    monkeypatch.chdir(tmp_path)
    text = "file:text.txt"
    sweep = run(storage, language_space({"finetune_lr": [1e-3]}, {"source": text, "target": text}, seeds=1))
    assert sweep.results()["status"].tolist() == ["ok"] * 2


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
    ours = local_ray.folder.__wrapped__()
    assert ours.parent == short
    assert ours.stat().st_mode & 0o777 == 0o700
    left, other, elsewhere = short / "raysweep-left", short / "raysweep-other", tmp_path / "elsewhere"
    for made in (left, other, elsewhere):
        made.mkdir()
    for made in (left, elsewhere):
        (made / "lock").touch()
    (short / "raysweep-link").symlink_to(elsewhere)
    local_ray.clear_leftovers()
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
