"""A search without a question: its best configurations, the axes that matter, and every run as a point."""

import numpy as np
import pandas as pd
import pytest
from searched_rows import rows_of, space_of

from raysweep.analyses import registry
from raysweep.analyses.finding import Outcome
from raysweep.analyses.findings import designed, finding_of
from raysweep.analyses.kinds.search import StoppedPlot
from raysweep.analyses.question import Question
from raysweep.space.schema import validate


def search(rows, space=None, curves=None):
    """The finding about val_loss."""
    design, workload = designed([space or space_of()], ["s"])
    asked = Question(rows, {"metric": "val_loss"}, workload, "search", design, curves)
    return finding_of(registry.get("search"), asked)


def plots(finding):
    """The plots by their type."""
    return {type(plot).__name__: plot for plot in finding.plots()}


@pytest.fixture(scope="module")
def finding():
    """Of 200 configurations with one draw each."""
    return search(rows_of())


def test_the_two_axes_that_matter_carry_the_variance(finding):
    shares = finding.facts["shares"]
    assert list(shares)[:2] == ["lr", "depth"]
    assert shares["lr"] + shares["depth"] > 0.75
    assert max(shares[name] for name in ("width", "dropout", "optimizer", "momentum")) < 0.05
    assert sum(shares.values()) <= 1
    assert [axis.name for axis in plots(finding)["SlicesPlot"].axes] == list(shares)
    first = finding.plots()[0]
    assert (first.axis.name, first.kind) == ("lr", "width")
    assert first.shares == shares
    assert first.rest == pytest.approx(1 - sum(shares.values()))
    assert len(first.column) == len(first.kinds) == len(first.runs.value) == 200
    assert search(rows_of()).facts["shares"] == shares


def test_there_is_no_importance_of_noise_or_of_a_few_configurations():
    assert search(rows_of().assign(val_loss=np.random.default_rng(1).standard_normal(200))).facts["shares"] == {}
    assert search(rows_of(count=11)).facts["shares"] == {}


def test_one_draw_marks_no_configuration(finding):
    rows = rows_of()
    assert finding.facts["one_draw"]
    assert finding.table["outcome"].tolist() == [Outcome.MEASURED] * 8
    assert finding.table["estimate"].tolist() == sorted(rows["val_loss"])[:8]
    assert finding.table["low"].isna().all()
    assert len(finding.tables["search_cells"]) == 200


def test_draws_tell_configurations_from_the_best_by_their_differences():
    rows = rows_of(count=60, draws=5, noise=1e-4, shared=1.0)
    best = rows.groupby("cell")["val_loss"].mean().idxmin()
    near = rows[rows["cell"] == best].assign(cell="near", dropout=0.49)
    near["val_loss"] += [1e-3, -1e-3, 1e-3, -1e-3, 1e-4]
    same = rows[rows["cell"] == best].assign(cell="same", dropout=0.48)
    finding = search(pd.concat([rows, near, same]))
    assert finding.table["outcome"].tolist() == [*[Outcome.BEST] * 2, Outcome.ALIKE, *[Outcome.WORSE] * 5]
    assert finding.facts["alike"] == 2  # with the other best one
    assert (finding.table["low"] < finding.table["estimate"]).all()


def test_other_metrics_are_those_of_the_same_configuration():
    rows = rows_of(count=40, draws=3)
    first = search(rows).table.iloc[0]
    means = rows.groupby("cell")[["val_loss", "test_acc"]].mean()
    chosen = means.loc[means["val_loss"].idxmin()]
    assert [first["estimate"], first["test_acc_mean"]] == pytest.approx(chosen.tolist())
    assert first["test_acc_low"] < first["test_acc_mean"] < first["test_acc_high"]


def test_an_inactive_axis_has_no_value(finding):
    cells = finding.tables["search_cells"]
    assert set(cells.loc[cells["optimizer"] == "adam", "momentum"]) == {None}
    assert cells.loc[cells["optimizer"] == "sgd", "momentum"].notna().all()
    ended = rows_of().assign(status=lambda rows: np.where(rows["optimizer"] == "sgd", "ok", "diverged"))
    assert plots(search(ended))["HistoryPlot"].runs.first.sum() == 8  # the axis is active in all that are ok
    drawn = finding.explored[0]()
    place = [axis["name"] for axis in drawn["axes"]].index("momentum")
    adam = (cells["optimizer"] == "adam").to_numpy()
    assert [line["at"][place] is None for line in drawn["lines"]] == adam.tolist()
    assert {line["texts"][place] for line, gone in zip(drawn["lines"], adam, strict=True) if gone} == {"–"}


def test_a_configuration_that_mostly_diverged_or_was_stopped_is_never_the_best():
    rows = rows_of(count=40, draws=3)
    best = rows.groupby("cell")["val_loss"].mean().sort_values().index
    for cell, status in ((best[0], "diverged"), (best[1], "stopped")):
        bad = (rows["cell"] == cell) & (rows["seed"] > 0)
        rows.loc[bad, "status"] = status
        rows.loc[bad, "val_loss"] = np.nan if status == "diverged" else 0.0
    finding = search(rows)
    expected = rows[rows["cell"] == best[2]]
    assert finding.table["estimate"][0] == pytest.approx(expected["val_loss"].mean())
    assert [(plots(finding)["HistoryPlot"].runs.state == word).sum() for word in ("lost", "stopped")] == [3, 2]


def test_the_history_has_the_best_mean_so_far_in_the_order_of_the_search():
    rows = rows_of(count=30)
    plot = plots(search(rows))["HistoryPlot"]
    assert plot.order == "asked"
    assert plot.best.tolist() == np.minimum.accumulate(rows["val_loss"]).tolist()
    later = plots(search(rows.assign(finished=np.arange(30)[::-1])))["HistoryPlot"]
    assert later.order == "finished"
    assert later.best.tolist() == np.minimum.accumulate(rows["val_loss"][::-1]).tolist()


def test_values_lie_on_the_scale_of_their_range(finding):
    slices = plots(finding)["SlicesPlot"]
    lr = next(axis for axis in slices.axes if axis.name == "lr")
    assert (lr.low, lr.high, lr.log) == (1e-4, 1.0, True)
    assert lr.places([1e-4, 1e-2, 1.0, None])[:3] == pytest.approx([0, 0.5, 1])
    width = next(axis for axis in slices.axes if axis.name == "width")
    assert width.places([16, 128]).tolist() == [0.125, 0.875]
    parallel = finding.explored[0]()["lines"]
    assert np.shape([line["texts"] for line in parallel]) == (200, 7)
    assert np.all(np.diff([line["at"][-1] for line in parallel]) >= 0)


def test_runs_that_were_stopped_early_are_curves():
    rows = rows_of(count=30)
    rows.loc[rows["val_loss"] > 1, "status"] = "stopped"
    steps = pd.DataFrame({"step": [1, 2, 3], "stage": "compute"})
    curves = rows[["sweep", "cell", "seed", "status", "val_loss"]].merge(steps, how="cross")
    (plot,) = [one for one in search(rows, curves=lambda: curves).plots() if isinstance(one, StoppedPlot)]
    assert sum(state == "stopped" for state, _, _ in plot.curves) == (rows["val_loss"] > 1).sum()
    assert not [one for one in search(rows_of(count=30), curves=lambda: curves).plots() if isinstance(one, StoppedPlot)]


def test_searches_and_functions_over_several_axes_are_shown_as_searches_by_the_metric_that_they_optimize():
    def usual(space):
        return list(designed([space], ["s"])[0].usual)

    both = {"test_acc": "maximize", "val_loss": "minimize"}
    assert usual(space_of(metrics=both)) == [{"search": {"metric": "test_acc"}}]
    asked = space_of(metrics=both, search={"optuna": {"metric": "val_loss", "cells": 9}})
    assert usual(asked) == [{"search": {"metric": "val_loss"}}]
    assert usual(space_of({"lr": [0.1, 1.0]}, both, search="grid")) == [{"best": {"metric": name}} for name in both]
    grid = {"name": "s", "workload": "linear_transfer", "axes": {"gamma": [0.1, 0.2], "depth": [1, 2]}}
    assert [kind for one in usual(validate(grid).as_dict()) for kind in one] == ["best"]
