"""The report of R²: over which units, at which setting, and which predictor explains more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from raysweep import workloads
from raysweep.analyses.question import Question
from raysweep.reporting import write_report
from raysweep.reporting.analyses.r_squared import headline

ANALYSIS: dict[str, Any] = {
    "metric": "risk_finetune",
    "predictors": ["risk_linear", "risk_scratch"],
    "x": "gamma",
    "unit": "overlap_angle",
}


def rows(seeds: int = 3) -> pd.DataFrame:
    """Angles as units; at depth 2 risk_linear explains risk_finetune without rest, at depth 3 not at all."""
    rng = np.random.default_rng(0)
    angles = np.linspace(4, 80, 20)
    found = []
    for depth in (2, 3):
        for gamma in (0.2, 0.4, 0.6):
            for angle in angles:
                for seed in range(seeds):
                    value, noise = rng.standard_normal(2)
                    known = {"risk_finetune": 2 - 3 * value, "risk_scratch": value + noise, "status": "ok"}
                    linear = value if depth == 2 else rng.standard_normal()
                    cell = f"{depth}{gamma}{angle}"
                    axes = {"overlap_angle": angle, "gamma": gamma, "depth": depth, "seed": seed, "cell": cell}
                    found.append({**axes, **known, "risk_linear": linear})
    return pd.DataFrame(found)


def space(**options: Any) -> dict[str, Any]:
    return {
        "name": "s",
        "workload": "linear_transfer",
        "axes": {"overlap_angle": np.linspace(4, 80, 20).tolist(), "gamma": [0.2, 0.4, 0.6], "depth": [2, 3]},
        "fixed": {"dim": 20},
        "analysis": [{"r_squared": {**ANALYSIS, **options}}],
    }


def test_it_is_found_over_units_at_every_setting(tmp_path: Path) -> None:
    frame = rows()
    report = write_report(frame, space(), tmp_path, sweep="s")
    table = pd.read_csv(tmp_path / "tables" / "r_squared_values.csv").set_index(["depth", "gamma", "predictor"])
    assert len(table) == 2 * 3 * 2
    assert (table["units"] == 20).all()
    np.testing.assert_allclose(table.loc[2].xs("risk_linear", level="predictor")["r_squared"], 1)
    assert (table.loc[3].xs("risk_linear", level="predictor")["high"] < 0.6).all()
    one = frame[(frame["depth"] == 3) & (frame["gamma"] == 0.4)]
    each = [np.corrcoef(own["risk_scratch"], own["risk_finetune"])[0, 1] ** 2 for _, own in one.groupby("seed")]
    assert table.loc[(3, 0.4, "risk_scratch"), "r_squared"] == pytest.approx(np.mean(each))
    assert (table.xs("risk_scratch", level="predictor").loc[2, "more_high"] < 0).all()
    clearly = sum(
        one["low"].idxmax() == one["r_squared"].idxmax() == ("risk_linear") and one["low"].max() > one["high"].min()
        for one in (own.droplevel([0, 1]) for _, own in table.groupby(level=[0, 1]))
    )
    assert report.headline[0].startswith(
        "risk of linear transfer explains risk after fine-tuning best in 3 of 6 settings, "
        f"clearly in {clearly} (L = 2, 95 %); R² over 20 overlap angles (in brackets its depth): risk of linear "
    )
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    more = int((table["more_low"] > 0).sum())
    said = f"Risk from scratch explains clearly more than risk of linear transfer in {more} and clearly less in 3 of 6 "
    assert said in text
    assert more > 0
    assert "The metric falls where the predictor rises in" in text
    assert (tmp_path / "figures" / "r_squared.png").is_file()


@pytest.mark.parametrize(("behind", "said"), [(0.02, "best in 1 of 2"), (0.004, "best or as well as any in both")])
def test_a_predictor_that_is_behind_by_less_than_is_shown_explains_as_well_as_any(behind: float, said: str) -> None:
    asked = Question(pd.DataFrame(), ANALYSIS, workloads.get("linear_transfer"), "r_squared")
    table = pd.DataFrame({"gamma": np.repeat([0.2, 0.4], 2), "predictor": ANALYSIS["predictors"] * 2, "best": False})
    table["r_squared"] = [0.9, 0.3, 0.5 - behind, 0.5]
    answer, _ = headline(table, ANALYSIS["predictors"], "20 overlap angles", asked)
    begin = "no predictor clearly explains risk_finetune best: risk_linear does it"
    assert answer.startswith(f"{begin} {said} ")
    assert answer.endswith("settings, clearly in none (95 %)")


def test_rows_that_are_not_ok_and_units_without_a_value_are_left_out(tmp_path: Path) -> None:
    frame = rows()
    bad = (frame["overlap_angle"] == 4) & (frame["seed"] == 1)
    frame.loc[bad, "risk_linear"] = np.nan
    frame.loc[frame["overlap_angle"] == 8, "status"] = "diverged"
    write_report(frame, space(predictors="risk_linear", by="depth"), tmp_path, sweep="s")
    table = pd.read_csv(tmp_path / "tables" / "r_squared_values.csv")
    assert set(table["units"]) == {18}
    assert len(table) == 6
