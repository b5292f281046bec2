"""`raysweep results`: the table that it prints or writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from raysweep import terminal
from raysweep.driver.stored_sweep import Sweep

if TYPE_CHECKING:
    import pandas


def table(sweeps: Iterable[Sweep]) -> pandas.DataFrame:
    """The rows of several sweeps in one table. Rows that are left out are reported on stderr, with the reason."""
    import pandas

    tables = []
    for sweep in sweeps:
        state = sweep.state()
        resume = f"`raysweep resume {sweep.name}` computes its rows"
        for path in state.damaged:
            terminal.say(f"{sweep.name}: {path.name} is damaged and left out; {resume} again")
        if state.outdated:
            terminal.say(f"{sweep.name}: {state.outdated}; {resume}")
        tables.append(sweep.results(state))
    return pandas.concat(tables, ignore_index=True)
