"""Why there is nothing to analyse."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from raysweep.analyses.finding import Finding, as_table
from raysweep.analyses.question import Question

NOTHING = "nothing"
"""The name of the reason among the facts of a finding, which may also name what it is about."""


class Nothing(StrEnum):
    """Why an analysis has nothing to work with; `report.phrases.NOTHINGS` says each, with what it is about."""

    NO_ROW_OK = "no_row_ok"
    NOT_FINITE = "not_finite"
    TOO_LARGE = "too_large"
    MOST_LOST = "most_lost"
    AXIS_TOO_LARGE = "axis_too_large"
    AXIS_NOT_POSITIVE = "axis_not_positive"
    AXIS_NOT_FINITE = "axis_not_finite"
    NO_CURVE = "no_curve"
    NOTHING_LOGGED = "nothing_logged"
    NO_FUNCTION = "no_function"
    FAILED = "failed"
    ONE_SETTING = "one_setting"
    NO_CLOSED_FORM = "no_closed_form"
    NO_PAIR = "no_pair"
    NO_SEED_SHARED = "no_seed_shared"
    NO_CELL_SHARED = "no_cell_shared"


def nothing(asked: Question, kind: str, why: Nothing, about: str = "", **fields: Any) -> Finding:
    """A finding without settings, which says why. about: see `Nothing`."""
    return Finding(kind, asked.name, as_table([], []), facts={NOTHING: why, "about": about}, **fields)
