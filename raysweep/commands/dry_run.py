"""`raysweep run --dry-run`: say what a run would do. Nothing is computed or created."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from raysweep.driver import compatibility, first_rows, outlook, placement, shared_stages, stage_plan
from raysweep.driver.options import Options
from raysweep.driver.progress import duration
from raysweep.driver.stage_plan import StagePlan
from raysweep.driver.start_and_resume import find_place
from raysweep.errors import InputError, as_typed
from raysweep.phrases import counted
from raysweep.plan.cells import enumerate_cells, to_download
from raysweep.plan.packs import make_packs
from raysweep.query import stage_store
from raysweep.query.state import PendingRows, State
from raysweep.space.resources import Resources
from raysweep.space.schema import Space
from raysweep.stages import references
from raysweep.stages.store import Store
from raysweep.storage.sealed import Damaged
from raysweep.tracking.session import default_runs_per

RAY_START = 15.0  # seconds that an empty Ray job takes on two cores
MIRROR_SECONDS = 0.02  # seconds to write one run to MLflow's SQLite database


def describe(space: Space, options: Options) -> list[str]:
    """Lines for the terminal: the question, cells, draws, rows in the ledger, stages, packs, time and memory."""
    if options.download:
        raise InputError("--download", "a dry run creates nothing; leave out one of the two")
    folder, record = find_place(space, options)
    cells = enumerate_cells(space)
    if record:
        space = first_rows.carried(space, record)
    is_part = record is not None and compatibility.is_part(Space(**record.space), space, record.sweep)
    state = State(space, cells, folder, options.on_code_change)
    shared_stages.check_asked(options.store, state.workload, space.keep, folder)
    draws, rows = counted(len(space.seeds), "draw"), counted(cells.most * len(space.seeds), "row")
    size = f", up to {draws} of each" if space.precision else f" x {draws} = {rows}"
    there_already = f", {len(state.rows):,} of them in the ledger already" if state.rows else ""
    lines = [
        f"{space.name}: {space.workload}",
        *(f"  {name:18} {_values(values, space.ranges.get(name, ''))}" for name, values in space.axes.items()),
        f"  {counted(cells.most, 'cell')}{size}{there_already}",
    ]
    if "grid" not in space.search:
        chooses = "asks for these cells" if space.ranges else "chooses among these cells"
        ((kind, given),) = space.search.items()
        search = f"{kind} ({', '.join(f'{key} {value}' for key, value in given.items())})"
        lines.append(f"  search {search}: {chooses}; this is its next round")
    if space.precision:
        lines.append("  a precision chooses among them; this is its next round")
    if is_part:
        lines.append("  a part of the sweep that is there, which stays as it is")
        if "grid" not in space.search or space.precision:
            return [*lines, "  nothing to compute"]
    if downloads := to_download(space):
        lines.append(f"  to download first (--download): {downloads}")
    lines += [f"  note: {note}" for note in state.notes]
    store = Store(options.store or stage_store.address(folder, record)) if state.stored else None
    note = stage_plan.renew(state, store, options.on_code_change)
    lines += [f"  note: {note}"] * bool(note)
    pending = state.missing()
    if not pending.rows:
        return [*lines, "  nothing to compute"]
    there: set[str] = set()
    if store:
        plan = stage_plan.build(state, pending, store, options.on_code_change == "recompute")
        lines += [f"  note: {note}" for note in stage_plan.notes(plan, state.workload, options.on_code_change)]
        lines += [f"  {line}" for line in stage_lines(plan, stage_store.user(record) if record else "")]
        pending, there = replace(pending, seconds=plan.seconds), plan.reused
    if space.precision:
        lines.append(f"  {outlook.before_line(state, pending)}")
    return [*lines, *(f"  {line}" for line in _effort(state, pending, options, there))]


def _effort(state: State, pending: PendingRows, options: Options, there: Collection[str]) -> list[str]:
    """Lines about what these rows need: packs, time, memory and disk. there: the stages that the store has."""
    cells, workload = state.cells, state.workload
    on_disk = f"rows on disk about {pending.rows * 700 / 1e6:,.1f} MB"
    if not workload.has_costs:
        way = "are computed in this process" if first_rows.can_measure(cells) else "tell it"
        way += ", and what they take decides packs and where the others are computed"
        rows = f"{counted(pending.rows, 'row')} to compute"
        return [f"{rows}; what a row costs is not known yet: the first ones {way}", on_disk]
    likely = outlook.outlook(state, pending).likely.seconds if state.space.precision else pending.seconds
    executor = placement.choose_executor(options, max(likely, pending.seconds), cells)
    on_gpus = any(needs.gpus for needs in cells.needs)  # this machine cannot know how many GPUs there will be
    trials = 1 if on_gpus else max(1, *((os.cpu_count() or 1) // needs.cpus for needs in cells.needs))
    trials = 1 if executor == "inline" else options.workers or trials
    packing = placement.Placement(executor, trials, True, beside=trials).packing()
    packs = make_packs(workload, cells, pending.indices, packing, state.space.keep, there)
    seconds = placement.total_seconds(packs, pending, state.stored)
    largest = counted(max(map(len, packs)), "row")
    lines = [f"{counted(pending.rows, 'row')} to compute in {placement.in_words(packs, f' of up to {largest}')}"]
    if not any(stage.cost for stage in workload.chain.stages):
        lines.append(f"{workload.name} does not say what a row costs: no time is estimated, and all rows are one pack")
    if cells.needs != [Resources()]:
        counts = Counter(pack.needs for pack in packs)
        for needs, count in sorted(counts.items(), key=lambda item: (item[0].gpus, item[0].gang, item[0].threads)):
            lines.append(f"{counted(count, 'pack')} on {needs.words()} each")
    where = "this process"
    if executor == "ray":
        more = "; --workers N says it for more" if on_gpus and not options.workers else ""
        where = f"Ray Tune, {counted(trials, 'trial')} at a time (start-up included{more})"
    wall = placement.wall_seconds(packs, trials, seconds, executor == "ray") + (RAY_START if executor == "ray" else 0)
    lines.append(f"estimated {duration(wall)} in {where}; {duration(seconds)} of one {'GPU' if on_gpus else 'core'}")
    if executor == "ray" and any(pack.needs.gang > 1 for pack in packs):
        lines.append("a trial of k workers is taken to be k times as fast; what they tell each other is not counted")
    if on_gpus and workload.gpu_guess:
        lines.append(f"GPU time is a guess {workload.gpu_guess}")
    mirror = duration(4 + MIRROR_SECONDS * (cells.most if default_runs_per(cells) == "cell" else 0))
    leave_out = "--tracking-uri none and --no-report leave them out"
    lines.append(f"as well: MLflow about {mirror} in the background, the report 5 to 30 s ({leave_out})")
    memory = f"estimated memory {max(pack.peak_bytes for pack in packs) / 1e6:,.0f} MB a trial"
    return [*lines, f"{memory}; {on_disk}"]


def stage_lines(plan: StagePlan, user: str = "") -> list[str]:
    """The stages, indented by kind, and what sharing them saves. user: what the sweep itself refers to stages by."""
    unit = "GPU" if plan.on_gpu else "core"
    certainty = "is a guess, see below" if plan.guessed else "estimated"
    shown = [f"stages, kept in {plan.store.url} ({unit} time {certainty}):"]
    for path in sorted(plan.kinds):
        kind = plan.kinds[path]
        text = f"{kind.distinct:,} distinct: {kind.new:,} new"
        text += f" ({kind.begun:,} of them from an intermediate checkpoint on)" if kind.begun else ""
        reused = kind.distinct - kind.new
        text += f", {reused:,} reused (in the store: same parameters, data and seed)" if reused else ""
        text += "" if kind.kept else ", not kept"
        name = "  " * len(path) + path[-1]
        shown.append(f"{name:{2 * len(max(plan.kinds, key=len)) + 9}} {text}, {spent(kind.seconds, unit)}")
    users: dict[str, list[str]] = {}
    with contextlib.suppress(Damaged):  # `raysweep store` reports it; here only names are missing
        users = references.users(plan.store) if plan.reused else {}
    if sweeps := sorted({sweep for stage in plan.reused for sweep in users.get(stage, ()) if sweep != user}):
        names = ", ".join(sweeps[:3]) + (f" and {len(sweeps) - 3:,} more" if len(sweeps) > 3 else "")
        shown.append(f"  what is reused is also of: {names}")
    again = f"  together {spent(plan.seconds, unit)}; a plain grid, which pretrains again for every row, "
    times = f"{plan.plain / plan.seconds:,.1f} times as much, " if plan.seconds > 1e-3 * plan.plain else ""
    saved = f"{times}{spent(plan.plain - plan.seconds, unit)} saved"
    shown.append(f"{again}{spent(plan.plain, unit)}: {saved if plan.plain > 1.001 * plan.seconds else 'the same'}")
    if plan.continued:
        shown.append(f"  without the shared trunk, every checkpoint trained from the start: {spent(plan.alone, unit)}")
    return shown


def spent(seconds: float, unit: str) -> str:
    """Compute time as text: 1,234 GPU-hours, 2.5 core-minutes."""
    name, size = "second", 1.0
    if seconds >= 60:
        name, size = ("hour", 3600.0) if seconds >= 3600 else ("minute", 60.0)
    amount = seconds / size
    figure = f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}"
    return f"{figure} {unit}-{name}{'' if figure == '1' else 's'}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() and 1e4 <= abs(value) < 1e15 else f"{value:g}"


def _values(values: list[object], range_scale: str) -> str:
    """The values of an axis in short form. range_scale: log or linear for a range; empty for listed values."""
    shown = [_number(value) if isinstance(value, float) else as_typed(value) for value in values]
    if range_scale:
        return f"{shown[0]} to {shown[1]}{', in log' if range_scale == 'log' else ''}"
    if len(shown) <= 10:
        return ", ".join(shown)
    return f"{shown[0]}, {shown[1]} ... {shown[-1]} ({len(shown)} values)"
