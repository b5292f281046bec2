"""The note on rows or stages that older code computed."""

from __future__ import annotations

from raysweep.errors import InputError


def code_note(workload: str, what: str, on_code_change: str) -> str:
    """A sentence about what is done with rows or stages that older code computed. Raises InputError if refused.

    workload: the name of the workload.
    what: the rows or stages, in words.
    on_code_change: as in `Options`.
    """
    fact = f"the code of {workload} changed since {what} were computed"
    if on_code_change == "refuse":
        raise InputError("--on-code-change", f"{fact}; reuse keeps them, recompute replaces them")
    again = "computing them again"
    reused = "reusing them (--on-code-change recompute replaces them)"
    return f"{fact}, the version of their identity did not: {again if on_code_change == 'recompute' else reused}"
