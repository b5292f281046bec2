"""Which cells next. A search is a pure function: from the rows there are to the cells there should be.

Each kind is a file with `check(options, ...)`, its options validated, and `wanted(...)`, the cells that ought to be
computed given what is known. Nothing is remembered between calls, so a sweep resumes from its ledger alone, and since
a round is only decided when the one before is complete, the rows are the same on one worker and on many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.errors import InputError, unknown
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from raysweep.plan import Cells
    from raysweep.space import Space

KINDS = ("grid", "random", "boundary", "optimum", "optuna")

Draws = Callable[[int, str], np.ndarray | None]
"""(cell, metric) -> the metric of its ok draws once the cell is complete, None before."""


def check(kind: str, options: Any, axes: Mapping[str, list[Any]], workload: Workload) -> dict[str, Any]:
    """The options of a search, defaults filled in; InputError names the key."""
    options = {} if options is None else options
    if not isinstance(options, dict):
        raise InputError(f"search.{kind}", f"expected a mapping of options, got {options!r}")
    defaults = _defaults(kind, axes)
    for key in options:
        if key not in defaults:
            raise unknown(f"search.{kind}.{key}", "option", key, defaults or ["none"])
    resolved = {**defaults, **options}
    for key, value in resolved.items():
        path = f"search.{kind}.{key}"
        if value is None:
            raise InputError(path, "missing")
        if key in ("cells", "budget", "start") and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise InputError(path, f"expected a whole number of at least 1, got {value!r}")
        if key == "metric" and value not in (names := [metric.name for metric in workload.metrics]):
            raise unknown(path, "metric", value, names)
        if key == "x" and value not in axes:
            raise unknown(path, "axis", value, axes)
    return resolved


def _defaults(kind: str, axes: Mapping[str, list[Any]]) -> dict[str, Any]:
    if kind == "random":
        return {"cells": None}
    if kind in ("boundary", "optimum"):
        usual = "overlap_angle" if kind == "boundary" else "finetune_lr"
        return {"metric": None, "x": usual if usual in axes else None, "budget": None, "start": 5}
    return {"metric": None, "cells": None} if kind == "optuna" else {}


def wanted(space: Space, cells: Cells, draws: Draws) -> list[int]:
    """Every cell that ought to be in the ledger, given the draws that are there, in plan order."""
    kind, options = next(iter(space.search.items()))
    if kind == "grid":
        return list(range(len(cells)))
    if kind == "random":
        from raysweep.workloads.draws import generator

        count = min(options["cells"], len(cells))
        return sorted(generator(0, "search").permutation(len(cells))[:count].tolist())
    if kind == "optuna":
        from raysweep.search import optuna_study

        return optuna_study.wanted(space, cells, draws, metric=options["metric"], limit=options["cells"])
    from raysweep.search import refinement

    return refinement.wanted(kind, space, cells, draws, **options)
