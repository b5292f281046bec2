"""A sweep in Python: what it says of itself, and the report's answers as objects with a table and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from conftest import run
from spaces import small_space
from test_report import TRANSFER

import raysweep
from raysweep.errors import InputError
from raysweep.report.names import called
from raysweep.sweep import Sweep

ANGLES = [30, 45, 60, 75, 90]
BOUNDARY = {"metric": "transferability_finetune", "x": "overlap_angle", "y": "gamma"}
OPTIMUM = {"metric": "loss", "x": "rate"}
METRIC = "transferability_finetune"


def bowl(rate: float, width: int, seed: int) -> dict[str, float]:
    """The loss over a rate, lowest near 0.01 for width 1 and near 0.02 for width 2."""
    noise = np.random.default_rng([seed, round(1e6 * rate), width]).normal(0, 0.02)
    return {"loss": float(np.log(rate / (0.01 * width)) ** 2 / 10 + noise)}


@pytest.fixture(scope="module")
def angles(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """Five angles, two ratios and six draws, with a boundary in its analysis."""
    axes = {"overlap_angle": ANGLES, "gamma": [0.3, 0.5]}
    space = small_space(axes=axes, seeds=6, analysis=[{"boundary": BOUNDARY}])
    return run(tmp_path_factory.mktemp("angles"), space)


@pytest.fixture(scope="module")
def rates(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """Seven rates, two widths and six draws of a function; no analysis."""
    axes = {"rate": [0.001, 0.003, 0.006, 0.012, 0.025, 0.05, 0.1], "width": [1, 2]}
    return run(tmp_path_factory.mktemp("rates"), bowl, axes=axes, seeds=6, metrics={"loss": "minimize"})


def as_written(table: pandas.DataFrame, file: Path) -> None:
    """The table is the CSV of a report, digit for digit."""
    assert table.to_csv(index=False) == file.read_text()


def test_a_fit_is_what_the_report_writes(angles: Sweep, tmp_path: Path) -> None:
    report = angles.report(tmp_path / "report")
    fit = angles.fit(boundary=BOUNDARY)
    as_written(fit.table, tmp_path / "report" / "tables" / "boundary_zeros.csv")
    assert [repr(fit)] == report.headline
    assert repr(report).splitlines() == [*report.answer, f"report: {tmp_path / 'report' / 'report.html'}"]
    assert (fit.kind, fit.draws, fit.points, fit.rows, fit.level) == ("boundary", 6, 5, 60, 0.95)
    located = fit.table[fit.table["status"] == "located"]
    assert len(located)
    assert fit.estimate == located["estimate"].median()
    assert (fit.low, fit.high) == (located["low"].min(), located["high"].max())


def test_a_fit_need_not_stand_in_the_space(rates: Sweep, tmp_path: Path) -> None:
    fit = rates.fit(optimum={**OPTIMUM, "level": 0.9})
    assert fit.level == 0.9
    assert fit.table["width"].tolist() == [1, 2]
    assert fit.status == "located"
    assert ((fit.table["low"] < [0.01, 0.02]) & (fit.table["high"] > [0.01, 0.02])).all()
    assert "rate" in fit._repr_html_()
    again = run(rates.folder.parent, bowl, axes=rates.space.axes, seeds=6, metrics={"loss": "minimize"},
                analysis=[{"optimum": {**OPTIMUM, "level": 0.9}}], name="asked")  # fmt: skip
    again.report(tmp_path / "report")
    as_written(fit.table, tmp_path / "report" / "tables" / "optimum_optima.csv")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "fit: expected one of boundary, inflection, optimum, like boundary={…}, got none"),
        ({"boundary": BOUNDARY, "optimum": OPTIMUM}, "fit: expected one of boundary, inflection, optimum, like bou"),
        ({"boundary": 3}, "fit.boundary: expected a mapping from option to value, got 3"),
        ({"boundary": {"x": "gamma"}}, "fit.boundary.metric: missing; expected one of"),
        ({"boundary": {**BOUNDARY, "x": "overlap_angel"}}, "did you mean overlap_angle?"),
        ({"boundary": {**BOUNDARY, "metric": "transferability_fine"}}, "did you mean transferability_finetune?"),
        ({"boundary": {**BOUNDARY, "z": 1}}, "fit.boundary.z: unknown option 'z'; known: metric, x, y, by"),
        ({"boundary": {**BOUNDARY, "by": "gamma"}}, "fit.boundary.by: 'gamma' is already used as y"),
        ({"optimum": {"metric": METRIC, "x": "depth"}}, "fit.optimum.x: unknown axis 'depth'; known: overlap_angle"),
    ],
)
def test_what_cannot_be_fitted_is_told_in_one_line(asked: dict[str, Any], said: str, angles: Sweep) -> None:
    with pytest.raises(InputError) as caught:
        angles.fit(**asked)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_where_nothing_can_be_fitted_the_error_says_why(storage: Path) -> None:
    one = run(storage, small_space(axes={"overlap_angle": [30, 60]}, seeds=1, fixed={"dim": 20, "gamma": 1.0}))
    with pytest.raises(InputError, match="^fit: optimum: Wasserstein-1 distance is finite in no row, so there is"):
        one.fit(optimum={"metric": "wasserstein_1", "x": "overlap_angle"})


def test_the_figure_has_the_declared_units_and_belongs_to_pyplot(angles: Sweep) -> None:
    from matplotlib import pyplot

    pyplot.close("all")
    fit = angles.fit(boundary={**BOUNDARY, "y": None, "by": ["gamma"]})
    panel = fit.plot()
    assert f"{panel.get_xlabel()} {panel.get_ylabel()}".count("degrees") == 1
    assert panel.figure.number in pyplot.get_fignums()
    assert fit.plot() is panel
    assert len(pyplot.get_fignums()) == 1
    pyplot.close("all")
    assert fit.plot().figure.number in pyplot.get_fignums()
    pyplot.close("all")


def test_a_figure_is_drawn_when_it_is_asked_for(angles: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    made: list[Figure] = []
    begin = Figure.__init__
    monkeypatch.setattr(Figure, "__init__", lambda self, **look: (begin(self, **look), made.append(self))[0])
    fit = angles.fit(boundary=BOUNDARY)
    assert fit._repr_html_()
    assert made == []
    assert fit.plot().figure in made
    pyplot.close("all")


def test_the_best_cells_are_those_of_the_report(rates: Sweep, tmp_path: Path) -> None:
    rates.report(tmp_path)
    best = rates.best("loss")
    as_written(best.table, tmp_path / "tables" / "best_cells.csv")
    assert repr(best).startswith("best loss (the smallest) is ")
    means = rates.results().groupby(["rate", "width"])["loss"].mean()
    assert (best.table.iloc[0]["rate"], best.table.iloc[0]["width"]) == means.idxmin()
    with pytest.raises(InputError, match="^best.metric: unknown metric 'los'; did you mean loss"):
        rates.best("los")
    assert "loss" in best.plot().get_ylabel()
    one = run(tmp_path / "one", bowl, axes={"rate": [0.01]}, fixed={"width": 1}, metrics={"loss": "minimize"})
    with pytest.raises(InputError, match="^plot: there is nothing to draw"):
        one.best("loss").plot()


def test_two_sweeps_are_compared_draw_by_draw(angles: Sweep, tmp_path: Path) -> None:
    axes = {"overlap_angle": ANGLES, "gamma": [0.3, 0.5]}
    deeper = run(tmp_path, small_space(name="deeper", axes=axes, seeds=6, fixed={"dim": 20, "noise": 0.2, "depth": 3}))
    comparison = angles.compare(deeper)
    table = comparison.table[comparison.table["metric"] == METRIC]
    keys = ["overlap_angle", "gamma", "seed"]
    pairs = angles.results().merge(deeper.results(), on=keys)
    by_hand = (pairs[f"{METRIC}_y"] - pairs[f"{METRIC}_x"]).groupby([pairs["overlap_angle"], pairs["gamma"]]).mean()
    found = table.set_index(["overlap_angle", "gamma"])["difference"]
    pandas.testing.assert_series_equal(found.sort_index(), by_hand.sort_index(), check_names=False, rtol=1e-12)
    assert set(table["draws"]) == {6}
    assert "deeper (depth = 3) less small (depth = 2)" in repr(comparison)
    assert "overlap angle" in comparison.plot().figure.axes[0].get_xlabel()
    shown = list(dict.fromkeys(comparison.table["metric"]))
    assert all(called(metric, TRANSFER) in " ".join(comparison.plot(metric).get_ylabel().split()) for metric in shown)
    with pytest.raises(InputError, match="^plot: unknown metric 'los'"):
        comparison.plot("los")
    with pytest.raises(InputError, match="^compare: expected another sweep than small itself"):
        angles.compare(angles)
    with pytest.raises(InputError, match=r"^compare: expected another sweep, such as raysweep.open\(NAME\), got 'deep"):
        angles.compare("deeper")


def test_sweeps_of_two_workloads_cannot_be_compared(angles: Sweep, rates: Sweep) -> None:
    with pytest.raises(InputError, match="is a sweep of .*, small one of linear_transfer"):
        angles.compare(rates)


def test_a_sweep_says_what_it_is_and_how_far(angles: Sweep, storage: Path) -> None:
    said = repr(angles)
    for part in (
        "sweep small\n",
        "question: Where does transferability_finetune change sign in overlap angle?",
        "size: 10 cells x 6 seeds",
        "rows: 60 of 60 (60 ok), finished",
        f"storage: {angles.folder.parent}",
    ):
        assert part in said
    assert "60 of 60 (60 ok), finished" in angles._repr_html_()
    part = run(angles.folder.parent, small_space(axes=angles.space.axes, seeds=2, analysis=angles.space.analysis))
    assert repr(part).startswith("sweep small (a part of it)")
    assert "rows: 20 of 20" in repr(part)
    opened = raysweep.open("small", storage=angles.folder.parent)
    assert repr(opened) == said


def test_failed_rows_are_counted_and_names_are_not_html(storage: Path) -> None:
    def half(x: int, seed: int) -> float:
        if x > 1:
            raise ValueError("no")
        return float(seed)

    sweep = run(storage, half, axes={"x": [1, 2]}, seeds=2, name="half", description="Is <b> & so on kept?")
    assert "rows: 4 of 4 (2 failed, 2 ok), finished" in repr(sweep)
    assert "Is &lt;b&gt; &amp; so on kept?" in sweep._repr_html_()


def test_a_sweep_whose_rows_are_damaged_or_gone_still_says_what_it_is(storage: Path) -> None:
    sweep = run(storage)
    for segment in (sweep.folder / "ledger").iterdir():
        segment.unlink()
    assert "rows: 0 of 18, interrupted" in repr(sweep)
    with pytest.raises(InputError, match="^small: there are no rows yet"):
        sweep.best("risk_scratch")
