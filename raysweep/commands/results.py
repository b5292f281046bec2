"""`raysweep results`: the tables that it prints or writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from raysweep import terminal
from raysweep.analyses.design import Design
from raysweep.query.state import State
from raysweep.query.sweep import Sweep
from raysweep.storage import files
from raysweep.storage.paths import AnyPath

if TYPE_CHECKING:
    import pandas


def table(sweeps: Iterable[Sweep]) -> pandas.DataFrame:
    """The rows of several sweeps in one table. Rows that are left out are reported on stderr, with the reason."""
    import pandas

    return pandas.concat([sweep.results(_state(sweep)) for sweep in sweeps], ignore_index=True)


def write_dataset(sweeps: Iterable[Sweep], path: AnyPath) -> None:
    """Write the rows of several sweeps as an xarray Dataset, in a file of netCDF 3."""
    from raysweep.query import exporting

    sweeps = list(sweeps)
    files.replace(path, bytes(exporting.dataset(table(sweeps), sweeps).to_netcdf(engine="scipy")))  # of version 3


def curves(sweeps: Iterable[Sweep]) -> pandas.DataFrame:
    """The learning curves of several sweeps in one table, with the parameters that vary in them. Rows that are left out
    are reported on stderr, and so is a sweep without curves, with the reason."""
    import pandas

    sweeps = list(sweeps)
    design = Design(tuple(sweep.space.as_dict() for sweep in sweeps), tuple(sweep.name for sweep in sweeps))
    tables = []
    for sweep in sweeps:
        state = _state(sweep)
        tables.append(sweep.curves(state, [name for name in design.varied() if name in sweep.workload.by_name]))
        if tables[-1].empty:
            terminal.say(f"{sweep.name}: no learning curves, because {_why_none(sweep, state)}")
    return pandas.concat(tables, ignore_index=True)


def _why_none(sweep: Sweep, state: State) -> str:
    if not state.rows:
        return "no row is there yet"
    if sweep.workload.compute:
        return f"{sweep.workload.name} computes its rows from formulas or all together, and logs nothing on the way"
    return (
        f"no stage of its rows logged anything ({', '.join(sweep.workload.chain.names)}), or the rows are older than "
        "the record of learning curves"
    )


def _state(sweep: Sweep) -> State:
    """The state of a sweep. Says on stderr which rows it leaves out, and why."""
    state = sweep.state()
    resume = f"`raysweep resume {sweep.name}` computes its rows"
    for path in state.damaged:
        terminal.say(f"{sweep.name}: {path.name} is damaged and left out; {resume} again")
    if state.outdated:
        terminal.say(f"{sweep.name}: {state.outdated}; {resume}")
    if state.strays:
        terminal.say(f"{sweep.name}: {state.strays}")
    return state
