"""One kind of analysis, and what it is asked: options, the rows of the sweeps, and the design they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from raysweep.analyses.design import NOTHING_DECLARED, Design
from raysweep.analyses.finding import COLUMNS, NOTHING, Finding, Nothing, as_table
from raysweep.analyses.rows import all_keys, better_extremum, error_column
from raysweep.fits.statistics import LEVEL, stopped_level
from raysweep.lazy import pd
from raysweep.space.checks import Check, Context
from raysweep.space.precision import POINTWISE
from raysweep.workloads.declaration import Workload


@dataclass(frozen=True, eq=False)
class Question:
    """One entry of a space's `analysis`, with the rows to analyse.

    rows: of all sweeps of the report, which `design` declares.
    options: of the entry. name: the beginning of the names of its files.
    curves: gives the learning curves of the sweeps: one line per point, with sweep, cell, seed, stage, step and what
        was logged; None if there are none.
    """

    rows: pd.DataFrame
    options: Mapping[str, Any]
    workload: Workload
    name: str
    design: Design = NOTHING_DECLARED
    curves: Callable[[], pd.DataFrame] | None = None

    @property
    def x(self) -> str:
        """The axis of the analysis."""
        return str(self.options["x"])

    @property
    def metric(self) -> str:
        """The metric of the analysis."""
        return str(self.options["metric"])

    @property
    def turn(self) -> str:
        """The extremum that is best for the metric: max or min."""
        return better_extremum(self.metric, self.workload)

    def error_in(self, rows: pd.DataFrame) -> str | None:
        """The column of the metric's given standard errors, see `error_column`."""
        return error_column(rows, self.metric, self.workload)

    @property
    def words(self) -> Mapping[str, str]:
        """What the space calls the findings of the entry, by finding."""
        return self.options.get("words") or {}

    @property
    def lines(self) -> dict[str, float]:
        """The named constants that the entry draws as lines, by name."""
        return {str(name): float(value) for name, value in (self.options.get("lines") or {}).items()}

    @property
    def by(self) -> list[str]:
        """The parameters for which the entry asks for separate curves."""
        return list(self.options.get("by") or [])

    @property
    def level(self) -> float:
        """The confidence level of all intervals."""
        return float(self.options.get("level", LEVEL))

    def read_at(self, kind: str) -> float:
        """The level at which intervals of `level` are computed: a stricter one where a `precision` of this kind
        (boundary or optimum) let them decide when the sweep ends."""
        return stopped_level(self.level) if self.precision(kind) is not None else self.level

    def precision(self, kind: str) -> tuple[float, bool] | None:
        """(what a `precision` asks of places of this kind, whether of each by itself); None without one. Of several
        sweeps the strictest one."""
        every = [space.get("precision") or {} for space in self.design.spaces]
        return min(((one[kind], bool(one.get(POINTWISE))) for one in every if one.get(kind)), default=None)

    def finding(self, kind: str, rows: Sequence[Mapping[str, Any]], keys: Sequence[str], **fields: Any) -> Finding:
        """The finding of a kind from its rows, one per setting of the keys. fields: further ones of `Finding`, or other
        than those of the entry (metric, x, level). `plots` is called once at most."""
        entry: dict[str, Any] = {key: str(self.options.get(key, "")) for key in ("metric", "x")}
        entry |= {"level": self.level, **fields, "plots": cache(fields.get("plots", tuple))}
        return Finding(kind, self.name, as_table(rows, keys), keys=keys, **entry)

    def nothing(self, kind: str, why: Nothing, about: str = "", **fields: Any) -> Finding:
        """A finding without settings, which says why. about: see `Nothing`."""
        return Finding(kind, self.name, as_table([], []), facts={NOTHING: why, "about": about}, **fields)

    def keys(self, x: str, *first: str) -> list[str]:
        """All parameters that distinguish curves over x: `first`, then `by`, then all others that vary."""
        return all_keys(self.rows, self.workload, x, [*first, *self.by], self.design)

    def keys_besides(self, x: str, *axes: str) -> list[str]:
        """Those that distinguish surfaces over x and other axes."""
        return [key for key in self.keys(x, *axes) if key not in axes]


@dataclass(frozen=True)
class Analysis:
    """One kind of analysis, declared once in its file in `raysweep/analyses/kinds/`.

    kind: its name in a space. question: what it asks, with {metric}, {x} and other options as fields.
    run: makes the finding from rows that are ok, each measurement once.
    required, optional: the checks of its options. `question` and `where`, which all kinds have, are not among them.
    columns: what it calls the columns of its tables, besides `COLUMNS`, `axis`, parameters and names after a metric.
    along: the option that names the axis of the fitted curve; empty if there is none.
    above: if it seeks the best value on that axis, all values there must be finite and above this number.
    means_only: it looks at means of its metrics alone, so rows that differ in idle parameters are one measurement.
    logged: it reads what a stage logged (`Question.curves`), so `run` gets all rows as they are.
    check: raises InputError for options that do not go together (options, path, context).
    """

    kind: str
    question: str
    run: Callable[[Question], Finding]
    required: Mapping[str, Check] = field(default_factory=dict)
    optional: Mapping[str, Check] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    along: str = ""
    above: float | None = None
    means_only: bool = False
    logged: bool = False
    check: Callable[[Mapping[str, Any], str, Context], None] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", (*self.columns, *COLUMNS, "axis"))
