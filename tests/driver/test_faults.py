"""A driver that is ended, killed, or left by its terminal or Ray leaves a sweep to another; a sweep has only one."""

import contextlib
import os
import pty
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import QUIET, assert_same_rows, driving, files_of, ok, process, refused, rows, run, sql, until
from driven import run_statuses, values
from spaces import waiting_space, written

from raysweep.executors import retry_policy
from raysweep.plan.packs import Pack
from raysweep.query.sweep import open_sweep
from raysweep.space.resources import Resources
from tests.chaos.waiting import PATIENCE


@pytest.fixture
def waiting(sandbox, storage, tmp_path):
    """A driver, a process of its own, that has computed three rows of six and waits in the fourth."""
    written(tmp_path, waiting_space(tmp_path))
    sweep = storage / "sandy"
    with driving("run", tmp_path / "space.yaml", "--storage", storage, *QUIET, "--executor", "inline") as driver:
        until(
            lambda: (
                len(list(sweep.glob("ledger/*.jsonl"))) == 3  # and the log of the fourth has its first line
                and sum(log.stat().st_size > 0 for log in sweep.glob("logs/*.log")) == 4
            ),
            driver,
        )
        yield driver


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_an_ended_sweep_says_how_to_go_on_and_comes_to_the_rows_of_one_that_was_left_alone(
    number, waiting, storage, tmp_path, call
):
    waiting.send_signal(number)
    out, err = waiting.communicate(timeout=PATIENCE)
    assert (waiting.returncode, out) == (-number if number == signal.SIGKILL else 130, "")
    assert "Traceback" not in err
    assert number == signal.SIGKILL or f"raysweep resume sandy --storage {storage}" in err
    result = call("status", "sandy", "--storage", storage, "--tracking-uri", "none")
    assert "interrupted, 3 of 6 rows (3 ok)" in result.out
    assert f"raysweep resume sandy --storage {storage}" in result.out
    before = files_of(storage / "sandy" / "ledger")
    (tmp_path / "go").touch()
    ok(call("resume", "sandy", "--storage", storage, *QUIET, "--executor", "inline"))
    assert before.items() <= files_of(storage / "sandy" / "ledger").items()
    undisturbed = rows(run(storage / "undisturbed", waiting_space(tmp_path)))
    assert_same_rows(rows(open_sweep("sandy", storage)), undisturbed)
    assert [row["y"] for row in undisturbed] == [1, 2, 3, 4, 5, 6]


def test_a_sweep_has_one_driver(waiting, storage, tmp_path, call):
    before = files_of(storage)
    assert process("resume", "sandy", "--storage", storage, *QUIET).code == 2  # where a hang would end
    for arguments in (
        ["resume", "sandy"],
        ["run", tmp_path / "space.yaml"],
        ["run", tmp_path / "space.yaml", "--set", "seeds=2"],
        ["sync", "sandy"],
        ["delete", "sandy", "--yes"],
    ):
        uri = f"sqlite:///{tmp_path / 'db'}" if arguments[0] == "sync" else "none"
        by = [f"process {waiting.pid} on"] if arguments[0] != "delete" else []
        refused(call(*arguments, "--storage", storage, "--tracking-uri", uri), "sandy: is ", *by)
    assert "running, 3 of 6 rows" in call("status", "sandy", "--storage", storage, "--tracking-uri", "none").out
    assert "running" in call("list", "--storage", storage).out
    assert call("results", "sandy", "--storage", storage).out.count("\n") == 4
    assert files_of(storage) == before
    (tmp_path / "go").touch()
    _, err = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 0, err
    assert "finished, 6 of 6" in call("status", "sandy", "--storage", storage, "--tracking-uri", "none").out


INLINE = ("--executor", "inline", "--tracking-uri", "none")


def begun(database):
    return sql(database, "SELECT COUNT(*) FROM runs") > [(0,)]


def test_a_driver_under_nohup_outlives_its_terminal(sandbox, drive, storage, tmp_path):
    driven = drive(*INLINE, before=("nohup",))
    driven.send_signal(signal.SIGHUP)
    (tmp_path / "go").touch()
    _, err = driven.communicate(timeout=PATIENCE)
    assert driven.returncode == 0, err
    assert values(storage) == [0, 1, 2, 3]


def test_many_signals_end_a_driver_once(sandbox, drive):
    driven = drive(*INLINE)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGTERM, signal.SIGTERM):
        with contextlib.suppress(ProcessLookupError):
            driven.send_signal(number)
    _, err = driven.communicate(timeout=PATIENCE)
    assert driven.returncode == 130, err
    assert err.count("2 rows are kept; go on with: raysweep resume sandy") == 1
    assert "Traceback" not in err


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_spot_notice_or_ctrl_c_ends_a_driver_on_ray_in_time_and_nothing_is_left_running(
    number, ray_cluster, sandbox, drive, storage, database, tmp_path
):
    driven = drive("--executor", "ray", "--workers", "2", env={**os.environ, "RAY_ADDRESS": ray_cluster})
    until(lambda: begun(database), driven)
    driven.send_signal(number)
    start = time.monotonic()
    _, err = driven.communicate(timeout=PATIENCE)
    assert driven.returncode == 130, err
    assert time.monotonic() - start < 25
    assert "2 rows are kept; go on with: raysweep resume sandy" in err
    assert_goes_on(storage, tmp_path, "--no-report")
    assert run_statuses(database) == {"sweep": {"FINISHED": 1}, "cell": {"FINISHED": 4}}


def assert_goes_on(storage, folder, *options, **more):
    """A resume ends the sweep, and what Ray needed is gone."""
    (folder / "go").touch()
    ok(process("resume", "sandy", "--storage", storage, "--executor", "inline", *options, **more))
    assert values(storage) == [0, 1, 2, 3]
    assert sorted(path.name for path in (storage / "sandy").iterdir() if path.is_dir()) == ["ledger", "logs"]


def in_session(session):
    """Processes of a session, but for those that only wait to be buried."""
    listed = subprocess.run(["ps", "-o", "pid=,stat=", "-s", str(session)], capture_output=True, text=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if not line.split()[1].startswith("Z")]


@pytest.mark.long
def test_a_driver_killed_on_ray_takes_its_ray_along_and_goes_on(sandbox, drive, storage, tmp_path):
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="t") as temporary:  # a short path, which Ray can use
        env = {**os.environ, "TMPDIR": temporary}
        driven = drive("--executor", "ray", "--workers", "2", "--tracking-uri", "none", env=env)
        assert len(in_session(driven.pid)) > 3
        driven.kill()
        driven.communicate(timeout=PATIENCE)
        until(lambda: not in_session(driven.pid))
        assert len(os.listdir(temporary)) == 1
        assert_goes_on(storage, tmp_path, *QUIET, env={"TMPDIR": temporary})
        assert os.listdir(temporary) == []


@pytest.mark.long
@pytest.mark.parametrize("part", ["raylet/raylet", "gcs/gcs_server"])
def test_a_ray_that_dies_ends_a_driver_in_time_and_resumable(part, sandbox, drive, storage, database, tmp_path):
    driven = drive("--executor", "ray", "--workers", "2")
    until(lambda: begun(database), driven)
    program = f"/ray/core/src/ray/{part}"
    victims = [one for one in in_session(driven.pid) if program in Path(f"/proc/{one}/cmdline").read_text()]
    assert len(victims) == 1
    os.kill(victims[0], signal.SIGKILL)
    lost = time.monotonic()
    _, err = driven.communicate(timeout=PATIENCE)
    assert driven.returncode == 130, err
    assert time.monotonic() - lost < 30
    assert "2 rows are kept; go on with: raysweep resume sandy" in err
    assert run_statuses(database)["sweep"] == {"KILLED": 1}
    assert_goes_on(storage, tmp_path, "--no-report")
    assert run_statuses(database) == {"sweep": {"FINISHED": 1}, "cell": {"FINISHED": 4}}


@pytest.mark.long
def test_an_extension_killed_while_ray_starts_is_resumed_as_it_was_asked(space, storage):
    arguments = ["--storage", storage, *QUIET]
    ok(process("run", space, *arguments))
    before = files_of(storage)
    extending = ["run", space, *arguments, "--set", "seeds=5", "--executor", "ray"]
    refused = process(*extending, "--set", "resources.cpus_per_trial=999")
    assert (refused.code, refused.err.partition(":")[0]) == (2, "resources.cpus_per_trial"), refused
    assert files_of(storage) == before
    with driving(*extending) as driven:
        assert driven.stderr.readline() == "starting Ray\n"
    ok(process("resume", "small", *arguments, "--executor", "inline"))
    assert len(open_sweep("small", storage).results()) == 6 * 5


@pytest.mark.parametrize("output", ["pipe", "terminal", "closed from the start"])
def test_a_driver_that_nobody_listens_to_goes_on(output, sandbox, drive, storage, tmp_path):
    if output == "closed from the start":
        driven = drive(*INLINE, before=("sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh"))
    elif output == "pipe":
        driven = drive(*INLINE)
        driven.stdout.close()
        driven.stderr.close()
        driven.stdout = driven.stderr = None
    else:
        ours, theirs = pty.openpty()  # not the controlling terminal of that session: no SIGHUP, only EIO
        driven = drive(*INLINE, stdout=theirs, stderr=theirs)
        os.close(theirs)
        os.close(ours)
    (tmp_path / "go").touch()
    assert driven.wait(timeout=PATIENCE) == 0
    assert values(storage) == [0, 1, 2, 3]


def test_a_machine_that_goes_has_a_budget_of_its_own():
    """Also where its worker is missed before the machine is: the death is then known at the pack's next start."""
    pack, cells = Pack("pack", np.arange(2), np.zeros(2, int), 1.0, 0.0, Resources()), ["a", "b"]
    policy = retry_policy.RetryPolicy()
    policy.begin("pack", set())
    assert policy.count("pack", {"m1"}) == (0, 1)  # known at once
    assert policy.by_machine("pack", {"m1"})
    policy.begin("pack", {"m1"})
    assert policy.count("pack", {"m1"}) == (1, 1)  # perhaps the pack's own doing
    assert not policy.by_machine("pack", {"m1"})
    policy.begin("pack", {"m1", "m2"})
    assert policy.count("pack", {"m1", "m2"}) == (1, 2)  # no: m2 was found dead; but now, perhaps
    assert policy.again(pack, cells, {"m1", "m2"}) == [pack]
    policy.begin("pack", {"m1", "m2"})
    left, right = policy.again(pack, cells, {"m1", "m2"})  # one of its rows may be the cause
    assert [list(half.cells) for half in (left, right)] == [[0], [1]]
    policy.begin(left.id, {"m1", "m2"})
    assert policy.count(left.id, {"m1", "m2"}) == (2, 0)
    policy.begin(right.id, {"m2", "m3"})  # a cluster forgets machines that died long ago
    assert policy.count(right.id, {"m3"}) == (1, 1)
    for _ in range(retry_policy.WORKER_RETRIES):
        policy.begin(left.id, {"m1", "m2"})
    assert policy.again(left, cells, {"m1", "m2"}) == []  # a single row is given up


def test_folders_that_a_copy_lost_are_made_again(call, space, storage):
    ok(call("run", space, "--storage", storage, *QUIET))
    for name in ("ledger", "logs"):
        shutil.rmtree(storage / "small" / name)
    ok(call("resume", "small", "--storage", storage, *QUIET))
    assert len(open_sweep("small", storage).results()) == 6 * 3
