"""A driver that is told to end, or killed, leaves a sweep that another goes on with; and a sweep has one at a time."""

import signal

import pytest
from conftest import QUIET, assert_same_rows, driving, files_of, ok, process, refused, rows, run, until
from spaces import waiting_space, written

from raysweep.query.sweep import open_sweep
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
