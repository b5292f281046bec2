"""A sweep computes every row once, keeps what it has through any end, and goes on from there."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest
import yaml
from conftest import QUIET, Outcome, assert_same_rows, command, files_of, process, until
from spaces import small_space, written

import raysweep
from raysweep import driver, identity
from raysweep.errors import InputError
from raysweep.sweep import Sweep, open_sweep

Call = Callable[..., Outcome]


def run(storage: Path, space: dict[str, Any] | None = None, **options: Any) -> Sweep:
    usual = {"tracking_uri": "none", "report": False, "executor": "inline", "say": lambda line: None}
    return raysweep.run(space or small_space(), storage=storage, **{**usual, **options})


def resume(storage: Path, name: str = "small", **options: Any) -> Sweep:
    usual = {"tracking_uri": "none", "report": False, "executor": "inline", "say": lambda line: None}
    return raysweep.resume(name, storage=storage, **{**usual, **options})


def rows(sweep: Sweep) -> list[dict[str, Any]]:
    return sweep.results().to_dict("records")


def sandbox_space(folder: Path, **fixed: Any) -> dict[str, Any]:
    axes = {"x": fixed.pop("x", [1, 2, 3])}
    if isinstance(fixed.get("behaviour"), list):
        axes["behaviour"] = fixed.pop("behaviour")
        zips = [["x", "behaviour"]]
    else:
        zips = []
    return {"name": "sandy", "workload": "sandbox", "axes": axes, "zip": zips,
            "fixed": {"folder": str(folder), **fixed}, "seeds": 2}


# What comes out


def test_rows_stand_in_plan_order_then_by_seed(storage: Path) -> None:
    table = run(storage, small_space(seeds=[5, 0, 9])).results()
    assert list(zip(table["overlap_angle"], table["gamma"], table["seed"], strict=True)) == [
        (angle, gamma, seed) for angle in (30, 60) for gamma in (0.3, 0.5, 1.0) for seed in (0, 5, 9)]
    assert set(table["status"]) == {"ok"}
    assert list(table.columns[:4]) == ["sweep", "cell", "seed", "status"]
    assert list(table.columns[-2:]) == ["code_version", "seconds"]
    assert table["cell"].nunique() == 6


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_tables_hold_every_digit(kind: str, call: Call, storage: Path, tmp_path: Path) -> None:
    expected = run(storage).results()
    file = tmp_path / f"table.{kind}"
    assert call("results", "small", "--format", kind, "-o", file, "--storage", storage) == Outcome(0, "", "")
    if kind == "csv":
        printed = call("results", "small", "--storage", storage)
        assert printed.out == file.read_text()
        assert printed.err == ""
        found = pandas.read_csv(io.StringIO(printed.out), float_precision="round_trip")
    elif kind == "parquet":
        found = pandas.read_parquet(file)
    else:
        found = pandas.DataFrame(json.loads(file.read_text(), parse_constant=lambda word: pytest.fail(word)))
        found = found.replace({"Infinity": float("inf"), "-Infinity": float("-inf")})
    for name in expected.columns:  # bit for bit, NaN and infinities included
        one, other = expected[name], found[name].astype(expected[name].dtype)
        assert [*map(repr, one.tolist())] == [*map(repr, other.tolist())], name
    assert expected["risk_scratch_theory"].isin([float("inf")]).any()
    assert expected["wasserstein_1"].isna().all()


def test_several_sweeps_make_one_table(call: Call, storage: Path) -> None:
    run(storage)
    run(storage, small_space(name="other", seeds=1))
    table = pandas.read_csv(io.StringIO(call("results", "other", "small", "--storage", storage).out))
    assert table["sweep"].tolist() == ["other"] * 6 + ["small"] * 18


@pytest.mark.parametrize("floor", [1e-9, 1e-3, 1e9])
def test_rows_do_not_depend_on_how_they_are_packed(floor: float, storage: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    space = small_space(axes={"overlap_angle": [0, 30, 90, 180], "gamma": [0.1, 0.95, 1.0, 1.5], "dim": [10, 20],
                              "depth": [1, 2, 4]}, fixed={"noise": 0.2})
    monkeypatch.setitem(driver.PACK_FLOOR, "inline", 0.05)
    expected = rows(run(storage / "usual", space))
    monkeypatch.setitem(driver.PACK_FLOOR, "inline", floor)
    found = run(storage / "other", space)
    packs = len(list((found.folder / "ledger").iterdir()))
    assert packs > 2 if floor < 1e-3 else packs >= 1
    assert_same_rows(rows(found), expected)


def test_the_space_can_be_changed_in_the_call(storage: Path) -> None:
    table = run(storage, seeds=2, axes={"gamma": [0.4]}, set={"fixed.depth": 3}).results()
    assert len(table) == 4
    assert set(table["depth"]) == {3}
    assert set(table["gamma"]) == {0.4}


# Continuing and extending


def test_a_finished_sweep_computes_nothing(call: Call, storage: Path, tmp_path: Path) -> None:
    run(storage)
    before = files_of(storage / "small" / "ledger")
    written(tmp_path, small_space())
    for arguments in (["run", tmp_path / "space.yaml"], ["resume", "small"]):
        outcome = call(*arguments, "--storage", storage, *QUIET)
        assert outcome.code == 0
        assert "nothing to compute" in outcome.err
    assert files_of(storage / "small" / "ledger") == before


@pytest.mark.parametrize("changes", [
    {"seeds": 5}, {"seeds": [2, 0, 1, 7]}, {"axes": {"overlap_angle": [30, 60], "gamma": [0.3, 0.5, 0.7, 1.0]}},
    {"axes": {"overlap_angle": [90, 60, 30], "gamma": [1.0, 0.3, 0.5]}, "seeds": 4},
])
def test_a_sweep_is_extended_by_what_is_new(changes: dict[str, Any], storage: Path) -> None:
    run(storage)
    recorded = files_of(storage / "small" / "ledger")
    before = {(row["cell"], row["seed"]): row for row in rows(open_sweep("small", storage))}
    extended = run(storage, small_space(**changes))
    kept = files_of(storage / "small" / "ledger")
    assert {name: kept[name] for name in recorded} == recorded
    added = [json.loads(line) for name, content in kept.items() if name not in recorded
             for line in content.splitlines()[:-1]]
    assert added
    assert not {(row["cell"], row["seed"]) for row in added} & before.keys()
    found = rows(extended)
    assert len(found) == len(before) + len(added)
    again = {(row["cell"], row["seed"]): row for row in found}
    assert all(repr(again[key]) == repr(row) for key, row in before.items())
    assert_same_rows(found, rows(run(storage / "fresh", small_space(**changes))))


def test_what_changes_no_row_may_be_told_anew(storage: Path) -> None:
    run(storage)
    before = files_of(storage / "small" / "ledger")
    again = run(storage, small_space(description="as it should be told", resources={"cpus_per_trial": 2}))
    assert files_of(storage / "small" / "ledger") == before
    assert open_sweep("small", storage).space.description == again.space.description == "as it should be told"


def test_another_name_is_another_sweep(call: Call, storage: Path) -> None:
    run(storage)
    run(storage, small_space(fixed={"dim": 30}), name="bigger")
    listed = call("list", "--storage", storage).out.splitlines()
    assert [line.split()[0] for line in listed] == ["bigger", "small"]
    assert all("finished" in line and "18 of 18" in line for line in listed)
    assert open_sweep("bigger", storage).space.name == "small"


def test_names_forgive_a_dash_for_an_underscore(storage: Path) -> None:
    run(storage, small_space(name="one-two"))
    assert open_sweep("one_two", storage).name == "one-two"


# Rows that fail


def test_a_failing_row_leaves_its_neighbours(sandbox: Path, storage: Path, tmp_path: Path, call: Call) -> None:
    space = sandbox_space(tmp_path, x=[1, 2, 3, 4], behaviour=["compute", "raise", "compute", "compute"])
    written(tmp_path, space)
    outcome = call("run", tmp_path / "space.yaml", "--storage", storage, *QUIET)
    assert outcome.code == 1
    assert outcome.out == ""
    table = open_sweep("sandy", storage).results()
    bad = table["x"] == 2
    assert set(table["status"][bad]) == {"failed"}
    assert table["y"][bad].isna().all()
    assert set(table["status"][~bad]) == {"ok"}
    assert table["y"][~bad].tolist() == [1, 2, 3, 4, 4, 5]
    failure = open_sweep("sandy", storage).failures()[0]
    assert "Traceback" in failure["error"]
    assert "ArithmeticError: x = 2 cannot be computed" in failure["error"]
    assert "2 of 8 rows failed" in outcome.err
    assert f"cell {failure['cell']} seed 1: ArithmeticError: x = 2 cannot be computed" in outcome.err
    told = call("status", "sandy", "--storage", storage, "--tracking-uri", "none")
    assert "8 of 8 rows (2 failed, 6 ok)" in told.out
    assert "ArithmeticError" in told.out

    with pytest.raises(ArithmeticError, match="x = 2"):
        call("debug", "sandy", failure["cell"], "0", "--storage", storage)
    good = call("debug", "sandy", table["cell"][0], "1", "--storage", storage)
    assert json.loads(good.out)["metrics"] == {"y": 2.0, "above": "NaN"}

    again = call("run", tmp_path / "space.yaml", "--storage", storage, *QUIET)
    assert again.code == 1  # what failed before is not forgotten, and not tried again unasked
    assert "nothing to compute" in again.err
    assert call("resume", "sandy", "--storage", storage, *QUIET).code == 1
    (tmp_path / "mended").touch()
    assert call("resume", "sandy", "--storage", storage, *QUIET).code == 0
    healed = open_sweep("sandy", storage).results()
    assert healed["y"].tolist() == [1, 2, 2, 3, 3, 4, 4, 5]
    assert set(healed["status"]) == {"ok"}
    assert repr(healed[~bad].to_dict("records")) == repr(table[~bad].to_dict("records"))
    assert call("resume", "sandy", "--storage", storage, *QUIET).code == 0


def test_a_row_that_fails_only_at_first_is_ok(sandbox: Path, storage: Path, tmp_path: Path) -> None:
    table = run(storage, sandbox_space(tmp_path, x=[1], behaviour="raise_once") | {"seeds": 1}).results()
    assert table["status"].tolist() == ["ok"]
    assert table["y"].tolist() == [1.0]


def test_a_pack_that_lacks_memory_is_halved(sandbox: Path, storage: Path, tmp_path: Path) -> None:
    table = run(storage, sandbox_space(tmp_path, x=list(range(8)), behaviour="memory")).results()
    assert set(table["status"]) == {"ok"}
    assert table["y"].tolist() == [x + seed for x in range(8) for seed in (0, 1)]
    assert [int(line) for line in (tmp_path / "memory.txt").read_text().split()] == [16, 8, 4, 4, 8, 4, 4]


def test_numbers_that_are_none_survive(sandbox: Path, storage: Path, tmp_path: Path, call: Call) -> None:
    found = run(storage, sandbox_space(tmp_path, x=[100, 101]) | {"seeds": 1})
    assert repr(found.results()["above"].tolist()) == "[nan, inf]"
    printed = list(csv.DictReader(io.StringIO(call("results", "sandy", "--storage", storage).out)))
    assert [row["above"] for row in printed] == ["", "inf"]


# Code that changes


@pytest.fixture
def other_code(storage: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished sweep whose workload's source then changes."""
    run(storage)
    digest = identity.source_digest(open_sweep("small", storage).workload)
    monkeypatch.setattr(identity, "source_digest", lambda workload: "another" + digest[:5])
    return storage


def test_rows_of_older_code_are_reused(other_code: Path, call: Call) -> None:
    before = files_of(other_code / "small" / "ledger")
    outcome = call("resume", "small", "--storage", other_code, *QUIET)
    assert outcome.code == 0
    assert "the code of linear_transfer changed since 18 rows" in outcome.err
    assert "reusing" in outcome.err
    assert files_of(other_code / "small" / "ledger") == before


def test_rows_of_older_code_are_replaced_on_demand(other_code: Path) -> None:
    before = rows(open_sweep("small", other_code))
    after = rows(resume(other_code, on_code_change="recompute"))
    assert {row["code_version"] for row in after}.isdisjoint({row["code_version"] for row in before})
    assert_same_rows([{**row, "code_version": ""} for row in after], [{**row, "code_version": ""} for row in before])
    recorded = files_of(other_code / "small" / "ledger")
    resume(other_code, on_code_change="recompute")
    assert files_of(other_code / "small" / "ledger") == recorded


def test_rows_of_older_code_are_refused_on_demand(other_code: Path, call: Call, tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(yaml.safe_dump(small_space(seeds=5), sort_keys=False))
    before = files_of(other_code / "small" / "ledger")
    for arguments in (["resume", "small"], ["run", file], ["run", file, "--dry-run"]):
        outcome = call(*arguments, "--storage", other_code, *QUIET, "--on-code-change", "refuse")
        assert outcome.code == 2
        assert outcome.err.startswith("--on-code-change: the code of linear_transfer changed since 18 rows")
        assert outcome.err.count("\n") == 1
    assert files_of(other_code / "small" / "ledger") == before
    assert open_sweep("small", other_code).space.seeds == [0, 1, 2]


def test_dry_run_tells_of_older_code_and_of_rows_that_are_there(other_code: Path, call: Call, tmp_path: Path) -> None:
    written(tmp_path, small_space(seeds=5))
    before = files_of(other_code)
    outcome = call("run", tmp_path / "space.yaml", "--storage", other_code, *QUIET, "--dry-run")
    assert outcome.code == 0
    assert "6 cells x 5 draws = 30 rows" in outcome.out
    assert "18 of them in the ledger already" in outcome.out
    assert "12 rows to compute" in outcome.out
    assert "reusing" in outcome.out
    assert files_of(other_code) == before


# Ends of a driver


def waiting_space(folder: Path) -> dict[str, Any]:
    """Three rows and then three that wait for the file `go`, each said to cost so much that it is a pack alone."""
    return {**sandbox_space(folder, x=[1, 2, 3, 4, 5, 6], behaviour=["compute"] * 3 + ["wait"] * 3), "seeds": 1,
            "fixed": {"folder": str(folder), "seconds": 200.0}}


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(command(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hear)


def hear() -> None:
    """Undo what nohup or a shell's background would have a driver inherit from these tests."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def waiting(sandbox: Path, storage: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A driver, a process of its own, that has computed three rows of six and waits in the fourth."""
    written(tmp_path, waiting_space(tmp_path))
    driver = start("run", tmp_path / "space.yaml", "--storage", storage, *QUIET, "--executor", "inline")
    sweep = storage / "sandy"
    until(lambda: len(list(sweep.glob("ledger/*.jsonl"))) == 3 and  # and the log of the fourth has its first line
          sum(log.stat().st_size > 0 for log in sweep.glob("logs/*.log")) == 4, driver)
    yield driver
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
    driver.communicate()


def assert_goes_on(storage: Path, folder: Path, call: Call) -> None:
    """An ended sweep has three rows, says so, and is finished by resume to the rows of one that was left alone."""
    told = call("status", "sandy", "--storage", storage, "--tracking-uri", "none")
    assert "interrupted, 3 of 6 rows (3 ok)" in told.out
    assert f"raysweep resume sandy --storage {storage}" in told.out
    before = files_of(storage / "sandy" / "ledger")
    (folder / "go").touch()
    assert call("resume", "sandy", "--storage", storage, *QUIET, "--executor", "inline").code == 0
    after = files_of(storage / "sandy" / "ledger")
    assert {name: after[name] for name in before} == before
    undisturbed = rows(run(storage / "undisturbed", waiting_space(folder)))
    assert_same_rows(rows(open_sweep("sandy", storage)), undisturbed)
    assert [row["y"] for row in undisturbed] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_sweep_says_how_to_go_on_and_does(
        number: int, waiting: subprocess.Popen[str], storage: Path, tmp_path: Path, call: Call) -> None:
    waiting.send_signal(number)
    out, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert f"raysweep resume sandy --storage {storage}" in err
    assert_goes_on(storage, tmp_path, call)


def test_a_killed_sweep_goes_on(waiting: subprocess.Popen[str], storage: Path, tmp_path: Path, call: Call) -> None:
    waiting.kill()
    waiting.communicate(timeout=30)
    assert_goes_on(storage, tmp_path, call)


def test_a_sweep_has_one_driver(waiting: subprocess.Popen[str], storage: Path, tmp_path: Path, call: Call) -> None:
    before = files_of(storage)
    assert process("resume", "sandy", "--storage", storage, *QUIET).code == 2  # where a hang would end
    for arguments in (["resume", "sandy"], ["run", tmp_path / "space.yaml"], ["run", tmp_path / "space.yaml", "--set",
                      "seeds=2"], ["sync", "sandy"], ["delete", "sandy", "--yes"]):
        uri = f"sqlite:///{tmp_path / 'db'}" if arguments[0] == "sync" else "none"
        outcome = call(*arguments, "--storage", storage, "--tracking-uri", uri)
        assert outcome.code == 2, outcome
        assert outcome.err.startswith("sandy: is ")
        assert outcome.err.count("\n") == 1
        if arguments[0] != "delete":
            assert f"process {waiting.pid} on" in outcome.err
    assert "running, 3 of 6 rows" in call("status", "sandy", "--storage", storage, "--tracking-uri", "none").out
    assert "running" in call("list", "--storage", storage).out
    assert call("results", "sandy", "--storage", storage).out.count("\n") == 4
    assert files_of(storage) == before
    (tmp_path / "go").touch()
    _, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 0, err
    assert "finished, 6 of 6" in call("status", "sandy", "--storage", storage, "--tracking-uri", "none").out


def test_a_driver_killed_in_the_arithmetic_goes_on(storage: Path, tmp_path: Path) -> None:
    space = small_space(axes={"overlap_angle": [30, 60], "gamma": [0.9, 1.1]}, fixed={"dim": 250, "noise": 0.2},
                        seeds=60)
    written(tmp_path, space)
    killed = start("run", tmp_path / "space.yaml", "--storage", storage, *QUIET, "--executor", "inline")
    until(lambda: any((storage / "small" / "ledger").glob("*.jsonl")), killed)
    killed.kill()
    killed.communicate(timeout=30)
    outcome = process("resume", "small", "--storage", storage, *QUIET)
    assert outcome.code == 0, outcome
    assert_same_rows(rows(open_sweep("small", storage)), rows(run(storage / "undisturbed", space)))


# Ends of a sweep


def test_a_deleted_sweep_is_gone_and_can_begin_anew(storage: Path, call: Call) -> None:
    first = run(storage)
    run(storage, small_space(name="other"))
    assert call("delete", "small", "--storage", storage, "--tracking-uri", "none").code == 0  # no terminal, no question
    assert not (storage / "small").exists()
    assert call("status", "small", "--storage", storage).code == 2
    with pytest.raises(InputError, match="unknown sweep"):
        open_sweep("small", storage)
    again = run(storage)
    assert again.record.sweep_id != first.record.sweep_id
    assert len(again.results()) == 18


def test_without_a_record_there_is_no_sweep(storage: Path, call: Call) -> None:
    expected = rows(run(storage))
    (storage / "small" / "sweep.json").unlink()
    assert call("list", "--storage", storage).out.startswith("no sweeps")
    assert call("resume", "small", "--storage", storage).code == 2
    assert_same_rows(rows(run(storage)), expected)
