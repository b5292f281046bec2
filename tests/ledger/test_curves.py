"""What a stage logged is there for each row that went through it, whatever happened to the ledger since."""

import csv
import io
import json
import math

import pandas as pd
import pytest
from conftest import QUIET, ok, run
from spaces import logging_space, written
from test_ledger import row

import raysweep
from raysweep.ledger import compaction, curves
from raysweep.ledger import segments as ledger

INLINE = (*QUIET, "--executor", "inline")


def expected(space):
    """(epochs, rate, seed, stage, step, loss) of each line, by the formulas of the workload."""
    lines = []
    for epochs in space["axes"]["epochs"]:
        for rate in space["axes"]["rate"]:
            for seed in range(space["seeds"]):
                lines += [(epochs, rate, seed, "warm", s, 1 / s + seed) for s in range(1, 2 * epochs + 1)]
                lines += [(epochs, rate, seed, "tune", s, math.exp(-rate * s) + seed / 10) for s in range(4)]
    return lines


def lines_of(table):
    names = ["epochs", "rate", "seed", "stage", "step", "loss"]
    return [tuple(line) for line in table[names].itertuples(index=False)]


def close(table, space):
    """Whether these are the curves of the space, every line in its place."""
    lines, reference = lines_of(table), expected(space)
    return len(lines) == len(reference) and all(
        one[:5] == other[:5] and math.isclose(one[5], other[5], rel_tol=1e-14)
        for one, other in zip(lines, reference, strict=True)
    )


@pytest.fixture
def sweep(call, sandbox, storage, tmp_path):
    ok(call("run", written(tmp_path, logging_space()), *INLINE, "--storage", storage))
    return raysweep.open("logged", storage)


def test_the_table_has_every_point_of_every_stage_in_plan_order(sweep):
    table = sweep.curves()
    assert close(table, logging_space())
    assert list(table.columns) == [
        *("sweep", "cell", "seed", "status", "stage", "step"),
        *("epochs", "rate", "loss", "accuracy", "rate_logged"),
    ]
    assert table["step"].dtype == "int64"
    warm, tune = table[table["stage"] == "warm"], table[table["stage"] == "tune"]
    assert (warm["accuracy"].notna() == (warm["step"] % 2 == 0)).all()
    assert tune["accuracy"].isna().all()
    assert (tune["rate_logged"] == tune["rate"] / (tune["step"] + 1)).all()


def test_the_command_prints_the_table_in_full_precision(sweep, call, tmp_path):
    storage = sweep.folder.parent
    printed = call("results", "logged", "--curves", "--storage", storage)
    assert (printed.code, printed.err) == (0, "")
    table = sweep.curves()
    lines = list(csv.DictReader(io.StringIO(printed.out)))
    assert [float(line["loss"]) for line in lines] == table["loss"].tolist()
    assert [line["step"] for line in lines] == [str(step) for step in table["step"]]
    listed = json.loads(call("results", "logged", "--curves", "--format", "json", "--storage", storage).out)
    assert [line["loss"] for line in listed] == table["loss"].tolist()
    path = tmp_path / "curves.parquet"
    call("results", "logged", "--curves", "--format", "parquet", "-o", path, "--storage", storage)
    pd.testing.assert_frame_equal(pd.read_parquet(path), table)


def test_sweeps_in_one_table_show_what_differs_between_them(sweep, call, storage, tmp_path):
    other = logging_space(name="other", axes={"rate": [2.0]}, fixed={"epochs": 4})
    ok(call("run", written(tmp_path, other), *INLINE, "--storage", storage))
    lines = list(csv.DictReader(io.StringIO(call("results", "logged", "other", "--curves", "--storage", storage).out)))
    assert {(line["sweep"], line["epochs"]) for line in lines} == {("logged", "2"), ("logged", "3"), ("other", "4")}


def test_without_curves_there_is_a_header_and_a_line_that_says_why(call, storage, space):
    ok(call("run", space, *INLINE, "--storage", storage))
    printed = ok(call("results", "small", "--curves", "--storage", storage))
    assert printed.out == "sweep,cell,seed,status,stage,step,overlap_angle,gamma\n"
    assert printed.err == (
        "small: no learning curves, because linear_transfer computes its rows from formulas or all together, and logs "
        "nothing on the way\n"
    )


OLD = "no stage of its rows logged anything (warm, tune), or the rows are older than the record of learning curves"


@pytest.mark.parametrize(("rows", "why"), [(0, "no row is there yet"), (1, OLD)])
def test_rows_that_have_no_curves_are_told_from_no_rows(rows, why, sweep, call):
    folder = sweep.folder / "ledger"
    cell = sweep.cells.ids[0]
    for path in list(folder.iterdir()):
        path.unlink()
    ledger.write_segment(ledger.segment_path(folder, "p", 1), [row(cell)] * rows)
    printed = call("results", "logged", "--curves", "--storage", sweep.folder.parent)
    assert (printed.code, printed.out) == (0, "sweep,cell,seed,status,stage,step,epochs,rate\n")
    assert printed.err == f"logged: no learning curves, because {why}\n"


def test_a_diverged_row_keeps_its_curve(call, sandbox, storage, tmp_path):
    space = logging_space(axes={"epochs": [2], "rate": [0.5, 1000.0]}, seeds=1)
    ok(call("run", written(tmp_path, space), *INLINE, "--storage", storage))
    table = raysweep.open("logged", storage).curves()
    wild = table[(table["rate"] == 1000) & (table["stage"] == "tune")]
    assert set(wild["status"]) == {"diverged"}
    assert wild["loss"].tolist() == [1.0, math.inf, math.inf, math.inf]


def test_another_sweep_that_reuses_the_kept_stage_has_its_curve_too(sweep, call, tmp_path):
    space = logging_space(name="again", axes={"epochs": [2, 3], "rate": [4.0]})
    ok(call("run", written(tmp_path, space), *INLINE, "--storage", sweep.folder.parent))
    table = raysweep.open("again", sweep.folder.parent).curves()
    assert close(table, space)
    warm = table[table["stage"] == "warm"]  # what was logged at some steps only has gaps in the store too
    assert (warm["accuracy"].notna() == (warm["step"] % 2 == 0)).all()


def test_a_part_of_a_sweep_has_the_curves_of_its_rows(sweep):
    """What rows share stands in the first row of their pack, which a part need not have."""
    space = logging_space(axes={"epochs": [3], "rate": [1.0]})
    part = run(sweep.folder.parent, space)
    assert part.is_part
    assert close(part.curves(), space)


def test_damage_and_resume_keep_all_curves(sweep, call):
    for path in sorted((sweep.folder / "ledger").iterdir()):
        whole = path.read_bytes()
        path.write_bytes(whole[:-7])
        printed = call("results", "logged", "--curves", "--storage", sweep.folder.parent)
        assert f"{path.name} is damaged and left out" in printed.err
        ok(call("resume", "logged", *INLINE, "--storage", sweep.folder.parent))
        assert close(sweep.curves(), logging_space())


def test_what_is_computed_again_takes_no_curve_from_other_rows(tmp_path):
    """A later attempt replaces the row in which the curve stood that others share."""
    curve = {"step": [1.0, 2.0], "loss": [math.inf, math.nan]}
    shared = {**row("a"), "stages": {"warm": ["id"]}, "shared_curves": {"id": curve}}
    other = {**row("b"), "stages": {"warm": ["id"]}}
    ledger.write_segment(ledger.segment_path(tmp_path, "p", 1), [shared, other])
    ledger.write_segment(ledger.segment_path(tmp_path, "q", 2), [row("a", attempt=2)])
    contents = ledger.read(tmp_path)
    kept = curves.of_row(contents.rows["b", 0], contents.shared_curves)
    assert repr({name: list(values) for name, values in kept["warm"].items()}) == repr(curve)


def test_merging_keeps_all_curves_and_writes_each_once(sweep, monkeypatch):
    folder = sweep.folder / "ledger"
    for number, path in enumerate(sorted(folder.iterdir())):
        rows = ledger.read_segment(path)
        again = [{**each, "attempt": 2} for each in rows]
        ledger.write_segment(ledger.segment_path(folder, f"{number:016x}", 2), again)
        ledger.write_segment(ledger.segment_path(folder, f"{number:016x}", 3), [{**rows[0], "attempt": 3}])
    monkeypatch.setattr(compaction, "MORE_THAN", 1)
    assert compaction.compact(folder) > 1
    (merged,) = folder.iterdir()
    assert close(sweep.curves(), logging_space())
    assert merged.read_text().count('"accuracy":[') == 2 * 3  # seeds x epochs: the points of the kept stage


def test_the_curve_of_the_latest_attempt_counts(tmp_path):
    for place, (attempt, loss) in enumerate(((2, 2.0), (3, 3.0), (1, 1.0))):
        logged = {**row(attempt=attempt), "shared_curves": {"id": {"step": [1.0], "loss": [loss]}}}
        ledger.write_segment(ledger.segment_path(tmp_path, str(place), attempt), [logged])
    assert list(ledger.read(tmp_path).shared_curves["id"][1]["loss"]) == [3.0]
