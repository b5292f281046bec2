"""Which searches there are and what they may be told; light, because every space is checked with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raysweep.errors import InputError, unknown
from raysweep.workloads.declaration import Workload

KINDS = ("grid", "random", "boundary", "optimum", "optuna")


def check(kind: str, options: Any, axes: Mapping[str, list[Any]], workload: Workload) -> dict[str, Any]:
    """The options of a search, defaults filled in; InputError names the key."""
    options = {} if options is None else options
    if not isinstance(options, dict):
        raise InputError(f"search.{kind}", f"expected a mapping of options, got {options!r}")
    defaults = _defaults(kind, axes, workload)
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
        if key == "metric" and not isinstance(value, str):
            raise InputError(path, f"expected the name of a metric, got {value!r}")
        if key == "metric" and value not in (names := [metric.name for metric in workload.metrics]):
            raise unknown(path, "metric", value, names)
        if key == "x" and not (isinstance(value, str) and value in axes):
            raise unknown(path, "axis", value, axes)
        if key == "x" and workload.by_name[value].categorical:
            raise InputError(
                path,
                f"expected an axis of numbers, which can be halved; {value} is {workload.by_name[value].expected()}",
            )
    return resolved


def _defaults(kind: str, axes: Mapping[str, list[Any]], workload: Workload) -> dict[str, Any]:
    if kind == "random":
        return {"cells": None}
    if kind in ("boundary", "optimum"):
        usual = workload.searched(kind)
        return {"metric": None, "x": usual if usual in axes else None, "budget": None, "start": 5}
    return {"metric": None, "cells": None} if kind == "optuna" else {}
