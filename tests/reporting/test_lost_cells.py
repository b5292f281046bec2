"""A cell most of whose draws diverged or failed wins nothing, and every answer says how many of its draws are ok."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from functions import quietly

from raysweep.errors import InputError

RATES = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1]
LOST: dict[str, float] = {"nan": math.nan, "inf": math.inf, "too large": 1e200}


def training(how: str, ok: int = 1, at: tuple[float, ...] = (0.3,)) -> Any:
    """A function of which at some rates all but a few draws are lost, and the few have the lowest loss of all."""

    def train(lr: float, width: int = 1, seed: int = 0) -> dict[str, float]:
        loss = (math.log10(lr) + 2) ** 2 + 0.5 + 0.01 * seed * lr
        if lr not in at:
            return {"loss": loss}
        if seed < ok:
            return {"loss": 0.4 - seed / 100}
        if how == "failed":
            raise RuntimeError("the loss exploded")
        return {"loss": LOST[how]}

    return train


@pytest.mark.parametrize("how", ["failed", *LOST])
def test_survivors_are_not_the_best_cell(how: str, storage: Path) -> None:
    sweep = quietly(training(how), storage, axes={"lr": RATES, "width": [1, 2]}, seeds=10, executor="inline")
    best = sweep.best("loss")
    assert best.table.iloc[0]["lr"] == 0.01
    assert 0.3 not in set(best.table["lr"])
    assert best.table["draws"].tolist() == best.table["computed"].tolist() == [10] * 14
    assert "at lr = 0.01" in best.section.headline
    assert "1 of 10 draws ok at lr = 0.3, width = 1" in best.section.detail
    main = best.section.tables["best_effects"]
    assert main[main["axis"] == "lr"]["axis_value"].iloc[0] == 0.01
    assert 0.3 not in set(main["axis_value"])


def test_no_analysis_takes_survivors_and_each_says_so(storage: Path) -> None:
    entries: dict[str, Any] = {kind: {"metric": "loss", "x": "lr"} for kind in ("trend", "curves", "optimum")}
    sweep = quietly(
        training("failed"),
        storage,
        axes={"lr": RATES},
        seeds=10,
        executor="inline",
        analysis=[{kind: options} for kind, options in entries.items()],
    )
    report = sweep.report()
    text = (Path(str(report.directory)) / "report.md").read_text()
    assert text.count("1 of 10 draws ok at lr = 0.3") >= 3
    assert "0.4 at lr = 0.3" not in text
    fit = sweep.fit(optimum=entries["optimum"])
    assert fit.status == "located"
    assert fit.low < 0.01 < fit.high
    assert fit.table["diverged_from"].iloc[0] == np.inf  # what failed says nothing of the rates above it


def test_a_cell_with_most_draws_ok_may_win_and_says_how_many_are(storage: Path) -> None:
    sweep = quietly(training("nan", ok=7), storage, axes={"lr": RATES}, seeds=10, executor="inline")
    best = sweep.best("loss")
    assert (best.table.iloc[0]["lr"], best.table.iloc[0]["draws"], best.table.iloc[0]["computed"]) == (0.3, 7, 10)
    assert "(7 of 10 draws ok)" in best.section.headline
    assert "(7 of 10 draws ok)" in best.section.shown[0]["loss"]
    assert "left out" not in repr(best)


def test_many_cells_of_survivors_are_counted(storage: Path) -> None:
    sweep = quietly(training("nan", ok=3, at=tuple(RATES[4:])), storage, axes={"lr": RATES}, seeds=10)
    assert "4 cells most of whose draws diverged or failed (3 of 10 draws ok)" in sweep.best("loss").section.detail


def test_where_every_cell_lost_most_of_its_draws_there_is_no_best_one(storage: Path) -> None:
    sweep = quietly(training("nan", at=tuple(RATES)), storage, axes={"lr": RATES}, seeds=10, executor="inline")
    with pytest.raises(InputError, match=r"best: nothing to analyse; left out: 8 cells .* \(1 of 10 draws ok\)"):
        sweep.best("loss")


def test_a_draw_that_won_though_others_were_stopped_is_named_as_one_of_ten(storage: Path) -> None:
    """Stopped draws have numbers, so the cell stays; its mean says of how many draws it is."""

    def train(lr: float, seed: int, log: Any) -> dict[str, float]:
        loss = 0.1 if lr == 0.4 and seed == 0 else 1.0 + lr
        log(1, loss=loss)
        log.stop()
        return {"loss": loss}

    rule = {"metric": "loss", "rule": "median", "grace": 1, "first": 1}
    search = {"random": {"cells": 2}}  # the first round is 0.3, by the hashes of the values
    axes = {"lr": [0.3, 0.4]}
    sweep = quietly(train, storage, axes=axes, seeds=10, executor="inline", search=search, early_stopping=rule)
    assert sweep.statuses() == {"ok": 11, "stopped": 9}
    best = sweep.best("loss")
    assert best.table[["lr", "draws", "computed"]].to_numpy().tolist() == [[0.4, 1, 10], [0.3, 10, 10]]
    assert "(1 of 10 draws ok)" in best.section.headline


def test_a_comparison_leaves_out_cells_of_survivors(storage: Path) -> None:
    asked: dict[str, Any] = {"axes": {"lr": RATES}, "seeds": 10, "executor": "inline"}
    sweeps = [quietly(training("nan"), storage, name=f"width_{w}", fixed={"width": w}, **asked) for w in (1, 2)]
    compared = sweeps[0].compare(sweeps[1])
    assert 0.3 not in set(compared.table["lr"])
    assert len(compared.table) == 7
    assert "1 of 10 draws ok" in compared.section.detail
