"""Ctrl-C while the last cells go to MLflow: nothing is left running there, and `sync` writes the rest."""

import re
import signal

import pytest
from conftest import driving, ok, sql, until
from servers import hurry
from spaces import small_space, written

from raysweep.storage import signs
from tests.chaos.waiting import PATIENCE

TOLD = r"not written \(of 160\); run `raysweep sync small"
STATUSES = "SELECT status, lifecycle_stage, COUNT(*) FROM runs GROUP BY status, lifecycle_stage"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_end_that_is_cut_short_leaves_no_run_running_and_says_how_many_cells_are_missing(
    number, storage, slow_database, tmp_path, call
):
    """One that is killed says nothing and leaves its runs; `status` never says that a cell is there that is not."""

    def runs():
        return sql(slow_database, STATUSES)

    def finished():
        return sum(count for status, stage, count in runs() if (status, stage) == ("FINISHED", "active"))

    space = small_space(axes={"overlap_angle": list(range(1, 41)), "gamma": [0.2, 0.4, 0.6, 0.8]}, seeds=2)
    asked = ("run", written(tmp_path, space), "--storage", storage, "--executor", "inline", "--no-report")
    with driving(*asked) as driver:
        assert any(line.startswith("writing the last") for line in driver.stderr)
        # importing MLflow alone may take as long as an interrupted mirror has
        until(lambda: (there := signs.mirrored(storage / "small")) and there.runs, driver)
        driver.send_signal(number)
        output = driver.stderr.read()
        assert driver.wait(timeout=PATIENCE) == (-number if number == signal.SIGKILL else 130)
    if number != signal.SIGKILL:
        assert "interrupted: all 320 rows are kept; go on with: raysweep resume small" in output
        assert "RUNNING" not in {status for status, _, _ in runs()}
        missing = re.search(rf"mirror incomplete: (\d+) cells {TOLD} --storage {storage}`", output)
        assert finished() == 160 - (int(missing[1]) if missing else 0), output
    hurry(slow_database)
    said = call("status", "small", "--storage", storage).out
    assert "small: finished, 320 of 320 rows (320 ok)" in said
    missing = re.search(
        rf"  (\d+) of 160 cells not yet in MLflow .*sync small --storage {storage}` writes them\n", said
    )
    assert missing, said
    assert 160 - finished() <= int(missing[1]) < 160
    ok(call("sync", "small", "--storage", storage))
    assert finished() == 161
    assert ": all 160 cells\n" in call("status", "small", "--storage", storage).out
