"""`raysweep store list | verify | prune`: list, verify and prune the stages in the stage store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from raysweep.errors import Halted, InputError
from raysweep.ledger.sweep_record import STORE
from raysweep.phrases import counted
from raysweep.stages import checkpoints, intermediate, references
from raysweep.stages import prune as pruning
from raysweep.stages.store import SUPERSEDED, Store
from raysweep.storage import leases, paths
from raysweep.storage.paths import AnyPath
from raysweep.storage.sealed import Damaged

_DESCRIPTION = 100  # columns


def open_store(storage: str | AnyPath, url: str | None = None) -> Store:
    """Open the store at `url`, or STORAGE/store if there is no URL. Raises InputError if there is no store."""
    store = Store(paths.storage(storage) / STORE if url is None else url)
    if not store.exists():
        raise InputError(store.url, "there is no store yet; a sweep whose workload stores its stages makes one")
    return store


def overview(store: Store) -> list[str]:
    """One line per published stage (size, time, users, description, and how often it was started if more than once).
    After them, what is being computed, what was set aside, and the totals."""
    try:
        users = references.users(store)
    except Damaged as error:
        raise InputError(store.url, f"a reference is damaged: {error}") from None
    lines, total, unused, doubled = [], 0, 0, 0
    for stage in store.stages():
        record = store.look(stage)
        if record is None:
            lines.append(f"{stage:18} damaged: its record cannot be read; set aside when it is next needed")
            continue
        computed = int(record["meta"].get("computed", 1))
        total, unused, doubled = total + record["bytes"], unused + (stage not in users), doubled + computed - 1
        again = f"  (started {computed} times: a lease expired)" if computed > 1 else ""
        sweeps, what = ", ".join(users.get(stage, ["no sweep"])), description(record["describe"])
        lines.append(f"{stage:18} {size(record['bytes']):>9}  {record['published'][:16]}  {sweeps:24} {what}{again}")
    working = leases.live(store.files)
    unfinished = intermediate.unfinished(store.files)
    for stage in sorted(unfinished.keys() | working.keys()):
        by = f"computed by {working[stage]}" if stage in working else "nobody works on it now"
        lines.append(f"{stage:18} unfinished: {unfinished.get(stage, 'no checkpoint yet')}; {by}")
    aside, older = (
        [name for name in store.files.names(folder) if name.endswith(".json")] for folder in ("damaged", SUPERSEDED)
    )
    lines += [f"{name.split('.')[0]:18} set aside as damaged: damaged/{name}" for name in aside]
    sums = [counted(len(store.stages()), "stage"), size(total), f"{unused:,} used by no sweep"]
    sums += [f"{doubled:,} computations started again after an expired lease"] * bool(doubled)
    sums += [f"{len(aside):,} set aside as damaged"] * bool(aside) + [f"{len(older):,} as superseded"] * bool(older)
    return [*lines, f"{store.url}: {', '.join(sums)}"]


def verify(store: Store) -> tuple[list[str], bool]:
    """Compare every published stage with its checksums. Returns lines, and whether no stage is damaged."""
    lines, damaged, read = [], 0, 0
    stages = store.stages()
    for stage in stages:
        try:
            entry = checkpoints.read(store.files, f"entries/{stage}.json", stage)
            read += entry.size if entry is not None else 0
        except Damaged as error:
            damaged += 1
            try:
                store.fetch(stage)
                done = "set aside, it is computed again when it is next needed"
                done = "in use, left where it is" if stage in store.stages() else done
            except Halted as halted:
                done = f"left where it is ({halted})"
            lines.append(f"{stage}: {error}; {done}")
    lines.append(f"{store.url}: {len(stages):,} stages, {size(read)} read, {damaged:,} damaged")
    return lines, not damaged


def prune(
    store: Store, stages: Collection[str] = (), *, referred: bool = False, damaged: bool = False, dry_run: bool = False
) -> list[str]:
    """Delete what `pruning.plan` names, or list it (dry_run): one line for each, and one with their size."""
    removals = pruning.plan(store, stages, referred=referred, damaged=damaged)
    lines = [f"{removal.stage:18} {size(removal.size):>9}  {removal.kind}" for removal in removals]
    if dry_run:
        return [*lines, f"{len(removals):,} to prune, {size(sum(removal.size for removal in removals))}"]
    return [*lines, f"{store.url}: pruned, {size(pruning.prune(store, removals))} free again"]


def size(count: float) -> str:
    """A number of bytes as text: 1.2 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def description(described: Mapping[str, Any]) -> str:
    """A stage's description as one line. Nested parameters appear under their own names."""
    words: list[str] = []
    for name, value in described.items():
        if isinstance(value, Mapping):
            words += [f"{inner}={entry}" for inner, entry in value.items()]
        else:
            words.append(str(value) if name in ("workload", "stage") else f"{name}={value}")
    text = " ".join(" ".join(words).split())
    return text if len(text) <= _DESCRIPTION else text[: _DESCRIPTION - 1] + "…"
