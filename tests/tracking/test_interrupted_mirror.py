"""Ctrl-C while the last cells go to MLflow: nothing is left running there, and `sync` writes the rest."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from conftest import Call, driving, sql, until
from servers import hurry
from spaces import small_space, written

from tests.chaos.waiting import PATIENCE

STATUSES = "SELECT status, lifecycle_stage, COUNT(*) FROM runs GROUP BY status, lifecycle_stage"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_that_is_cut_short_leaves_no_run_running(
    number: signal.Signals, storage: Path, slow_database: Path, tmp_path: Path, call: Call
) -> None:
    def runs() -> list[tuple[str, str, int]]:
        return sql(slow_database, STATUSES)

    space = small_space(axes={"overlap_angle": list(range(1, 41)), "gamma": [0.2, 0.4, 0.6, 0.8]}, seeds=2)
    asked = ("run", written(tmp_path, space), "--storage", storage, "--executor", "inline", "--no-report")
    with driving(*asked) as driver:
        assert driver.stderr is not None
        assert any(line.startswith("writing the last") for line in driver.stderr)
        # importing MLflow alone may take as long as an interrupted mirror has
        until(runs, driver)
        driver.send_signal(number)
        output = driver.stderr.read()
        assert driver.wait(timeout=PATIENCE) == 130
    assert "interrupted: all 320 rows are kept; go on with: raysweep resume small" in output
    missing = re.search(
        r"mirror incomplete: (\d+) cells not written \(of 160\); run `raysweep sync small "
        rf"--storage {storage}`",
        output,
    )
    result = runs()
    assert "RUNNING" not in {status for status, _, _ in result}
    there = {status: count for status, stage, count in result if stage == "active"}
    assert there.get("FINISHED", 0) == 160 - (int(missing[1]) if missing else 0), output
    hurry(slow_database)
    assert call("sync", "small", "--storage", storage).code == 0
    assert ("FINISHED", "active", 161) in runs()
