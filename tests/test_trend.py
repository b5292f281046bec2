"""Progressive sensitivity as a test: trends that are there are found, trends that are not are found one time in 20."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from test_regime import as_transfer, frame_of

from raysweep.reporting.report import write_report
from raysweep.reporting.trend import fit_trend, holm

X = np.geomspace(1, 100, 9)


def rows(
    mean: np.ndarray, rng: np.random.Generator, draws: int = 5, own: float = 0.0, noise: float = 0.1
) -> pd.DataFrame:
    """Draws of a curve over X: a shift of each draw's own, a tilt of its own (`own`), noise of every row."""
    t = np.linspace(-1, 1, len(X))
    values = (
        mean + rng.standard_normal((draws, 1)) + own * rng.standard_normal((draws, 1)) * t
        + noise * rng.standard_normal((draws, len(X)))
    )
    return pd.DataFrame({"x": np.tile(X, draws), "seed": np.repeat(np.arange(draws), len(X)), "y": values.ravel()})


@pytest.mark.parametrize("own", [0.0, 0.3])
def test_without_a_trend_p_is_below_5_percent_5_percent_of_the_time(own: float) -> None:
    rng = np.random.default_rng(1)
    chances = np.array([fit_trend(rows(np.zeros(9), rng, own=own), "x", "y", "seed").p_value for _ in range(200)])
    assert 0.02 <= (chances < 0.05).mean() <= 0.08
    assert stats.kstest(chances, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("own", [0.0, 0.3])
def test_the_interval_of_the_slope_covers_and_a_clear_trend_is_found(own: float) -> None:
    rng = np.random.default_rng(2)
    mean = 0.8 * np.log10(X)
    fits = [fit_trend(rows(mean, rng, own=own), "x", "y", "seed") for _ in range(120)]
    assert 0.91 <= np.mean([fit.low <= 0.8 <= fit.high for fit in fits]) <= 0.99
    assert np.mean([fit.p_value < 0.05 for fit in fits]) > 0.8
    # a curve that rises throughout is seldom said to fall somewhere
    assert np.mean([fit.p_against < 0.05 for fit in fits]) < 0.06
    dip = [fit_trend(rows(mean + np.where(np.arange(9) == 5, -1.0, 0), rng), "x", "y", "seed") for _ in range(30)]
    assert np.mean([fit.p_against < 0.05 for fit in dip]) > 0.9


def test_the_slope_is_that_of_least_squares() -> None:
    frame = rows(np.log10(X), np.random.default_rng(3))
    fit = fit_trend(frame, "x", "y", "seed")
    assert fit.logarithmic
    assert fit.slope == pytest.approx(stats.linregress(np.log10(frame["x"]), frame["y"]).slope)
    more = [frame.head(1).assign(x=np.inf), frame.head(1).assign(x=0.0), frame.head(2).assign(y=np.nan)]
    odd = pd.concat([frame, *more])
    assert fit_trend(odd.assign(status="ok"), "x", "y", "seed").slope == pytest.approx(fit.slope)
    exact = fit_trend(rows(X, np.random.default_rng(4), noise=0).assign(y=lambda f: f["x"]), "x", "y", "seed")
    assert (exact.p_value, exact.p_against) == (0.0, 1.0)
    assert np.isnan(fit_trend(frame[frame["seed"] == 0], "x", "y", "seed").slope)


def test_holm_is_bonferroni_at_the_smallest_and_never_falls() -> None:
    assert np.allclose(holm(np.array([0.01, np.nan, 0.04, 0.03])), [0.03, np.nan, 0.06, 0.06], equal_nan=True)


def test_a_report_says_whether_sensitivity_is_progressive(tmp_path: Path) -> None:
    frame, space = as_transfer(frame_of(0.0, np.random.default_rng(5), lowest=(1.0, 0.0)))
    frame = frame[frame["finetune_lr"] < 3e-3]
    space = {**space, "analysis": [{"trend": {"metric": "risk_finetune", "x": "pretrain_length"}}]}
    report = write_report(frame, space, tmp_path, sweep="s")
    said = report.headline[0]
    assert said.startswith("risk_finetune rises in ")
    assert "with pretrain length (p < 0.05, Holm)" in said
    table = pd.read_csv(tmp_path / "tables" / "trend_trends.csv")
    assert (table["p_holm"] >= table["p_value"]).all()
