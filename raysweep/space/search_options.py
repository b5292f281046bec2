"""Which searches there are and what they may be told; light, because every space is checked with it."""

from __future__ import annotations

from functools import partial
from typing import Any

from raysweep.space.checks import Check, Context, expect, metric, named, number_axis, options, whole

START = 5
"""Cells of a slice that a search begins with: both ends, the middle, and the middles of both halves."""

COUNT = partial(whole, least=1)
ALONG_AN_AXIS: dict[str, Check] = {"metric": metric, "x": number_axis, "budget": COUNT, "start": COUNT}
SEARCHES: dict[str, dict[str, Check]] = {
    "grid": {},
    "random": {"cells": COUNT},
    "boundary": ALONG_AN_AXIS,
    "optimum": ALONG_AN_AXIS,
    "optuna": {"metric": metric, "cells": COUNT},
}
"""The options of each search; each must be given if it has no default."""


def check(value: Any, context: Context) -> dict[str, dict[str, Any]]:
    """The `search` of a space as {kind: options}, defaults filled in; InputError names the key."""
    if isinstance(value, str):
        value = {value: {}}
    expect(isinstance(value, dict) and len(value) == 1, "search", f"one of {', '.join(SEARCHES)}", value)
    ((kind, given),) = value.items()
    known = SEARCHES[named(kind, "search", "search", SEARCHES)]
    usual = context.workload.searched(kind)
    defaults = {"x": usual if usual in context.axes else None, "start": START}
    return {kind: options(given, f"search.{kind}", context, known, {key: defaults.get(key) for key in known})}
