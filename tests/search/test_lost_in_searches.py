"""No search goes where most draws diverge or fail, however good the few are that are left."""

import math
import warnings

import numpy as np
import pytest
from functions import quietly
from spaces import space_over

from raysweep.plan.cells import enumerate_cells
from raysweep.query.state import State
from raysweep.search import bracketing, endings
from raysweep.search.curves import Curve
from raysweep.search.slice_rows import SliceRows
from raysweep.search.slices import Ask, of_space
from raysweep.space.schema import validate

RATES = {"geomspace": [1e-4, 1.0, 17]}


def training(how, sign=1.0):
    """A valley, lowest at 0.003. From 0.1 on nine of ten draws are lost; the tenth is better the larger the rate."""

    def train(lr, width=1, seed=0):
        if lr < 0.1:
            loss = (math.log10(lr) + 2.5) ** 2 + 0.5 + 0.02 * width + 0.05 * math.sin(7.0 * seed * (1 + lr))
        elif seed == 0:
            loss = 0.1 - lr
        elif how == "failed":
            raise RuntimeError("the loss exploded")
        else:
            loss = {"nan": math.nan, "too large": 1e200}[how]
        return {"loss": sign * loss}

    return train


def swept(storage, function, **asked):
    return quietly(function, storage, executor="inline", **{"seeds": 10, **asked})


@pytest.mark.parametrize(
    ("how", "sign", "sampler", "count"),
    [
        ("failed", 1.0, "tpe", 40),
        pytest.param("nan", -1.0, "tpe", 40, marks=pytest.mark.long),
        pytest.param("too large", 1.0, "tpe", 40, marks=pytest.mark.long),
        pytest.param("failed", -1.0, "gp", 24, marks=pytest.mark.long),
    ],
)
def test_optuna_is_told_that_such_a_cell_is_bad(how, sign, sampler, count, storage):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        axes, metrics = {"lr": RATES, "width": [1, 2, 3, 4, 5, 6]}, {"loss": "minimize" if sign > 0 else "maximize"}
        search = {"optuna": {"metric": "loss", "cells": count, "sampler": sampler}}
        sweep = swept(storage, training(how, sign), axes=axes, search=search, metrics=metrics)
    cells = sweep.results().drop_duplicates("cell")
    assert len(cells) == count
    assert (cells["lr"] >= 0.0999).sum() <= 0.3 * count  # 5 of the 17 rates: as many as by chance
    assert 1e-3 < sweep.best("loss").table.iloc[0]["lr"] < 1e-2


@pytest.mark.parametrize("how", ["failed", "nan"])
def test_an_optimum_search_refines_beside_the_best_cell_that_is_not_lost(how, storage):
    search = {"optimum": {"metric": "loss", "x": "lr", "budget": 12, "start": 5}}
    table = swept(storage, training(how), axes={"lr": {"geomspace": [1e-4, 1.0, 33]}}, search=search).results()
    inside = np.unique(table["lr"])
    assert ((inside > 1e-3) & (inside < 1e-2)).sum() >= 4
    assert (inside > 0.1).sum() <= 2


@pytest.mark.parametrize("how", ["failed", "nan"])
def test_a_precision_locates_the_best_rate_beside_cells_of_survivors(how, storage):
    asked = {"analysis": [{"optimum": {"metric": "loss", "x": "lr"}}], "precision": {"optimum": 1.5}}
    sweep = swept(storage, training(how), axes={"lr": RATES}, seeds=64, **asked)
    table = sweep.results()
    lost = table[table["lr"] > 0.0999]
    assert lost.groupby("lr")["seed"].count().max() <= 8  # the draws with which each cell begins
    fit = sweep.fit(optimum={"metric": "loss", "x": "lr"})
    assert fit.status == "located"
    assert fit.low < 10**-2.5 < fit.high


def test_a_zero_is_sought_between_cells_that_are_not_lost():
    """The few draws beyond a cliff have the other sign, and no further draw goes there."""
    axes = {"overlap_angle": {"linspace": [10, 90, 9]}, "gamma": [0.5]}
    analysis = [{"boundary": {"metric": "transferability_linear", "x": "overlap_angle", "y": "gamma"}}]
    asked = {"seeds": 100, "analysis": analysis, "precision": {"boundary": 1.0}}
    space = validate(space_over("linear_transfer", axes, **asked))
    (own,) = of_space(space, enumerate_cells(space))

    def value(cell, seed, metric):
        if metric.endswith("_theory"):
            return None
        if own.x[own.cells.index(cell)] > 40:
            return 1.0 if seed < 2 else math.inf
        return -1.0 - 0.1 * math.sin(3.0 * seed)

    rows = SliceRows(space.seeds, [own], value)
    counts = rows.read_all(12)
    curve = rows.curve(own, counts, own.metric)
    assert np.isnan(curve.values[:, own.x > 40]).all()
    found = bracketing.step(curve, Ask(own, 100))
    assert found.state == endings.NO_CHANGE
    assert (found.counts == counts).all()
    middle = Curve(
        curve.x, curve.counts, np.where(own.x > 60, 1.0 + 0.1 * np.random.default_rng(0).random((12, 9)), curve.values)
    )
    found = bracketing.step(middle, Ask(own, 100))  # lost between two signs: the zero lies between them
    assert (found.counts[(own.x > 40) & (own.x <= 60)] == 12).all()


@pytest.mark.parametrize("rule", ["median", "asha"])
def test_rows_are_not_stopped_by_what_survived_elsewhere(rule, storage):
    def train(lr, seed, log):
        loss = 0.001 if lr == 0.3 else 1.0 + 0.01 * seed
        log(1, loss=loss)
        if lr == 0.3 and seed > 3:
            raise RuntimeError("the loss exploded")
        log(2, loss=loss)
        return {"loss": loss}

    stopping = {"metric": "loss", "rule": rule, "grace": 1, "first": 1}
    sweep = swept(storage, train, axes={"lr": [0.3, 0.4]}, search={"random": {"cells": 2}}, early_stopping=stopping)
    assert sweep.statuses() == {"ok": 14, "failed": 6}
    assert all(row["status"] == "failed" for row in State(sweep.space, sweep.cells, sweep.folder).earlier())
