"""What a report says of a sweep that asks for no analysis: the best cells, main effects, and what matters."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import raysweep
from raysweep.errors import InputError
from raysweep.reporting.analyses.effects import effects, importance

AXES = {"a": np.linspace(0, 1, 6), "b": np.linspace(0, 1, 5), "c": np.linspace(0, 1, 4), "nothing": np.arange(3.0)}


def grid() -> pd.DataFrame:
    return pd.DataFrame(list(itertools.product(*AXES.values())), columns=list(AXES))


def test_the_importance_of_axes_that_add_up_is_their_share_of_the_variance() -> None:
    table = grid().assign(mean=lambda rows: 2 * rows["a"] + rows["b"] + 0.25 * rows["c"])
    variance = {key: table.groupby(key)["mean"].mean().var(ddof=0) / table["mean"].var(ddof=0) for key in AXES}
    found = importance(table, list(AXES))
    assert list(found)[:2] == ["a", "b"]
    for key, share in variance.items():
        assert found[key] == pytest.approx(share, abs=0.03)


def test_axes_that_only_act_together_matter_though_they_have_no_main_effect() -> None:
    table = grid().assign(mean=lambda rows: 4 * (rows["a"] - 0.5) * (rows["b"] - 0.5) + 0.2 * rows["c"])
    found = importance(table, list(AXES))
    assert min(found["a"], found["b"]) > 0.3 > 0.05 > found["nothing"]
    main = effects(table, list(AXES), largest=False)
    assert np.ptp(main.loc[main["axis"] == "a", "mean"]) == pytest.approx(0, abs=1e-12)
    best = main[main["axis"] == "c"].iloc[0]
    assert best["axis_value"] == 0
    assert best["cells"] == 90
    assert best["mean"] == pytest.approx(0.0, abs=1e-12)


def test_noise_makes_no_axis_important() -> None:
    rng = np.random.default_rng(4)
    table = grid().assign(mean=rng.standard_normal(360))
    assert importance(table, list(AXES)) == {}
    assert importance(table.assign(mean=1.0), list(AXES)) == {}
    assert importance(table.head(9).assign(mean=range(9)), list(AXES)) == {}


def test_order_is_all_that_counts_of_the_values_of_an_axis() -> None:
    table = grid().assign(mean=lambda rows: 2 * rows["a"] + rows["b"])
    other = table.assign(a=np.where(table["a"] == 1, np.inf, np.exp(table["a"])), b=table["b"].map("{:.2f}".format))
    assert importance(other, list(AXES)) == importance(table, list(AXES))


def test_a_sweep_that_asks_for_no_analysis_says_what_is_best_and_what_matters(storage: Path) -> None:
    def train(lr: float, width: int, kind: str, seed: int) -> dict[str, float]:
        return {"loss": (np.log10(lr) + 2) ** 2 + 3 / width + 0.001 * seed}

    axes = {"lr": [1e-4, 1e-3, 1e-2, 0.1, 1.0], "width": [1, 2, 4], "kind": ["a", "b"]}
    report = raysweep.run(
        train, axes=axes, seeds=2, metrics={"loss": "minimize"}, storage=storage, tracking_uri="none"
    ).report()
    assert " at lr = 0.01, width = 4, " in report.answer[0]
    assert re.search(r"what matters most: lr [5-9]\d %, width [1-4]\d %\.$", report.answer[0])
    home = Path(str(report.directory))
    text = (home / "report.md").read_text()
    assert text.index("![best curves]") < text.index("<details>")
    assert re.search(r"\n\| lr \| [5-9]\d % \| 0\.01 \|", text)
    main = pd.read_csv(home / "tables" / "best_effects.csv")
    assert main.groupby("axis")["cells"].sum().to_dict() == {"lr": 30, "width": 30, "kind": 30}


def test_a_workload_that_is_asked_nothing_answers_too(storage: Path) -> None:
    space = {"name": "small", "workload": "linear_transfer", "fixed": {"dim": 20, "noise": 0.2}, "seeds": 3}
    space["axes"] = {"overlap_angle": [10.0, 80.0], "gamma": [0.3, 0.5]}
    report = raysweep.run(space, storage=storage, tracking_uri="none", executor="inline").report()
    assert report.answer[0].startswith("Best ")
    assert "best of 4 cells" in report.answer[0]


def test_the_better_of_two_cells_is_named_by_what_tells_them_apart(storage: Path) -> None:
    def train(lr: float, steps: int, seed: int) -> dict[str, float]:
        return {"loss": lr + steps + 10 * (seed - 1) * lr}

    report = raysweep.run(
        train,
        axes={"lr": [0.1, 0.2], "steps": [10, 20]},
        seeds=3,
        metrics={"loss": "minimize"},
        analysis=[{"best": {"metric": "loss", "where": {"steps": 10}}}],
        storage=storage,
        tracking_uri="none",
    ).report()
    assert report.answer[0] == (
        "Loss is not shown to differ between lr = 0.2 and 0.1: 10.2 [5.2, 15.2] against 10.1 [7.6, 12.6] "
        "(only steps = 10). Difference 0.1 [-2.4, 2.6] (95 %, paired by seed)."
    )
    assert (
        "Whether loss differs between the two cells with steps = 10 (deciding it takes more seeds)" in report.answer[-1]
    )
    assert not list((Path(str(report.directory)) / "figures").glob("best*.png"))  # two points are no figure


def test_cells_that_are_equal_in_every_draw_are_equally_good_and_nothing_is_open(storage: Path) -> None:
    def accuracy(rate: float, seed: int) -> dict[str, float]:
        return {"loss": 0.5 if rate > 2 else 0.1 + 0.01 * seed}

    for rates in ([1.0, 2.0], [1.0, 2.0, 3.0]):
        sweep = raysweep.run(
            accuracy, axes={"rate": rates}, seeds=4, storage=storage, tracking_uri="none", name=f"equal-{len(rates)}"
        )
        answer = sweep.report().answer
        said = "The same in every draw" if len(rates) == 2 else "1 other cell is as good in every draw"
        assert said.lower() in answer[0].lower()
        assert answer[-1] == "Undecided: Nothing that was asked."


def test_a_sweep_of_which_every_call_failed_says_so_whatever_it_asks(storage: Path) -> None:
    def failing(rate: float, seed: int) -> dict[str, float]:
        raise RuntimeError("no data")

    asked = [{"best": {"metric": "loss"}}, {"optimum": {"metric": "loss", "x": "rate"}}]
    sweep = raysweep.run(
        failing, axes={"rate": [1.0, 2.0]}, seeds=2, analysis=asked, storage=storage, tracking_uri="none"
    )
    assert "no row is ok (4 failed)" in " ".join(sweep.report().answer)
    with pytest.raises(InputError, match="no row is ok"):
        sweep.best("loss")
