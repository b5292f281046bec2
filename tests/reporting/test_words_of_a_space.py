"""`words` of an analysis: a report says in the words of a space what the tests of the analysis show."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import run
from spaces import small_space
from test_beside import METRIC, OTHER, cells
from test_figures import field, valley
from test_report import TRANSFER

from raysweep.analyses.question import Question
from raysweep.report.figures.style import REFERENCE
from raysweep.reporting.analyses.best import best_section
from raysweep.reporting.analyses.boundary import boundary_section
from raysweep.reporting.analyses.curves import curves_section
from raysweep.reporting.analyses.inflection import inflection_section
from raysweep.reporting.analyses.section import Section
from raysweep.reporting.analyses.trend import trend_section

SECTIONS = {
    "boundary": boundary_section,
    "curves": curves_section,
    "inflection": inflection_section,
    "trend": trend_section,
}
PAYS = {"positive": "pretraining pays", "negative": "pretraining costs"}
ERRS = {"positive": "pretrained networks err more", "negative": "pretrained networks err less"}
KNOWN = "the difference is typically known to ± 0.52 % of risk_scratch"
TURNS = {"turns": "pretraining can be too long"}
DATA = {"rises": "more data harm", "falls": "more data help"}
GAIN = {"metric": "transferability_finetune", "x": "overlap_angle"}


def section(kind: str, rows: pd.DataFrame, **options: Any) -> Section:
    return SECTIONS[kind](Question(rows.assign(cell="c"), options, TRANSFER, kind))


def test_a_boundary_says_what_signs_mean_in_the_words_of_the_space_not_of_the_workload() -> None:
    rows = field(lambda size: 30 + 40 * size)
    found = section("boundary", rows, **GAIN, y="gamma", words=PAYS)
    own = "pretraining pays below some overlap angle between 33.8° (γ = 0.1) and 66.2° (γ = 0.9), costs above, "
    assert found.headline == f"{own}in all 5 settings of gamma"
    theirs = section("boundary", rows, **GAIN, y="gamma")
    assert theirs.headline == found.headline.replace("pretraining pays", "transfer helps").replace("costs", "hurts")
    regions = {text.get_text() for text in found.drawings[0].figure.axes[0].texts}
    assert regions == {"pretraining pays", "pretraining costs"}
    one = section("boundary", field(lambda size: 300.0)[lambda rows: rows["gamma"] == 0.1], **GAIN, words=PAYS)
    assert one.headline == "pretraining pays at every overlap angle of the grid"


def test_a_crossing_is_said_in_the_words_of_the_space() -> None:
    first = field(lambda size: 50.0, METRIC)
    rows = pd.concat([first.assign(depth=1), first.assign(depth=2, **{METRIC: -first[METRIC]})])
    asked = {"metric": METRIC, "x": "overlap_angle", "between": {"depth": [1, 2]}}
    meant = {"positive": "a flat network is worse", "negative": "a flat network is better"}
    found = section("boundary", rows, **asked, words=meant)
    assert found.headline.startswith("a flat network is worse below some overlap angle between 49.")
    assert found.headline.endswith("), better above, in all 5 settings of gamma")
    assert found.detail.endswith("measured by risk_finetune of L = 1 minus 2")


def test_curves_beside_others_say_what_higher_and_lower_mean_and_by_which_metrics() -> None:
    rows = cells([-0.5, -0.25, 0.05, 0.0, np.nan], noise=0.001)
    found = section("curves", rows, metric=METRIC, beside=OTHER, x="gamma", words=ERRS)
    assert found.headline == (
        "pretrained networks err less in 2 of 5 cells (γ ≤ 1), more in 1 (γ = 2), equal in 1 (γ = 4), "
        "no clear difference in 1 (γ = 3; known to ± 0.055 % of risk_scratch)"
    )
    assert found.detail == (
        "less: risk_finetune is 0.5 to 0.749 times risk_scratch, least at γ = 0; more: 1.05 times, at γ = 2; "
        "tested with p < 0.05 (Holm)"
    )
    assert found.undecided.startswith("whether pretrained networks err more or less (risk_finetune) in 1 of 5 cells (")
    both = section("curves", rows[rows["gamma"] < 2], metric=METRIC, beside=OTHER, x="gamma", words=ERRS)
    assert both.headline == "pretrained networks err less in both cells"


def test_where_nothing_is_shown_no_words_claim_it() -> None:
    asked = {"metric": METRIC, "beside": OTHER, "x": "gamma", "words": ERRS}
    none = section("curves", cells([0.0, 0.0], seed=1), **asked)
    assert none.headline == f"in none of 2 cells is it shown that pretrained networks err more or less: {KNOWN}"
    assert none.detail == "measured by risk_finetune beside risk_scratch, tested with p < 0.05 (Holm)"
    equal = section("curves", cells([np.nan, np.nan]), **asked)
    assert equal.headline == "risk_finetune is equal to risk_scratch in both cells"


def two(lower: float, upper: float, noise: float = 0.01) -> Section:
    """Two cells of a `best`: the metric's means at the smaller and at the larger depth."""
    values = np.random.default_rng(0).normal([[lower], [upper]], noise, (2, 6))
    depth, seed = np.indices(values.shape)
    rows = pd.DataFrame({"depth": depth.ravel() + 1, "seed": seed.ravel(), METRIC: values.ravel()})
    rows = rows.assign(status="ok", cell=rows["depth"].astype(str))
    return best_section(Question(rows, {"metric": METRIC, "words": DEEPER}, TRANSFER, "best"))


DEEPER = {"higher": "depth hurts", "lower": "depth helps"}


def test_two_cells_are_said_in_words_by_the_one_with_the_larger_value() -> None:
    for lower, upper, way in ((1.0, 2.0, "hurts"), (2.0, 1.0, "helps")):
        found = two(lower, upper)
        assert found.headline.startswith(f"depth {way}: risk finetune is {'1.999' if upper > lower else '0.999'} [")
        assert " with L = 2, " in found.headline
        assert found.undecided == ""
    alike = two(1.0, 1.0)
    assert alike.headline.startswith("it is not shown that depth hurts or helps: risk finetune is ")
    assert alike.undecided == "whether depth hurts or helps (deciding it takes more seeds)"


def test_curves_of_a_metric_alone_say_what_its_signs_mean() -> None:
    rows = cells([-0.5, -0.25, 0.05, 0.0, np.nan], noise=0.001)
    rows[METRIC] -= 1
    found = section("curves", rows, metric=METRIC, x="gamma", words=ERRS)
    assert found.headline == (
        "pretrained networks err less in 2 of 4 cells (γ ≤ 1), more in 1 (γ = 2), "
        "no clear effect in 1 (γ = 3; known to ± 0.00055)"
    )
    assert section("curves", rows, metric=METRIC, x="gamma").headline == "risk_finetune is -0.5 to 0.0502"


@pytest.mark.parametrize(
    ("places", "headline"),
    [
        ([2.0], "pretraining can be too long: risk_finetune is lowest at pretrain length 2"),
        (
            [2.0, 3.0],
            "pretraining can be too long in both settings of finetune lr: risk_finetune is lowest at pretrain length 2",
        ),
        ([2.0, 0.0, 0.0], "risk_finetune is lowest at pretrain length 2"),  # the meaning would say too much
        ([0.0], "not decided (no clear fall or rise): turning point of risk_finetune in pretrain length"),
        ([0.0, 0.0], "not decided: no turning point of risk_finetune in pretrain length is found in any of 2 settings"),
    ],
)
def test_what_a_turn_means_is_said_only_where_half_of_the_settings_have_one(places: list[float], headline: str) -> None:
    rows = valley({(1, 0.001 * 2**k): place for k, place in enumerate(places)})
    found = section("inflection", rows, metric=METRIC, x="pretrain_length", words=TURNS)
    assert found.headline.startswith(headline)
    assert ("too long" in found.headline) == (2 * np.count_nonzero(places) >= len(places))
    plain = section("inflection", rows, metric=METRIC, x="pretrain_length").headline
    assert plain.startswith(found.headline.partition(": ")[2] if "too long" in found.headline else found.headline)


@pytest.mark.parametrize(
    ("slopes", "headline"),
    [
        ([1.0, 1.0], "more data harm throughout, at the values tried, in both settings"),
        ([-1.0, -1.0, 1.0], "more data help in 2 of 3 settings, more data harm in 1"),
        ([-1.0, -1.0, 0.0], "more data help in 2 of 3 settings, no clear trend in 1"),
        ([0.0, 0.0], "risk_finetune shows no clear trend with gamma in both settings"),
        ([1.0], "more data harm"),
        ([0.0], "risk_finetune shows no clear trend with gamma"),
    ],
)
def test_a_trend_is_said_in_words_where_most_settings_show_it(slopes: list[float], headline: str) -> None:
    grid = list(product(range(len(slopes)), (0.2, 0.4, 0.6, 0.8), range(6)))
    rows = pd.DataFrame(grid, columns=["depth", "gamma", "seed"]).assign(status="ok", overlap_angle=45.0)
    rows[METRIC] = np.take(slopes, rows["depth"]) * rows["gamma"] + np.random.default_rng(0).normal(0, 0.01, len(rows))
    found = section("trend", rows.assign(depth=rows["depth"] + 1), metric=METRIC, x="gamma", words=DATA)
    assert found.headline.startswith(headline)
    assert ("more data" in found.headline) is any(slopes)
    assert ("risk_finetune " in found.detail) is any(slopes)  # what is measured is said too


def test_the_words_of_a_space_are_those_of_its_report(tmp_path: Path) -> None:
    curves = {"metric": METRIC, "beside": OTHER, "x": "overlap_angle", "words": ERRS}
    space = small_space(seeds=6, axes={"overlap_angle": [10, 80]}, analysis=[{"curves": curves}])
    answer = run(tmp_path, space).report(tmp_path / "report").answer
    assert answer[0].startswith(
        "Pretrained networks err more in 1 of 2 cells (θ = 80°), less in 1 (θ = 10°). More: risk "
    )


def test_curves_held_against_a_constant_draw_it_and_say_what_above_and_below_it_mean() -> None:
    rows = cells([0.0, 1.0, 2.0], noise=0.001)  # values near 1, 2 and 3
    found = section("curves", rows, metric=METRIC, x="gamma", lines={"limit": 2.5}, words=ERRS)
    assert found.headline == "pretrained networks err less in 2 of 3 cells (γ ≤ 1), more in 1 (γ = 2)"
    assert found.detail.startswith("less: risk_finetune is 0.4 to 0.8 times limit (2.5), least at γ = 0; more: ")
    (axes,) = found.drawings[0].figure.axes
    assert 2.5 in [line.get_ydata()[0] for line in axes.lines if line.get_color() == REFERENCE]
    assert "limit (2.5): the line across." in found.drawings[0].caption
