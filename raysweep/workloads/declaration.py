"""What a workload declares about itself, importable without torch.

A workload is a function of a table: each row goes in as parameters and a seed, and comes out as metrics and a status.
The declaration tells the rest of raysweep everything else: which parameters exist, in which unit and range, which
metrics come out, what a row costs, and with which closed form it is compared.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from raysweep.errors import shown
from raysweep.workloads.chain import ANY, Chain, Cost, Stage, deferred, modules, modules_of, stage_of
from raysweep.workloads.function_description import DIRECTIONS, TAKEN, Description
from raysweep.workloads.parameters import SCALES, Former, Parameter, column

# beside what is defined here
__all__ = ["ANY", "SCALES", "Cost", "Former", "Parameter", "Stage", "column", "deferred", "modules_of", "stage_of"]

Array = np.ndarray
Columns = Mapping[str, Array]
"""A table as named columns of equal length: float64 and int64 arrays, and object arrays of str."""


class Status(StrEnum):
    """How the computation of a row ended."""

    OK = "ok"
    NOT_CONVERGED = "not_converged"  # its numbers are kept, but means and fits leave them out
    STOPPED = "stopped"  # early, by the space's early_stopping; its numbers are kept, but means and fits leave them out
    DIVERGED = "diverged"  # a number is not finite
    FAILED = "failed"  # an error was raised; its traceback is kept


OK, NOT_CONVERGED, STOPPED, DIVERGED, FAILED = STATUSES = tuple(Status)


@dataclass(frozen=True)
class Metric:
    """One number of a row.

    direction: maximize, minimize or none.
    stage: the stage that measures it; empty for the last stage.
    free_of: parameters of this stage or of the stages before on which it does not depend.
    positive, negative: what a value above or below 0 means, in two or three words ("transfer helps", "transfer hurts");
        figures write them where the metric has that sign. Empty if they mean nothing in particular.
    share: whether it is a share, from 0 to 1, so that no interval of its mean reaches further.
    error: the metric that is its standard error in one draw. Fits take it for the noise where each cell has one draw.
    label: what sentences and figures call it ("risk from scratch"); empty: its name. A name of one word, which may be a
        word of a sentence, has none.
    """

    name: str
    description: str
    unit: str = ""
    direction: str = "none"
    stage: str = ""
    free_of: tuple[str, ...] = ()
    positive: str = ""
    negative: str = ""
    label: str = ""
    share: bool = False
    error: str = ""


@dataclass(frozen=True)
class Exported:
    """A model as other programs read it.

    files: the content of each file but the weights and the model card, by name.
    weights: the tensors by name.
    note: a line of the model card.
    """

    files: Mapping[str, bytes]
    weights: Mapping[str, np.ndarray]
    note: str


@dataclass(frozen=True)
class Engines:
    """The engines of a workload: how exactly a row is solved. Results of two engines on the same draw can be compared.

    parameter: the parameter whose values are the engines.
    reference: the engine that the others are compared with if a space names none.
    start: the parameter for the size of the initialization, or empty. An engine that uses it differs by a constant from
        an engine that is the limit of a start at 0.
    from_zero: the engines that are this limit.
    """

    parameter: str
    reference: str
    start: str = ""
    from_zero: tuple[str, ...] = ()


SIGN_SPREAD = "_sign_spread"
"""Ending of the metric that says how far a metric is apart between the sign choices of a symmetric draw."""


@dataclass(frozen=True)
class Symmetry:
    """Signs of a draw that leave its distribution unchanged, over which rows with `symmetric: true` are averaged.

    signs: what changes sign, in words that follow "both signs of".
    metrics: the metrics that differ between the choices; each comes with its standard deviation over them,
        NAME_sign_spread.
    """

    signs: str
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class Workload:
    """The declaration of a workload. ValueError if its stages and parameters do not fit together.

    stages: the chain of stages, first to last (in any order here; `after` decides). A row's result may depend only on
        the row's own parameters and seed, and a stage only on the parameters of itself and of the stages before.
    compute: for a workload of one stage, instead of `stages`: "module:function", a function of a table,
        (columns, seeds) -> (metrics, status): a dict of float64 arrays and an array of status words, in row order.
    cost: with `compute`: columns -> Cost of computing these rows together. The rows have one seed and agree in
        `shared`.
    shared: rows of one seed with equal values of these parameters share costly work inside a call, and should be
        computed together. Empty: see `grouping`.
    sources: the modules whose source decides the numbers (its digest is recorded with every row); empty takes those in
        which the functions of its stages are.
    identify: (stage, values, row) -> what identifies the stage instead of these values, for example a digest of a
        text instead of its name. values: the parameters of the stage and of the stages before. row: all parameters.
    closed_form: columns -> {metric: array}, the theoretical value of each metric, or None.
    check: one cell's parameters -> (parameter, complaint) for errors that no single range can catch, or None.
    fetch: (one cell's parameters, a function that tells the user) -> None, or (parameter, why it could not): downloads
        the files that the cell names and that are missing. It is called for `raysweep run --download` alone.
    downloads: one cell's parameters -> {name: bytes} of what it needs and `fetch` would download. A dry run counts it,
        and a run without it is refused.
    data_parallel: how a gang of workers computes a pack. False: each worker takes a part of the rows. True: every
        worker gets all rows, with torch.distributed initialised, and all workers train one model together.
    caveat: one cell's parameters -> a sentence that says what its closed form does not describe, or None.
    heavy_tailed: (metric, columns) -> boolean array: the cells whose draws have no finite variance.
    engines: the parameter that says how exactly a row is solved, or None.
    symmetry: the signs over which a draw can be averaged, for a workload with the parameter `symmetric`, or None.
    exports: for each stage that leaves a model: (a row's parameters and seed, the stage, a function that reads what a
        stage left for the row) -> Exported.
    gpu_guess: why the gpu_seconds of its costs are only a guess, and within what factor. It is printed after the words
        "GPU time is a guess"; empty if they were measured.
    function: the description of the Python function that this workload is, or None.
    """

    name: str
    summary: str
    identity_version: int
    parameters: tuple[Parameter, ...]
    metrics: tuple[Metric, ...]
    compute: str = ""
    cost: Callable[[Columns], Cost] | None = None
    sources: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    shared: tuple[str, ...] = ()
    identify: Callable[[str, dict[str, Any], Mapping[str, Any]], dict[str, Any]] | None = None
    data_parallel: bool = False
    closed_form: Callable[[Columns], dict[str, np.ndarray]] | None = None
    check: Callable[[Mapping[str, Any]], tuple[str, str] | None] | None = None
    fetch: Callable[[Mapping[str, Any], Callable[[str], None]], tuple[str, str] | None] | None = None
    downloads: Callable[[Mapping[str, Any]], Mapping[str, float]] | None = None
    caveat: Callable[[Mapping[str, Any]], str | None] | None = None
    heavy_tailed: Callable[[str, Columns], np.ndarray] | None = None
    engines: Engines | None = None
    symmetry: Symmetry | None = None
    exports: Mapping[str, Callable[[Mapping[str, Any], str, Callable[[str], Any]], Exported]] = field(
        default_factory=dict
    )
    gpu_guess: str = ""
    function: Description | None = None
    by_name: dict[str, Parameter] = field(init=False, repr=False, compare=False)
    chain: Chain = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if bool(self.compute) == bool(self.stages):
            raise ValueError(f"{self.name}: expected either stages or compute")
        object.__setattr__(self, "sources", modules(self.name, self.sources))
        if self.function is None:  # the names of a function were looked at where it was described
            self._check_names()
        stages = self.stages or (Stage("compute", self.compute, together=ANY, cost=self.cost),)
        object.__setattr__(self, "by_name", {parameter.name: parameter for parameter in self.parameters})
        measured = {metric.name: metric.stage for metric in self.metrics}
        object.__setattr__(self, "chain", Chain.build(self.name, stages, self.parameters, measured))
        for stage in stages:
            if stage.version > self.identity_version:  # its rows would keep the numbers of the artifacts before
                raise ValueError(
                    f"{self.name}: stage {stage.name} has the version {stage.version}, above the workload's "
                    f"identity_version {self.identity_version}: raise both, so that rows are computed anew"
                )

    def _check_names(self) -> None:
        """ValueError if a parameter or metric has the name of another one or of a column, or an unknown direction."""
        parameters, metrics = ([each.name for each in some] for some in (self.parameters, self.metrics))
        for kind, names in (("parameter", parameters), ("metric", metrics)):
            for name in names:
                if name in TAKEN:
                    raise ValueError(f"{self.name}: {kind} {name} has the name of a column of the results: rename it")
                if names.count(name) > 1:
                    raise ValueError(f"{self.name}: two {kind}s are called {name}: rename one")
        for metric in self.metrics:
            if unknown := set(metric.free_of) - set(parameters):
                raise ValueError(f"{self.name}: metric {metric.name} is free of {min(unknown)}, which is no parameter")
            if metric.error and metric.error not in metrics:
                raise ValueError(f"{self.name}: metric {metric.name} has the error {metric.error}, which is no metric")
        if both := set(parameters) & set(metrics):
            raise ValueError(f"{self.name}: a parameter and a metric are called {min(both)}: rename one")
        for metric in self.metrics:
            if metric.direction not in (*DIRECTIONS, "none"):
                expected = f"expected {', '.join(DIRECTIONS)} or none, got {shown(metric.direction)}"
                raise ValueError(f"{self.name}: metric {metric.name}: {expected} as its direction")

    def stores(self, keep: Sequence[str] = ()) -> bool:
        """Whether artifacts of stages are kept in the store. keep: the stages that a space keeps in addition."""
        return bool(self.chain.kept(keep))

    @property
    def source_modules(self) -> tuple[str, ...]:
        """The modules whose source decides the numbers: `sources`, or those of the functions of the stages."""
        return self.sources or tuple(dict.fromkeys(stage.run.partition(":")[0] for stage in self.chain.stages))

    @property
    def measures_anything(self) -> bool:
        """Whether the names of its metrics are not known yet: of a function before its first row."""
        return self.function is not None and self.function.returned is None

    @property
    def has_costs(self) -> bool:
        """Whether the cost of a row is known or estimated; False for a function before its first row."""
        return self.function is None or self.function.seconds is not None

    @property
    def grouping(self) -> tuple[str, ...]:
        """Rows of one seed with equal values of these parameters share their costly part: `shared` if it is given;
        else the stages up to the last one that is always kept; else the first of several stages."""
        if self.shared:
            return self.shared
        if kept := self.chain.kept():
            return self.chain.dependencies[kept[-1]]
        return self.chain.dependencies[0] if len(self.chain) > 1 else ()

    def searched(self, kind: str) -> str | None:
        """The parameter along which a search of this kind refines if a space names no axis."""
        return next((p.name for p in self.parameters if p.searched_by == kind), None)

    def symbol(self, name: str) -> str:
        """The letter of a parameter; empty for a parameter without a letter and for any other column."""
        return self.by_name[name].symbol if name in self.by_name else ""

    def maximized(self, metric: str) -> bool:
        """Whether a larger value of a metric is better."""
        return any(each.name == metric and each.direction == "maximize" for each in self.metrics)

    def idle(self, metric: str) -> set[str]:
        """The parameters on which a metric does not depend: those of later stages, and those that it is free of. Empty
        for the name of anything else."""
        for names, dependencies in zip(self.chain.metrics, self.chain.dependencies, strict=True):
            if metric in names:
                free_of = next(each.free_of for each in self.metrics if each.name == metric)
                return (set(self.by_name) - set(dependencies)) | set(free_of)
        return set()

    def logarithmic(self, name: str) -> bool | None:
        """Whether an axis has a logarithmic scale; None if neither the space nor the declaration says."""
        scale = self.by_name[name].scale if name in self.by_name else ""
        return scale == "log" if scale else None

    def metric_names(self) -> list[str]:
        """All metric columns of a row; the closed forms (`_theory`) come last."""
        names = [metric.name for metric in self.metrics]
        if self.closed_form is not None:
            columns = {p.name: column(p, [p.default]) for p in self.parameters}
            names += [f"{name}_theory" for name in self.closed_form(columns)]
        return names
