"""What there is to see: sweeps, their state, one row up close, declarations of workloads."""

from __future__ import annotations

import itertools
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from raysweep import sweep as sweeps
from raysweep import terminal
from raysweep.commands import live, mirror_status
from raysweep.driver import driver, stored_stages
from raysweep.errors import InputError, as_typed
from raysweep.ledger import sweep_record
from raysweep.plan.cells import enumerate_cells
from raysweep.storage import driver_lock
from raysweep.storage.paths import AnyPath
from raysweep.storage.sealed import encode
from raysweep.sweep import Sweep
from raysweep.tracking import session
from raysweep.trial import threads
from raysweep.trial.compute import compute
from raysweep.workloads import devices
from raysweep.workloads.declaration import Workload


def overview(storage: AnyPath) -> list[str]:
    """A line a sweep: name, workload, rows, state, when it was started."""
    lines = []
    for name in sweep_record.sweeps(storage):
        try:
            found = sweeps.open_sweep(name, storage)
        except InputError as error:
            lines.append(f"{name:32} {error}")
            continue
        state = found.state()
        done, left = len(state.rows), state.missing().rows
        lines.append(
            f"{name:32} {found.space.workload:18} {done:>9,} of {done + left:<9,} {phase(found, left):12} "
            f"{found.record.created}"
        )
    return lines or [f"no sweeps in {storage}; start one with: raysweep run quickstart"]


def phase(found: Sweep, left: int) -> str:
    """running, finished or interrupted."""
    if driver_lock.is_held(found.folder):
        return "running"
    return "interrupted" if left else "finished"


def details(found: Sweep) -> list[str]:
    """Rows by status, the first failures with their reason, damaged segments, where the report is, what to do next."""
    state = found.state()
    done, left = len(state.rows), state.missing().rows
    now = phase(found, left)
    counted = ", ".join(f"{count:,} {status}" for status, count in sorted(state.statuses().items()))
    lines = [
        f"{found.name}: {now}, {done:,} of {done + left:,} rows" + (f" ({counted})" if counted else ""),
        f"  space {found.space.name}, workload {found.space.workload}, started {found.record.created}",
        *(f"  {line}" for line in mirror_status.lines(found, state, left, now == "running")),
        *(f"  {sign}" for sign in [driver_lock.last_sign(found.folder)] if sign),
        *live.lines(found.folder, state, now == "running"),
        *(live.stages(stored_stages.address(found.folder, found.record), state) if now == "running" else []),
    ]
    if found.workload.stored:
        lines.append(f"  {stored_stages.of_sweep(found.folder, found.record)}")
    for row in state.failures()[:5]:
        reason = row.get("error", "").strip().splitlines()
        lines.append(f"  failed: cell {row['cell']} seed {row['seed']}: {reason[-1] if reason else 'no reason kept'}")
    lines += [f"  damaged segment: {path.name} (its rows are computed again on resume)" for path in state.damaged]
    lines += [f"  {state.outdated}"] * bool(state.outdated)
    if (found.folder / "report" / "report.html").exists():
        lines.append(f"  report: {found.folder / 'report' / 'report.html'}")
    if now == "interrupted":
        lines.append(f"  go on with: raysweep resume {found.name} --storage {found.folder.parent}")
    return lines


def watch(found: Sweep, pause: float = 2.0) -> Iterator[list[str]]:
    """`details` again and again, as soon as they change, until no driver works on the sweep."""
    before: list[str] = []
    while True:
        running = driver_lock.is_held(found.folder)
        found = sweeps.open_sweep(found.name, found.folder.parent)  # its record anew: it may be extended meanwhile
        now = details(found)
        if now != before:
            yield now
        if not running:
            return
        before = now
        time.sleep(pause)


def settle(found: Sweep, tracking_uri: str | None) -> None:
    """Close the parent run that a driver left open when it died; nothing happens while one is running."""
    uri = session.tracking(tracking_uri, found.record, found.folder.parent)
    if uri is None or driver_lock.is_held(found.folder):
        return
    from raysweep.tracking import mirror

    try:
        mirror.settle(uri, found.space.name, found.record.sweep_id)
    except mirror.Unreachable as error:  # what there is to see of the sweep has been shown
        terminal.say(f"--tracking-uri: {error}; the sweep's runs there stay as they are")


def delete(found: Sweep, tracking_uri: str | None) -> None:
    """Remove a sweep and its runs; InputError while a driver works on it, or somebody else deletes it."""
    if driver_lock.is_held(found.folder):
        begun = not (found.folder / sweep_record.FILE).exists()
        raise InputError(found.name, "is being deleted by somebody else" if begun else "is running; stop it first")
    uri = session.tracking(tracking_uri, found.record, found.folder.parent)
    with driver.only_driver(found.folder, found.record, terminal.say, to_delete=True):
        whole = sweep_record.begin_deletion(found.folder)
        try:
            _forget(found, uri)
        except BaseException:
            if whole:  # and so it still is
                sweep_record.keep(found.folder)
            raise
        if found.workload.stored:
            stored_stages.release(found.folder, found.record)
        try:
            sweep_record.delete(found.folder)
        except OSError as error:
            raise InputError(
                found.name, f"could not be deleted whole ({error}); `raysweep delete` again goes on"
            ) from None


def _forget(found: Sweep, uri: str | None) -> None:
    """Delete its runs in MLflow."""
    if uri is None:
        return
    from raysweep.tracking import mirror

    try:
        mirror.forget(uri, found.space.name, found.record.sweep_id)
    except mirror.Unreachable as error:
        raise InputError(
            "--tracking-uri", f"{error}; --tracking-uri none deletes the sweep and leaves its runs in MLflow"
        ) from None


def one_row(found: Sweep, cell: str, seed: int | None) -> dict[str, Any]:
    """Compute one row here and now; what it raises is not caught. The ledger is not touched."""
    cells = enumerate_cells(found.space)
    matches = [i for i, identity in enumerate(cells.ids) if identity.startswith(cell)]
    if len(matches) != 1:
        raise InputError(
            cell,
            f"expected the beginning of one cell's hash, it fits {len(matches)} of "
            f"{len(cells):,}; `raysweep results {found.name}` lists them",
        )
    chosen = found.space.seeds[0] if seed is None else seed
    indices = np.asarray(matches)
    # away from the cluster that granted its trial a GPU, what there is here does
    gpus = None if cells.needs[cells.need[matches[0]]].gpus else 0
    with threads.limited(found.space.resources["cpus_per_trial"]), devices.granted(gpus):
        metrics, status = compute(
            found.space.workload,
            cells.take(indices),
            np.asarray([chosen]),
            stored_stages.address(found.folder, found.record),
            stored_stages.user(found.record),
        )
    parameters = {
        name: encode(value) if isinstance(value, float) else value
        for name, value in cells.parameters(matches[0]).items()
    }
    return {
        "cell": cells.ids[matches[0]],
        "seed": chosen,
        "status": str(status[0]),
        "parameters": parameters,
        "metrics": {name: encode(float(values[0])) for name, values in metrics.items()},
    }


def declaration(workload: Workload) -> list[str]:
    """A workload for the terminal: parameters with unit, range and default, then metrics."""
    lines = [f"{workload.name}: {workload.summary}", "", "parameters"]
    for parameter in workload.parameters:
        default = ".inf" if parameter.default == float("inf") else parameter.default
        lines.append(f"  {parameter.name:18} {parameter.expected()}; default {as_typed(default)}")
        lines.append(f"  {'':18} {parameter.description}")
    lines += ["", "metrics"]
    for metric in workload.metrics:
        unit = f" [{metric.unit}]" if metric.unit else ""
        direction = f" ({metric.direction})" if metric.direction != "none" else ""
        lines.append(f"  {metric.name:26} {metric.description}{unit}{direction}")
    if workload.closed_form is not None:
        closed = [name for name in workload.metric_names() if name.endswith("_theory")]
        lines += ["", "closed forms beside them: " + ", ".join(closed)]
    return lines


def first_comment(path: Path) -> str:
    """The first paragraph of a space's comments, in one line: what it asks."""
    lines = itertools.dropwhile(lambda line: not line.startswith("#"), path.read_text().splitlines())
    words = itertools.takewhile(lambda line: line.startswith("#") and line.strip("# "), lines)
    return " ".join(line.lstrip("# ").rstrip() for line in words)


def listed(entries: Mapping[str, str], column: int, width: int | None) -> list[str]:
    """Names with what is said of each, from this column on; of a terminal so wide, what is longer goes on below."""
    found = []
    for name, text in entries.items():
        parts = [text] if width is None else textwrap.wrap(text, max(width - column, 20), break_on_hyphens=False)
        found += [f"{start:{column - 1}} {part}" for start, part in itertools.zip_longest([name], parts, fillvalue="")]
    return found
