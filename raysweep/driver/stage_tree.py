"""The stages that a run would go through: how many of each kind, which are new and which the store has, and what that
costs against a plain grid, which pretrains again for every row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from raysweep.driver.state import PendingRows, State
from raysweep.plan.identity import code_version
from raysweep.plan.stages import stored_stages
from raysweep.stages import progress
from raysweep.stages.checkpoints import Record
from raysweep.stages.store import Store
from raysweep.storage.sealed import Damaged
from raysweep.workloads.declaration import Stage, Workload
from raysweep.workloads.looks import one_look

FINETUNE = "finetune"


@dataclass
class Kind:
    """The stages of one kind below one kind of parent. distinct: how many; new: of them to be computed; begun: of those
    with an intermediate checkpoint; seconds: of the new ones; parents: of fine-tunings, checkpoints they start from."""

    distinct: int = 0
    new: int = 0
    begun: int = 0
    parents: int = 0
    seconds: float = 0.0


@dataclass
class Tree:
    """The stage tree of rows to be computed. store: where stages are shared; on_gpu: seconds are of a GPU; guessed: and
    no more than a guess; needed: the ids of its stored stages; found: what the store says of those it has; older: those
    of them that other code computed; reused: those that are not computed again; kinds: by the path of kinds that leads
    there; alone: seconds if every checkpoint were pretrained once, but from the start; plain: seconds of a grid that
    pretrains for every row."""

    store: Store
    on_gpu: bool
    guessed: bool
    needed: set[str]
    found: dict[str, Record]
    older: set[str]
    reused: set[str]
    kinds: dict[tuple[str, ...], Kind] = field(default_factory=dict)
    alone: float = 0.0
    plain: float = 0.0

    @property
    def seconds(self) -> float:
        """What the plan takes: new stages, and all fine-tunings."""
        return sum(kind.seconds for kind in self.kinds.values())


@one_look()
def build(state: State, work: PendingRows, store: Store, recompute: bool = False) -> Tree:
    """The tree of the rows that are missing; weights are not read. `recompute`: stages of other code count as new."""
    cells, of_row = state.cells, stored_stages(state.workload, state.cells)
    leaves: dict[str, tuple[list[Stage], list[int]]] = {}  # last stage -> the chain that ends in it, and its cells
    for seed, indices in work.pending.items():
        for index in indices.tolist():
            chain = of_row(index, seed)
            leaves.setdefault(chain[-1].id, (chain, []))[1].append(index)
    needed = {stage.id for chain, _ in leaves.values() for stage in chain}
    found = records(store, needed)
    older = of_other_code(state.workload, found)
    there = found.keys() - (older if recompute else set())
    on_gpu = any(needs.gpus for needs in cells.needs)
    tree = Tree(store, on_gpu, on_gpu and bool(state.workload.gpu_guess), needed, found, older, there)
    begun = {name.split(".")[0] for name in store.files.names(progress.FOLDER) if name.endswith(".json")}
    seen: set[str] = set()
    for chain, members in leaves.values():
        gpus = cells.needs[cells.need[members[0]]].gpus
        pretraining = [stage.cost.seconds_with(gpus) for stage in chain]
        for depth, (stage, seconds) in enumerate(zip(chain, pretraining, strict=True)):
            if stage.id in seen:
                continue
            seen.add(stage.id)
            kind = tree.kinds.setdefault(_path(chain[: depth + 1]), Kind())
            kind.distinct += 1
            if stage.id not in there:
                kind.new, kind.begun = kind.new + 1, kind.begun + (stage.id in begun)
                kind.seconds += seconds
        whole = state.workload.cost(cells.take(np.asarray(members))).seconds_with(gpus)
        own = max(0.0, whole - sum(pretraining))
        kind = tree.kinds.setdefault((*_path(chain), FINETUNE), Kind())
        kind.distinct, kind.new, kind.parents = kind.distinct + len(members), kind.new + len(members), kind.parents + 1
        kind.seconds += own
        tree.alone += sum(pretraining) + own
        tree.plain += len(members) * sum(pretraining) + own
    return tree


def records(store: Store, stages: Iterable[str]) -> dict[str, Record]:
    """What the store says of those that are published, their weights unread."""
    looked = ((stage, store.look(stage)) for stage in sorted(set(stages).intersection(store.stages())))
    return {stage: record for stage, record in looked if record is not None}


def of_other_code(workload: Workload, found: Mapping[str, Record]) -> set[str]:
    """Those of the published stages that were computed while the workload's source was another."""
    current = code_version(workload)
    return {stage for stage, record in found.items() if record["meta"].get("code_version", current) != current}


def _path(chain: list[Stage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(stage.kind for stage in chain))


def _users(store: Store, stages: set[str]) -> list[str]:
    try:
        users = store.users() if stages else {}
    except Damaged:  # `raysweep store` says so; here it only hides a name
        return []
    return sorted({sweep for stage in stages for sweep in users.get(stage, [])})


def lines(tree: Tree) -> list[str]:
    """The tree for the terminal, indented by kind, and what sharing saves."""
    unit = "GPU" if tree.on_gpu else "core"
    said = "is a guess, see below" if tree.guessed else "estimated"
    shown = [f"stages, kept in {tree.store.url} ({unit} time {said}):"]
    for path in sorted(tree.kinds):
        kind = tree.kinds[path]
        if kind.parents:
            text = f"{kind.distinct:,} row{_s(kind.distinct)} from {kind.parents:,} checkpoint{_s(kind.parents)}"
        else:
            text = f"{kind.distinct:,} distinct: {kind.new:,} new"
            text += f" ({kind.begun:,} of them from an intermediate checkpoint on)" if kind.begun else ""
            reused = kind.distinct - kind.new
            text += f", {reused:,} reused (in the store: same parameters, text and seed)" if reused else ""
        name = "  " * len(path) + path[-1]
        shown.append(f"{name:14} {text}, {spent(kind.seconds, unit)}")
    if sweeps := _users(tree.store, tree.reused):
        names = ", ".join(sweeps[:3]) + (f" and {len(sweeps) - 3:,} more" if len(sweeps) > 3 else "")
        shown.append(f"  what is reused is also of: {names}")
    shown.append(
        f"  together {spent(tree.seconds, unit)}; a plain grid, which pretrains again for every row, "
        f"{spent(tree.plain, unit)}: {tree.plain / max(tree.seconds, 1e-9):,.1f} times as much, "
        f"{spent(tree.plain - tree.seconds, unit)} saved"
    )
    if any(len(path) > 2 for path in tree.kinds):
        shown.append(f"  without the shared trunk, every checkpoint trained from the start: {spent(tree.alone, unit)}")
    return shown


def spent(seconds: float, unit: str) -> str:
    """Compute time for a reader: 1,234 GPU-hours, 2.5 core-minutes."""
    for name, size in (("hour", 3600.0), ("minute", 60.0), ("second", 1.0)):
        amount = seconds / size
        if amount >= 1 or name == "second":
            figure = f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}"
            return f"{figure} {unit}-{name}{'' if figure == '1' else 's'}"
    raise AssertionError("seconds are always left")


def _s(count: int) -> str:
    return "" if count == 1 else "s"
