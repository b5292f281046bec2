"""Rows whose content (a text that has grown, or what else identifies a stage) or code has changed since then.

A workload with `identify` says by what its stages are identified. Its rows keep the id of their last stage. A row whose
id is another one today must not be mixed with rows of today. Rows of earlier releases have no such id and stay.
"""

from __future__ import annotations

from collections.abc import Mapping

from raysweep.errors import InputError
from raysweep.ledger import segments
from raysweep.phrases import rows_are
from raysweep.plan.cells import Cells
from raysweep.plan.row_stages import identities
from raysweep.workloads.declaration import Workload


def find(
    workload: Workload, cells: Cells, rows: Mapping[tuple[str, int], segments.Row]
) -> tuple[set[tuple[str, int]], str]:
    """The rows (cell, seed) whose identity is another one today, and a sentence for the user ("" if there are none)."""
    recorded = {key: row["identity"] for key, row in rows.items() if "identity" in row}
    if workload.identify is None or not recorded:
        return set(), ""
    try:
        today = identities(workload, cells.columns, [(cells.position[cell], seed) for cell, seed in recorded])
    except InputError:  # a text that has gone: nobody can say, and what is missing cannot be computed anyway
        return set(), ""
    changed = {key for key, now in zip(recorded, today, strict=True) if recorded[key] != now}
    why = f"of what {workload.name} was given before (a text that has changed, for example): computing them again"
    return changed, f"{rows_are(len(changed))} there {why}" if changed else ""


def code_note(workload: str, what: str, on_code_change: str) -> str:
    """What is done with rows or stages (`what`) that older code computed. Raises InputError if refused."""
    fact = f"the code of {workload} changed since {what} were computed"
    if on_code_change == "refuse":
        raise InputError("--on-code-change", f"{fact}; reuse keeps them, recompute replaces them")
    again = "computing them again"
    reused = "reusing them (--on-code-change recompute replaces them)"
    return f"{fact}, the version of their identity did not: {again if on_code_change == 'recompute' else reused}"
