"""What is said of settings without a place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from raysweep.report.statuses import NOT_DECIDED

if TYPE_CHECKING:
    pass

COUNT = re.compile(r" in \d+")


def among_all(said: Sequence[str], every: str) -> list[str]:
    """How many settings say what, with the number of all settings in the first: "not decided in 8 of 14 settings".

    said: the most frequent first. every: all settings, in words.
    """
    first, *rest = said
    return [COUNT.sub(rf"\g<0> of {every}", first, count=1), *rest]


def nowhere(said: Sequence[str], what: str, count: int, every: str) -> tuple[str, list[str]]:
    """(that no setting has a place, and what the settings say instead; why it is not decided, if it is so).

    said: how many settings say what, the most frequent first. what: the kind of place. count, every: how many settings
    there are, as a number and in words.
    """
    brief, why = list(said), []
    for place, text in enumerate(said):
        if text.startswith(NOT_DECIDED):
            brief[place], _, reasons = text.partition(" (")
            why = [reasons.removesuffix(")")] if reasons else []
    if brief[0] == f"{NOT_DECIDED} in {count}":
        return f"{NOT_DECIDED}: no {what} is found in any of {every}", why
    if brief[0].startswith(NOT_DECIDED):
        first, *others = among_all(brief, every)
        why = [f"why {NOT_DECIDED}: {reasons}" for reasons in why]
        return f"{first}: {what}; none is found in the others: {', '.join(others)}", why
    return f"no {what} is found in any of {every}: {', '.join(brief)}", why
