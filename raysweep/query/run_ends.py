"""How the runs of a table ended, by what tools call it or by their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from raysweep.errors import InputError
from raysweep.query.columns import absent
from raysweep.workloads.declaration import DIVERGED, FAILED, OK, STOPPED

if TYPE_CHECKING:
    import pandas as pd

STATUSES = {
    **dict.fromkeys(("ok", "finished", "complete", "completed", "success", "terminated", "done"), OK),
    **dict.fromkeys(("failed", "fail", "error", "errored", "crashed", "killed"), FAILED),
    **dict.fromkeys(("stopped", "pruned", "early_stopped"), STOPPED),
    "diverged": DIVERGED,
}
"""What tools call the end of a run, in small letters. A run with another word has not ended: its row is missing."""


def ended_of(frame: pd.DataFrame, status: str | None, values: pd.Series) -> pd.Series:
    """The status of each run; empty for one that is missing."""
    import pandas as pd

    finite = np.isfinite(values.to_numpy(float))
    if status is not None:
        words = reported(frame[status])
        return words.mask((words == OK) & ~finite, str(DIVERGED)).mask((words == OK) & absent(frame[values.name]), "")
    ended = pd.Series(np.where(finite, str(OK), str(DIVERGED)), index=frame.index)
    return ended.mask(absent(frame[values.name]), "")


def reported(words: pd.Series) -> pd.Series:
    """The statuses that a column of words says; empty where a run has not ended."""
    return words.map(lambda word: str(STATUSES.get(str(word).strip().lower(), "")))


def few_words(words: pd.Series) -> str:
    """The words of a column with how many runs have them."""
    return ", ".join(f"{count:,} {word}" for word, count in words.map(str).value_counts().head(5).items())


def without_end(words: pd.Series) -> InputError:
    """The error for runs of which none has a value, by the words of their column of statuses."""
    if (reported(words) != "").any():
        return InputError(str(words.name), "no run that ended has a value")
    return InputError(str(words.name), f"no run has ended: {few_words(words)}; expected one of {', '.join(STATUSES)}")


def run_again(ended: pd.Series, *cell: pd.Series) -> pd.Series:
    """Which runs failed beside another one of their cell that did not. cell: the columns that name it."""
    failed = ended == FAILED
    return failed & (~failed).groupby(list(cell), dropna=False).transform("any")
