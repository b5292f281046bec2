"""What one kind of analysis is: the options an entry may have, and the function from rows to a finding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from raysweep.analyses.finding import COLUMNS, Finding
from raysweep.analyses.question import Question
from raysweep.space.checks import Check, Context
from raysweep.workloads.declaration import Workload


@dataclass(frozen=True)
class Analysis:
    """One kind of analysis, declared once in its file in `raysweep/analyses/kinds/`.

    kind: its name in a space. question: what it asks, with {metric}, {x} and other options as fields.
    run: makes the finding from rows that are ok, each measurement once.
    required, optional: the checks of its options. `question` and `where`, which all kinds have, are not among them.
    columns: what it calls the columns of its tables, besides parameters and what is named after a metric.
    along: the option that names the axis of the fitted curve; empty if there is none.
    above: if it seeks the best value on that axis, all values there must be finite and above this number.
    means_only: it looks at means of its metrics alone, so rows that differ in idle parameters are one measurement.
    logged: it reads what a stage logged (`Question.curves`), so `run` gets all rows as they are.
    check: raises InputError for options that do not go together (options, path, context).
    instead: names the kind that makes entries of such options (options, workload); its own name for its own.
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
    instead: Callable[[Mapping[str, Any], Workload], str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", (*self.columns, *COLUMNS))
