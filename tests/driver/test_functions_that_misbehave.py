"""What a plain function does in one row, whatever it is, touches no other row and not the sweep."""

import asyncio
import decimal
import functools
import json
import os
import re
import time

import pytest
from conftest import python
from functions import edited, quietly

import raysweep
from raysweep.ledger import segments


def test_exceptions_are_failed_rows_and_no_other_row_is_computed_again(storage):
    calls = []

    def sometimes(x, seed):
        calls.append((x, seed))
        if x == 3:
            raise ValueError("three")
        return 1.0

    sweep = quietly(sometimes, storage, axes={"x": [1, 2, 3, 4, 5]}, seeds=4)
    table = sweep.results()
    assert table["status"].tolist() == ["failed" if x == 3 else "ok" for x in table["x"]]
    failures = sweep.failures()
    assert all(row["error"].strip().endswith("ValueError: three") for row in failures)
    assert all("sometimes" in row["error"] for row in failures)  # the traceback
    assert sorted(call for call in calls if call[0] != 3) == [(x, seed) for x in (1, 2, 4, 5) for seed in range(4)]


def test_of_a_very_long_error_the_beginning_and_the_end_are_kept(storage):
    def verbose(x, seed):
        raise ValueError(f"begin {'0.25, ' * 50_000} end")

    sweep = quietly(verbose, storage, axes={"x": [1, 2]}, executor="inline")
    for row in sweep.failures():
        assert row["error"].startswith("Traceback")
        assert "ValueError: begin 0.25, " in row["error"]
        assert row["error"].endswith("0.25,  end\n")
        (left,) = re.findall(r"\n\[\.\.\. ([0-9,]+) characters left out \.\.\.\]\n", row["error"])
        assert len(row["error"]) + int(left.replace(",", "")) == pytest.approx(300_000, rel=1e-2)
    assert sum(path.stat().st_size for path in storage.rglob("*") if path.is_file()) < 150_000


def test_a_function_that_always_fails_is_not_worth_a_ray(storage):
    messages = []
    axes = {"x": list(range(9))}
    assert quietly(edited("return x / 0"), storage, axes=axes, say=messages.append).statuses() == {"failed": 9}
    mended = edited("return x / 2")
    sweep = quietly(mended, storage, axes=axes, on_code_change="recompute", say=messages.append)
    assert sweep.results()["value"].tolist() == [x / 2 for x in range(9)]
    assert not any("starting Ray" in line or "trials at a time" in line for line in messages)


def test_what_would_end_a_program_or_is_no_exception_ends_one_row(storage):
    class Over(BaseException): ...

    def raising(x, seed, log):
        if x == 5:
            log(1, loss=[1.0, 2.0])
        if x > 0:
            raise [SystemExit(3), Over("over"), asyncio.CancelledError(), GeneratorExit()][x - 1]
        return 1.0

    sweep = quietly(raising, storage, axes={"x": [0, 1, 2, 3, 4, 5, -1]}, executor="inline")
    assert sweep.results()["status"].tolist() == ["ok", *["failed"] * 5, "ok"]
    last = [row["error"].strip().splitlines()[-1] for row in sweep.failures()]
    assert [line.partition(":")[0] for line in last] == ["RuntimeError"] * 5
    assert "raising raised Over: over" in last[1]


def test_a_function_may_change_the_working_directory(tmp_path, monkeypatch):
    result = []

    def made(folder, value):
        def moving(x, seed):
            result.append(os.getcwd())
            os.chdir(tmp_path / folder)
            return value

        return moving

    for folder, value in (("b", 2.0), ("a", 1.0)):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        sweep = raysweep.run(made("b", value), axes={"x": [1, 2, 3, 4]}, tracking_uri="none", executor="inline")
        assert os.getcwd() == str(tmp_path / folder)
        assert sweep.results()["value"].tolist() == [value] * 4
    assert result == [str(tmp_path / "b")] * 4 + [str(tmp_path / "a")] * 4
    for folder, value in (("b", 2.0), ("a", 1.0)):
        home = tmp_path / folder / "sweeps"
        assert raysweep.open("moving", home).results()["value"].tolist() == [value] * 4
        assert (home / "moving" / "report" / "report.html").exists()


FORKING = """
import os, sys, raysweep

def forking(x, seed):
    child = os.fork()
    if child == 0 and x == 1:
        return 99.0
    if child == 0 and x == 2:
        raise ValueError("of a child")
    if child == 0:
        sys.exit(7)
    return float(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

sweep = raysweep.run(
    forking, axes={"x": [1, 2, 3]}, seeds=2, storage=sys.argv[1], tracking_uri="none", report=False, executor="inline"
)
print(sweep.results()["value"].tolist(), len(sweep.failures()))
"""


def test_a_child_that_comes_back_ends_there(storage, tmp_path):
    (tmp_path / "forking.py").write_text(FORKING)
    done = python(tmp_path / "forking.py", storage)
    assert (done.code, done.out) == (0, "[0.0, 0.0, 1.0, 1.0, 7.0, 7.0] 0\n"), done
    assert done.err.count("the first ones are computed in this process") == 1  # one driver


def test_a_row_with_other_metrics_than_the_first_has_failed(storage):
    def changing(x, seed):
        return {"loss": 1.0} if x != 2 else {"lost": 1.0}

    sweep = quietly(changing, storage, axes={"x": [1, 2, 3]})
    assert sweep.results()["status"].tolist() == ["ok", "failed", "ok"]
    assert "lost" in sweep.failures()[0]["error"]
    assert [name for name in sweep.results() if name.startswith("lo")] == ["loss"]


def test_what_a_function_replaces_in_the_standard_library_changes_no_row(storage, monkeypatch):
    for module, name in ((json, "dumps"), (json, "loads"), (time, "time")):
        monkeypatch.setattr(module, name, getattr(module, name))  # so that it is restored
    dumps, loads = json.dumps, json.loads

    def replacing(x, seed):
        json.dumps = lambda value, **options: dumps(value, default=str).encode()  # as orjson has it
        json.loads = functools.partial(loads, parse_float=decimal.Decimal)
        time.time = lambda: 0.0
        return 2 * x

    for axis in ([0.5, 1.5, 2.5], [0.5, 1.5, 2.5, 3.5]):
        quietly(replacing, storage, axes={"x": axis}, executor="inline")
        assert raysweep.open("replacing", storage).results()["value"].tolist() == [2 * x for x in axis]
    ledger = segments.read(storage / "replacing" / "ledger")
    assert not ledger.damaged
    assert min(row["finished"] for row in ledger.rows.values()) > 1.7e9
