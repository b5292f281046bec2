"""How a sweep is getting on, read from its ledger: how fast, what it has used, what it still needs, what runs now.

Nothing here asks the driver anything (it leaves a sign of what else it does), so it can be seen from every machine that
can read the storage.
"""

from __future__ import annotations

import time

import numpy as np

from raysweep.driver.progress import duration, phase_line
from raysweep.driver.state import State
from raysweep.ledger import sweep_record
from raysweep.plan.cost import estimate
from raysweep.storage import driver_lock, signs
from raysweep.storage.paths import AnyPath
from raysweep.trial import log

WINDOW = 3600.0  # seconds that the rate is taken over
_SHOWN = 8  # things under way that are listed


def used_and_left(state: State) -> tuple[str, str | None]:
    """GPU-hours so far and those that the missing rows should still take (core-hours where no trial has a GPU): their
    estimate, corrected by how the rows that are there compare with theirs (None before there is any)."""
    cells, missing = state.cells, state.missing().pending
    done: dict[int, list[int]] = {}
    for cell, seed in state.rows:
        done.setdefault(seed, []).append(state.position[cell])
    there = {seed: np.asarray(sorted(members), dtype=np.int64) for seed, members in done.items()}
    on_gpus = any(needs.gpus for needs in cells.needs)
    devices = [needs.gpus if on_gpus else needs.cpus for needs in cells.needs]
    spent = float(np.sum([row["seconds"] for row in state.rows.values()])) if state.rows else 0.0
    used = (
        float(
            np.sum(
                [row["seconds"] * devices[cells.need[state.position[cell]]] for (cell, _), row in state.rows.items()]
            )
        )
        if state.rows
        else 0.0
    )
    estimated, _ = estimate(state.workload, cells, there)
    unit = "GPU-hours" if on_gpus else "core-hours"
    if missing and not (estimated and spent):
        return _hours(used, unit), None
    left = 0.0
    for number, amount in enumerate(devices):
        chosen = {seed: indices[cells.need[indices] == number] for seed, indices in missing.items()}
        alike = {seed: indices for seed, indices in chosen.items() if len(indices)}
        left += estimate(state.workload, cells, alike)[0] * amount * spent / estimated if alike else 0.0
    return _hours(used, unit), _hours(left, unit)


def _hours(seconds: float, unit: str) -> str:
    return f"{seconds / 3600:,.3g} {unit}"


def rows_per_second(state: State, since: float, now: float) -> float | None:
    """Rows that arrived from then on, within the last hour at most, per second since the first of them; None while too
    few did."""
    since = max(since, now - WINDOW)
    arrived = [row["finished"] for row in state.rows.values() if row.get("finished", 0.0) > since]
    first = min(arrived, default=now)
    later = sum(moment > first for moment in arrived)
    return later / (now - first) if later and now > first else None


def lines(folder: AnyPath, state: State, running: bool) -> list[str]:
    """For `raysweep status`: what was used and is left; while it runs, rate and time left of the rows or else what the
    driver does besides, and what runs where."""
    now = time.time()
    used, left = used_and_left(state)
    missing = state.missing().rows
    found = [
        f"  used {used}"
        + ("" if not missing else f", about {left} left" if left else ", what is left cannot be told yet")
    ]
    if not running:
        return found
    since = driver_lock.held_since(folder)
    rate = rows_per_second(state, since, now) if missing else None
    phase = signs.phase(folder)
    if phase and (line := phase_line(phase)):
        found.append(f"  {line}")
    elif rate:
        found.append(f"  {rate:,.3g} rows/s, at this rate {duration(missing / rate)} left")
    there = {f"{row['pack']}-{row['attempt']}" for row in state.rows.values() if "pack" in row}
    under_way = log.under_way(folder / sweep_record.LOGS, there, since)
    found += [f"  under way for {duration(seconds)}: {heading}" for seconds, heading in under_way[:_SHOWN]]
    if len(under_way) > _SHOWN:
        found.append(f"  and {len(under_way) - _SHOWN:,} more")
    return found


def stages(store_url: str, state: State) -> list[str]:
    """Stages of the store that somebody computes now, for whatever sweep."""
    if not state.workload.stored:
        return []
    from raysweep.stages.store import Store
    from raysweep.storage import leases

    store = Store(store_url)
    return (
        [f"  stage {stage}: computed by {holder}" for stage, holder in sorted(leases.live(store.files).items())]
        if store.exists()
        else []
    )
