"""A few curves are said by their means at the last value of the axis, each with its setting."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd

from raysweep import workloads
from raysweep.analyses.rows import CellMeans, means_table
from raysweep.analyses.series import Panel, Series
from raysweep.report.figures.lines import points_in_words
from raysweep.reporting.analyses.curves import ends

MULTIVIEW = workloads.get("multiview")
KEYS = ["framework", "kernels", "pretrain_length"]


def table(values: dict[tuple[str, int], list[float]], lengths: list[int]) -> pd.DataFrame:
    rows = [
        {
            "framework": framework,
            "kernels": kernels,
            "pretrain_length": length,
            "seed": seed,
            "status": "ok",
            "features_captured": value * (1 + 0.1 * (seed - 1)),
        }
        for (framework, kernels), curve in values.items()
        for (length, value), seed in product(zip(lengths, curve, strict=True), range(3))
        if np.isfinite(value)
    ]
    return means_table(pd.DataFrame(rows), KEYS, "features_captured", MULTIVIEW)


CURVES = {
    ("autoencoder", 1): [0.1, 0.9, 0.4],
    ("autoencoder", 3): [0.2, 0.3, 0.8],
    ("teacher_student", 1): [0.0, 0.2, 0.2],
    ("teacher_student", 3): [0.0, 0.2, 0.2],
}


def test_each_curve_is_said_and_equal_ones_once() -> None:
    first, rest, _ = ends(table(CURVES, [10, 20, 40]), KEYS, "features_captured", MULTIVIEW, "pretrain_length")
    assert first == (
        "features_captured at pretrain length 40 steps is 0.400 [0.301, 0.499] (autoencoder, m = 1), "
        "0.80 [0.60, 1.00] (autoencoder, m = 3), 0.200 [0.150, 0.250] in the other 2"
    )
    assert rest == (
        "lowest 0 (exact) at teacher-student, m = 1, pretraining length = 10 and 1 more cell; "
        "highest 0.90 [0.68, 1.00] at autoencoder, m = 1, pretraining length = 20"
    )


def test_curves_that_all_end_alike_are_said_once() -> None:
    alike = {key: [0.1, 0.3, 0.2] for key in CURVES}
    first, *_ = ends(table(alike, [10, 20, 40]), KEYS, "features_captured", MULTIVIEW, "pretrain_length")
    assert first == "features_captured at pretrain length 40 steps is 0.200 [0.150, 0.250] in all 4 settings"


def test_many_curves_one_curve_and_curves_that_end_earlier_are_said_by_lowest_and_highest() -> None:
    one = {("autoencoder", 1): CURVES["autoencoder", 1]}
    many = {("autoencoder", kernels): [0.1, 0.9, 0.4] for kernels in range(1, 9)}
    earlier = {**CURVES, ("autoencoder", 3): [0.2, 0.95, np.nan]}
    for curves in (one, many, earlier):
        span, each, _ = ends(table(curves, [10, 20, 40]), KEYS, "features_captured", MULTIVIEW, "pretrain_length")
        assert " at " not in span
        assert each.startswith("lowest ")
        assert "; highest " in each
    span, *_ = ends(table(CURVES, [10, 20, 40]), KEYS, "features_captured", MULTIVIEW)  # an axis of words has no last
    assert span == "features_captured is 0 to 0.9"


def test_points_without_a_spread_over_draws_are_not_said_to_have_intervals() -> None:
    centre, none = np.array([1.0, 2.0]), np.zeros(2, bool)
    for half, words in ((0.1, "mean over draws, 95 % interval"), (1e-14, "value of every draw, without spread")):
        means = CellMeans(np.array([1.0, 2.0]), centre, centre - half, centre + half, none)
        assert points_in_words([Panel({}, [Series({}, means)])]) == words
