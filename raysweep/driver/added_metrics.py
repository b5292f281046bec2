"""Metrics that a workload has gained since rows were computed: which rows can get them without training again.

A row can if the store has the artifact from which the stage that measures the metric starts: then only that stage is
computed. Any other row stays as it is, and the user is told.
"""

from __future__ import annotations

from raysweep.phrases import rows_are
from raysweep.plan.row_stages import RowStages
from raysweep.query.state import State
from raysweep.stages.store import Store
from raysweep.workloads.asked_once import one_look
from raysweep.workloads.declaration import FAILED


@one_look()
def renew(state: State, store: Store | None, on_code_change: str) -> str:
    """Have the rows of a sweep computed again that can get metrics which they lack; if rows are recomputed, all that
    lack one. store: None if no stage is kept. Returns a sentence for the user, or ""."""
    recompute = on_code_change == "recompute"
    if not recompute and (store is None or not store.exists()):
        return ""
    chain, stages = state.workload.chain, RowStages(state.workload, state.cells.columns, state.space.keep)
    stage_of = {name: index for index, names in enumerate(chain.metrics) for name in names}
    published = set(store.stages()) if store is not None and not recompute else set()
    done = state.done()
    rows: set[tuple[str, int]] = set()
    missing: set[str] = set()
    lacking = 0
    for (cell, seed), row in state.rows.items():
        lacks = stage_of.keys() - row["metrics"].keys()
        if row["status"] == FAILED or not lacks or (cell, seed) not in done:
            continue
        lacking, missing = lacking + 1, missing | lacks
        kept = [stage for stage in stages.of_row(state.position[cell], seed) if stage.id in published]
        if recompute or (kept and kept[-1].index == min(stage_of[name] for name in lacks) - 1):
            rows.add((cell, seed))
    state.replace(rows)
    if not lacking:
        return ""
    names = ", ".join(name for name in stage_of if name in missing)
    text = f"{rows_are(lacking)} there without {names}, which {state.workload.name} has gained since"
    if len(rows) == lacking:
        return f"{text}: {'computing them again' if recompute else 'measuring them from the kept artifacts'}"
    rest = "--on-code-change recompute computes them again"
    measured = f"measuring {len(rows):,} of them from kept artifacts; " if rows else ""
    return f"{text}: {measured}of the others no artifact is kept from which to measure them ({rest})"
