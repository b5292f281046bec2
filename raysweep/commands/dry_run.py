"""What a run would do, before anything is computed or created."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import replace

from raysweep import sweep
from raysweep.driver import compatibility, driver, stage_tree, stored_stages
from raysweep.driver.driver import Options
from raysweep.driver.progress import duration
from raysweep.driver.state import State
from raysweep.errors import as_typed
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.packs import Pack, make_packs
from raysweep.plan.resources import Resources
from raysweep.space.schema import Space
from raysweep.stages.store import Store
from raysweep.storage.paths import AnyPath
from raysweep.tracking.grouping import default_runs_per

RAY_START = 15.0  # seconds an empty Ray job takes on two cores
MIRROR_SECONDS = 0.02  # a run in MLflow's SQLite database


def describe(
    space: Space, name: str | None, storage: str | AnyPath, options: Options, yes: bool, store: str | None = None
) -> list[str]:
    """Lines for the terminal: the question, cells, packs, draws, what is there already, stages, time and memory."""
    folder, record = sweep.place(space, name, storage)
    sweep.check_size(space, yes)
    cells = enumerate_cells(space)
    part = record is not None and compatibility.is_part(Space(**record.space), space, record.sweep)
    state = State(space, cells, folder, options.on_code_change)
    stored_stages.check_asked(store, state.workload, folder)
    work, tree = state.missing(), None
    if state.workload.stored and work.rows:
        kept = Store(store or stored_stages.address(folder, record))
        tree = stage_tree.build(state, work, kept, options.on_code_change == "recompute")
        work = replace(work, seconds=tree.seconds)
    executor = driver.choose_executor(options, work, cells)
    on_gpus = any(needs.gpus for needs in cells.needs)  # how many there will be, this machine cannot say
    workers = 1 if executor == "inline" else options.workers or (1 if on_gpus else driver.local_workers(cells))
    packing = driver.packing(driver.Place(executor, workers, True, workers))
    packs = make_packs(state.workload, cells, work.pending, packing)
    work = driver.as_packed(work, packs, state.workload)
    total = len(cells) * len(space.seeds)
    lines = [f"{space.name}: {space.workload}"]
    lines += [f"  {name:18} {_values(values)}" for name, values in space.axes.items()]
    lines += [
        f"  {len(cells):,} cell{_s(cells)} x {len(space.seeds):,} draw{_s(space.seeds)} = {total:,} rows"
        + (f", {len(state.rows):,} of them in the ledger already" if state.rows else "")
    ]
    if "grid" not in space.search:
        lines.append(f"  search {_search(space)}: chooses among these cells; this is its next round")
    if part:
        lines.append("  a part of the sweep that is there, which stays as it is")
        if "grid" not in space.search:
            return [*lines, "  nothing to compute"]
    lines += [f"  note: {note}" for note in state.notes]
    if not work.rows:
        return [*lines, "  nothing to compute"]
    if tree:
        if tree.older:
            lines.append(f"  note: {stored_stages.code_note(state.workload, len(tree.older), options.on_code_change)}")
        lines += [f"  {line}" for line in stage_tree.lines(tree)]
    seconds = driver.wall_seconds(packs, workers, work.seconds) + (RAY_START if executor == "ray" else 0)
    unit = "GPU" if on_gpus else "core"
    place = (
        "this process"
        if executor == "inline"
        else f"Ray Tune, {workers} trial{'s' if workers != 1 else ''} at a time (start-up included"
        + ("; --workers N says it for more)" if on_gpus and not options.workers else ")")
    )
    lines.append(
        f"  {work.rows:,} rows to compute in {len(packs):,} pack{_s(packs)} of up to "
        f"{max(map(len, packs)):,} row{_s(max(packs, key=len))}"
    )
    if cells.needs != [Resources()]:
        for needs, own in _by_needs(packs).items():
            lines.append(f"  {len(own):,} pack{_s(own)} on {needs.words()} each")
    runs = len(cells) if default_runs_per(cells) == "cell" else 0
    lines.append(f"  estimated {duration(seconds)} in {place}; {duration(work.seconds)} of one {unit}")
    if on_gpus and state.workload.gpu_guess:
        lines.append(f"  GPU time is a guess {state.workload.gpu_guess}")
    lines.append(
        f"  beside it: MLflow about {duration(4 + MIRROR_SECONDS * runs)} in the background, the report 5 to "
        "30 s (--tracking-uri none and --no-report leave them out)"
    )
    lines.append(
        f"  estimated memory {max(pack.peak_bytes for pack in packs) / 1e6:,.0f} MB a trial; "
        f"rows on disk about {work.rows * 700 / 1e6:,.1f} MB"
    )
    return lines


def _by_needs(packs: list[Pack]) -> dict[Resources, list[Pack]]:
    found: dict[Resources, list[Pack]] = {}
    for pack in packs:
        found.setdefault(pack.needs, []).append(pack)
    return found


def _s(things: Sized) -> str:
    return "" if len(things) == 1 else "s"


def _search(space: Space) -> str:
    kind, options = next(iter(space.search.items()))
    return f"{kind} ({', '.join(f'{key} {value}' for key, value in options.items())})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() and 1e4 <= abs(value) < 1e15 else f"{value:g}"


def _values(values: list[object]) -> str:
    shown = [_number(value) if isinstance(value, float) else as_typed(value) for value in values]
    if len(shown) <= 10:
        return ", ".join(shown)
    return f"{shown[0]}, {shown[1]} ... {shown[-1]} ({len(shown)} values)"
