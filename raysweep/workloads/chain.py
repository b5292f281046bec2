"""The chain of stages of a workload, and what follows from it: which parameters and metrics belong to which stage."""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raysweep.workloads.parameters import Parameter


@dataclass(frozen=True)
class Cost:
    """What it costs to compute rows that share their costly part: seconds on one core, and memory at the peak.

    gpu_seconds: on one GPU; None if the workload cannot use a GPU.
    """

    seconds: float
    peak_bytes: float
    gpu_seconds: float | None = None

    def __add__(self, other: Cost) -> Cost:
        gpu = None if self.gpu_seconds is None or other.gpu_seconds is None else self.gpu_seconds + other.gpu_seconds
        return Cost(self.seconds + other.seconds, max(self.peak_bytes, other.peak_bytes), gpu)

    def seconds_with(self, gpus: float) -> float:
        """Seconds in a trial with this number of GPUs; several GPUs count as one."""
        return self.seconds if not gpus or self.gpu_seconds is None else self.gpu_seconds


NOTHING = Cost(0.0, 0.0, 0.0)  # the cost of no work
ANY = ("*",)  # for `Stage.together`: any rows, of any seed and with any parents


@dataclass(frozen=True)
class Stage:
    """One stage of the chain through which a workload takes a row: pretrain, finetune, evaluate.

    name: its name.
    run: "module:function", imported only where rows are computed: (rows, parent, context) -> Result.
    after: the name of the stage before; empty for the first stage.
    keeps: whether its artifact is always kept in the stage store, where it is computed once for everybody who shares
        the store. The artifact of any other stage is kept if a space says so (`keep: [NAME]`).
    together: how many rows one call gets. None: one row. Names of parameters: rows of one seed that differ only in
        these. ANY: all rows of a pack (or of the call before, if the stage before takes any rows too). If rows of one
        call can have different parents, the parents are stacked: each tensor of `parent` then has one entry per row.
    points: a row's parameters -> the points at which the stage stops and leaves an artifact, in order. Each point
        continues the one before (steps of a trunk, epochs), so rows share all points that they have in common. A row
        without points has no artifact of this stage. None: the stage is one piece.
    until: the parameter that says how far the stage goes (the last point); no other point depends on it.
    cost: the columns of the rows of one call -> its Cost. Of a stage with points: (columns, before, point) -> the Cost
        of one row from one point (0 at first) to the next. None: nothing is known in advance.
    size: "module:function": rows -> how many of them one call should get; empty for all.
    version: the identity_version of the workload at which its artifacts last changed; 0 takes the present one.
    sources: the modules whose source decides its artifacts; empty takes the workload's.
    """

    name: str
    run: str
    after: str = ""
    keeps: bool = False
    together: tuple[str, ...] | None = None
    points: Callable[[Mapping[str, Any]], Sequence[float]] | None = None
    until: str = ""
    cost: Callable[..., Cost] | None = None
    size: str = ""
    version: int = 0
    sources: tuple[str, ...] = ()


def deferred(name: str) -> Callable[..., Any]:
    """The function "module:function", whose module is imported when it is first called: declarations stay light."""
    module, _, function = name.partition(":")

    def call(*arguments: Any) -> Any:
        return getattr(importlib.import_module(module), function)(*arguments)

    return call


def stage_of(package: str, name: str, after: str = "", **options: Any) -> Stage:
    """A stage whose function and cost have its name, in the modules `stages` and `costs` of a package."""
    return Stage(name, f"{package}.stages:{name}", after, cost=deferred(f"{package}.costs:{name}"), **options)


def modules_of(**rooms: str) -> tuple[str, ...]:
    """Modules of raysweep by their rooms, for `sources`: theory="arrays linear" is raysweep.theory.arrays, …linear."""
    return tuple(f"raysweep.{room}.{name}" for room, names in rooms.items() for name in names.split())


@dataclass(frozen=True)
class Chain:
    """The stages of a workload, first to last, with the parameters and metrics of each.

    parameters: for each stage the parameters whose first stage it is.
    metrics: for each stage the metrics that it measures.
    """

    stages: tuple[Stage, ...]
    parameters: tuple[tuple[str, ...], ...]
    metrics: tuple[tuple[str, ...], ...]

    @classmethod
    def build(
        cls, workload: str, stages: Sequence[Stage], parameters: Sequence[Parameter], metrics: Mapping[str, str]
    ) -> Chain:
        """The chain of these stages. metrics: the stage of each, by name; empty for the last one.

        ValueError, which names the stage, parameter or metric that does not fit."""
        ordered = _ordered(workload, stages)
        names = [stage.name for stage in ordered]

        def place(what: str, name: str, stage: str, default: str) -> int:
            if not stage and len(names) > 1 and not default:
                raise ValueError(f"{workload}: {what} {name} belongs to no stage; expected one of {', '.join(names)}")
            if (stage or default or names[0]) not in names:
                raise ValueError(f"{workload}: {what} {name} belongs to stage {stage!r}, expected {', '.join(names)}")
            return names.index(stage or default or names[0])

        owners = {p.name: place("parameter", p.name, p.stage, "") for p in parameters}
        measured = {name: place("metric", name, stage, names[-1]) for name, stage in metrics.items()}
        for stage in ordered:
            _check(workload, stage)
            unknown = {*(stage.together or ()), stage.until} - {*owners, "*", ""}
            if unknown:
                raise ValueError(f"{workload}: stage {stage.name} names {min(unknown)}, which is no parameter")
            if stage.until and stage.points is None:
                raise ValueError(f"{workload}: stage {stage.name} has until = {stage.until!r} and no points")
        by_stage = (
            tuple(tuple(name for name, at in places.items() if at == index) for index in range(len(names)))
            for places in (owners, measured)
        )
        return cls(tuple(ordered), *by_stage)

    def __len__(self) -> int:
        return len(self.stages)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(stage.name for stage in self.stages)

    @functools.cached_property
    def dependencies(self) -> tuple[tuple[str, ...], ...]:
        """For each stage the parameters on which it may depend: its own, and those of the stages before."""
        return tuple(itertools.accumulate(self.parameters))

    def kept(self, keep: Sequence[str] = ()) -> list[int]:
        """The stages whose artifacts are kept in the store: those that always are, and those that a space keeps."""
        return [i for i, stage in enumerate(self.stages) if stage.keeps or stage.name in keep]

    def finishes(self, index: int) -> bool:
        """Whether the rows of each call of this stage can go through all later stages before the next call begins.
        Not if a later stage takes rows of several calls together."""
        together, dependencies = self.stages[index].together, set(self.dependencies[index])
        return together == ANY or all(
            later.together != ANY and dependencies.intersection(later.together or ()) <= set(together or ())
            for later in self.stages[index + 1 :]
        )

    def stacked(self, index: int) -> bool:
        """Whether the rows of one call of this stage can have different parents, which are then stacked."""
        together = self.stages[index].together
        if index == 0 or together is None:
            return False
        return together == ANY or bool(set(together) & set(self.dependencies[index - 1]))


def modules(path: str, sources: Any) -> tuple[str, ...]:
    """The modules of `sources`, which may be any sequence of words. ValueError, which begins with the path, else."""
    if isinstance(sources, Sequence) and not isinstance(sources, str) and all(isinstance(m, str) for m in sources):
        return tuple(sources)
    raise ValueError(f'{path}: expected sources as modules, such as ("my_package.net",), got {sources!r}')


def _check(workload: str, stage: Stage) -> None:
    """ValueError if a field of a stage has a form that would be misread later."""
    modules(f"{workload}: stage {stage.name}", stage.sources)
    module, colon, function = stage.run.partition(":")
    if not (module and colon and function.isidentifier()):
        raise ValueError(f'{workload}: stage {stage.name}: expected run as "module:function", got {stage.run!r}')
    if not isinstance(stage.together or (), tuple):
        raise ValueError(
            f"{workload}: stage {stage.name}: expected together as a tuple of parameters, such as "
            f'("finetune_lr",), as ANY or as None, got {stage.together!r}'
        )
    if stage.points is not None and stage.together is not None:
        raise ValueError(f"{workload}: stage {stage.name} has points, and so gets one row a call: leave together out")


def _ordered(workload: str, stages: Sequence[Stage]) -> list[Stage]:
    """The stages, first to last. ValueError if they are not one chain."""
    names = [stage.name for stage in stages]
    for name in names:
        if not name.isidentifier() or names.count(name) > 1:
            raise ValueError(f"{workload}: expected stages with different plain names, got {', '.join(names)}")
    for stage in stages:
        if stage.after and stage.after not in names:
            raise ValueError(f"{workload}: stage {stage.name} comes after {stage.after}, which is no stage")
    following = {stage.after: stage for stage in stages}
    ordered: list[Stage] = []
    while (after := ordered[-1].name if ordered else "") in following and len(ordered) < len(stages):
        ordered.append(following[after])
    if len(ordered) < len(stages):
        circle = not any(not stage.after for stage in stages) or len(following) == len(stages)
        raise ValueError(
            f"{workload}: expected stages in one chain, each after another one"
            + (", got a circle: " if circle else ", got two after the same one: ")
            + ", ".join(f"{stage.name} after {stage.after or 'nothing'}" for stage in stages)
        )
    return ordered
