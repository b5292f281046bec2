"""What a report says of a relation between two metrics, over draws or over cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_report import TRANSFER, rows_of, space_of

from raysweep.fits.rank import over_units
from raysweep.reporting.report import write_report


def test_a_relation_is_judged_draw_by_draw_and_infinite_values_are_said(tmp_path: Path) -> None:
    axes = {"overlap_angle": [10.0, 30.0, 50.0, 70.0], "noise": [0.0, 0.3], "gamma": [0.5]}
    frame = rows_of(TRANSFER, axes, {"dim": 200}, 8, 0.001)
    frame["kl_divergence"] = np.where(frame["noise"] == 0, np.inf, frame["overlap_angle"])
    rng = np.random.default_rng(1)
    frame["wasserstein_1"] = rng.standard_normal(len(frame))
    analysis = [
        {"relation": {"x": "kl_divergence", "y": "transferability_finetune", "by": ["noise"]}},
        {"relation": {"x": "wasserstein_1", "y": "transferability_finetune"}},
    ]
    report = write_report(frame, space_of("linear_transfer", axes, {}, analysis), tmp_path, sweep="s")
    ranks = pd.read_csv(tmp_path / "tables" / "relation_ranks.csv").set_index("group")
    assert ranks.loc["σ = 0.3", "rank_correlation"] == pytest.approx(-1)  # transfer falls with the angle
    assert np.isnan(ranks.loc["σ = 0", "rank_correlation"])  # it does not vary there
    (whole,) = pd.read_csv(tmp_path / "tables" / "relation_2_ranks.csv").to_dict("records")
    assert whole["low"] < 0 < whole["high"]
    assert report.headline[1].startswith("Wasserstein-1 distance is not shown to predict gain by fine-tuning: ")
    assert report.headline[1].endswith(
        f" {whole['rank_correlation']:+.2f} [{whole['low']:+.2f}, {whole['high']:+.2f}]; "
        f"95 % over {whole['draws']} draws"
    )
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "infinite in 32 of 64 rows" in text


def test_a_relation_over_cells_that_are_a_sample_has_an_interval_over_them(tmp_path: Path) -> None:
    """One draw is enough, and a thousand draws of the same cells do not make the interval shorter."""
    axes = {"overlap_angle": [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0], "gamma": [0.5]}
    both = {"x": "kl_divergence", "y": "wasserstein_1"}
    analysis = [
        {"relation": {**both, "sample": "cells"}},
        {"relation": both},
        {"relation": {**both, "sample": "cells", "where": {"overlap_angle": [10, 20]}}},
    ]
    for seeds in (1, 20):
        frame = rows_of(TRANSFER, axes, {"dim": 200}, seeds, 0.001)
        frame["kl_divergence"] = frame["overlap_angle"].map(dict(zip(axes["overlap_angle"], range(8), strict=True)))
        swapped = [0, 2, 1, 3, 5, 4, 6, 7]
        frame["wasserstein_1"] = frame["kl_divergence"].map(dict(enumerate(swapped)))
        report = write_report(frame, space_of("linear_transfer", axes, {}, analysis), tmp_path, sweep="s")
        (found,) = pd.read_csv(tmp_path / "tables" / "relation_ranks.csv").to_dict("records")
        assert found["rank_correlation"] == pytest.approx(1 - 6 * 4 / (8 * 63))
        assert (found["low"], found["high"]) == pytest.approx(over_units(np.arange(8), np.array(swapped))[1:])
        assert (found["cells"], found["draws"]) == (8, seeds)
        text = (tmp_path / "report.md").read_text(encoding="utf-8")
        assert "The interval is for other cells" in text
    assert report.headline[1].endswith(" +0.95 [+0.95, +0.95]; 95 % over 20 draws")  # which are all the same
    assert "fewer than 5 cells" in report.headline[2]
