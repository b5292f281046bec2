"""What disturbed sweeps leave in their store: every stage once, no lease, every reference, nothing damaged."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from raysweep.stages import checkpoints, references
from raysweep.stages.store import Store
from raysweep.storage import leases
from raysweep.storage.sealed import Damaged
from tests.chaos import stages

ELSEWHERE = "gone"
"""The host in the leases that a fault makes."""


@dataclass
class Left:
    """What undisturbed sweeps leave. names: each stage of the store and what it is called in the marks; references: the
    stages that each sweep refers to."""

    names: dict[str, str] = field(default_factory=dict)
    references: dict[str, set[str]] = field(default_factory=dict)


def left(store: Store) -> Left:
    """What is there."""
    records = {stage: store.look(stage) for stage in store.stages()}
    needed: dict[str, set[str]] = {}
    for sweep in store.files.names("refs"):
        needed.setdefault(sweep.rpartition("-")[0], set()).update(references.referred(store, sweep))
    return Left({stage: _called(record) for stage, record in records.items() if record is not None}, needed)


def _called(record: checkpoints.Record) -> str:
    told = record["describe"]
    return stages.key(told["stage"], told["parameters"], told["seed"], told.get("point"))


def mark_what_is_whole(store: Store, marks: Path) -> None:
    """From now on nobody may begin the stages that are whole."""
    last = {name: event for event, name, *_ in stages.read(marks)}
    for stage in store.stages():
        with contextlib.suppress(Damaged):
            record = checkpoints.read(store.files, f"entries/{stage}.json", stage) and store.look(stage)
            if record and last.get(_called(record)) != "whole":
                stages.mark(marks, "whole", _called(record))


def mark_damaged(stage: str, expected: Left, marks: Path) -> None:
    """From now on a stage may begin again."""
    if stage in expected.names:
        stages.mark(marks, "damaged", expected.names[stage])


def named(damaged: Iterable[str], expected: Left) -> set[tuple[str, str]]:
    """The names and seeds of stages."""
    called = (json.loads(expected.names[stage]) for stage in damaged if stage in expected.names)
    return {(stage, str(seed)) for stage, seed, *_ in called}


def computed_once(found: Left, marks: Path) -> bool:
    """Whether every stage was begun once, and once more each time it had failed."""
    events = Counter((event, name) for event, name, *_ in stages.read(marks))
    return all(events["begin", name] == 1 + events["raised", name] for name in found.names.values())


def compare(store: Store, expected: Left, marks: Path, damaged: set[str]) -> Counter[str]:
    """How the store differs from what undisturbed sweeps leave. damaged: stages that a fault has damaged; they need not
    be there, for a row that is done needs them no more."""
    found, events = left(store), stages.read(marks)
    begun = {name for event, name, *_ in events if event == "begin"}
    held = [leases.latest(store.files, stage) for stage in leases.live(store.files)]
    differences = Counter(twice=sum(event == "twice" for event, *_ in events))
    differences["lost stages"] = len(expected.names.keys() - found.names.keys() - damaged)
    differences["strange stages"] = len(found.names.keys() - expected.names.keys())
    differences["changed stages"] = sum(expected.names.get(stage, name) != name for stage, name in found.names.items())
    differences["stages never begun"] = len(set(expected.names.values()) - begun)
    differences["leases left"] = sum(lease is not None and ELSEWHERE not in lease.holder for lease in held)
    differences["references lost"] = sum(
        len(wanted - found.references.get(sweep, set())) for sweep, wanted in expected.references.items()
    )
    return +differences
