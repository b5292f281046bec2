"""What a workload declares about itself, importable without torch.

A workload is a function of a table: each row goes in as parameters and a seed, and comes out as metrics and a status.
The declaration tells the rest of raysweep everything else: which parameters exist, in which unit and range, which
metrics come out, what a row costs, and with which closed form it is compared.
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
    """How the computation of a row ended."""

    OK = "ok"
    NOT_CONVERGED = "not_converged"  # its numbers are kept, but means and fits leave them out
    DIVERGED = "diverged"  # a number is not finite
    FAILED = "failed"  # an error was raised; its traceback is kept


OK, NOT_CONVERGED, DIVERGED, FAILED = STATUSES = tuple(Status)

SCALES = ("log", "linear")
"""How an axis of numbers can be drawn and fitted."""

_REQUIRED = object()


@dataclass(frozen=True)
class Parameter:
    """One parameter of a workload: its type, unit, range and default.

    minimum, maximum: inclusive, except that `open_minimum` excludes the minimum.
    infinite: whether `.inf` is accepted.
    pretraining: whether it belongs to the identity of the pretraining stage.
    absent: for a parameter that was added after the first release of its workload: rows with this value keep the
        identity that they had before the parameter existed.
    scale: how its axis is drawn and fitted (log or linear) if a space does not say; empty: decided by the spacing of
        the values.
    symbol: its letter in papers and figures.
    searched_by: the search (boundary, optimum) that refines along it if a space names no axis.
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
        """The value in the declared type, so that 1 and 1.0 are the same; ValueError says what was expected."""
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
        """What a value must be, in words, for errors and for `raysweep workloads NAME`."""
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
        """Whether its values are categories without a scale: words, or true and false."""
        return self.type in (str, bool)

    @property
    def late(self) -> bool:
        """Whether the parameter was added after the first release, and so has a value that means "absent"."""
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
    """What it costs to compute rows that share their costly part.

    seconds: on one core.
    peak_bytes: memory at the peak.
    gpu_seconds: on one GPU; None if the workload cannot use a GPU.
    """

    seconds: float
    peak_bytes: float
    gpu_seconds: float | None = None

    def seconds_with(self, gpus: float) -> float:
        """Seconds in a trial with so many GPUs; several GPUs count as one."""
        return self.seconds if not gpus or self.gpu_seconds is None else self.gpu_seconds


@dataclass(frozen=True)
class Stage:
    """A stage that a row needs from the stage store.

    id: its identity in the store.
    kind: its name (trunk, pretrain, …).
    cost: the cost of this stage alone, if its parents are there.
    """

    id: str
    kind: str
    cost: Cost


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


@dataclass(frozen=True)
class Workload:
    """The declaration of a workload.

    compute: "module:function", imported only inside a trial. The function takes (columns, seeds), with one entry
        per row, and returns (metrics, status): a dict of float64 arrays and an array of status words, in row order.
        A row's result may depend only on the row's own parameters and seed.
    cost: columns -> Cost of computing these rows together; the rows have one seed and agree in `shared`.
    shared: rows of one seed with equal values of these parameters share their costly part and should be computed
        together.
    sources: the modules whose source decides the numbers (its digest is recorded with every row).
    closed_form: columns -> {metric: array}, the theoretical value of each metric, or None.
    check: one cell's parameters -> (parameter, complaint) for errors that no single range can catch, or None.
    stored: whether its stages leave artifacts; compute then gets the stage store as its third argument.
    stages: "module:function" of such a workload: (parameters, seed) -> the stages that a row needs (list[Stage],
        parents first). The `cost` of a row includes all of them.
    data_parallel: how a gang of workers computes a pack. False: each worker takes a part of the rows. True: every
        worker gets all rows, with torch.distributed initialised, and all workers train one model together.
    caveat: one cell's parameters -> a sentence that says what its closed form does not describe, or None.
    heavy_tailed: (metric, columns) -> boolean array: the cells whose draws have no finite variance.
    engines: the parameter that says how exactly a row is solved, or None.
    gpu_guess: why the gpu_seconds of its costs are only a guess, and within what factor. It is printed after the words
        "GPU time is a guess"; empty if they were measured.
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
        """The stored stages of a row, parents first; an empty list if the workload stores nothing."""
        if not self.stored:
            return []
        module, _, function = self.stages.partition(":")
        found: list[Stage] = getattr(importlib.import_module(module), function)(parameters, seed)
        return found

    def searched(self, kind: str) -> str | None:
        """The parameter along which a search of this kind refines if a space names no axis."""
        return next((p.name for p in self.parameters if p.searched_by == kind), None)

    def symbol(self, name: str) -> str:
        """The letter of a parameter; empty for a parameter without a letter and for any other column."""
        return self.by_name[name].symbol if name in self.by_name else ""

    def maximized(self, metric: str) -> bool:
        """Whether a larger value of a metric is better."""
        return any(known.name == metric and known.direction == "maximize" for known in self.metrics)

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


def column(parameter: Parameter, values: list[Any]) -> np.ndarray:
    """Values of one parameter as an array of its declared type."""
    if parameter.type is int:
        return np.asarray(values, dtype=np.int64)
    if parameter.type is float:
        return np.asarray(values, dtype=np.float64)
    return np.asarray(values, dtype=object)
