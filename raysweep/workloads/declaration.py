"""What a workload says about itself, importable without torch.

A workload is a table function: one row in (parameters and a seed), one row out (metrics and a status). What it
declares here is all the rest of raysweep ever needs to know: which parameters exist, in what unit and range, which
metrics come out, what a row costs, and which closed form it is held against.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from raysweep.errors import shown

Columns = Mapping[str, np.ndarray]
"""A table as named columns of equal length: float64 and int64 arrays, and object arrays of str."""


class Status(StrEnum):
    """What became of a row."""

    OK = "ok"
    NOT_CONVERGED = "not_converged"  # its numbers are kept, out of means and fits
    DIVERGED = "diverged"  # a number is not finite
    FAILED = "failed"  # an error was raised; its traceback is kept


OK, NOT_CONVERGED, DIVERGED, FAILED = STATUSES = tuple(Status)

SCALES = ("log", "linear")
"""How an axis of numbers can be drawn and fitted."""

_REQUIRED = object()


@dataclass(frozen=True)
class Parameter:
    """One parameter of a workload: its type, unit, range and default.

    `minimum` and `maximum` are inclusive unless `open_minimum`. `.inf` is accepted only where `infinite` says so.
    `pretraining` marks what belongs to the identity of the pretraining stage. `absent` is for a parameter added
    after the first release of its workload: rows at that value keep the identity they had before it existed. `scale`
    is how its axis is drawn and fitted, log or linear, where a space does not say so; empty: as its values are spread.
    `symbol` is the letter that papers and figures have for it. `searched_by` is the search (boundary, optimum) that
    refines along it where a space names no axis.
    """

    name: str
    type: type
    default: Any
    description: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    open_minimum: bool = False
    infinite: bool = False
    whole: bool = False
    choices: tuple[str, ...] = ()
    pretraining: bool = False
    absent: Any = _REQUIRED
    scale: str = ""
    symbol: str = ""
    searched_by: str = ""

    def __post_init__(self) -> None:
        if self.scale and (self.categorical or self.scale not in SCALES):
            wanted = "no scale, its values being categories" if self.categorical else f"one of {', '.join(SCALES)}"
            raise ValueError(f"{self.name}.scale: expected {wanted}, got {self.scale!r}")

    def coerce(self, value: Any) -> Any:
        """The value in the declared type, so that 1 and 1.0 are one; ValueError says what was expected."""
        if self.categorical:
            if isinstance(value, self.type) and (not self.choices or value in self.choices):
                return value
        elif isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
            number = float(value)
            inside = not math.isnan(number) and (self.infinite or not math.isinf(number))
            if inside and self.minimum is not None:
                inside = number > self.minimum if self.open_minimum else number >= self.minimum
            if inside and self.maximum is not None:
                inside = number <= self.maximum
            if inside and (self.type is int or self.whole) and not math.isinf(number):
                inside = number.is_integer()
            if inside:
                return int(value) if self.type is int else number + 0.0  # + 0.0 makes -0.0 and 0.0 one
        raise ValueError(f"expected {self.expected()}, got {shown(value)}")

    def expected(self) -> str:
        """What a value must be, in words: for errors and for `raysweep workloads NAME`."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.type is bool:
            return "true or false"
        if self.type is str:
            return "text"
        words = "a whole number" if self.type is int or self.whole else "a number"
        if self.minimum is not None and self.maximum is not None and not self.open_minimum:
            words += f" from {self.minimum:g} to {self.maximum:g}"
        else:
            if self.minimum is not None:
                words += f" above {self.minimum:g}" if self.open_minimum else f" of at least {self.minimum:g}"
            if self.maximum is not None:
                words += f"{' and' if self.minimum is not None else ' of'} at most {self.maximum:g}"
        if self.infinite:
            words += ", or .inf"
        return words + (f" ({self.unit})" if self.unit else "")

    @property
    def categorical(self) -> bool:
        """Whether its values are categories, which have no scale: words, or true and false."""
        return self.type in (str, bool)

    @property
    def late(self) -> bool:
        """Whether the parameter was added after the first release (and so has a value that means absent)."""
        return self.absent is not _REQUIRED


@dataclass(frozen=True)
class Metric:
    """One number of a row. `direction` is maximize, minimize or none."""

    name: str
    description: str
    unit: str = ""
    direction: str = "none"


@dataclass(frozen=True)
class Cost:
    """What a set of rows that share their costly part takes: seconds on one core and peak bytes; gpu_seconds on one
    GPU, None where a GPU is of no use."""

    seconds: float
    peak_bytes: float
    gpu_seconds: float | None = None

    def seconds_with(self, gpus: float) -> float:
        """Seconds in a trial that has so many GPUs (of several only one is counted on)."""
        return self.seconds if not gpus or self.gpu_seconds is None else self.gpu_seconds


@dataclass(frozen=True)
class Stage:
    """A stage that a row needs out of the store. id: its identity there; kind: what it is called (trunk, pretrain …);
    cost: what it takes itself, its parents being there."""

    id: str
    kind: str
    cost: Cost


@dataclass(frozen=True)
class Engines:
    """A choice of how exactly a row is solved, so that results of two engines on the same draw can be compared.

    parameter: the parameter whose values are the engines.
    reference: the engine that others are compared with where a space names none.
    start: the parameter for the size of the initialization; engines that start there are a constant off one that is
        the limit of a start at 0. Empty: there is none.
    from_zero: the engines that are this limit.
    """

    parameter: str
    reference: str
    start: str = ""
    from_zero: tuple[str, ...] = ()


@dataclass(frozen=True)
class Workload:
    """The declaration of a workload.

    compute: "module:function", imported only inside a trial. The function takes (columns, seeds), with one entry
        per row, and returns (metrics, status): a dict of float64 arrays and an array of status words, in row order.
        A row's result may depend on its own parameters and seed only.
    cost: columns -> Cost of these rows together; they are of one seed and agree in `shared`.
    shared: rows of one seed with equal values here share their costly part and are best computed together.
    sources: the modules whose source decides the numbers (their digest is recorded with every row).
    closed_form: columns -> {metric: array}, the theory beside the metric, or None.
    check: one cell's parameters -> (parameter, complaint) for what no single range can say, or None.
    stored: whether its stages leave artifacts; compute is then given the stage store as a third argument.
    stages: "module:function", (parameters, seed) -> the stages a row needs (list[Stage], parents first), for such a
        workload; `cost` of a row counts all of them.
    data_parallel: how a gang of workers computes a pack. False: each takes a part of the rows. True: every worker is
        given all rows, with torch.distributed initialised, and trains one model with the others.
    caveat: one cell's parameters -> what the closed form beside it does not describe, in a sentence, or None.
    heavy_tailed: (metric, columns) -> boolean array: cells whose draws have no finite variance.
    engines: the parameter that says how exactly a row is solved, or None.
    gpu_guess: why the gpu_seconds of its costs are no more than a guess, and within what factor, to follow the words
        "GPU time is a guess"; empty where they were measured.
    """

    name: str
    summary: str
    identity_version: int
    parameters: tuple[Parameter, ...]
    metrics: tuple[Metric, ...]
    compute: str
    cost: Callable[[Columns], Cost]
    sources: tuple[str, ...]
    shared: tuple[str, ...] = ()
    stored: bool = False
    stages: str = ""
    data_parallel: bool = False
    closed_form: Callable[[Columns], dict[str, np.ndarray]] | None = None
    check: Callable[[Mapping[str, Any]], tuple[str, str] | None] | None = None
    caveat: Callable[[Mapping[str, Any]], str | None] | None = None
    heavy_tailed: Callable[[str, Columns], np.ndarray] | None = None
    engines: Engines | None = None
    gpu_guess: str = ""
    by_name: dict[str, Parameter] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {parameter.name: parameter for parameter in self.parameters})

    def stages_of(self, parameters: Mapping[str, Any], seed: int) -> list[Stage]:
        """The stored stages of a row, parents first; none where nothing is stored."""
        if not self.stored:
            return []
        module, _, function = self.stages.partition(":")
        found: list[Stage] = getattr(importlib.import_module(module), function)(parameters, seed)
        return found

    def searched(self, kind: str) -> str | None:
        """The parameter along which a search of this kind refines where a space names no axis."""
        return next((p.name for p in self.parameters if p.searched_by == kind), None)

    def symbol(self, name: str) -> str:
        """The letter of a parameter; empty where it has none, and for any other column."""
        return self.by_name[name].symbol if name in self.by_name else ""

    def maximized(self, metric: str) -> bool:
        """Whether more of a metric is better."""
        return any(known.name == metric and known.direction == "maximize" for known in self.metrics)

    def logarithmic(self, name: str) -> bool | None:
        """Whether an axis has a logarithmic scale; None where neither the space nor the declaration says."""
        scale = self.by_name[name].scale if name in self.by_name else ""
        return scale == "log" if scale else None

    def metric_names(self) -> list[str]:
        """Every metric column a row carries, the closed forms (`_theory`) last."""
        names = [metric.name for metric in self.metrics]
        if self.closed_form is not None:
            columns = {p.name: column(p, [p.default]) for p in self.parameters}
            names += [f"{name}_theory" for name in self.closed_form(columns)]
        return names


def column(parameter: Parameter, values: list[Any]) -> np.ndarray:
    """Values of one parameter as an array of its declared type."""
    if parameter.type is int:
        return np.asarray(values, dtype=np.int64)
    if parameter.type is float:
        return np.asarray(values, dtype=np.float64)
    return np.asarray(values, dtype=object)
