"""The report of one or several sweeps in a storage, and their rows side by side."""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from raysweep.errors import InputError
from raysweep.lazy import pd
from raysweep.ledger import sweep_record
from raysweep.phrases import counted
from raysweep.query import stage_store, verdict
from raysweep.query.state import State
from raysweep.space import user_files
from raysweep.storage import copies, files, paths
from raysweep.storage.paths import AnyPath
from raysweep.workloads.declaration import STOPPED

if TYPE_CHECKING:
    from raysweep.query.stored_sweep import StoredSweep
    from raysweep.report.report import Report
    from raysweep.space.schema import Space

LONGEST = 200  # characters of the name of a folder


@contextlib.contextmanager
def _rare_collection() -> Iterator[None]:
    """Look for circular garbage seldom: a report makes millions of objects and hardly any circle. Of 100,000 cells,
    this saves a fifth of the processor time, and costs no memory."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@_rare_collection()
def report(
    sweeps: Sequence[StoredSweep],
    directory: str | AnyPath | None = None,
    on_step: Callable[[int, int], None] = lambda done, of: None,
    states: Sequence[State] = (),
    reload: int = 0,
    on_answer: Callable[[Sequence[str]], None] = lambda answer: None,
) -> Report:
    """Write one report about one or several sweeps of one workload. Raises InputError if there is nothing to report.

    directory: where to write it; None for `report` in the sweep's folder, and there, with several sweeps, for `with-`
        and the names of the others.
    states: of the sweeps, each once; empty to read the ledger.
    reload: seconds after which the page reads itself again, while the sweep runs; 0 for a final page.
    on_step, on_answer: called with the number of finished steps and of all steps, and with the answer before the page
        is there.
    """
    from raysweep.report.report import Written, write_report

    # a sweep that is named twice appears once
    sweeps = list({(str(sweep.folder), repr(sweep.space)): sweep for sweep in sweeps}.values())
    first = sweeps[0]
    labels, states, tables = tables_of(sweeps, states)
    parts = list(zip(sweeps, labels, states, tables, strict=True))

    def curves() -> pd.DataFrame:
        return pd.concat([sweep.curves(state, ()).assign(sweep=label) for sweep, label, state, _ in parts])

    begun = [(sweep, table) for sweep, _, _, table in parts if len(table)]
    if not begun:
        why = states[0].outdated or states[0].strays
        raise InputError(first.name, "there are no rows to report yet" + (f" ({why})" if why else ""))
    frame = pd.concat([table for _, table in begun], ignore_index=True)
    spaces = [sweep.space.as_dict() for sweep, _ in begun]
    home = first.folder / (sweep_record.PART if first.is_part else sweep_record.REPORT)
    if further := [sweep.name for sweep in sweeps[1:]]:
        home /= f"with-{'-'.join(further)}"[:LONGEST]
    folder = paths.locate(directory, "directory") if directory is not None else home
    if directory is None:
        files.check_not_read_only(folder)
    stored = [(label, sweep) for sweep, label, *_ in parts if sweep.stored]
    facts = [f"{label}: {stage_store.of_sweep(sweep.folder, sweep.record)}" for label, sweep in stored]
    notes = [f"{label}: no row is there yet." for _, label, _, table in parts if table.empty]
    for sweep, label, state, _ in parts:
        gone = [f"{path.name} is damaged and left out; resume computes its rows again" for path in state.damaged]
        notes += [f"{label}: {line}." for line in (*gone, state.strays * (not sweep.is_part)) if line]
    notes += _caveats(sweeps)
    notes += [f"{label}: {text}" for sweep, label, state, _ in parts if (text := _stopped(sweep, state))]
    precise = [part for part in parts if part[0].space.precision]
    for sweep, label, state, _ in precise:
        notes += [f"{label}: {line.strip()}." for line in verdict.lines(state, sweep.is_part)]
    named: dict[str, Path] = {}
    for sweep in reversed(sweeps):
        named |= user_files.recall_analyses(sweep.record.sweep_id)
    about = Written(", ".join(labels), notes, facts, sum(state.missing_rows for state in states), reload)
    with copies.workplace(folder) as room:
        written = write_report(
            frame, spaces, room, about, curves=curves, analysis_files=named, on_step=on_step, on_answer=on_answer
        )
    there = [folder / Path(str(path)).relative_to(room).as_posix() for path in written.files]
    return replace(written, directory=folder, files=there)


def tables_of(
    sweeps: Sequence[StoredSweep], states: Sequence[State] = ()
) -> tuple[list[str], Sequence[State], list[pd.DataFrame]]:
    """(label, state, rows) of each sweep, as three lists; the column `sweep` of the rows has the label. states: of the
    sweeps; empty to read the ledger. Raises InputError if the sweeps are not of one workload."""
    first = sweeps[0]
    for other in sweeps[1:]:
        if other.space.workload != first.space.workload and not _alike(other.space, first.space):
            why = f"is a sweep of {other.space.workload}, {first.name} one of {first.space.workload}"
            raise InputError(other.name, f"{why}; only sweeps of one workload can be put side by side")
    labels, states = _labels(sweeps), states or [sweep.state() for sweep in sweeps]
    tables = [
        sweep.results(state).assign(sweep=label) for sweep, label, state in zip(sweeps, labels, states, strict=True)
    ]
    return labels, states, [with_times(table, state) for table, state in zip(tables, states, strict=True)]


def _alike(one: Space, other: Space) -> bool:
    if one.function is None or other.function is None:
        return False
    first, second = (
        ({each["name"] for each in function["parameters"]}, function["metrics"], set(function["returned"] or ()))
        for function in (one.function, other.function)
    )
    return first == second


def with_times(table: pd.DataFrame, state: State) -> pd.DataFrame:
    """The rows with `finished`, when each was computed (seconds of the epoch), unless a column has that name."""
    if "finished" in table:
        return table
    keys = zip(table["cell"], table["seed"], strict=True)
    return table.assign(finished=[state.rows[key].get("finished", math.nan) for key in keys])


def _stopped(sweep: StoredSweep, state: State) -> str:
    """How rows were stopped early, in words; "" if none could be."""
    options, count = sweep.space.early_stopping, state.statuses()[STOPPED]
    if not options:
        return ""
    return (
        f"{counted(count, 'row')} stopped early by the {options['rule']} rule on {options['metric']}. A row is "
        "compared only with rows of earlier rounds, so that this does not depend on the order in which trials finish. "
        "Stopped rows are in no mean and no fit: the mean of a cell is over its draws that were not stopped."
    )


def _labels(sweeps: Sequence[StoredSweep]) -> list[str]:
    """The label of each sweep in a report: its name, or its whole path if sweeps of the same name come from different
    storages. A part that appears next to the whole sweep or another part gets a number."""
    labels: list[str] = []
    for sweep in sweeps:
        alike = [other for other in sweeps if other.name == sweep.name]
        same = [other for other in alike if other.folder == sweep.folder]
        parts = [other for other in same if other.is_part]
        label = sweep.name if len(alike) == len(same) else str(sweep.folder)
        labels.append(f"{label} (part {parts.index(sweep) + 1})" if sweep in parts and len(same) > 1 else label)
    return labels


def _caveats(sweeps: Sequence[StoredSweep]) -> list[str]:
    """At most three different sentences about what the closed forms in a report do not describe."""
    caveat = sweeps[0].workload.caveat
    if caveat is None:
        return []
    texts = (caveat(sweep.cells.parameters(index)) for sweep in sweeps for index in range(len(sweep.cells)))
    return list(dict.fromkeys(text for text in texts if text))[:3]
