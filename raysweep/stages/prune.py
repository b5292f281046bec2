"""Making room in a stage store, without ever taking what a sweep refers to unless told so by name."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass

from raysweep.errors import InputError, unknown
from raysweep.stages import checkpoints, progress
from raysweep.stages.store import SUPERSEDED, Store
from raysweep.storage import leases
from raysweep.storage.sealed import Damaged

LEFTOVER_AGE = 3600.0
"""Seconds after which a file that no record names is nobody's upload any more."""
ASIDE = ("damaged", SUPERSEDED)


@dataclass(frozen=True)
class Removal:
    """One thing that pruning takes away. stage: whose it is; kind: stage, progress, damaged, superseded or leftover;
    names: its files, the record first."""

    stage: str
    kind: str
    names: tuple[str, ...]
    size: int


def plan(store: Store, stages: Collection[str] = (), *, referred: bool = False, damaged: bool = False) -> list[Removal]:
    """What would go: published stages that no sweep refers to, intermediate checkpoints of such stages, and leftovers
    of crashes; with `damaged` also what was set aside (as superseded, too). Stages with a lease are left alone.

    stages: only these, instead of all; one that a sweep refers to is an InputError unless `referred`.
    """
    try:
        users = store.users()
    except Damaged as error:
        raise InputError(store.url, f"nothing was pruned, for nobody can say what is needed: {error}") from None
    published, busy = set(store.stages()), leases.live(store.files)
    for stage in stages:
        if stage not in published:
            raise unknown(stage, "stage in the store", stage, sorted(published)[:20])
        if stage in users and not referred:
            raise InputError(stage, f"sweep {', '.join(users[stage])} refers to it; --referred prunes it all the same")
        if stage in busy:
            raise InputError(stage, f"is in use by {busy[stage]}; try again later")
    found = _removals(store, "entries", "stage", sorted(stages or published - users.keys() - busy.keys()))
    if stages:
        return found
    unfinished = {name.split(".")[0] for name in store.files.names(progress.FOLDER)} - {""} - users.keys() - busy.keys()
    found += _removals(store, progress.FOLDER, "progress", sorted(unfinished))
    for folder in ASIDE if damaged else ():
        for name in store.files.names(folder):
            found.append(_removal(store, name.split(".")[0], folder, [f"{folder}/{name}"]))
    taken = {name for removal in found for name in removal.names}
    return found + [removal for removal in _leftovers(store, busy.keys()) if not taken.intersection(removal.names)]


def _removals(store: Store, folder: str, kind: str, stages: Sequence[str]) -> list[Removal]:
    """All files of these stages in a folder, the record of each first."""
    names = store.files.names(folder)
    return [
        _removal(
            store,
            stage,
            kind,
            sorted(
                (f"{folder}/{name}" for name in names if name.startswith(f"{stage}.")),
                key=lambda name: not name.endswith(f"/{stage}.json"),
            ),
        )
        for stage in stages
    ]


def _removal(store: Store, stage: str, kind: str, names: Sequence[str]) -> Removal:
    size = 0
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            size += store.files.size(name)
    return Removal(stage, kind, tuple(names), size)


def _leftovers(store: Store, busy: Set[str]) -> list[Removal]:
    """Weights without a record, temporary files and leases of those who died."""
    found = []
    for folder in ("", "entries", progress.FOLDER, leases.FOLDER, *ASIDE):
        names = store.files.names(folder)
        records = {name.removesuffix(".json") for name in names if name.endswith(".json")}
        for name in names:
            stage = name.lstrip(".").split(".")[0]
            orphan = name.endswith(".safetensors") and folder not in ASIDE and name.rsplit(".", 2)[0] not in records
            orphan = orphan or folder == leases.FOLDER  # whose holder died, and which nobody took over
            if not (orphan or name.startswith(".")) or stage in busy:
                continue
            path = f"{folder}/{name}".lstrip("/")
            with contextlib.suppress(FileNotFoundError):
                if store.files.age(path) > LEFTOVER_AGE:
                    found.append(_removal(store, stage, "leftover", [path]))
    return found


def prune(store: Store, removals: Collection[Removal]) -> int:
    """Take them away; bytes that became free. A stage somebody took up since the plan was made is left alone."""
    freed = 0
    for removal in removals:
        if removal.kind != "stage":
            for name in removal.names:
                store.files.remove(name)
            freed += removal.size
            continue
        lease = leases.Claim(store.files, removal.stage, store.lease_seconds).take()
        if lease is not None:
            with leases.kept(lease):
                freed += checkpoints.remove(store.files, removal.names[0])
    return freed
