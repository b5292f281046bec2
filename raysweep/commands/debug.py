"""`raysweep debug`: compute one row in this process, with the full traceback of any error."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

from raysweep import terminal
from raysweep.driver.start_and_resume import function_of
from raysweep.errors import Halted, InputError
from raysweep.plan.cells import enumerate_cells
from raysweep.query import stage_store
from raysweep.query.sweep import Sweep
from raysweep.storage import files, paths
from raysweep.storage.sealed import encode
from raysweep.training import devices
from raysweep.trial import threads
from raysweep.trial.compute import compute, open_store
from raysweep.trial.function import Function
from raysweep.trial.results import Computation


def one_row(sweep: Sweep, cell: str, seed: int | None, workload: str | None = None) -> dict[str, Any]:
    """Compute one row in this process. Errors are not caught, and the ledger is not changed.

    cell: the hash of a cell, or its beginning.
    seed: None for the first seed of the sweep.
    workload: FILE.py:NAME of a Python function; None for the file from which this user's own run took it.
    """
    if sweep.space.imported:
        raise InputError(sweep.name, "was computed elsewhere; no code here computes a row of it")
    cells = enumerate_cells(sweep.space)
    if sweep.space.open:  # its cells are those that were asked for
        sweep.state()
        cells = sweep.cells
    matches = [i for i, identity in enumerate(cells.ids) if identity.startswith(cell)]
    if len(matches) != 1:
        why = f"expected the beginning of one cell's hash, it fits {len(matches)} of {len(cells):,}"
        raise InputError(cell or "CELL", f"{why}; `raysweep results {sweep.name}` lists them")
    given = function_of(sweep, workload)
    chosen = sweep.space.seeds[0] if seed is None else seed
    columns, seeds = cells.take(np.asarray(matches)), np.asarray([chosen])
    # a row that was granted GPUs on a cluster may use whatever GPUs are here, or none
    gpus = None if cells.needs[cells.need[matches[0]]].gpus else 0

    def of_store(store: str) -> Computation:
        if given and sweep.workload.function:
            return Function(sweep.workload.function, given.call).compute(columns, seeds)
        stages = open_store(sweep.workload, store, stage_store.user(sweep.record), sweep.space.keep)
        return compute(sweep.workload, columns, seeds, stages, sweep.space.keep)

    with threads.limited(sweep.space.resources["cpus_per_trial"]), devices.granted(gpus):
        address = stage_store.address(sweep.folder, sweep.record)
        try:
            computed = of_store(address)
        except Halted as halted:
            if not files.is_read_only(paths.locate_store(address)):
                raise
            terminal.say(f"{halted}; the stages of this row are computed and not kept")
            with tempfile.TemporaryDirectory(prefix="raysweep-debug-") as room:
                computed = of_store(room)
    row = cells.parameters(matches[0])
    parameters = {name: encode(value) if isinstance(value, float) else value for name, value in row.items()}
    return {
        "cell": cells.ids[matches[0]],
        "seed": chosen,
        "status": str(computed.status[0]),
        "parameters": parameters,
        "metrics": {name: encode(float(values[0])) for name, values in computed.metrics.items()},
    }
