"""Zeros of synthetic metrics that are known, and what would decide open ones."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from transfer_rows import TRANSFER, rows_with

from raysweep.analyses.design import Design
from raysweep.analyses.finding import Needed, Outcome
from raysweep.analyses.kinds import boundary
from raysweep.analyses.question import Question
from raysweep.report.sentences import sentence

ANGLES, SIZES = np.linspace(10, 90, 9), (0.2, 0.5, 0.8)
METRIC = "transferability_finetune"


def rows(edge, metric=METRIC):
    """A metric that falls through 0 at `edge(gamma)`, in six draws."""

    def falls(rows, random):
        return (edge(rows["gamma"]) - rows["overlap_angle"]) / 60 + 0.01 * random.standard_normal(len(rows))

    return rows_with({"gamma": SIZES, "overlap_angle": ANGLES}, 6, **{metric: falls})


def finding_of(frame, design=None, **options):
    asked = {"metric": METRIC, "x": "overlap_angle", "y": "gamma", **options}
    return boundary.run(Question(frame, asked, TRANSFER, "name", design or Design()))


def test_the_zero_of_each_slice_lies_in_its_interval():
    finding = finding_of(rows(lambda size: 40 + 20 * size), lines={"far": 20.0, "near": 50.0})
    table = finding.table
    assert list(table["gamma"]) == list(SIZES)
    assert (table["outcome"] == Outcome.LOCATED).all()
    assert table["estimate"].to_numpy() == pytest.approx([44, 50, 56], abs=0.5)
    assert ((table["low"] < 40 + 20 * table["gamma"]) & (40 + 20 * table["gamma"] < table["high"])).all()
    assert finding.facts["rising"] is False
    assert {name: (line["outside"], line["of"]) for name, line in finding.facts["lines"].items()} == {
        "far": (3, 3),
        "near": (2, 3),
    }
    (move,) = finding.moves
    assert (move.rises, move.falls) == (1, 0)


@pytest.mark.parametrize(
    ("edge", "outcome", "needed", "number"),
    [(130, Outcome.BEYOND_HIGH, Needed.LARGER_X, 90), (-40, Outcome.BEYOND_LOW, Needed.SMALLER_X, 10)],
)
def test_a_zero_beyond_the_grid_needs_values_there(edge, outcome, needed, number):
    table = finding_of(rows(lambda size: edge)).table
    assert (table["outcome"] == outcome).all()
    assert (table["needed"] == needed).all()
    assert (table["needed_number"] == number).all()


def test_nothing_is_needed_beyond_the_largest_value_that_the_axis_may_have():
    frame = rows(lambda size: 300.0)
    table = finding_of(frame.assign(overlap_angle=2 * frame["overlap_angle"])).table
    assert (table["outcome"] == Outcome.BEYOND_HIGH).all()
    assert (table["needed"] == "").all()


def test_a_zero_among_rows_that_are_not_ok_needs_ok_rows_there():
    frame = rows(lambda size: 65.0)
    table = finding_of(frame.assign(status=np.where(frame["overlap_angle"] > 45, "failed", "ok"))).table
    assert (table["outcome"] == Outcome.OK_HIGH).all()
    assert (table["needed"] == Needed.OK_ABOVE).all()
    assert (table["needed_number"] == 40).all()


def test_an_interval_wider_than_a_precision_asks_for_needs_more_draws():
    frame = rows(lambda size: 45.0)
    for width, needed in ((1e-3, Needed.MORE_DRAWS), (50.0, "")):
        design = Design(({"precision": {"boundary": width}},), ("sweep",))
        finding = finding_of(frame, design)
        assert (finding.table["outcome"] == Outcome.LOCATED).all()
        assert (finding.table["needed"] == needed).all()
        assert finding.facts["computed_at"] > 0.95


def test_two_curves_cross_where_their_difference_is_zero():
    metric = "risk_finetune"
    one, other = (rows(lambda size, edge=edge: edge, metric=metric).assign(depth=k) for k, edge in ((1, 100), (2, 50)))
    other[metric] = 1.5 * other[metric]
    frame = pd.concat([one, other], ignore_index=True)  # (100 - x) / 60 and 1.5 (50 - x) / 60 meet at x = -50
    options = {"metric": metric, "between": {"depth": [1, 2]}}
    beyond = finding_of(frame, **options)
    assert (beyond.table["outcome"] == Outcome.BEYOND_LOW).all()
    assert (beyond.table["needed"] == "").all()  # one of the two is better at every value of the grid
    frame.loc[frame["depth"] == 2, metric] += 0.9  # they meet at x = 58
    finding = finding_of(frame, **options)
    assert finding.table["estimate"].to_numpy() == pytest.approx(3 * [58.0], abs=1.5)
    assert finding.facts["between"] == {"metric": metric, "axis": "depth", "values": [1, 2]}
    differences = finding.tables["name_differences"]
    assert differences["draws"].to_list() == len(differences) * [6]


def test_the_figures_are_a_map_and_its_slices_with_their_zeros():
    finding = finding_of(rows(lambda size: 40 + 20 * size))
    maps, slices = finding.plots()
    assert (maps.x, maps.y, maps.metric, len(maps.maps)) == ("overlap_angle", "gamma", METRIC, 1)
    assert [line.where for line in slices.panels[0].lines] == [{"gamma": size} for size in SIZES]
    assert [line.place[0] for line in slices.panels[0].lines if line.place] == list(finding.table["estimate"])


def test_words_of_the_space_are_the_meanings_and_no_table_of_differences_is_made():
    words = {"positive": "helps", "negative": "hurts"}
    finding = finding_of(rows(lambda size: 45.0), words=words)
    assert finding.meanings == words
    assert list(finding.tables) == ["name_zeros"]
    assert finding_of(rows(lambda size: 45.0)).meanings["positive"] == "transfer helps"


def test_zeros_that_go_opposite_ways_have_no_common_sides():
    frame = rows(lambda size: 50.0)
    frame[METRIC] *= np.where(frame["gamma"] > 0.6, -1, 1)
    finding = replace(finding_of(frame), question="Where?")
    assert (finding.table["outcome"] == Outcome.LOCATED).all()
    assert "rising" not in finding.facts
    assert "changes sign at" in sentence(finding, TRANSFER)
    frame[METRIC] = (frame["overlap_angle"] - 30) * (frame["overlap_angle"] - 70) / 1e3 + 0.1 * frame[METRIC]
    twice = replace(finding_of(frame), question="Where?")
    assert (twice.facts["several"], twice.table["outcome"].tolist()) == (3, [Outcome.LOCATED] * 3)
    assert "changes sign more than once" in sentence(twice, TRANSFER)
