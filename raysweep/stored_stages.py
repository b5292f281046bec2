"""Which stages of the store a sweep needs: said before any work, so that pruning leaves them alone."""

from __future__ import annotations

import importlib
from pathlib import Path

from raysweep.driver import Books, Work
from raysweep.records import sweep_record
from raysweep.records.store import Store
from raysweep.records.sweep_record import Record


def claim(folder: Path, record: Record, books: Books, work: Work) -> None:
    """Refer to every stage that the missing rows need; InputError if the store cannot be written."""
    if not books.workload.stored:
        return
    store = Store(folder.parent / sweep_record.STORE)
    store.check()
    module, _, function = books.workload.stages.partition(":")
    stages = getattr(importlib.import_module(module), function)
    pretraining = [p.name for p in books.workload.parameters if p.pretraining]
    needed: dict[tuple[object, ...], list[str]] = {}
    for seed, indices in work.pending.items():
        for index in indices.tolist():
            parameters = books.cells.parameters(index)
            key = (seed, *(parameters[name] for name in pretraining))
            if key not in needed:
                needed[key] = stages(parameters, seed)
    store.refer(_user(record), {stage for ids in needed.values() for stage in ids})


def release(folder: Path, record: Record) -> None:
    """A sweep is gone: it needs no stage any more."""
    store = Store(folder.parent / sweep_record.STORE)
    if store.exists():
        store.forget(_user(record))


def _user(record: Record) -> str:
    return f"{record.sweep}-{record.sweep_id[:8]}"
