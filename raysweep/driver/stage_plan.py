"""The stages that pending rows need: which of them the store has, and what the others cost.

For comparison it also says what the same rows would cost in a plain grid, which pretrains again for every row. Rows
that lack metrics which their workload has gained since get them without training again, if the store has the artifact
from which the stage that measures them starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from raysweep.phrases import counted, rows_are
from raysweep.plan.identity import code_version
from raysweep.plan.row_stages import RowStage, RowStages, lacking
from raysweep.query.changed_content import code_note
from raysweep.query.stage_store import records
from raysweep.query.state import PendingRows, State
from raysweep.stages import intermediate
from raysweep.stages.checkpoints import Record
from raysweep.stages.store import Store
from raysweep.workloads.asked_once import one_look
from raysweep.workloads.declaration import FAILED, OK, Workload

AGAIN = "computes them again"


@dataclass
class Kind:
    """The stages of one name below the same stages: how many there are, how many are to be computed and how many of
    these have an intermediate checkpoint, and the seconds of the new ones."""

    kept: bool
    distinct: int = 0
    new: int = 0
    begun: int = 0
    seconds: float = 0.0


@dataclass
class StagePlan:
    """The stages that pending rows need.

    on_gpu, guessed: whether the seconds are GPU seconds, and only a guess.
    needed: the ids of all stages that the rows need from the store.
    stored: the store's records of the stages that it has.
    older: the stored stages that other code computed.
    lacking: the stored stages without metrics that the workload has gained since, with the names of these.
    reused: the found stages that are not computed again.
    new: the needed stages that are to be computed. A stage is not among them if the store has what follows from it.
    kinds: maps the path of names from the first stage to the stages at its end.
    continued: whether some stage continues one of its own kind (a trunk), which rows then share.
    alone: seconds if every checkpoint were pretrained once, without a shared trunk.
    plain: seconds of a grid that pretrains for every row.
    """

    store: Store
    on_gpu: bool
    guessed: bool
    needed: set[str]
    stored: dict[str, Record]
    older: set[str]
    lacking: dict[str, list[str]]
    reused: set[str]
    new: set[str] = field(default_factory=set)
    kinds: dict[tuple[str, ...], Kind] = field(default_factory=dict)
    continued: bool = False
    alone: float = 0.0
    plain: float = 0.0

    @property
    def seconds(self) -> float:
        return sum(kind.seconds for kind in self.kinds.values())


@one_look()
def build(state: State, pending: PendingRows, store: Store, recompute: bool = False) -> StagePlan:
    """Plan the stages of these rows. Weights are not read. recompute: whether stages of other code count as new."""
    workload, cells = state.workload, state.cells
    stages = RowStages(workload, cells.columns, state.space.keep)
    rows = [(index, seed) for seed, indices in pending.indices.items() for index in indices.tolist()]
    needed = {stage.id for row in rows for stage in stages.of_row(*row) if stage.kept}
    stored = records(store, needed)
    older = of_other_code(workload, stored)
    for row in rows:  # what continues a stage of other code is of that code too
        older |= {stage.id for stage in stages.of_row(*row) if stage.parent in older and stage.id in stored}
    lacks_metrics = _lacking(workload, stored)
    there = stored.keys() - (older | lacks_metrics.keys() if recompute else set())
    on_gpu = any(needs.gpus for needs in cells.needs)
    plan = StagePlan(store, on_gpu, on_gpu and bool(workload.gpu_guess), needed, stored, older, lacks_metrics, there)
    begun = {name.split(".")[0] for name in store.files.names(intermediate.FOLDER) if name.endswith(".json")}
    # up to the last stage that is always kept (if there is none, that the space keeps) each stage is priced alone; the
    # rows that share it are priced together in the stages after it
    always = max(workload.chain.kept() or workload.chain.kept(state.space.keep), default=-1)
    leaves: dict[tuple[str, int], tuple[tuple[RowStage, ...], int, list[int]]] = {}
    seen: set[str] = set()
    for index, seed in rows:
        chain = stages.of_row(index, seed, always)
        gpus = cells.needs[cells.need[index]].gpus
        leaves.setdefault((chain[-1].id if chain else "", seed), (chain, seed, []))[2].append(index)
        to_last = stages.of_row(index, seed)
        missing = _missing(to_last, there) | {stage.id for stage in lacking(workload, to_last, there)}
        plan.new |= missing & needed
        for depth, stage in enumerate(chain):
            if stage.id in seen and stage.id not in missing:
                continue
            kind = plan.kinds.setdefault(_path(chain[: depth + 1]), Kind(stage.kept))
            plan.continued |= stage.point is not None
            if stage.id not in seen:
                seen.add(stage.id)
                kind.distinct += 1
            if stage.id in missing and f"{stage.id} new" not in seen:
                seen.add(f"{stage.id} new")
                kind.new, kind.begun = kind.new + 1, kind.begun + (stage.id in begun)
                kind.seconds += stage.cost.seconds_with(gpus)

    def later(path: tuple[str, ...], seed: int, members: list[int], gpus: int) -> float:
        """Add the stages after the last one that is always kept, for rows that are computed together. Returns the
        seconds of all of them, whether they are in the store or not. path: the stages up to that one."""
        total = 0.0
        for index in range(always + 1, len(workload.chain)):
            stage = workload.chain.stages[index]
            path = (*path, stage.name)
            kind = plan.kinds.setdefault(path, Kind(index in workload.chain.kept(stages.keep)))
            if stage.points is not None:
                parts = {part.id: (part, member) for member in members for part in stages.of_row(member, seed, index)}
                parts = {identity: pair for identity, pair in parts.items() if pair[0].index == index}
                kind.distinct += len(parts)
                for part, member in parts.values():
                    total += part.cost.seconds_with(gpus)
                    if part.id in _missing(stages.of_row(member, seed, max(index, stages.deepest)), there):
                        kind.new, kind.seconds = kind.new + 1, kind.seconds + part.cost.seconds_with(gpus)
                continue
            distinct = stages.distinct(members, index)
            kept = {one: [part.index for part in stages.of_row(one, seed) if part.id in there] for one in distinct}
            new = [member for member in distinct if index > max(kept[member], default=-1)]
            kind.distinct, kind.new = kind.distinct + len(distinct), kind.new + len(new)
            if stage.cost:
                total += stages.cost(stage, stages.at(distinct)).seconds_with(gpus)
                kind.seconds += stages.cost(stage, stages.at(new)).seconds_with(gpus) if new else 0.0
        return total

    together: dict[tuple[Any, ...], list[tuple[tuple[RowStage, ...], int, list[int]]]] = {}
    for number, leaf in enumerate(leaves.values()):
        # stages after the kept ones serve rows of several of these where the workload says what is shared
        group = tuple(cells.columns[name][leaf[2][0]] for name in workload.shared) if workload.shared else (number,)
        together.setdefault((leaf[1], cells.need[leaf[2][0]], *group), []).append(leaf)
    for group_of in together.values():
        chain, seed, first = group_of[0]
        gpus = cells.needs[cells.need[first[0]]].gpus
        shares = [sum(stage.cost.seconds_with(gpus) for stage in each) for each, _, _ in group_of]
        members = [member for _, _, some in group_of for member in some]
        rest = later(_path(chain), seed, members, gpus)
        plan.alone += sum(shares) + rest
        plan.plain += sum(len(some) * share for (_, _, some), share in zip(group_of, shares, strict=True)) + rest
    return plan


def _missing(chain: tuple[RowStage, ...], there: set[str]) -> set[str]:
    """The ids of the stages of a row that must be computed: those after the last one that the store has."""
    last = max((i for i, stage in enumerate(chain) if stage.id in there), default=-1)
    return {stage.id for stage in chain[last + 1 :]}


def of_other_code(workload: Workload, stored: Mapping[str, Record]) -> set[str]:
    """The published stages that were computed by a different version of their source."""
    current = {stage.name: code_version(workload, stage) for stage in workload.chain.stages}
    older = set()
    for stage, record in stored.items():
        now = current.get(record.get("describe", {}).get("stage", ""), code_version(workload))
        if record["meta"].get("code_version", now) != now:
            older.add(stage)
    return older


def _lacking(workload: Workload, stored: Mapping[str, Record]) -> dict[str, list[str]]:
    """The published stages without metrics that are declared for them now, with the names of these."""
    declared = dict(zip(workload.chain.names, workload.chain.metrics, strict=True))
    lacks = {}
    for stage, record in stored.items():
        names, meta = declared.get(record.get("describe", {}).get("stage", ""), ()), record["meta"]
        gone = [name for name in names if name not in meta.get("metrics", {})]
        if gone and meta.get("status") == OK:
            lacks[stage] = gone
    return lacks


def notes(plan: StagePlan, workload: Workload, on_code_change: str) -> list[str]:
    """What is done with stages in the store of other code, and with those that lack metrics which the workload has
    gained since. InputError if stages of other code are refused."""
    older, lacking = f"{len(plan.older):,} of the stages in the store", plan.lacking
    lines = [code_note(workload.name, older, on_code_change)] if plan.older else []
    if lacking:
        names = dict.fromkeys(name for missing in lacking.values() for name in missing)
        stages = f"{counted(len(lacking), 'stage')} in the store {'lacks' if len(lacking) == 1 else 'lack'}"
        then = f"their rows have no value of {'it' if len(names) == 1 else 'them'} (--on-code-change recompute {AGAIN})"
        then = "computing them again" if on_code_change == "recompute" else then
        lines.append(f"{stages} {', '.join(names)}, which {workload.name} has gained since: {then}")
    return lines


@one_look()
def renew(state: State, store: Store | None, on_code_change: str) -> str:
    """Have the rows of a sweep computed again that can get metrics which they lack; if rows are recomputed, all that
    lack one. store: None if no stage is kept. Returns a sentence for the user, or ""."""
    recompute = on_code_change == "recompute"
    if not recompute and (store is None or not store.exists()):
        return ""
    chain, stages = state.workload.chain, RowStages(state.workload, state.cells.columns, state.space.keep)
    stage_of = {name: index for index, names in enumerate(chain.metrics) for name in names}
    published = set(store.stages()) if store is not None and not recompute else set()
    done = state.done()
    rows: set[tuple[str, int]] = set()
    missing: set[str] = set()
    lacking = 0
    for (cell, seed), row in state.rows.items():
        lacks = stage_of.keys() - row["metrics"].keys()
        if row["status"] == FAILED or not lacks or (cell, seed) not in done:
            continue
        lacking, missing = lacking + 1, missing | lacks
        kept = [stage for stage in stages.of_row(state.position[cell], seed) if stage.id in published]
        if recompute or (kept and kept[-1].index == min(stage_of[name] for name in lacks) - 1):
            rows.add((cell, seed))
    state.replace(rows)
    if not lacking:
        return ""
    names = ", ".join(name for name in stage_of if name in missing)
    text = f"{rows_are(lacking)} there without {names}, which {state.workload.name} has gained since"
    if len(rows) == lacking:
        return f"{text}: {'computing them again' if recompute else 'measuring them from the kept artifacts'}"
    measured = f"measuring {len(rows):,} of them from kept artifacts; " if rows else ""
    rest = f"of the others no artifact is kept from which to measure them (--on-code-change recompute {AGAIN})"
    return f"{text}: {measured}{rest}"


def _path(chain: Iterable[RowStage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(stage.stage for stage in chain))
