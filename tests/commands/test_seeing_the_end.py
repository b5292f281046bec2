"""What is said of a sweep whose rows are all there: while its report and its mirror are written, and afterwards."""

import json
import os
import re
import signal
import sys
import threading
import time

import pytest
from auditing import ctrl_c_when, reading
from conftest import QUIET, driving, files_of, nobody_else_writes, ok, refused, run, sql, until
from spaces import sandbox_space

from raysweep.commands import status
from raysweep.driver import progress
from raysweep.storage import files, paths, signs
from raysweep.tracking import mirror, session
from tests.chaos.waiting import PATIENCE, wait_for


def test_status_says_that_the_mirror_is_written_and_how_far(space, storage, database, call, monkeypatch):
    with driving("run", space, "--storage", storage, "--executor", "inline", "--no-report") as driver:
        with nobody_else_writes(database):
            until((storage / "small" / signs.PHASE).exists, driver)
            said = call("status", "small", "--storage", storage).out
            told = next((line for line in driver.stderr if "Ctrl-C is safe" in line), "")
        assert told.startswith("writing the last 6 cells to MLflow; all rows are kept: Ctrl-C is safe here, and ")
        assert f"`raysweep sync small --storage {storage}` writes what is missing then" in told
        assert "small: running, 18 of 18 rows (18 ok)" in said
        assert "  writing to MLflow: 0 of 6 cells\n" in said
        assert ": 0 of 6 complete cells so far" in said
        assert "rows/s" not in said
        assert driver.wait(timeout=PATIENCE) == 0
    said = call("status", "small", "--storage", storage).out
    assert "small: finished, 18 of 18 rows (18 ok)" in said
    assert f"  mirrored to sqlite:///{database.resolve()}: all 6 cells\n" in said
    assert "writing" not in said
    assert not (storage / "small" / signs.PHASE).exists()
    monkeypatch.setattr(session, "MANY", 0)
    assert "writing" not in ok(call("sync", "small", "--storage", storage)).err  # all are there, and only compared


def test_a_sign_that_cannot_be_left_costs_the_mirror_nothing(space, storage, database, call):
    for sign in (signs.PHASE, signs.MIRRORED):
        (storage / "small" / sign / "in the way").mkdir(parents=True)
    outcome = ok(call("run", space, "--storage", storage, "--no-report"))
    assert signs.PHASE not in outcome.err
    assert signs.MIRRORED not in outcome.err
    active = "SELECT COUNT(*) FROM runs JOIN tags USING (run_uuid) WHERE lifecycle_stage = 'active'"
    assert sql(database, f"{active} AND key = 'raysweep.cell' AND status = 'FINISHED'") == [(6,)]
    assert (storage / "small" / signs.MIRRORED).is_dir()


def test_a_phase_is_seen_in_a_bucket_too_and_lost_where_that_is_gone(s3):
    folder = paths.locate(s3) / "small"
    assert signs.phase(folder) is None
    with progress.Phase(folder, "mirror", lambda: (3, 6)):
        assert signs.phase(folder) == signs.Phase("mirror", 3, 6, None)
    assert signs.phase(folder) is None
    folder = paths.locate(f"{s3}-gone") / "small"
    with pytest.raises(signs.LOST):
        files.replace(folder / signs.PHASE, b"")
    with progress.Phase(folder, "mirror", lambda: (3, 6)):
        signs.leave_mirrored(folder, signs.Mirrored("sweep", None))
    assert signs.phase(folder) is None


def test_status_says_that_the_report_is_written_and_how_far(sandbox, storage, tmp_path, call):
    asked = sandbox_space(
        tmp_path, ["compute"] * 4, name="seen", seeds=2, analysis=[{"curves": {"metric": "y", "x": "x"}}]
    )
    run(storage, asked)
    (storage / "seen" / "report").mkdir()
    os.mkfifo(storage / "seen" / "report" / "report.md")  # whoever writes there waits for somebody who reads
    with driving("resume", "seen", "--storage", storage, "--tracking-uri", "none") as driver:
        until((storage / "seen" / signs.PHASE).exists, driver)
        until(lambda: "writing the report: 2 of 2 steps\n" in call("status", "seen", "--storage", storage).out, driver)
        said = call("status", "seen", "--storage", storage).out
        assert "seen: running, 8 of 8 rows (8 ok)" in said
        assert "rows/s" not in said
        driver.kill()
        driver.wait()
        said = call("status", "seen", "--storage", storage).out
    assert "seen: finished, 8 of 8 rows (8 ok)" in said
    assert "writing" not in said


def test_cells_that_get_more_draws_are_to_be_mirrored_again(storage, database, space, call):
    ok(call("run", space, "--storage", storage, "--no-report"))
    ok(call("run", space, "--set", "seeds=4", "--storage", storage, "--no-report", *QUIET[1:]))
    assert "  6 of 6 cells not yet in MLflow (" in call("status", "small", "--storage", storage).out
    ok(call("sync", "small", "--storage", storage))
    assert ": all 6 cells\n" in call("status", "small", "--storage", storage).out
    database.unlink()
    assert "  6 of 6 cells not yet in MLflow (" in call("status", "small", "--storage", storage).out


def test_an_interrupted_sweep_that_lacked_nothing_is_not_said_to_lack_cells(
    storage, database, space, call, monkeypatch
):
    ok(call("run", space, "--storage", storage, "--no-report"))
    monkeypatch.setattr(mirror, "LAST_SECONDS", 0.5)

    def interrupt():
        if wait_for((storage / "small" / signs.PHASE).exists):
            os.kill(os.getpid(), signal.SIGINT)

    with nobody_else_writes(database):
        threading.Thread(target=interrupt, daemon=True).start()
        again = call("resume", "small", "--storage", storage, "--no-report")
        assert again.code == 130
        assert "interrupted: all 18 rows are kept; go on with: raysweep resume small" in again.err
        assert "not written" not in again.err
        assert not (storage / "small" / signs.PHASE).exists()
        assert ": all 6 cells" in call("status", "small", "--storage", storage).out.replace("complete ", "")


def test_status_writes_nothing_and_sync_writes_what_was_changed(storage, database, space, call):
    def shown():
        """The last values of the runs of cells that are not deleted."""
        return sql(
            database,
            "SELECT l.key, l.value FROM latest_metrics l JOIN runs r USING (run_uuid) JOIN tags t USING (run_uuid) "
            "WHERE r.lifecycle_stage = 'active' AND t.key = 'raysweep.cell' AND l.key != 'seconds' ORDER BY 1, 2",
        )

    ok(call("run", space, "--storage", storage, "--no-report"))
    before = shown()
    sql(database, "UPDATE runs SET status = 'RUNNING' WHERE name = 'small'")  # as a dead driver leaves it
    sql(database, "UPDATE latest_metrics SET value = 999 WHERE key = 'risk_finetune' AND value > 0.1")
    assert shown() != before
    files_before = files_of(storage)
    ok(call("status", "small", "--storage", storage))
    assert files_of(storage) == files_before
    synced = call("sync", "small", "--storage", storage)
    assert synced.err == "small: mirrored; the parameters and last values of all runs agree with the ledger\n"
    assert shown() == before
    assert sql(database, "SELECT COUNT(*) FROM runs WHERE status = 'RUNNING'") == [(0,)]


def test_a_sync_that_wrote_not_everything_says_so_and_ends_with_2(storage, database, space, call, monkeypatch):
    ok(call("run", space, "--storage", storage, *QUIET))
    monkeypatch.setattr(mirror, "PATIENCE", 1.0)
    refusing = "BEFORE INSERT ON tags WHEN NEW.key = 'raysweep.cell' BEGIN SELECT RAISE(ABORT, 'no cells here'); END"
    sql(database, f"CREATE TRIGGER no_cells {refusing}")
    failed = call("sync", "small", "--storage", storage, "--tracking-uri", f"sqlite:///{database}")
    refused(
        failed, "mirror incomplete: 6 cells not written (of 6; ", f"; run `raysweep sync small --storage {storage}`"
    )
    assert "6 of 6 cells not yet in MLflow" in call("status", "small", "--storage", storage).out


@pytest.mark.parametrize(
    ("sign", "believed"),
    [({}, True), ({"at": -2 * signs.FRESH}, False), ({"name": "cooking"}, False), ({"left": [1]}, False)],
)
def test_an_old_or_odd_sign_of_a_phase_is_not_believed(sign, believed, storage):
    storage.mkdir()
    plain = {"name": "mirror", "done": 3, "of": 6, "left": 2.5, **sign}
    offset = plain.pop("at", 0.0)
    assert isinstance(offset, float)
    (storage / signs.PHASE).write_text(json.dumps({**plain, "at": time.time() + offset}))
    found = signs.phase(storage)
    assert (found is not None and progress.phase_line(found) is not None) == believed


def test_the_driver_shows_a_phase_with_the_time_that_is_left(storage, monkeypatch, capfd):
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.01)
    storage.mkdir()
    done, said = 0, ""

    def shown(pattern):
        nonlocal said
        sys.stderr.flush()
        said += capfd.readouterr().err
        return re.search(pattern, said) is not None

    with progress.Phase(storage, "mirror", lambda: (done, 1200)):
        until(lambda: shown(r"writing to MLflow: 0 of 1,200 cells, \S+ s so far\n"))
        done = 300
        until(lambda: shown(r"writing to MLflow: 300 of 1,200 cells"))
        done = 600
        until(lambda: shown(r"writing to MLflow: 600 of 1,200 cells, \S+ s left\n"))
        assert signs.phase(storage) is not None
    assert signs.phase(storage) is None


def test_a_phase_that_is_interrupted_as_it_begins_is_over(storage):
    storage.mkdir()
    before = set(threading.enumerate())
    with (
        pytest.raises(KeyboardInterrupt),
        ctrl_c_when((storage / signs.PHASE).exists),
        progress.Phase(storage, "mirror", lambda: (0, 6)),
    ):
        pytest.fail("it began")
    assert signs.phase(storage) is None
    assert set(threading.enumerate()) <= before


def test_watching_reads_the_ledger_once_a_look(storage, sandbox, tmp_path):
    found = run(storage, sandbox_space(tmp_path, ["compute", "raise"]))
    with reading("ledger") as read:
        (said,) = status.watch(found)
    (failed,) = found.failures()
    assert any(failed["cell"] in line for line in said)
    assert sorted(read) == sorted(found.folder.glob("ledger/*.jsonl"))
    assert len(read) == 2
