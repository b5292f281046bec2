"""Computes packs one after another in this process, for small work where starting Ray would cost more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from raysweep.plan.packs import Pack
from raysweep.plan.queue import PackQueue
from raysweep.storage.paths import AnyPath
from raysweep.trial.pack import Job, run_pack


def run(source: PackQueue, job: Job, on_segment: Callable[[Pack, AnyPath], None]) -> None:
    """Compute every pack of `source`. `on_segment` is called with each pack and the path of its published segment."""
    while (pack := source.next()) is not None:
        own = replace(job, gpus=pack.needs.gpus)
        on_segment(pack, run_pack(own, pack.id, pack.cells, pack.seeds))
        source.done()
