"""What a precision reached, and why not, is said in the run, the status and the report, and is told from its rows."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_precision import ASKED, METRIC, keys, run, values

import raysweep
from raysweep.driver import outlook
from raysweep.fits.boundary import fit_boundary
from raysweep.fits.statistics import stopped_level
from raysweep.plan.cells import enumerate_cells
from raysweep.query import verdict
from raysweep.search import affordable, bracketing, endings, precision, slices, verdicts
from raysweep.search.curves import OPEN, REACHED, Step
from raysweep.search.declared_cost import DeclaredCost
from raysweep.space.schema import validate


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(tmp_path_factory.mktemp("whole"))


def said_by(sweep, call):
    return call("status", sweep.name, "--storage", sweep.folder.parent).out


@pytest.mark.long
def test_slices_with_too_few_values_are_named(storage, call):
    said = []
    one_left = [{"gamma": [0.6], "overlap_angle": [18 + 9 * k for k in range(9)]}]
    found = run(storage, exclude=one_left, precision={"boundary": 8.0}, said=said)
    wanted = "too few values: 1 slice (gamma = 0.6); more values of overlap_angle"
    for text in (
        "\n".join(said),
        said_by(found, call),
        (Path(str(found.report().directory)) / "report.md").read_text(),
    ):
        assert "reached in 1 of 3 slices" in text
        assert wanted in text
    assert 0.6 not in set(found.results()["gamma"])  # nothing is spent there


@pytest.mark.long
def test_a_looser_precision_is_told_from_the_rows_that_are_there(whole, call):
    said = []
    before = keys(whole)
    run(Path(str(whole.folder.parent)), precision={"boundary": 9.0}, said=said)
    assert keys(whole) == before
    assert any("± 9 degrees in all slices at once at 95 % reached in 2 of 3 slices" in line for line in said), said
    assert "± 4 degrees in all slices at once at 95 % reached in 2 of 3 slices" in said_by(whole, call)


def test_a_slice_is_reached_exactly_where_the_interval_of_the_report_is_narrow_enough(storage, call):
    """Both read it at the level of a sweep that chose its own end, and both call it 95 %."""
    found = run(storage, budget={"rows": 150}, precision={"boundary": 3.0, "pointwise": True})
    assert f" x up to {len(found.space.seeds)} seeds" in repr(found)  # the most that a cell may get
    assert "a larger budget goes on" in said_by(found, call)
    known, folder = found.state().verdicts, Path(str(found.report().directory))
    table = pd.read_csv(folder / "tables" / "boundary_zeros.csv")
    half = ((table["high"] - table["low"]) / 2).to_numpy()
    assert [each.state == REACHED for each in known] == (half <= 3.0).tolist() == [True, False, False]
    located = (table["status"] == "located").to_numpy()
    assert [each.half for each in known if np.isfinite(each.half)] == pytest.approx(half[located])
    rows, axis = found.results(), ("overlap_angle", "gamma", METRIC, "seed")
    strict, plain = (fit_boundary(rows, *axis, level, scale="linear").table for level in (stopped_level(0.95), 0.95))
    assert table["high"][0] == pytest.approx(strict["high"][0])
    assert table["high"][0] > plain["high"][0] + 0.1
    (finding,) = found.findings()
    assert finding.level == 0.95
    assert finding.facts["computed_at"] == stopped_level(0.95) == pytest.approx(0.974, abs=5e-4)


def test_a_row_that_is_computed_again_is_forecast_as_one_row(whole):
    state = whole.state()
    first = state.plan.rounds[0][0]
    state.replace({(state.cells.ids[first[0]], first[1])})
    pending = state.missing()
    assert pending.rows == 1
    assert len(state.plan.rounds) == 1  # its value may change all that follows
    ahead = outlook.outlook(state, pending)
    assert ahead.likely.rows == ahead.most.rows == 1


def test_a_process_that_looks_at_a_sweep_computes_no_step_again(whole, monkeypatch):
    expected = list(verdict.lines(whole.state()))

    def refuse(*options):
        raise AssertionError("computed again")

    monkeypatch.setattr(bracketing, "step", refuse)
    monkeypatch.setattr(bracketing, "fitted", refuse)
    assert list(verdict.lines(raysweep.open(whole.name, storage=whole.folder.parent).state())) == expected


@pytest.mark.parametrize("text", ["", "{", '{"version": 2, "found": 2}', '{"version": 2, "found": {"a": 1}}', "steps"])
def test_damaged_notes_of_steps_cost_time_only(whole, text):
    state = whole.state()
    expected, path = state.plan.counts.tolist(), Path(str(whole.folder)) / "steps.json"
    kept = path.read_text()
    if text == "steps":  # entries that cannot be steps
        text = kept.replace('"counts":[', '"counts":["x",')
    path.write_text(text)
    try:
        assert whole.state().plan.counts.tolist() == expected
    finally:
        path.write_text(kept)


def test_the_last_digits_of_rows_decide_nothing(whole):
    known, space = values(whole), whole.space
    rng = np.random.default_rng(3)
    nearly = {row: value * (1 + 1e-13 * rng.standard_normal()) for row, value in known.items()}

    def steps(rows):
        def value(cell, seed, metric):
            return rows.get((cell, seed)) if metric == METRIC else None

        plan = precision.plan(space, enumerate_cells(space), value)
        return [(step.half, step.place, step.counts.tolist()) for _, step in plan.slices]

    assert repr(steps(nearly)) == repr(steps(known))


def of_a_hundred_rows():
    """A space with a budget, its cells, its slice, and 10 draws in two cells of it."""
    space = validate({**ASKED, "budget": {"rows": 100}})
    cells = enumerate_cells(space)
    own = slices.of_space(space, cells)[0]
    counts = np.zeros(len(cells), dtype=np.int64)
    counts[list(own.cells[3:5])] = 10
    return space, cells, own, counts


@pytest.mark.parametrize(("rows", "granted"), [(1, 0), (3, 2), (11, 10), (40, 20)])
def test_the_rest_of_a_budget_buys_equal_draws_or_nothing(rows, granted):
    space, cells, own, counts = of_a_hundred_rows()
    wanted = counts[list(own.cells)].copy()
    wanted[3:5] = 20
    cost = DeclaredCost(space, cells, hours=False)
    cost.spent["rows"] = 100 - rows
    found = affordable.affordable({"rows": 100}, [own], [Step(wanted, OPEN, half=3.0, then=2.0)], counts, cost)[0]
    more = found.counts - counts[list(own.cells)]
    assert more[3] == more[4] == granted // 2
    assert more.sum() == granted
    assert (found.state == endings.SPENT) == (granted == 0)


def test_the_rest_of_a_budget_buys_no_part_of_a_cell():
    space, cells, own, counts = of_a_hundred_rows()
    wanted = counts[list(own.cells)].copy()
    wanted[6] = 10  # a further cell is compared on the draws of the others
    cost = DeclaredCost(space, cells, hours=False)
    for left, state in ((9, endings.SPENT), (10, OPEN)):
        cost.spent["rows"] = 100 - left
        found = affordable.affordable({"rows": 100}, [own], [Step(wanted, OPEN)], counts, cost)[0]
        assert found.state == state


def test_a_verdict_needs_more_than_a_narrow_interval_by_chance():
    space = validate({**ASKED, "axes": {"overlap_angle": {"linspace": [9, 90, 10]}, "gamma": [0.2]}})
    cells = enumerate_cells(space)
    own = slices.of_space(space, cells)[0]
    rng = np.random.default_rng(5)
    level = 0.05 * rng.standard_normal(40)

    def value(cell, seed, metric):
        if metric != METRIC or seed >= draws:
            return None
        return float(np.cos(np.radians(own.x[cell])) - 0.5 + level[seed])

    found = {}
    for draws in (4, 40):
        wide = verdicts.verdicts(space, [(own, "")], value, draws, precision.StepCache())[0]
        loose = dataclasses.replace(own, wanted=1.2 * wide.half)
        found[draws] = verdicts.verdicts(space, [(loose, "")], value, draws, precision.StepCache())[0].state
    assert found == {4: "", 40: REACHED}


def test_more_seeds_than_anyone_needs_are_no_plan(storage, call):
    options = ("--set", "precision.boundary=6", "--set", "seeds=10000000", "--storage", storage)
    planned = call("run", "quickstart", *options, "--dry-run")  # without --yes
    assert planned.code == 0
    assert "70 cells, up to 100,000 draws of each" in planned.out
    assert "70 rows to compute" in planned.out
    assert "about 2,214 rows" in planned.out  # the geometric mean of a round and of a thousand draws
    many = {"axes": {"overlap_angle": {"linspace": [9, 90, 100]}, "gamma": {"linspace": [0.2, 2, 2600]}}}
    with pytest.raises(raysweep.InputError, match=r"axes: 1,040,000 rows .*--yes is needed"):
        run(storage, **many)
    assert not storage.exists()
