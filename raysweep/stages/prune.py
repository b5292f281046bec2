"""Frees space in a stage store. What a sweep refers to is removed only if the user names it and asks for that."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass

from raysweep.errors import InputError, unknown
from raysweep.stages import checkpoints, intermediate, references
from raysweep.stages.store import SUPERSEDED, Store
from raysweep.storage import leases
from raysweep.storage.sealed import Damaged

LEFTOVER_AGE = 3600.0
"""Seconds after which a file that no record names is no longer an upload in progress."""
ASIDE = ("damaged", SUPERSEDED)


@dataclass(frozen=True)
class Removal:
    """One thing to remove, its record first. kind: stage, progress, damaged, superseded or leftover."""

    stage: str
    kind: str
    names: tuple[str, ...]
    size: int


def plan(store: Store, stages: Collection[str] = (), *, referred: bool = False, damaged: bool = False) -> list[Removal]:
    """What pruning would remove: published stages that no sweep refers to, intermediate checkpoints of such stages, and
    leftovers of crashes; with `damaged` also what was set aside (including superseded stages). Stages with a lease are
    left alone.

    stages: only these, instead of all; a stage that a sweep refers to is an InputError unless `referred`.
    """
    try:
        users = references.users(store)
    except Damaged as error:
        raise InputError(store.url, f"nothing was pruned, for nobody can say what is needed: {error}") from None
    published, busy = set(store.stages()), leases.live(store.files)
    for stage in stages:
        if stage not in published:
            raise unknown(stage or "STAGE", "stage in the store", stage, sorted(published)[:20])
        if stage in users and not referred:
            raise InputError(stage, f"sweep {', '.join(users[stage])} refers to it; --referred prunes it all the same")
        if stage in busy:
            raise InputError(stage, f"is in use by {busy[stage]}; try again later")
    entries, begun = store.files.names("entries"), store.files.names(intermediate.FOLDER)
    chosen = sorted(stages or published - users.keys() - busy.keys())
    items = [(stage, "stage", _files_of(stage, "entries", entries)) for stage in chosen]
    if not stages:
        unfinished = {name.split(".")[0] for name in begun} - {""} - users.keys() - busy.keys()
        items += [(stage, "progress", _files_of(stage, intermediate.FOLDER, begun)) for stage in sorted(unfinished)]
        for folder in ASIDE if damaged else ():
            items += [(name.split(".")[0], folder, [f"{folder}/{name}"]) for name in store.files.names(folder)]
        taken = {name for _, _, names in items for name in names}
        items += [(stage, "leftover", [name]) for stage, name in _leftovers(store, busy) if name not in taken]
    return [Removal(stage, kind, tuple(names), _size(store, names)) for stage, kind, names in items]


def _files_of(stage: str, folder: str, names: Iterable[str]) -> list[str]:
    """The names that are files of a stage in a folder, records first."""
    files = [f"{folder}/{name}" for name in names if name.startswith(f"{stage}.")]
    return sorted(files, key=lambda name: not name.endswith(".json"))


def _size(store: Store, names: Iterable[str]) -> int:
    size = 0
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            size += store.files.size(name)
    return size


def _leftovers(store: Store, busy: Container[str]) -> Iterator[tuple[str, str]]:
    """Weights without a record, temporary files, and leases of dead holders: the stage and name of each."""
    for folder in ("", "entries", intermediate.FOLDER, leases.FOLDER, *ASIDE):
        names = store.files.names(folder)
        records = {name.removesuffix(".json") for name in names if name.endswith(".json")}
        for name in names:
            stage = name.lstrip(".").split(".")[0]
            orphan = name.endswith(".safetensors") and folder not in ASIDE and name.rsplit(".", 2)[0] not in records
            orphan = orphan or folder == leases.FOLDER  # its holder died, and nobody took it over
            path = f"{folder}/{name}".lstrip("/")
            if (orphan or name.startswith(".")) and stage not in busy:
                with contextlib.suppress(FileNotFoundError):
                    if store.files.age(path) > LEFTOVER_AGE:
                        yield stage, path


def prune(store: Store, removals: Collection[Removal]) -> int:
    """Remove them; returns the bytes freed. A stage that somebody has started since the plan is left alone."""
    freed = 0
    for removal in removals:
        if removal.kind != "stage":
            for name in removal.names:
                store.files.remove(name)
            freed += removal.size
            continue
        with store.leased(removal.stage) as lease:
            freed += checkpoints.remove(store.files, removal.names[0]) if lease else 0
    return freed
