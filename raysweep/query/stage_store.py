"""The store of a sweep's stages: where it is, and how many of them the sweep computed and reused."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from raysweep.errors import RaysweepError
from raysweep.ledger import sweep_record
from raysweep.ledger.sweep_record import Record
from raysweep.stages import references
from raysweep.stages.checkpoints import Record as StageRecord
from raysweep.stages.store import Store
from raysweep.storage import paths
from raysweep.storage.paths import AnyPath
from raysweep.storage.sealed import Damaged


def address(folder: AnyPath, record: Record | None) -> str:
    """The address of the store that a sweep uses: the recorded one, else STORAGE/store next to the sweep's folder."""
    recorded = record.store if record is not None else None
    return paths.absolute(folder.parent / sweep_record.STORE) if recorded is None else recorded


def user(record: Record) -> str:
    """The name under which a sweep refers to its stages."""
    return f"{record.sweep}-{record.sweep_id[:8]}"


def records(store: Store, stages: Iterable[str]) -> dict[str, StageRecord]:
    """The store's records of those stages that are published. Weights are not read."""
    looked = ((stage, store.look(stage)) for stage in sorted(set(stages).intersection(store.stages())))
    return {stage: record for stage, record in looked if record is not None}


def in_words(store: Store, name: str, before: Mapping[str, str]) -> str:
    """A line that counts how many of these stages a sweep computed and reused; if the store cannot be read, why. name:
    that under which the sweep refers to its stages. before: maps each stage to the weights that it had before, or "".
    """
    try:
        published = records(store, before)
    except RaysweepError as error:
        return f"stages: {error}"
    new = [record["meta"] for stage, record in published.items() if record["weights"] != before[stage]]
    mine = [meta for meta in new if meta.get("sweep") == name]
    # A stage whose process died may have been done in part: its lease says that it was begun, not how far it came.
    again, missing = sum(int(meta.get("computed", 1)) - 1 for meta in mine), len(before) - len(published)
    line = f"stages: {len(before):,} distinct, {len(mine):,} computed, {len(published) - len(mine):,} reused, "
    line += f"{again:,} begun again{' (after an expired lease)' if again else ''}"
    return line + (f", {missing:,} not in the store" if missing else "")


def of_sweep(folder: AnyPath, record: Record) -> str:
    """A line that counts how many of all stages that a sweep ever needed it computed and reused."""
    try:
        store = Store(address(folder, record))
        return in_words(store, user(record), dict.fromkeys(references.referred(store, user(record)), ""))
    except RaysweepError as error:
        return f"stages: {error}"
    except Damaged as error:
        return f"stages: a reference in {address(folder, record)} is damaged: {error}"


def computed_apart(folder: AnyPath, record: Record) -> dict[str, dict[str, float]]:
    """The stages that trials of this sweep computed for rows of other trials, whose time is therefore in no row: the
    `seconds` of each, and the `cpus` and `gpus` that its trial held. Empty if the store cannot be read."""
    with contextlib.suppress(RaysweepError, Damaged):
        store, name = Store(address(folder, record)), user(record)
        there = [(stage, one["meta"]) for stage, one in records(store, references.referred(store, name)).items()]
        mine = ((stage, meta) for stage, meta in there if meta.get("sweep") == name and "trial" in meta)
        return {stage: {"seconds": meta["seconds"], **meta["trial"]} for stage, meta in mine}
    return {}
