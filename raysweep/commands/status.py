"""`raysweep status`: the progress of a sweep, read from its ledger and from small files that its driver writes.

The driver is not asked, so the status can be shown on every machine that can read the storage.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Mapping

import numpy as np

from raysweep.driver import outlook
from raysweep.driver.progress import duration, phase_line
from raysweep.ledger import segments, sweep_record
from raysweep.phrases import command, counted, place
from raysweep.plan.cost import estimate
from raysweep.query import stage_store, verdict
from raysweep.query.state import PendingRows, State
from raysweep.query.sweep import Sweep, open_sweep
from raysweep.stages.store import Store
from raysweep.storage import driver_lock, leases, signs
from raysweep.tracking import address, server
from raysweep.tracking.session import unwritten
from raysweep.trial import log
from raysweep.trial.function import Unusable

WINDOW = 3600.0  # seconds over which the rate is measured
LONGEST = 300  # letters of the reason why a row failed
_SHOWN = 8  # how many packs under way are listed


def details(sweep: Sweep) -> list[str]:
    """Rows by status, first failures with reasons, damaged segments, where the report is, and what to do next."""
    state = sweep.state()
    pending = state.missing()
    left, now = pending.rows, sweep.phase(pending.rows)
    running = now == "running"
    lines = [
        f"{sweep.name}: {now}, {state.progress(' rows')}",
        f"  space {sweep.space.name}, workload {sweep.space.workload}, started {sweep.record.created}",
        *(f"  {line}" for line in _mirrored(sweep, state, left, running)),
        *(f"  {sign}" for sign in [driver_lock.last_sign(sweep.folder)] if sign),
        *_pace(sweep, state, pending, running),
    ]
    if sweep.stored:
        if running and (store := Store(stage_store.address(sweep.folder, sweep.record))).exists():
            live = sorted(leases.live(store.files).items())
            lines += [f"  stage {stage}: computed by {holder}" for stage, holder in live]
        lines.append(f"  {stage_store.of_sweep(sweep.folder, sweep.record)}")
    lines += [f"  failed: {in_words(row)}" for row in state.failures()[:5]]
    lines += [f"  damaged segment: {path.name} (its rows are computed again on resume)" for path in state.damaged]
    lines += [f"  {line}" for line in (state.outdated, state.strays) if line]
    if sweep.space.precision and state.rows:
        lines += [f"  {line}" for line in ([outlook.line(state, pending)] if pending.rows else verdict.lines(state))]
    report = sweep.folder / sweep_record.REPORT / "report.html"
    if report.exists():
        lines.append(f"  report: {place(report)}")
    if now == "interrupted":
        lines.append(f"  go on with: {sweep.go_on()}")
    return lines


def in_words(failed: segments.Row) -> str:
    """Which row failed, and the error at the end of its traceback, whose message may have several lines."""
    lines = failed.get("error", "").strip().splitlines() or ["no reason kept"]
    frame = max((place for place, line in enumerate(lines) if line.startswith('  File "')), default=-1)
    first = next((k for k in range(frame + 1, len(lines)) if not lines[k].startswith((" ", "Traceback"))), 0)
    reason = " ".join(line.strip() for line in lines[first:] if line.strip())
    reason = reason.removeprefix(f"{Unusable.__module__}.{Unusable.__qualname__}: ")
    return f"cell {failed['cell']} seed {failed['seed']}: {textwrap.shorten(reason, LONGEST)}"


def failures(sweep: Sweep, failed: list[segments.Row]) -> list[str]:
    """Lines for the end of a run in which rows failed: the first failed rows, and how to look at one."""
    first, function, storage = failed[0], sweep.workload.function, sweep.folder.parent
    again = command("debug", f"{sweep.name} {first['cell']} {first['seed']}", storage)
    recompute = command("resume", sweep.name, storage)
    if function is not None and not function.source:
        recompute = f'raysweep.resume("{sweep.name}", {function.name}), in Python'
    return [
        f"{sweep.name}: {len(failed):,} of {sum(sweep.statuses().values()):,} rows failed",
        *(f"  {in_words(row)}" for row in failed[:10]),
        f"look at one with: {again}",
        f"compute them again with: {recompute}",
    ]


def watch(sweep: Sweep, pause: float = 2.0) -> Iterator[list[str]]:
    """Yield `details` whenever they change, until no driver works on the sweep. pause: seconds between two checks."""
    before: list[str] = []
    while True:
        running = driver_lock.is_held(sweep.folder)
        sweep = open_sweep(sweep.name, sweep.folder.parent)  # read the record again: the sweep may have been extended
        now = details(sweep)
        if now != before:
            yield now
        if not running:
            return
        before = now
        time.sleep(pause)


def used_and_left(
    state: State, pending: PendingRows, apart: Mapping[str, Mapping[str, float]]
) -> tuple[str, str | None]:
    """The GPU-hours that were used and those that the missing rows need, as texts; core-hours if no trial has a GPU.
    The estimate of the missing rows is corrected by the ratio of measured to estimated time of the finished ones, and
    None before there is one. apart: the stages that trials computed for rows of others, as in
    `stage_store.computed_apart`."""
    cells, missing = state.cells, pending.indices
    on_gpus = any(needs.gpus for needs in cells.needs)
    devices = np.asarray([needs.gpus if on_gpus else needs.cpus for needs in cells.needs])
    unit = "GPU-hours" if on_gpus else "core-hours"
    there: dict[int, list[int]] = {}
    for cell, seed in state.rows:
        there.setdefault(seed, []).append(state.position[cell])
    where = np.asarray([state.position[cell] for cell, _ in state.rows], dtype=np.int64)
    seconds = np.asarray([row["seconds"] for row in state.rows.values()])
    held = sum(stage["seconds"] * stage["gpus" if on_gpus else "cpus"] for stage in apart.values())
    used = f"{(float(np.sum(seconds * devices[cells.need[where]])) + held) / 3600:,.3g} {unit}"
    estimated, _ = estimate(state.workload, cells, {seed: np.sort(indices) for seed, indices in there.items()})
    stages = {stage for row in state.rows.values() for ids in row.get("stages", {}).values() for stage in ids}
    spent = float(np.sum(seconds)) + sum(apart[stage]["seconds"] for stage in stages & apart.keys())
    if missing and not (estimated and spent):
        return used, None
    left = 0.0
    for number, amount in enumerate(devices.tolist()):
        chosen = {seed: indices[cells.need[indices] == number] for seed, indices in missing.items()}
        alike = {seed: indices for seed, indices in chosen.items() if len(indices)}
        left += estimate(state.workload, cells, alike)[0] * amount * spent / estimated if alike else 0.0
    return used, f"{left / 3600:,.3g} {unit}"


def rows_per_second(state: State, since: float, now: float) -> float | None:
    """Rows per second within the last hour and after `since`, in seconds of the epoch; None for too few rows."""
    since = max(since, now - WINDOW)
    arrived = [row["finished"] for row in state.rows.values() if row.get("finished", 0.0) > since]
    first = min(arrived, default=now)
    later = sum(moment > first for moment in arrived)
    return later / (now - first) if later and now > first else None


def _pace(sweep: Sweep, state: State, pending: PendingRows, running: bool) -> list[str]:
    """Compute time that was used and is left; while the sweep runs, also the rate, and what runs where."""
    now = time.time()
    folder = sweep.folder
    apart = stage_store.computed_apart(folder, sweep.record) if sweep.stored else {}
    used, left = used_and_left(state, pending, apart)
    missing = pending.rows
    about = f", about {left} left" if left else ", what is left cannot be told yet"
    lines = [f"  used {used}{about if missing else ''}"]
    if not running:
        return lines
    since = driver_lock.held_since(folder)
    rate = rows_per_second(state, since, now) if missing else None
    at_work = signs.phase(folder)
    if at_work and (line := phase_line(at_work)):
        lines.append(f"  {line}")
    elif rate:
        lines.append(f"  {rate:,.3g} rows/s, at this rate {duration(missing / rate)} left")
    there = {f"{row['pack']}-{row['attempt']}" for row in state.rows.values() if "pack" in row}
    under_way = log.under_way(folder / sweep_record.LOGS, there, since)
    lines += [f"  under way for {duration(seconds)}: {heading}" for seconds, heading in under_way[:_SHOWN]]
    if len(under_way) > _SHOWN:
        lines.append(f"  and {len(under_way) - _SHOWN:,} more")
    return lines


def _mirrored(sweep: Sweep, state: State, left: int, running: bool) -> list[str]:
    """Where the sweep is logged, and what MLflow lacks, as far as is known here."""
    uri, mirrored = sweep.record.tracking_uri, signs.mirrored(sweep.folder)
    if uri is None:
        return ["mirrored to nowhere"]
    goes_on = f"`{command('sync', sweep.name, sweep.folder.parent)}` writes"
    if mirrored is None:
        return [f"mirrored to {uri}" + ("" if running else f"; nothing here says how far, {goes_on} what is missing")]
    gone = uri != address.OF_DRIVER and server.is_absent(uri)
    if (mirrored.sweep_id, mirrored.tracking_uri) != (sweep.record.sweep_id, uri) or gone:
        mirrored = signs.Mirrored(sweep.record.sweep_id, uri)
    complete, missing = sum(1 for _ in state.complete()), unwritten(sweep.record, sweep.cells, state, mirrored.runs)
    if running:
        line = f"mirrored to {uri}: {complete - missing:,} of {counted(complete, 'complete cell')} so far"
    elif missing:
        line = f"{missing:,} of {counted(complete, 'cell')} not yet in MLflow ({uri}); {goes_on} them"
    elif mirrored.status is None or (mirrored.status != "FINISHED" and not left):
        line = f"mirrored to {uri}: all {counted(complete, 'cell')}; {goes_on} the end of the sweep's own run"
    else:
        line = f"mirrored to {uri}: all {counted(complete, 'complete cell' if left else 'cell')}"
    return [line, *server.runs_page(sweep.folder, uri)]
