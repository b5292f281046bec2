"""A sweep whose storage is a bucket: the same rows, commands and guarantees as in a folder, from any machine."""

import json
import os
import signal

import pytest
from conftest import QUIET, assert_same_rows, driving, halted, ok, process, refused, sql, until
from spaces import waiting_space, written

from raysweep.ledger import compaction, segments
from raysweep.storage import driver_lock, files, paths
from raysweep.storage.folder import Folder
from tests.chaos.waiting import PATIENCE

LEASE, LONG_LEASE = 4.0, 20.0  # for a driver that is to be succeeded, and for one that is not, however busy


def leased(lease=LEASE):
    """Code that is executed in a driver before: how long its lease is."""
    return f"from raysweep.storage import driver_lock; driver_lock.LEASE_SECONDS = {lease}"


def objects(address):
    import s3fs

    system, base = s3fs.S3FileSystem(use_listings_cache=False), address.removeprefix("s3://")
    return {name.removeprefix(base + "/"): system.cat_file(name) for name in system.find(base)}


def rows(call, storage, name="small"):
    return json.loads(call("results", name, "--format", "json", "--storage", storage).out)


@pytest.fixture
def waiting(request, sandbox, s3, tmp_path, monkeypatch):
    """A driver, a process of its own, that has computed three rows of six and waits in the fourth."""
    lease = getattr(request, "param", LEASE)
    monkeypatch.setattr(driver_lock, "LEASE_SECONDS", lease)
    monkeypatch.chdir(tmp_path)  # where the default mlflow.db goes
    written(tmp_path, waiting_space(tmp_path, name="small"))
    asked = ("run", tmp_path / "space.yaml", "--storage", s3, "--no-report", "--executor", "inline")
    folder = paths.locate(f"{s3}/small/ledger")
    with driving(*asked, first=leased(lease)) as driver:
        until(lambda: len(segments.segments(folder)) == 3, driver)
        yield driver


def test_every_command_works_on_a_bucket_as_on_a_folder(call, s3, space, tmp_path, storage, monkeypatch):
    monkeypatch.chdir(tmp_path)
    where = f"{s3}/deep/prefix"
    assert call("list", "--storage", where).out.startswith(f"no sweeps in {where}")
    analysis = "analysis=[{boundary: {metric: transferability_linear, x: overlap_angle, y: gamma}}]"
    assert "18 rows to compute" in call("run", space, "--storage", where, "--dry-run").out
    assert objects(s3) == {}
    ran = ok(call("run", space, "--storage", where, "--set", analysis))
    assert f"report: {where}/small/report/report.html" in ran.err
    call("run", space, "--storage", storage, *QUIET)
    assert_same_rows(rows(call, where), rows(call, storage))

    assert "small: finished, 18 of 18 rows (18 ok)" in (output := call("status", "small", "--storage", where)).out
    assert f"report: {where}/small/report/report.html" in output.out
    assert "  mirrored to sqlite:///mlflow.db: all 6 cells\n" in output.out
    assert "18 of 18" in call("list", "--storage", where).out
    there = objects(f"{where}/small")
    assert set(there) > {"sweep.json", "space.yaml", "plan.json", "results.csv", "report/report.html"}
    assert not [name for name in there if "lease" in name]
    assert b"<img" in there["report/report.html"]
    finished = "SELECT count(*) FROM runs WHERE status = 'FINISHED'"
    assert sql(tmp_path / "mlflow.db", finished) == [(7,)]
    artifacts = {path.name for path in (tmp_path / "mlflow-artifacts").rglob("*") if path.is_file()}
    assert artifacts >= {"results.csv", "report.html", "plan.json", "space.yaml"}

    assert "nothing to compute" in call("resume", "small", "--storage", where, *QUIET).err
    ok(call("run", space, "--storage", where, "--set", "seeds=4", *QUIET))
    assert len(rows(call, where)) == 24
    assert "  6 of 6 cells not yet in MLflow (" in call("status", "small", "--storage", where).out
    ok(call("report", "small", "--storage", where))
    ok(call("report", "small", "--storage", where, "-o", f"{s3}/elsewhere"))
    assert "report.html" in objects(f"{s3}/elsewhere")
    ok(call("results", "small", "--storage", where, "-o", f"{s3}/table.csv"))
    assert objects(s3)["table.csv"].startswith(b"sweep,cell,seed")

    other = tmp_path / "another machine"
    other.mkdir()
    monkeypatch.chdir(other)  # whose own mirror is made whole from the bucket alone
    ok(call("sync", "small", "--storage", where))
    assert sql(other / "mlflow.db", finished) == [(7,)]

    ok(call("delete", "small", "--storage", where, "--yes"))
    assert objects(f"{s3}/deep") == {}
    assert call("status", "small", "--storage", where).err.startswith("small: ")


@pytest.mark.long
def test_a_deletion_in_a_bucket_that_fails_midway_is_finished_by_the_next(call, s3, space, monkeypatch):
    ok(call("run", space, "--storage", s3, *QUIET))
    delete = ["delete", "small", "--yes", "--storage", s3, "--tracking-uri", "none"]
    with monkeypatch.context() as broken:
        remove = files.remove

        def fail(asked):
            if "leases" not in str(asked[0]):  # its lock is still given back
                raise OSError("the bucket is out of reach")
            remove(asked)

        broken.setattr(files, "remove", fail)
        output = call(*delete)
    assert (output.code, output.err.startswith("small: ")) == (2, True), output
    for command in (["run", space], ["resume", "small"]):
        refused(call(*command, "--storage", s3, *QUIET), "small: ", f"raysweep delete small --storage {s3}")
    ok(call(*delete))
    assert objects(s3) == {}


@pytest.mark.long
@pytest.mark.parametrize("waiting", [LONG_LEASE], indirect=True)
def test_a_second_driver_is_refused_and_the_first_goes_on(waiting, call, s3, tmp_path):
    output = call("status", "small", "--storage", s3).out
    assert "small: running, 3 of 6 rows" in output
    assert f"driven by process {waiting.pid} on " in output
    halted(call("resume", "small", "--storage", s3, *QUIET), "small: ", f"process {waiting.pid} on ")  # after a while
    refused(call("delete", "small", "--storage", s3, "--yes"), "small: ")
    (tmp_path / "go").touch()
    assert waiting.wait(PATIENCE) == 0
    assert [row["y"] for row in rows(call, s3)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.long
def test_a_killed_driver_is_succeeded_once_its_lease_has_expired(waiting, call, s3, tmp_path):
    os.killpg(waiting.pid, signal.SIGKILL)
    waiting.wait(PATIENCE)
    assert any("leases/driver" in name for name in objects(s3))  # it could not give it back
    files = Folder(f"{s3}/small")
    (lease,) = (f"leases/{name}" for name in files.names("leases"))
    elsewhere = {**json.loads(files.read(lease)), "life": None}  # where nobody can see that it died
    files.replace(lease, json.dumps(elsewhere).encode())
    (tmp_path / "go").touch()
    resumed = ok(call("resume", "small", "--storage", s3, "--no-report", "--executor", "inline"))
    assert f"small: process {waiting.pid} on " in resumed.err
    assert [(row["y"], row["status"]) for row in rows(call, s3)] == [(x, "ok") for x in (1, 2, 3, 4, 5, 6)]
    assert len(segments.segments(paths.locate(f"{s3}/small/ledger"))) == 6  # what was there was not computed again
    statuses = "SELECT status, count(*) FROM runs WHERE lifecycle_stage = 'active' GROUP BY status"
    assert sql(tmp_path / "mlflow.db", statuses) == [("FINISHED", 7)]
    assert not any("leases" in name for name in objects(s3))


@pytest.mark.long
def test_a_driver_that_was_held_up_gives_way_to_its_successor(waiting, call, s3, tmp_path):
    os.killpg(waiting.pid, signal.SIGSTOP)
    with driving("resume", "small", "--storage", s3, *QUIET, "--executor", "inline", first=leased()) as successor:
        until(lambda: any(name.endswith("driver.2.json") for name in objects(s3)), successor)
        os.killpg(waiting.pid, signal.SIGCONT)
        lost = paths.locate(f"{s3}/small/leases/driver.1.json")
        until(lost.exists, successor)
        before = lost.read_bytes()
        os.killpg(successor.pid, signal.SIGSTOP)  # so that it has not given its lease back when the other asks for it
        (tmp_path / "go").touch()
        assert waiting.wait(PATIENCE) == 2
        os.killpg(successor.pid, signal.SIGCONT)
        output = waiting.communicate()[1]
        assert f"process {successor.pid} on " in output
        assert not lost.exists() or lost.read_bytes() == before  # it does not renew what it has lost
        assert successor.wait(PATIENCE) == 0
    assert [row["y"] for row in rows(call, s3)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.long
def test_a_damaged_segment_is_told_set_aside_and_computed_again(call, s3, apart):
    ok(call("run", apart, "--storage", s3, *QUIET, "--executor", "inline"))
    before = rows(call, s3)
    path = segments.segments(paths.locate(f"{s3}/small/ledger"))[1]
    whole = path.read_bytes()
    spoilt = whole[:200] + bytes([whole[200] ^ 4]) + whole[201:]
    path.fs.pipe_file(path.path, spoilt)
    assert f"damaged segment: {path.name}" in call("status", "small", "--storage", s3).out
    assert len(rows(call, s3)) == 18 - (len(whole.splitlines()) - 1)
    assert path.name in call("resume", "small", "--storage", s3, *QUIET, "--executor", "inline").err
    assert_same_rows(rows(call, s3), before)
    assert objects(s3)[f"small/ledger/{path.name}.damaged-1"] == spoilt


@pytest.mark.long
def test_many_segments_in_a_bucket_become_one(call, s3, apart):
    inline = ("--storage", s3, *QUIET, "--executor", "inline")
    ok(call("run", apart, "--set", f"seeds={compaction.MORE_THAN}", *inline))
    folder = paths.locate(f"{s3}/small/ledger")
    before = rows(call, s3)
    assert len(segments.segments(folder)) == compaction.MORE_THAN
    ok(call("run", apart, "--set", f"seeds={compaction.MORE_THAN + 1}", *inline))
    assert [path.name[:14] for path in segments.segments(folder)] == ["merged-000001-"]
    after = rows(call, s3)
    assert [row for row in after if row["seed"] < compaction.MORE_THAN] == before
    assert len(after) == len(before) + 6


@pytest.mark.long
def test_workers_on_ray_write_their_segments_into_the_bucket(sandbox, call, s3, tmp_path):
    (tmp_path / "go").touch()
    asked = ("run", written(tmp_path, waiting_space(tmp_path, name="small")), "--storage", s3)
    ok(process(*asked, *QUIET, "--executor", "ray", "--workers", "2", cwd=tmp_path))
    assert [row["y"] for row in rows(call, s3)] == [1, 2, 3, 4, 5, 6]
    names = objects(s3)
    assert sum(name.startswith("small/ledger/") for name in names) == 6
    logs = [content.decode() for name, content in names.items() if name.startswith("small/logs/")]
    assert len(logs) == 6
    assert all("of 1 row on" in log and "done after" in log for log in logs)
    assert {name.split("/")[1] for name in names} == {"sweep.json", "ledger", "logs"}


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("ftp://host/folder", "--storage: expected "),
        ("s3://", "--storage: expected "),
        ("s3://not-there-at-all/x", "--storage: s3://not-there-at-all/x "),
    ],
)
def test_what_cannot_hold_a_sweep_is_one_line(address, expected, call, s3, space):
    refused(call("run", space, "--storage", address, *QUIET), expected)


def test_a_bucket_out_of_reach_is_one_line(call, s3, monkeypatch):
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # where nobody answers
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    s3fs.S3FileSystem.clear_instance_cache()
    refused(call("list", "--storage", f"{s3}/x"), f"--storage: {s3}/x ")
