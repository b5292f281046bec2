"""What all trials of a sweep share, from the state of the sweep."""

from __future__ import annotations

from typing import Any

from raysweep.ledger import sweep_record
from raysweep.ledger.sweep_record import Record
from raysweep.plan.identity import code_version
from raysweep.query import stage_store
from raysweep.query.state import State
from raysweep.space.function_files import Given
from raysweep.storage import paths
from raysweep.trial.early_stopping import Rule
from raysweep.trial.function import Function
from raysweep.trial.pack import Job


def new_job(record: Record, state: State, function: Given | None, rule: Rule | None, run: str = "", **more: Any) -> Job:
    """The job of a sweep, before any of its packs.

    function: the Python function that the sweep is about, and rule: how rows are stopped early; None if there is none.
    run: as in `Function`. more: fields of `Job`.
    """
    space, cells, description = state.space, state.cells, state.workload.function
    return Job(
        space.workload,
        cells.columns,
        cells.ids,
        ledger=paths.absolute(state.folder / sweep_record.LEDGER),
        logs=paths.absolute(state.folder / sweep_record.LOGS),
        sweep=stage_store.user(record),
        attempt=state.attempt,
        code_version=code_version(state.workload),
        cpus=space.resources["cpus_per_trial"],
        keep=tuple(space.keep),
        function=Function(description, function.call, run) if description and function else None,
        asked=cells.asked,
        rule=rule,
        **{"store": "", **more},
    )
