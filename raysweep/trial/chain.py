"""Takes rows through the stages of their workload: each distinct stage of these rows is computed once.

Rows that share a stage go on together from its artifact, and one artifact after the other is finished (depth first),
so that few are in memory. A kept stage comes from the store if it is there. Weights are read only when a stage that
must be computed asks for them.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from raysweep.errors import InputError, RaysweepError, summary
from raysweep.plan.identity import code_version
from raysweep.plan.row_stages import RowStage, RowStages, identities
from raysweep.stages import trees
from raysweep.stages.artifacts import Artifact, Stacked
from raysweep.storage import leases, processes
from raysweep.trial import short_memory
from raysweep.trial.context import Context
from raysweep.trial.early_stopping import Rule
from raysweep.trial.results import WORST, Checked, Computation, checked
from raysweep.workloads.declaration import ANY, FAILED, OK, STOPPED, Columns, Workload
from raysweep.workloads.rows import Rows

TRIES = 2
"""How often a kept stage is tried before what needs it fails."""
Errors = dict[str, list[str]]
"""By kept stage, the traceback of each time that it was tried alone and failed, though memory was not short."""


class FailedBefore(Exception):
    pass


@dataclass
class _Instance:
    """A distinct stage of some rows, the first of which stands for all, and what it starts from."""

    rows: np.ndarray
    parent: Artifact | None

    @property
    def row(self) -> int:
        return int(self.rows[0])


@dataclass
class Walk:
    """One walk of some rows through the chain.

    columns, seeds: one entry per row.
    store: the stage store (or a gang's view of it); None if nothing is kept.
    keep: the stages that the space keeps in addition.
    rule: how rows are stopped early; None if none is.
    errors: those of walks before, for the same rows or others. Those of this walk are added.
    only: the ids of the kept stages that are put into the store, and nothing else, where all stages before them are
        kept; None for all stages that the rows need.
    """

    workload: Workload
    columns: Columns
    seeds: np.ndarray
    store: Any
    keep: Sequence[str]
    rule: Rule | None = None
    errors: Errors = field(default_factory=dict)
    only: Collection[str] | None = None

    def __post_init__(self) -> None:
        self._chain, self._kept = self.workload.chain, set(self.workload.chain.kept(self.keep))
        self._stages = RowStages(self.workload, self.columns, self.keep)
        self._looked: dict[str, dict[str, Any] | None] = {}
        self.computation = Computation.empty([metric.name for metric in self.workload.metrics], len(self.seeds))

    def through(self) -> Computation:
        """What all rows come to. FailedBefore if a stage is needed that has failed TRIES times. InputError if a stage
        gives back something that does not fit its declaration."""
        self.descend(0, np.arange(len(self.seeds)), [None] * len(self.seeds))
        if self.workload.identify is not None and self.only is None:
            self.computation.identities = identities(self.workload, self.columns, enumerate(self.seeds.tolist()))
        return self.computation

    def descend(self, index: int, rows: np.ndarray, parents: Sequence[Artifact | None]) -> None:
        """Take rows through the stage at this place of the chain, each from its parent, and through all later ones."""
        if index == len(self._chain) or (self.only is not None and index not in self._kept):
            return
        followed = self._points if self._chain.stages[index].points is not None else self._whole
        waiting: list[tuple[np.ndarray, list[Artifact | None]]] = []
        for ready in followed(index, rows, parents):
            if self._chain.finishes(index):
                self.descend(index + 1, *ready)
            else:
                waiting.append(ready)
        if waiting:
            starts = [artifact for _, artifacts in waiting for artifact in artifacts]
            self.descend(index + 1, np.concatenate([some for some, _ in waiting]), starts)

    def _whole(
        self, index: int, rows: np.ndarray, parents: Sequence[Artifact | None]
    ) -> Iterator[tuple[np.ndarray, list[Artifact | None]]]:
        """Rows that have passed a stage of one piece, with what the stage left for each, call by call."""
        for call in self._calls(index, self._distinct(index, rows, parents)):
            kept = [self._row_stages(index, instance.row)[-1] for instance in call] if index in self._kept else []
            artifacts = self._passed(index, call, kept)
            following = np.concatenate([instance.rows for instance in call])
            yield following, [a for instance, a in zip(call, artifacts, strict=True) for _ in instance.rows]

    def _passed(
        self, index: int, call: Sequence[_Instance], kept: Sequence[RowStage], *span: float
    ) -> Sequence[Artifact]:
        """What a stage left for the rows of a call. kept: the stages, if the store keeps them. span: as in `_run`."""
        if kept:
            return self._from_store(kept, call)
        result, context = self._run(index, call, *span)
        self.computation.enter(context.stage, [instance.rows for instance in call], result, context.curve)
        together = self._chain.stages[index].together is not None and not span
        return [
            Artifact(  # its tensors stay where the function left them
                partial(result.entry, position) if together else lambda: result.tensors,
                {name: float(values[position]) for name, values in result.metrics.items()},
                str(result.status[position]),
                {},
                instance.parent,
                (result, position) if together else None,
            )
            for position, instance in enumerate(call)
        ]

    def _points(
        self, index: int, rows: np.ndarray, parents: Sequence[Artifact | None]
    ) -> Iterator[tuple[np.ndarray, list[Artifact | None]]]:
        """Rows that have come to their last point of a stage, with what it left there. Points in common are shared."""
        chains = {row: self._row_stages(index, row) for row in rows.tolist()}
        starts = dict(zip(rows.tolist(), parents, strict=True))
        open_: list[tuple[list[int], int]] = [(rows.tolist(), 0)]
        while open_:
            members, passed = open_.pop()
            if ended := [row for row in members if len(chains[row]) == passed]:
                yield np.asarray(ended), [starts[row] for row in ended]
            following: dict[str, list[int]] = {}
            for row in members:
                if len(chains[row]) > passed:
                    following.setdefault(chains[row][passed].id, []).append(row)
            for some in following.values():
                stage, here = chains[some[0]][passed], _Instance(np.asarray(some), starts[some[0]])
                kept, point = [stage] * (index in self._kept), stage.point or 0.0
                (artifact,) = self._passed(index, [here], kept, point, stage.before)
                starts |= dict.fromkeys(some, artifact)
                open_.append((some, passed + 1))

    def _distinct(self, index: int, rows: np.ndarray, parents: Sequence[Artifact | None]) -> list[_Instance]:
        """The distinct stages of these rows, in the order of their first rows."""
        if len(self._chain) == 1 and self._chain.stages[0].together == ANY and 0 not in self._kept:
            return [_Instance(rows[i : i + 1], parents[i]) for i in range(len(rows))]
        names, identified = self._chain.dependencies[index], self.workload.identify is not None
        groups: dict[Any, list[int]] = {}
        for position, row in enumerate(rows.tolist()):
            seed, points = int(self.seeds[row]), self._stages.points(row)[: index + 1]
            values = (self.columns[name][row] for name in names) if not identified else ()
            stages = [stage.id for stage in self._stages.of_row(row, seed, index)] if identified else ()
            groups.setdefault((seed, points, *values, *stages), []).append(position)
        return [_Instance(rows[members], parents[members[0]]) for members in groups.values()]

    def _calls(self, index: int, distinct: list[_Instance]) -> list[list[_Instance]]:
        """The distinct stages in groups, one for each call of the stage's function."""
        stage = self._chain.stages[index]
        if stage.together is None:
            return [[instance] for instance in distinct]
        names = [name for name in self._chain.dependencies[index] if name not in stage.together]
        by_call: dict[tuple[Any, ...], list[_Instance]] = {}
        for instance in distinct:
            # parents of one stage can be stacked; where they are not, the rows of a call have the same one
            start = self._start(index, instance) if self._chain.stacked(index) else id(instance.parent)
            seed = () if stage.together == ANY else (int(self.seeds[instance.row]),)
            values = () if stage.together == ANY else (self.columns[name][instance.row] for name in names)
            by_call.setdefault((start, *seed, *values), []).append(instance)
        groups = list(by_call.values())
        if not stage.size:
            return groups
        calls = []
        for group in groups:
            size = max(1, int(function_at(stage.size)(self._rows(index, group))))
            calls += [group[first : first + size] for first in range(0, len(group), size)]
        return calls

    def _start(self, index: int, instance: _Instance) -> int:
        """The place of the stage whose artifact a stage starts from: the one before, unless that has no points."""
        points, stages = self._stages.points(instance.row), self._chain.stages
        return next((i for i in range(index - 1, -1, -1) if stages[i].points is None or points[i]), -1)

    def _row_stages(self, index: int, row: int) -> list[RowStage]:
        """A stage of a row with its identity; one for each point."""
        stages = self._stages.of_row(row, int(self.seeds[row]), index)
        return [stage for stage in stages if stage.index == index]

    def _run(
        self,
        index: int,
        call: Sequence[_Instance],
        point: float | None = None,
        before: float = 0.0,
        progress: Any = None,
    ) -> tuple[Checked, Context]:
        """Call the function of a stage. Returns its result, and the context with what it logged."""
        stage = self._chain.stages[index]
        rows = self._rows(index, call)
        together = stage.together is not None
        context = Context(stage.name, len(call), point, before, progress, together, self.rule)
        parents = [instance.parent for instance in call if instance.parent is not None]
        parent = Stacked(parents) if parents and self._chain.stacked(index) else call[0].parent
        with processes.children_end():
            returned = function_at(stage.run)(rows, parent, context)
        result = checked(self.workload, index, returned, rows)
        context.curve.tell()
        for position in np.flatnonzero(context.stopped).tolist():
            result.status[position] = max(result.status[position], str(STOPPED), key=WORST.__getitem__)
        return result, context

    def _rows(self, index: int, call: Sequence[_Instance]) -> Rows:
        """The rows as the function of a stage sees them: only what it may depend on."""
        stage, first = self._chain.stages[index], [instance.row for instance in call]
        names = [name for name in self._chain.dependencies[index] if name != stage.until]
        return Rows({name: self.columns[name][first] for name in names}, self.seeds[first], stage.name)

    def _from_store(self, stages: Sequence[RowStage], call: Sequence[_Instance]) -> list[Artifact]:
        """The artifacts of kept stages of one call; those that are needed and not there are computed together."""
        unseen = [pair for pair in zip(stages, call, strict=True) if self._look(pair[0].id) is None]
        missing = [pair for pair in unseen if any(self._needed(pair[0], row) for row in pair[1].rows.tolist())]
        if missing:
            self._compute([stage for stage, _ in missing], [instance for _, instance in missing])
        artifacts = []
        for stage, instance in zip(stages, call, strict=True):
            meta = self._look(stage.id) or {}
            code = code_version(self.workload, self._chain.stages[stage.index])
            declared = self._chain.metrics[stage.index]
            self.computation.enter_stored(stage.stage, stage.id, instance.rows, meta, declared, code)
            metrics, status, curve = meta.get("metrics", {}), meta.get("status", OK), meta.get("curve", {})
            read = partial(self._tensors, stage, instance)
            artifacts.append(Artifact(read, metrics, status, curve, instance.parent))
        return artifacts

    def _look(self, stage: str) -> dict[str, Any] | None:
        """What the store has of a stage besides its tensors; None if the stage is not there."""
        if self._looked.get(stage) is None:
            record = self.store.look(stage)
            self._looked[stage] = record["meta"] if record is not None else None
        return self._looked[stage]

    def _needed(self, stage: RowStage, row: int) -> bool:
        """Whether a row needs a stage that is not in the store: for its metrics, or for a later stage."""
        if self.only is not None:
            return stage.id in self.only
        stages = self._stages.of_row(row, int(self.seeds[row]))
        for other in stages[stages.index(stage) :]:
            if other.kept and other is not stage and self._look(other.id) is not None:
                return False
            if other.kept and self._chain.metrics[other.index]:
                return True
        return True

    def _compute(self, stages: Sequence[RowStage], instances: Sequence[_Instance]) -> list[Any]:
        """The store's entries of kept stages; those that are not there are computed together and published."""
        by_id = {stage.id: (stage, instance) for stage, instance in zip(stages, instances, strict=True)}
        index, together = stages[0].index, self._chain.stages[stages[0].index].together is not None
        declared, code = self._chain.metrics[index], code_version(self.workload, self._chain.stages[index])

        def work(ids: list[str], progress: Any) -> list[tuple[dict[str, np.ndarray], dict[str, Any]]]:
            call = [by_id[stage][1] for stage in ids]
            try:
                result, context = self._run(index, call, by_id[ids[0]][0].point, by_id[ids[0]][0].before, progress)
                if FAILED in result.status:  # the store is for what can be used: who tries again would read it there
                    name = f"{self.workload.name}.{self._chain.stages[index].name}"
                    raise RuntimeError(f"{name} gave the status failed, and no error")
            except (RaysweepError, leases.Held, leases.Lost):  # not caused by the stage
                raise
            except Exception:
                error = traceback.format_exc()
                if len(ids) == 1 and not short_memory.is_short(error):  # with less at a time there may be enough
                    self.errors.setdefault(ids[0], []).append(error)
                raise
            computed = []
            for position in range(len(call)):
                arrays, described = trees.flatten(result.entry(position) if together else result.tensors)
                given = {name: float(values[position]) for name, values in result.metrics.items()}
                metrics = dict.fromkeys(declared, np.nan) | given  # all of today: what lacks one was there before it
                meta = {"tree": described, "metrics": metrics, "status": str(result.status[position])}
                computed.append((arrays, meta | {"curve": context.curve.of_row(position), "code_version": code}))
            return computed

        if any(len(self.errors.get(stage, ())) >= TRIES for stage in by_id):
            raise FailedBefore
        described = {stage.id: self._describe(stage, instance) for stage, instance in by_id.values()}
        entries: list[Any] = self.store.once_together(described, work)
        for entry in entries:
            self._looked[entry.stage] = entry.meta
        return entries

    def _tensors(self, stage: RowStage, instance: _Instance) -> Any:
        """The tensors of a kept stage; it is computed if it is missing or damaged."""
        entry = self.store.fetch(stage.id) or self._compute([stage], [instance])[0]
        return trees.unflatten(entry.tensors(), entry.meta["tree"])

    def _describe(self, stage: RowStage, instance: _Instance) -> dict[str, Any]:
        row = self._rows(stage.index, [instance]).row()
        described = {"workload": self.workload.name, "stage": stage.stage, "seed": row.pop("seed"), "parameters": row}
        return described if stage.point is None else {**described, "point": stage.point}


def function_at(path: str) -> Callable[..., Any]:
    """The function "module:function". InputError, as it would be an error of every row, if it cannot be imported."""
    module, _, name = path.partition(":")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except RaysweepError:
        raise
    except Exception as error:  # whatever a workload does while it is imported
        raise InputError(path, f"cannot be imported: {summary(error)}") from error
    return function
