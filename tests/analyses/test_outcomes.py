"""What the rows say of a setting, and what would decide it, from the status and the reason of its fit."""

import math

import numpy as np
import pandas as pd
import pytest

import raysweep
from raysweep.analyses.finding import Needed, Outcome
from raysweep.analyses.outcomes import needed, outcome, with_outcomes
from raysweep.analyses.places import PlacesPlot
from raysweep.fits.reasons import Reason
from raysweep.fits.result import Status

LOW, HIGH, MONOTONE, OPEN = Status.CENSORED_LOW, Status.CENSORED_HIGH, Status.MONOTONE, Status.UNDETERMINED
NUMBERS = {
    Needed.SMALLER_X: 0.1,
    Needed.OK_BELOW: 0.1,
    Needed.LARGER_X: 9.0,
    Needed.OK_ABOVE: 9.0,
    Needed.MORE_DRAWS: 5,
}


@pytest.mark.parametrize(
    ("status", "reason", "expected", "decides"),
    [
        (Status.LOCATED, Reason.NONE, Outcome.LOCATED, ""),
        (Status.LOCATED, Reason.COARSE, Outcome.LOCATED, ""),
        (LOW, Reason.BEYOND_LOW, Outcome.BEYOND_LOW, Needed.SMALLER_X),
        (HIGH, Reason.BEYOND_HIGH, Outcome.BEYOND_HIGH, Needed.LARGER_X),
        (HIGH, Reason.BEST_AT_INFINITY, Outcome.BEYOND_HIGH, Needed.LARGER_X),
        (HIGH, Reason.IMPROVES_THROUGHOUT, Outcome.BEYOND_HIGH, Needed.LARGER_X),
        (LOW, Reason.TOWARDS_LOW, Outcome.EDGE_LOW, Needed.SMALLER_X),
        (HIGH, Reason.TOWARDS_HIGH, Outcome.EDGE_HIGH, Needed.LARGER_X),
        (LOW, Reason.REACHES_LOW, Outcome.BOUND_LOW, Needed.MORE_DRAWS),
        (HIGH, Reason.REACHES_HIGH, Outcome.BOUND_HIGH, Needed.MORE_DRAWS),
        (LOW, Reason.ZERO_ALIKE, Outcome.BOUND_LOW, Needed.MORE_DRAWS),
        (HIGH, Reason.INSIDE_UNCLEAR, Outcome.UNDECIDED, Needed.MORE_DRAWS),
        (LOW, Reason.LOW_EDGE_ALIKE, Outcome.BOUND_LOW, Needed.MORE_DRAWS),
        (HIGH, Reason.HIGH_SIGN_UNCLEAR, Outcome.BOUND_HIGH, Needed.MORE_DRAWS),
        (LOW, Reason.LOW_NOT_OK, Outcome.OK_LOW, Needed.OK_BELOW),
        (HIGH, Reason.HIGH_NOT_OK, Outcome.OK_HIGH, Needed.OK_ABOVE),
        (MONOTONE, Reason.IMPROVES_THROUGHOUT, Outcome.IMPROVES, ""),
        (MONOTONE, Reason.DEGRADES, Outcome.DEGRADES, ""),
        (MONOTONE, Reason.BEST_AT_ZERO, Outcome.DEGRADES, ""),
        (OPEN, Reason.FLAT, Outcome.NO_EFFECT, ""),
        (OPEN, Reason.ZERO_EVERYWHERE, Outcome.NO_EFFECT, ""),
        (OPEN, Reason.POSITIVE_EVERYWHERE, Outcome.POSITIVE, ""),
        (OPEN, Reason.NEGATIVE_EVERYWHERE, Outcome.NEGATIVE, ""),
        (OPEN, Reason.ZERO_UP_TO, Outcome.TOUCHES, ""),
        (OPEN, Reason.PARTLY_CLEAR, Outcome.UNDECIDED, Needed.MORE_DRAWS),
        (OPEN, Reason.NO_CLEAR_CHANGE, Outcome.UNDECIDED, Needed.MORE_DRAWS),
        (OPEN, Reason.ZERO_ALIKE, Outcome.UNDECIDED, Needed.MORE_DRAWS),
        (OPEN, Reason.TOO_FEW_DRAWS, Outcome.UNDECIDED, Needed.MORE_DRAWS),
        (OPEN, Reason.TOO_FEW_POINTS, Outcome.UNDECIDED, Needed.MORE_X),
        (OPEN, Reason.NO_ROWS, Outcome.UNDECIDED, Needed.OK_ROWS),
        (OPEN, Reason.NO_VARIATION, Outcome.UNDECIDED, ""),
    ],
)
def test_status_and_reason_give_the_outcome_and_what_decides_it(status, reason, expected, decides):
    assert outcome(str(status), str(reason)) == expected  # as a table from a file has them
    decided_by = needed(expected, reason, 0.1, 9.0, seeds=5)
    assert decided_by.get("needed", "") == decides
    number = decided_by.get("needed_number", math.nan)
    assert number == NUMBERS[decides] if decides in NUMBERS else math.isnan(number)


def test_without_a_number_of_seeds_more_are_needed_all_the_same():
    decided_by = needed(Outcome.UNCLEAR, Reason.NONE, 0.1, 9.0)
    assert decided_by["needed"] == Needed.MORE_DRAWS
    assert math.isnan(decided_by["needed_number"])


def test_a_bound_at_the_edge_of_the_grid_says_nothing():
    table = pd.DataFrame(
        [
            (HIGH, Reason.HIGH_EDGE_ALIKE, 0.001, math.inf),
            (HIGH, Reason.HIGH_EDGE_ALIKE, 0.003, math.inf),
            (LOW, Reason.LOW_EDGE_ALIKE, -math.inf, 0.1),
            (LOW, Reason.LOW_EDGE_ALIKE, -math.inf, 0.03),
            (HIGH, Reason.INSIDE_UNCLEAR, 0.003, 0.1),
        ],
        columns=["status", "reason", "low", "high"],
    )
    expected = [Outcome.UNDECIDED, Outcome.BOUND_HIGH, Outcome.UNDECIDED, Outcome.BOUND_LOW, Outcome.UNDECIDED]
    assert with_outcomes(table, (0.001, 0.1))["outcome"].tolist() == expected


def test_the_figure_of_places_says_what_the_table_says():
    rng = np.random.default_rng(0)
    grid = [(rate, length, seed) for rate in (1, 2, 4, 8, 16, 32) for length in range(1, 13) for seed in range(4)]
    frame = pd.DataFrame(grid, columns=["rate", "length", "seed"])
    frame["loss"] = 0.1 * np.log2(frame["rate"] / 3) ** 2 + 0.3 * rng.standard_normal(len(frame))
    question = {"optimum": {"x": "rate"}}
    answer = raysweep.analyse(frame, "loss", ["rate", "length"], seed="seed", questions=[question])[0]
    plot = next(plot for plot in answer.plots() if isinstance(plot, PlacesPlot))
    drawn = [outcome for panel in plot.panels for line in panel.lines for outcome in line.table["outcome"]]
    assert drawn == answer.table["outcome"].tolist()
    assert len(set(drawn)) > 1
