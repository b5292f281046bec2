"""Which sweeps need which stages of a store. Pruning leaves alone what a sweep refers to."""

from __future__ import annotations

import re
from collections.abc import Iterable

from raysweep.plan.identity import content_id
from raysweep.stages.store import Store, record_name
from raysweep.storage.sealed import Damaged, seal, unseal

_SWEEP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def refer(store: Store, sweep: str, stages: Iterable[str]) -> None:
    """Record, before any work, that a sweep needs these stages, so that pruning leaves them alone."""
    needed = sorted(set(stages))
    for stage in needed:
        record_name(stage)  # a ValueError if it is no id
    store.prepare()
    name, content = f"{_folder(sweep)}/{content_id(needed)}.json", seal({"stages": needed})
    if not store.files.create(name, content):
        store.files.replace(name, content)  # a different content under this name was damaged


def release(store: Store, sweep: str, stages: Iterable[str]) -> None:
    """Remove a sweep's references to these stages, because it does not need them any more; its others stay."""
    others = referred(store, sweep).difference(stages)
    before = store.files.names(_folder(sweep))
    if others:  # first, so that they are referred to all the time
        refer(store, sweep, others)
    for name in before:
        if name != f"{content_id(sorted(others))}.json":
            store.files.remove(f"{_folder(sweep)}/{name}")


def forget(store: Store, sweep: str) -> None:
    folder = _folder(sweep)
    for name in store.files.names(folder):
        store.files.remove(f"{folder}/{name}")


def referred(store: Store, sweep: str) -> set[str]:
    """The stages that a sweep recorded as needed; Damaged if a reference cannot be read."""
    return set(_users(store, [sweep]))


def users(store: Store) -> dict[str, list[str]]:
    """stage -> sweeps that refer to it; Damaged if a reference cannot be read (the answer is then unknown)."""
    return _users(store, store.files.names("refs"))


def _users(store: Store, sweeps: Iterable[str]) -> dict[str, list[str]]:
    by_stage: dict[str, list[str]] = {}
    for sweep in sweeps:
        for name in store.files.names(f"refs/{sweep}"):
            if name.startswith("."):
                continue
            try:
                stages = unseal(store.files.read(f"refs/{sweep}/{name}"))["stages"]
            except FileNotFoundError:  # removed between the two reads
                continue
            except (Damaged, KeyError) as error:
                raise Damaged(f"refs/{sweep}/{name}: {error}") from None
            for stage in stages:
                by = by_stage.setdefault(stage, [])
                if sweep not in by:
                    by.append(sweep)
    return by_stage


def _folder(sweep: str) -> str:
    if not _SWEEP.fullmatch(sweep):
        raise ValueError(f"expected a plain name or id of a sweep, got {sweep!r}")
    return f"refs/{sweep}"
