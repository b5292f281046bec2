"""Computes packs one after another in this process, for small work where starting Ray would cost more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from raysweep.plan.pack import Pack, PackQueue
from raysweep.trial.pack import Job
from raysweep.trial.run import Ended, run_pack


def run(source: PackQueue, job: Job, on_done: Callable[[Pack, Ended], Pack | None], apart: bool = False) -> None:
    """Compute every pack of `source`.

    on_done: called with each pack of which rows or stages are there, or whose stages cannot be computed. Returns what
        is left of its rows, to be computed later.
    apart: as in `run_pack`.
    """
    while True:
        while (pack := source.next()) is not None:
            trial_job = replace(job, gpus=pack.needs.gpus, failed=source.errors(pack))
            ended = run_pack(trial_job, pack, apart=apart)
            if ended.held:
                source.hold_back(pack, ended.held)
                continue
            if rest := on_done(pack, ended):
                source.hand_back(pack, [rest])
            else:
                source.done(pack, ended.failed)
        if not source.wait():
            return
