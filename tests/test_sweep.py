"""A sweep computes every row once, keeps what it has, and goes on from there; its ends are in test_driver_ends.py."""

from __future__ import annotations

import csv
import gc
import io
import itertools
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest
import yaml
from conftest import QUIET, Outcome, assert_same_rows, files_of, installed, process, rows, run
from spaces import small_space, written

import raysweep
from raysweep.driver.stored_sweep import Sweep, open_sweep
from raysweep.errors import InputError

Call = Callable[..., Outcome]


def resume(storage: Path, name: str = "small", **options: Any) -> Sweep:
    usual = {"tracking_uri": "none", "report": False, "executor": "inline", "say": lambda line: None}
    return raysweep.resume(name, storage=storage, **{**usual, **options})


def one_pack(folder: Path, **fixed: Any) -> dict[str, Any]:
    axes = {"x": fixed.pop("x", [1, 2, 3])}
    if isinstance(fixed.get("behaviour"), list):
        axes["behaviour"] = fixed.pop("behaviour")
        zips = [["x", "behaviour"]]
    else:
        zips = []
    return {
        "name": "sandy",
        "workload": "sandbox",
        "axes": axes,
        "zip": zips,
        "fixed": {"folder": str(folder), **fixed},
        "seeds": 2,
    }


# What comes out


def test_rows_stand_in_plan_order_then_by_seed(storage: Path) -> None:
    table = run(storage, small_space(seeds=[5, 0, 9])).results()
    assert list(zip(table["overlap_angle"], table["gamma"], table["seed"], strict=True)) == [
        (angle, gamma, seed) for angle in (30, 60) for gamma in (0.3, 0.5, 1.0) for seed in (0, 5, 9)
    ]
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


@pytest.mark.parametrize("apart", [["gamma"], ["dim", "depth"], ["overlap_angle", "gamma", "dim", "depth"]])
def test_rows_do_not_depend_on_how_they_are_packed(apart: list[str], storage: Path) -> None:
    axes = {"overlap_angle": [0, 30, 90, 180], "gamma": [0.1, 0.95, 1.0, 1.5], "dim": [10, 20], "depth": [1, 2, 4]}
    space = small_space(axes=axes, fixed={"noise": 0.2})
    settings = [dict(zip(apart, values, strict=True)) for values in itertools.product(*(axes[name] for name in apart))]
    together = run(storage / "together", space)
    where = [{**setting, "cpus_per_trial": cpus} for cpus, setting in enumerate(settings, 1)]
    found = run(storage / "apart", {**space, "resources": {"where": where}})  # a pack has equal needs
    assert len(list((together.folder / "ledger").iterdir())) < 4
    assert len(list((found.folder / "ledger").iterdir())) == len(settings)
    assert_same_rows(rows(found), rows(together))


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
    assert files_of(storage / "small" / "ledger") == before


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": 5},
        {"seeds": [2, 0, 1, 7]},
        {"axes": {"overlap_angle": [30, 60], "gamma": [0.3, 0.5, 0.7, 1.0]}},
        {"axes": {"overlap_angle": [90, 60, 30], "gamma": [1.0, 0.3, 0.5]}, "seeds": 4},
    ],
)
def test_a_sweep_is_extended_by_what_is_new(changes: dict[str, Any], storage: Path) -> None:
    run(storage)
    recorded = files_of(storage / "small" / "ledger")
    before = {(row["cell"], row["seed"]): row for row in rows(open_sweep("small", storage))}
    extended = run(storage, small_space(**changes))
    kept = files_of(storage / "small" / "ledger")
    assert {name: kept[name] for name in recorded} == recorded
    added = [
        json.loads(line) for name, content in kept.items() if name not in recorded for line in content.splitlines()[:-1]
    ]
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
    space = one_pack(tmp_path, x=[1, 2, 3, 4], behaviour=["compute", "raise", "compute", "compute"])
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

    before = files_of(storage / "sandy" / "ledger")
    assert call("run", tmp_path / "space.yaml", "--storage", storage, *QUIET).code == 1  # what failed is not forgotten
    assert files_of(storage / "sandy" / "ledger") == before  # and not tried again unasked
    assert call("resume", "sandy", "--storage", storage, *QUIET).code == 1
    (tmp_path / "mended").touch()
    assert call("resume", "sandy", "--storage", storage, *QUIET).code == 0
    healed = open_sweep("sandy", storage).results()
    assert healed["y"].tolist() == [1, 2, 2, 3, 3, 4, 4, 5]
    assert set(healed["status"]) == {"ok"}
    assert repr(healed[~bad].to_dict("records")) == repr(table[~bad].to_dict("records"))
    assert call("resume", "sandy", "--storage", storage, *QUIET).code == 0


def test_rows_that_raise_cost_milliseconds(sandbox: Path, storage: Path, tmp_path: Path) -> None:
    """Some among many, and all of them; in processor time of this thread. One takes 2 ms, and 5 where another process
    keeps the core's other half busy; a garbage collection, which is what there was once for each, takes 180."""

    def seconds(name: str, raising: int) -> float:
        behaviour = ["raise" if raising and x % raising == 0 else "compute" for x in range(270)]
        space = {**one_pack(tmp_path, x=list(range(270)), behaviour=behaviour), "name": name}
        started = time.thread_time()
        found = run(storage, space)
        spent = time.thread_time() - started
        assert len(found.failures()) == 2 * behaviour.count("raise")
        assert all("Traceback" in row["error"] and "in compute" in row["error"] for row in found.failures())
        assert found.statuses()["ok"] == 2 * behaviour.count("compute")
        return spent

    seconds("first", 15)  # what is imported and read now is imported before
    plain = seconds("none", 0)
    assert seconds("some", 15) - plain < 36 * 20e-3
    assert seconds("all", 1) - plain < 540 * 20e-3


def test_rows_that_raise_write_no_line_for_every_part_that_was_tried(
    sandbox: Path, storage: Path, tmp_path: Path
) -> None:
    """Each line waits for the thread that mirrors, which imports MLflow meanwhile: there are as many as say something,
    one of all rows together and two of each row that failed twice."""
    x = list(range(24))
    run(storage, one_pack(tmp_path, x=x, behaviour=["raise" if value % 6 else "compute" for value in x]))
    assert len(open_sweep("sandy", storage).failures()) == 40
    (log,) = (storage / "sandy" / "logs").iterdir()
    said = [line.split(" ERROR ")[1] for line in log.read_text().splitlines() if " ERROR " in line]
    assert Counter(said) == {"48 rows cannot be computed together:": 1, "a row cannot be computed:": 80}


@pytest.mark.parametrize(("behaviour", "collected"), [("raise", False), ("memory", True)])
def test_garbage_is_collected_where_memory_was_wanting_and_only_there(
    behaviour: str, collected: bool, sandbox: Path, storage: Path, tmp_path: Path
) -> None:
    whole: list[int] = []

    def note(phase: str, details: dict[str, int]) -> None:
        whole.extend([1] * (phase == "start" and details["generation"] == 2))

    run(storage, {**one_pack(tmp_path), "name": "first"})  # what is imported now is imported before
    gc.callbacks.append(note)
    gc.disable()  # of itself Python collects whenever it likes
    try:
        run(storage, one_pack(tmp_path, behaviour=behaviour))
    finally:
        gc.enable()
        gc.callbacks.remove(note)
    assert bool(whole) == collected


def test_a_row_that_fails_only_at_first_is_ok(sandbox: Path, storage: Path, tmp_path: Path) -> None:
    table = run(storage, one_pack(tmp_path, x=[1], behaviour="raise_once") | {"seeds": 1}).results()
    assert table["status"].tolist() == ["ok"]
    assert table["y"].tolist() == [1.0]


def test_a_pack_that_lacks_memory_is_halved(sandbox: Path, storage: Path, tmp_path: Path) -> None:
    table = run(storage, one_pack(tmp_path, x=list(range(8)), behaviour="memory")).results()
    assert set(table["status"]) == {"ok"}
    assert table["y"].tolist() == [x + seed for x in range(8) for seed in (0, 1)]
    assert [int(line) for line in (tmp_path / "memory.txt").read_text().split()] == [16, 8, 4, 4, 8, 4, 4]


def test_numbers_that_are_none_survive(sandbox: Path, storage: Path, tmp_path: Path, call: Call) -> None:
    found = run(storage, one_pack(tmp_path, x=[100, 101]) | {"seeds": 1})
    assert repr(found.results()["above"].tolist()) == "[nan, inf]"
    printed = list(csv.DictReader(io.StringIO(call("results", "sandy", "--storage", storage).out)))
    assert [row["above"] for row in printed] == ["", "inf"]


# Code that changes


CHANGING = """
from dataclasses import replace
from raysweep import workloads
WORKLOAD = replace(workloads.get("linear_transfer"), name="changing", sources=("changing_workload",))
"""


@pytest.fixture(scope="module")
def changed_since(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder that, on the path, brings the workload `changing`; and a storage with a sweep of it, finished by another
    process before the workload's source changed."""
    site, storage = tmp_path_factory.mktemp("changing"), tmp_path_factory.mktemp("before")
    installed(site, changing="changing_workload:WORKLOAD")
    (site / "changing_workload.py").write_text(CHANGING)
    space = written(site, small_space(workload="changing"))
    done = process("run", space, "--storage", storage, *QUIET, env={"PYTHONPATH": str(site)})
    assert done.code == 0, done
    (site / "changing_workload.py").write_text(CHANGING + "# and a word more\n")
    return site, storage


@pytest.fixture
def other_code(changed_since: tuple[Path, Path], storage: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A storage with a finished sweep whose workload's source has changed since."""
    site, before = changed_since
    shutil.copytree(before, storage)
    monkeypatch.syspath_prepend(site)
    return storage


def test_rows_of_older_code_are_reused(other_code: Path, call: Call) -> None:
    before = files_of(other_code / "small" / "ledger")
    outcome = call("resume", "small", "--storage", other_code, *QUIET)
    assert outcome.code == 0
    assert "the code of changing changed since 18 rows" in outcome.err
    assert "--on-code-change recompute" in outcome.err
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
    file.write_text(yaml.safe_dump(small_space(workload="changing", seeds=5), sort_keys=False))
    before = files_of(other_code / "small" / "ledger")
    for arguments in (["resume", "small"], ["run", file], ["run", file, "--dry-run"]):
        outcome = call(*arguments, "--storage", other_code, *QUIET, "--on-code-change", "refuse")
        assert outcome.code == 2
        assert outcome.err.startswith("--on-code-change: the code of changing changed since 18 rows")
        assert outcome.err.count("\n") == 1
    assert files_of(other_code / "small" / "ledger") == before
    assert open_sweep("small", other_code).space.seeds == [0, 1, 2]


def test_dry_run_tells_of_older_code_and_of_rows_that_are_there(other_code: Path, call: Call, tmp_path: Path) -> None:
    written(tmp_path, small_space(workload="changing", seeds=5))
    before = files_of(other_code)
    outcome = call("run", tmp_path / "space.yaml", "--storage", other_code, *QUIET, "--dry-run")
    assert outcome.code == 0
    assert "6 cells x 5 draws = 30 rows" in outcome.out
    assert "18 of them in the ledger already" in outcome.out
    assert "12 rows to compute" in outcome.out
    assert "--on-code-change recompute" in outcome.out
    assert files_of(other_code) == before


# Ends of a sweep


def test_a_deleted_sweep_is_gone_and_can_begin_anew(storage: Path, call: Call) -> None:
    first = run(storage)
    run(storage, small_space(name="other"))
    assert call("delete", "small", "--storage", storage, "--tracking-uri", "none", "--yes").code == 0
    assert not (storage / "small").exists()
    assert call("status", "small", "--storage", storage).code == 2
    with pytest.raises(InputError, match="^small: "):
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


def test_what_a_workload_is_declared_with_comes_from_raysweep_itself() -> None:
    from raysweep.workloads import declaration, rows

    for name in ("Cost", "Metric", "Parameter", "Stage", "Workload"):
        assert getattr(raysweep, name) is getattr(declaration, name)
        assert name in raysweep.__all__
    assert raysweep.Result is rows.Result


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda given, storage: raysweep.run(given, storage=storage), "space: expected a packaged space, a file, a"),
        (lambda given, storage: raysweep.open(given, storage), "name: expected the name of a sweep, got None"),
        (lambda given, storage: raysweep.run("quickstart", storage=given), "--storage: expected"),
    ],
)
def test_none_instead_of_a_name_is_said_in_one_line(
    call: Callable[[Any, Path], Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as error:
        call(None, tmp_path)
    assert said in str(error.value)
