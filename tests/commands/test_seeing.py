"""How a running sweep is seen and bounded: status and its watch, hours, logs of trials, runs in MLflow by choice."""

import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import QUIET, driving, ok, process, refused, run, until
from servers import runs_of
from spaces import sandbox_space, space_over, written

import raysweep
from raysweep.driver import limits
from raysweep.driver.limits import TimeLimit
from raysweep.plan.pack import PackQueue
from raysweep.plan.packs import Pack
from raysweep.space.resources import Resources
from raysweep.stages.store import Store
from tests.chaos.waiting import PATIENCE, wait_for


@pytest.fixture
def file(sandbox, tmp_path):
    """A sweep of a row that is done at once and one that waits for a word."""
    return written(tmp_path, sandbox_space(tmp_path, ["compute", "wait"], name="seen"))


@pytest.fixture
def running(file, storage):
    with driving("run", file, "--storage", storage, "--executor", "inline", *QUIET) as driver:
        until(
            lambda: (
                len(list(storage.glob("seen/ledger/*.jsonl"))) == 1
                and sum(log.stat().st_size > 0 for log in storage.glob("seen/logs/*")) == 2  # its first line is there
            ),
            driver,
        )
        yield driver


def test_status_says_what_was_used_and_what_runs_where(running, storage, call):
    said = call("status", "seen", "--storage", storage).out
    assert "seen: running, 1 of 2 rows (1 ok)" in said
    assert "core-hours, about" in said
    (line,) = [line for line in said.splitlines() if "under way for" in line]
    done = {path.stem for path in storage.glob("seen/ledger/*.jsonl")}
    (left,) = {path.stem for path in storage.glob("seen/logs/*.log")} - done
    assert f"pack {left.rpartition('-')[0]} of 1 row on" in line
    assert f"process {running.pid}" in line


def test_hours_count_what_each_trial_holds(sandbox, storage, tmp_path, call):
    asked = {
        **sandbox_space(tmp_path, ["compute", "compute", "raise"], name="seen"),
        "resources": {"where": [{"x": 1, "cpus_per_trial": 2}]},
    }
    found = run(storage, asked)
    seconds = found.results()["seconds"]
    spent = float((seconds * [1, 2, 1]).sum())
    assert f"  used {spent / 3600:,.3g} core-hours\n" in call("status", "seen", "--storage", storage).out


def test_hours_count_stages_that_trials_computed_for_the_rows_of_others(sandbox, storage, tmp_path, call):
    """The first two steps of the trunk are shared, so they are a pack of their own, whose time is in no row."""
    keys = {"fixed": {"folder": str(tmp_path), "trouble": "take time"}, "resources": {"cpus_per_trial": 2}}
    asked = space_over("staged", {"length": [2, 3, 4], "decay": [0, 1]}, name="seen", seeds=1, **keys)
    found = run(storage, asked)
    store = Store(storage / "store")
    metas = [record["meta"] for stage in store.stages() if (record := store.look(stage))]
    apart = sum(meta["seconds"] for meta in metas if "trial" in meta)
    assert apart > 0.1
    spent = 2 * (found.results()["seconds"].sum() + apart)
    assert f"  used {spent / 3600:,.3g} core-hours\n" in call("status", "seen", "--storage", storage).out


def test_watching_ends_with_the_sweep(running, storage, tmp_path):
    with driving("status", "seen", "--storage", storage, "--watch") as watcher:
        assert "running, 1 of 2" in watcher.stdout.readline()
        (tmp_path / "go").touch()
        rest = watcher.communicate(timeout=PATIENCE)[0]
    assert "seen: finished, 2 of 2 rows (2 ok)" in rest
    assert watcher.returncode == 0


def test_the_hours_end_a_pack_that_does_not_and_resume_goes_on(file, storage, tmp_path, call, monkeypatch):
    """They begin with that pack here: what comes before it may take any time."""
    usual = signal.setitimer

    def later(which, seconds):
        if seconds:
            threading.Thread(target=lambda: wait_for(mark) and usual(which, seconds), daemon=True).start()
        else:
            usual(which, seconds)

    def mark():
        return any(tmp_path.glob("wait-*"))

    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(limits, "signal", SimpleNamespace(**{**vars(signal), "setitimer": later}))
    stopped = call("run", file, "--storage", storage, "--executor", "inline", *QUIET, "--max-hours", 2 / 3600)
    assert stopped.code == 130
    (line,) = [line for line in stopped.err.splitlines() if "--max-hours" in line]
    assert "2.0 s" in line
    assert "1 row " in line
    assert line.endswith(f"raysweep resume seen --storage {storage}")
    assert "interrupted, 1 of 2 rows (1 ok)" in call("status", "seen", "--storage", storage).out  # none gave up waiting
    (tmp_path / "go").touch()
    ok(call("resume", "seen", "--storage", storage, "--executor", "inline", *QUIET))
    assert "finished, 2 of 2 rows (2 ok)" in call("status", "seen", "--storage", storage).out


@pytest.mark.parametrize("hours", [0, -1, "soon", "nan"])
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_hours_are_above_nothing(dry, hours, file, storage, call):
    refused(call("run", file, "--storage", storage, "--max-hours", hours, *dry), "--max-hours: ")
    assert not storage.exists()


@pytest.mark.parametrize("hours", [1e300, "inf"])
def test_more_hours_than_a_timer_takes_are_no_limit(hours, file, storage, tmp_path, call):
    (tmp_path / "go").touch()
    ok(call("run", file, "--storage", storage, "--executor", "inline", *QUIET, "--max-hours", hours))


def test_a_pack_that_would_not_end_in_time_leaves_its_turn_to_a_shorter_one():
    packs = [
        Pack(name, *2 * (np.zeros(1, int),), seconds, 0.0, Resources())
        for name, seconds in [("first", 10), ("long", 3600), ("short", 5)]
    ]
    limit = TimeLimit(0.5)
    limit.learn(2.0, 1.0)  # twice what was estimated
    queue = PackQueue(lambda: packs, lambda pack: limit.fits(pack.seconds))
    given = []
    while (pack := queue.next()) is not None:
        given.append(pack.id)
        queue.done(pack)
    assert given == ["first", "short"]
    assert queue.held_back == 1


def test_a_trial_keeps_its_log_and_its_run_says_where(executor, sandbox, storage, tmp_path, database):
    asked = sandbox_space(tmp_path, ["speak", "raise"], name="seen")
    found = run(storage, asked, executor=executor, tracking_uri=None)
    told = [(run.data.params["x"], run.data.tags) for run in runs_of(database, "seen", "cell")]
    logs = {x: Path(tags["raysweep.folder"]) / tags["raysweep.logs"] for x, tags in told}
    assert logs["0"].parent == (found.folder / "logs").resolve()
    spoken = logs["0"].read_text()
    if executor == "ray":
        assert "said on stdout\n" in spoken
        assert "said on stderr\n" in spoken
    assert "INFO done after" in spoken
    assert "ArithmeticError: x = 1 cannot be computed" in logs["1"].read_text()


@pytest.mark.parametrize(("runs_per", "count"), [("cell", 3), ("pack", 1), ("sweep", 0)])
def test_runs_in_mlflow_are_by_choice_and_stay_so(runs_per, count, sandbox, storage, tmp_path, database):
    asked = sandbox_space(tmp_path, ["compute"] * 3, name="seen")
    run(storage, asked, runs_per=runs_per, tracking_uri=None)
    raysweep.sweep.sync("seen", storage=storage, say=lambda line: None)
    kinds = [run.data.tags["raysweep.kind"] for run in runs_of(database, "seen")]
    assert sorted(kinds) == ["cell"] * count + ["sweep"]
    other = "pack" if runs_per == "cell" else "cell"
    with pytest.raises(raysweep.errors.InputError, match=f"--runs-per: seen is mirrored per {runs_per}"):
        run(storage, asked, runs_per=other, tracking_uri=None)


@pytest.mark.long
def test_the_hours_are_named_on_ray_too(file, storage, sandbox, ray_cluster):
    hours = ("--max-hours", str(8 / 3600))
    stopped = process(
        "run", file, "--storage", storage, "--executor", "ray", *QUIET, *hours, env={"RAY_ADDRESS": ray_cluster}
    )
    assert stopped.code == 130, stopped
    assert "8.0 s of --max-hours" in stopped.err
