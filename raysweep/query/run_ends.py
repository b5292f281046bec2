"""How the runs of a table ended, by what tools call it or by their numbers."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from raysweep.query.columns import absent
from raysweep.workloads.declaration import DIVERGED, FAILED, OK, STATUSES, STOPPED

ENDED = {
    **{str(status): str(status) for status in STATUSES},
    **dict.fromkeys(("finished", "complete", "completed", "success", "terminated", "done"), str(OK)),
    **dict.fromkeys(("fail", "error", "errored", "crashed", "killed"), str(FAILED)),
    **dict.fromkeys(("pruned", "early_stopped"), str(STOPPED)),
}
"""What tools call the end of a run, in small letters. A run with another word has not ended: its row is missing."""
GOING_ON = ("running", "pending", "scheduled", "waiting", "queued", "paused", "preempted")


def status_column(frame: pd.DataFrame, used: Collection[str]) -> str | None:
    """The column `status` or `state` that nothing else uses, if all its words are those of tools."""
    for name in frame.columns[frame.columns.str.lower().isin(("status", "state"))].difference(used):
        if frame[name].map(lambda word: str(word).strip().lower() in {*ENDED, *GOING_ON}).all(axis=None):
            return str(name)
    return None


def reported(words: pd.Series) -> pd.Series:
    """The statuses that a column of words says; empty where a run has not ended."""
    return words.map(lambda word: ENDED.get(str(word).strip().lower(), ""))


def statuses_of(frame: pd.DataFrame, status: str | None, values: pd.Series) -> pd.Series:
    """The status of each run; empty for one that is missing. values: of the first metric, in its column's name."""
    statuses = reported(frame[status]) if status else pd.Series(str(OK), frame.index)
    ok, finite = statuses == OK, np.isfinite(values.to_numpy(float))
    return statuses.mask(ok & ~finite, str(DIVERGED)).mask(ok & absent(frame[values.name]), "")


def few_words(words: pd.Series) -> str:
    """The words of a column with how many runs have them."""
    return ", ".join(f"{count:,} {word}" for word, count in words.map(str).value_counts().head(5).items())


def run_again(statuses: pd.Series, *cell: pd.Series) -> pd.Series:
    """Which runs failed, while another one of their cell did not. cell: the columns that name it."""
    failed = statuses == FAILED
    return failed & (~failed).groupby(list(cell), dropna=False).transform("any")
