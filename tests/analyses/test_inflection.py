"""Turning points on synthetic curves whose place is known."""

import numpy as np
import pytest
from transfer_rows import TRANSFER, rows_with

from raysweep.analyses.finding import Needed, Outcome
from raysweep.analyses.kinds import inflection, optimum
from raysweep.analyses.question import Question

LENGTHS = np.linspace(0.5, 6.5, 13)
DEPTHS = (1, 2, 3)


def rows(curve):
    """A risk over the length in six draws at each depth."""

    def risk(rows, random):
        return curve(rows["pretrain_length"], rows["depth"]) + 0.02 * random.standard_normal(len(rows))

    return rows_with({"depth": DEPTHS, "pretrain_length": LENGTHS}, 6, risk_finetune=risk)


def finding_of(frame, kind=inflection, **options):
    asked = {"metric": "risk_finetune", "x": "pretrain_length", **options}
    return kind.run(Question(frame, asked, TRANSFER, "name"))


@pytest.mark.parametrize("kind", [inflection, optimum])
def test_the_minimum_of_each_curve_lies_in_its_interval(kind):
    finding = finding_of(rows(lambda at, depth: 0.1 * (at - 1.5 - depth / 2) ** 2), kind)
    table = finding.table
    assert (table["outcome"] == Outcome.LOCATED).all()
    assert table["estimate"].to_numpy() == pytest.approx([2.0, 2.5, 3.0], abs=0.15)
    assert ((table["low"] < 1.5 + table["depth"] / 2) & (1.5 + table["depth"] / 2 < table["high"])).all()
    assert (table["high"] - table["low"] < 1).all()
    assert (table["needed"] == "").all()
    assert (table["draws"] == 6).all()


def test_a_place_that_grows_with_depth_rises():
    (move,) = finding_of(rows(lambda at, depth: 0.1 * (at - 1 - depth) ** 2)).moves
    assert (move.key, move.first, move.last) == ("depth", 1, 3)
    assert (move.rises, move.falls, move.both, move.open) == (1, 0, 0, 0)


@pytest.mark.parametrize(
    ("curve", "outcome"),
    [
        (lambda at, depth: -at, Outcome.IMPROVES),
        (lambda at, depth: at, Outcome.DEGRADES),
        (lambda at, depth: 1.0, Outcome.UNDECIDED),
    ],
)
def test_curves_without_a_turn_say_which_way_they_go(curve, outcome):
    table = finding_of(rows(curve)).table
    assert (table["outcome"] == outcome).all()
    assert table["estimate"].isna().all()
    needed = (Needed.MORE_DRAWS, 6.0) if outcome == Outcome.UNDECIDED else ("", None)
    assert (table["needed"] == needed[0]).all()
    if needed[1]:
        assert (table["needed_number"] == needed[1]).all()


def test_the_figures_are_few_curves_that_mark_their_turns_and_places_over_depth():
    finding = finding_of(rows(lambda at, depth: 0.1 * (at - 1 - depth) ** 2))
    curves, places = finding.plots()
    assert (places.x, places.placed, places.every) == ("pretrain_length", "minimum", 1)
    (line,) = places.panels[0].lines
    assert line.along == "depth"
    assert line.table["estimate"].to_numpy() == pytest.approx([2, 3, 4], abs=0.2)
    lines = curves.panels[0].lines
    assert [line.where for line in lines] == [{"depth": depth} for depth in DEPTHS]
    marked = [line.place[0] for line in lines if line.place]
    assert marked == list(finding.table["estimate"])
    assert lines[0].means.x == pytest.approx(LENGTHS)


def test_what_the_space_says_of_a_turn_is_its_meaning():
    frame = rows(lambda at, depth: 0.1 * (at - 3) ** 2)
    assert finding_of(frame, words={"turns": "too long"}).meanings == {"located": "too long"}
    assert finding_of(frame).meanings == {}
