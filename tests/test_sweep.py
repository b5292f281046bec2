"""A sweep computes every row once, keeps what it has, and goes on from there; its ends are in test_faults.py."""

import io
import itertools
import json

import pandas
import pytest
from conftest import Outcome, assert_same_rows, files_of, ok, refused, rows, run, told
from spaces import small_space

import raysweep
from raysweep.errors import InputError
from raysweep.query.sweep import open_sweep


def test_rows_stand_in_plan_order_then_by_seed(storage):
    table = run(storage, small_space(seeds=[5, 0, 9])).results()
    assert list(zip(table["overlap_angle"], table["gamma"], table["seed"], strict=True)) == [
        (angle, gamma, seed) for angle in (30, 60) for gamma in (0.3, 0.5, 1.0) for seed in (0, 5, 9)
    ]
    assert set(table["status"]) == {"ok"}
    assert list(table.columns[:4]) == ["sweep", "cell", "seed", "status"]
    assert list(table.columns[-2:]) == ["code_version", "seconds"]
    assert table["cell"].nunique() == 6


def test_a_report_does_not_need_the_data_that_its_rows_needed(storage, tmp_path, monkeypatch):
    def gone(*_):
        raise InputError("source", "no folder data")

    sweep = run(storage)
    monkeypatch.setattr("raysweep.query.state.estimate", gone)
    assert (sweep.report(tmp_path / "report").directory / "report.html").is_file()


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_tables_hold_every_digit(kind, call, storage, tmp_path):
    expected = run(storage).results()
    file = tmp_path / f"table.{kind}"
    assert call("results", "small", "--format", kind, "-o", file, "--storage", storage) == Outcome(0, "", "")
    if kind == "csv":
        printed = call("results", "small", "--storage", storage)
        assert printed.out == file.read_text()
        assert printed.err == ""
        result = pandas.read_csv(io.StringIO(printed.out), float_precision="round_trip")
    elif kind == "parquet":
        result = pandas.read_parquet(file)
    else:
        result = pandas.DataFrame(json.loads(file.read_text(), parse_constant=lambda word: pytest.fail(word)))
        result = result.replace({"Infinity": float("inf"), "-Infinity": float("-inf")})
    for name in expected.columns:  # bit for bit, NaN and infinities included
        one, other = expected[name], result[name].astype(expected[name].dtype)
        assert [*map(repr, one.tolist())] == [*map(repr, other.tolist())], name
    assert expected["risk_scratch_theory"].isin([float("inf")]).any()
    assert expected["wasserstein_1"].isna().all()


def test_several_sweeps_make_one_table(call, storage):
    run(storage)
    run(storage, small_space(name="other", seeds=1))
    table = pandas.read_csv(io.StringIO(call("results", "other", "small", "other", "--storage", storage).out))
    assert table["sweep"].tolist() == ["other"] * 6 + ["small"] * 18


@pytest.mark.parametrize("apart", [["gamma"], ["dim", "depth"], ["overlap_angle", "gamma", "dim", "depth"]])
def test_rows_do_not_depend_on_how_they_are_packed(apart, storage):
    axes = {"overlap_angle": [0, 30, 90, 180], "gamma": [0.1, 0.95, 1.0, 1.5], "dim": [10, 20], "depth": [1, 2, 4]}
    space = small_space(axes=axes, fixed={"noise": 0.2})
    settings = [dict(zip(apart, values, strict=True)) for values in itertools.product(*(axes[name] for name in apart))]
    together = run(storage / "together", space)
    where = [{**setting, "cpus_per_trial": cpus} for cpus, setting in enumerate(settings, 1)]
    sweep = run(storage / "apart", {**space, "resources": {"where": where}})  # a pack has equal needs
    assert len(list((together.folder / "ledger").iterdir())) < 4
    assert len(list((sweep.folder / "ledger").iterdir())) == len(settings)
    assert_same_rows(rows(sweep), rows(together))


def test_the_space_can_be_changed_in_the_call(storage):
    table = run(storage, seeds=2, axes={"gamma": [0.4]}, set={"fixed.depth": 3}).results()
    assert len(table) == 4
    assert set(table["depth"]) == {3}
    assert set(table["gamma"]) == {0.4}


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": 5},
        {"seeds": [2, 0, 1, 7]},
        {"axes": {"overlap_angle": [30, 60], "gamma": [0.3, 0.5, 0.7, 1.0]}},
        {"axes": {"overlap_angle": [90, 60, 30], "gamma": [1.0, 0.3, 0.5]}, "seeds": 4},
    ],
)
def test_a_sweep_is_extended_by_what_is_new(changes, storage):
    run(storage)
    recorded = files_of(storage / "small" / "ledger")
    before = {(row["cell"], row["seed"]): row for row in rows(open_sweep("small", storage))}
    extended = run(storage, small_space(**changes))
    kept = files_of(storage / "small" / "ledger")
    assert {name: kept[name] for name in recorded} == recorded
    new = [content for name, content in kept.items() if name not in recorded]
    added = [json.loads(line) for content in new for line in content.splitlines()[:-1]]
    assert added
    assert not {(row["cell"], row["seed"]) for row in added} & before.keys()
    result = rows(extended)
    assert len(result) == len(before) + len(added)
    again = {(row["cell"], row["seed"]): row for row in result}
    assert all(repr(again[key]) == repr(row) for key, row in before.items())
    assert_same_rows(result, rows(run(storage / "fresh", small_space(**changes))))


def test_what_changes_no_row_may_be_told_anew(storage):
    run(storage)
    before = files_of(storage / "small" / "ledger")
    again = run(storage, small_space(description="as it should be told", resources={"cpus_per_trial": 2}))
    assert files_of(storage / "small" / "ledger") == before
    assert open_sweep("small", storage).space.description == again.space.description == "as it should be told"


def test_another_name_is_another_sweep_but_for_a_dash_instead_of_an_underscore(call, storage):
    run(storage)
    run(storage, small_space(fixed={"dim": 30}), name="bigger-one")
    listed = call("list", "--storage", storage).out.splitlines()
    assert [line.split()[0] for line in listed] == ["bigger-one", "small"]
    assert all("finished" in line and "18 of 18" in line for line in listed)
    bigger = open_sweep("bigger_one", storage)
    assert (bigger.name, bigger.space.name) == ("bigger-one", "small")


def test_a_deleted_sweep_is_gone_and_can_begin_anew(storage, call):
    first = run(storage)
    run(storage, small_space(name="other"))
    ok(call("delete", "small", "--storage", storage, "--tracking-uri", "none", "--yes"))
    assert not (storage / "small").exists()
    refused(call("status", "small", "--storage", storage), "small: ")
    again = run(storage)
    assert (again.record.sweep_id == first.record.sweep_id, len(again.results())) == (False, 18)
    (storage / "small").rename(storage / "copy")
    refused(call("delete", "copy", "--storage", storage, "--yes"), "copy: ", "folder of the sweep small")


def test_without_a_record_there_is_no_sweep(storage, call):
    expected = rows(run(storage))
    (storage / "small" / "sweep.json").unlink()
    assert call("list", "--storage", storage).out.startswith("no sweeps")
    assert call("resume", "small", "--storage", storage).code == 2
    assert_same_rows(rows(run(storage)), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda storage: run(storage).report(3), "directory: expected a folder, s3://"),
        (lambda storage: raysweep.open("small", storage=3), "--storage: expected a folder, s3://"),
        (lambda storage: raysweep.run("quickstart", set=[1]), "set: expected a mapping from keys to values"),
        (lambda storage: raysweep.run(None, storage=storage), "space: expected a packaged space, a file, a"),
        (lambda storage: raysweep.open(None, storage), "name: expected the name of a sweep, got None"),
    ],
)
def test_a_wrong_type_in_python_is_said_in_one_line(call, message, storage):
    with told(message):
        call(storage)
