"""The stages that pending rows need: which of them the store has, and what the others cost.

For comparison it also says what the same rows would cost in a plain grid, which pretrains again for every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from raysweep.driver.state import PendingRows, State
from raysweep.plan.identity import code_version
from raysweep.plan.stages import stored_stages
from raysweep.stages import intermediate
from raysweep.stages.checkpoints import Record
from raysweep.stages.store import Store
from raysweep.workloads.asked_once import one_look
from raysweep.workloads.declaration import Stage, Workload

FINETUNE = "finetune"


@dataclass
class Kind:
    """The stages of one kind below one kind of parent.

    distinct: how many different stages there are.
    new: how many of them are to be computed.
    begun: how many of the new ones have an intermediate checkpoint.
    parents: for fine-tunings, the number of checkpoints that they start from.
    seconds: the estimated seconds of the new ones.
    """

    distinct: int = 0
    new: int = 0
    begun: int = 0
    parents: int = 0
    seconds: float = 0.0


@dataclass
class StagePlan:
    """The stages that pending rows need.

    store: where the stages are shared.
    on_gpu: whether the seconds are GPU seconds.
    guessed: whether the seconds are only a guess.
    needed: the ids of all stages that the rows need from the store.
    found: the store's records of the stages that it has.
    older: the found stages that other code computed.
    reused: the found stages that are not computed again.
    kinds: maps the path of kinds from the first stage to the stages at its end.
    alone: seconds if every checkpoint were pretrained once, without a shared trunk.
    plain: seconds of a grid that pretrains for every row.
    """

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
        """Estimated seconds of the plan: new stages and all fine-tunings."""
        return sum(kind.seconds for kind in self.kinds.values())


@one_look()
def build(state: State, pending: PendingRows, store: Store, recompute: bool = False) -> StagePlan:
    """Plan the stages of these rows. Weights are not read. recompute: whether stages of other code count as new."""
    cells, of_row = state.cells, stored_stages(state.workload, state.cells)
    leaves: dict[str, tuple[list[Stage], list[int]]] = {}  # last stage -> the chain that ends in it, and its cells
    for seed, indices in pending.indices.items():
        for index in indices.tolist():
            chain = of_row(index, seed)
            leaves.setdefault(chain[-1].id, (chain, []))[1].append(index)
    needed = {stage.id for chain, _ in leaves.values() for stage in chain}
    found = records(store, needed)
    older = of_other_code(state.workload, found)
    there = found.keys() - (older if recompute else set())
    on_gpu = any(needs.gpus for needs in cells.needs)
    plan = StagePlan(store, on_gpu, on_gpu and bool(state.workload.gpu_guess), needed, found, older, there)
    begun = {name.split(".")[0] for name in store.files.names(intermediate.FOLDER) if name.endswith(".json")}
    seen: set[str] = set()
    for chain, members in leaves.values():
        gpus = cells.needs[cells.need[members[0]]].gpus
        pretraining = [stage.cost.seconds_with(gpus) for stage in chain]
        for depth, (stage, seconds) in enumerate(zip(chain, pretraining, strict=True)):
            if stage.id in seen:
                continue
            seen.add(stage.id)
            kind = plan.kinds.setdefault(_path(chain[: depth + 1]), Kind())
            kind.distinct += 1
            if stage.id not in there:
                kind.new, kind.begun = kind.new + 1, kind.begun + (stage.id in begun)
                kind.seconds += seconds
        whole = state.workload.cost(cells.take(np.asarray(members))).seconds_with(gpus)
        own = max(0.0, whole - sum(pretraining))
        kind = plan.kinds.setdefault((*_path(chain), FINETUNE), Kind())
        kind.distinct, kind.new, kind.parents = kind.distinct + len(members), kind.new + len(members), kind.parents + 1
        kind.seconds += own
        plan.alone += sum(pretraining) + own
        plan.plain += len(members) * sum(pretraining) + own
    return plan


def records(store: Store, stages: Iterable[str]) -> dict[str, Record]:
    """The store's records of those stages that are published. Weights are not read."""
    looked = ((stage, store.look(stage)) for stage in sorted(set(stages).intersection(store.stages())))
    return {stage: record for stage, record in looked if record is not None}


def of_other_code(workload: Workload, found: Mapping[str, Record]) -> set[str]:
    """The published stages that were computed by a different version of the workload's source."""
    current = code_version(workload)
    return {stage for stage, record in found.items() if record["meta"].get("code_version", current) != current}


def _path(chain: list[Stage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(stage.kind for stage in chain))
