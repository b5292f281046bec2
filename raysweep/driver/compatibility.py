"""Compares a space with a recorded sweep: is it the same, an extension, a part, or another question?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from raysweep.errors import InputError, as_typed
from raysweep.space.precision import POINTWISE
from raysweep.space.schema import KEYS, Space

FREE = ("description", "analysis", "resources", "scale", "keep", "function")
"""Keys that change no row: how a sweep is described, analysed and computed, and what it keeps. They may differ between
runs."""


def is_part(recorded: Space, asked: Space, sweep: str) -> bool:
    """Whether `asked` is only a part of the recorded space: it has fewer seeds or fewer values on axes, and no new one.
    False if both have the same rows, or if it only has more. InputError, which names the first difference, if it both
    loses and gains rows."""
    lost, gained = dict(_differences(recorded, asked)), dict(_differences(asked, recorded))
    if not lost or not gained:
        return bool(lost)
    path = next((path for path in lost if path in gained), next(iter(lost)))  # a key that only loses values is allowed
    grown = path.partition(".")[0] in ("axes", "seeds") and not any(
        space.ranges or space.early_stopping for space in (recorded, asked)
    )
    what = "space, for more of it or for a part of it" if grown else path
    raise InputError(
        path, f"the sweep {sweep} exists with {lost[path]}; choose another name with --name, or ask for the same {what}"
    )


def _differences(old: Space, new: Space) -> Iterator[tuple[str, str]]:
    """The differences because of which `new` lacks rows of `old`: for each the key, and what `old` has in words."""
    before, after = old.as_dict(), new.as_dict()
    if bool(old.function) != bool(new.function):
        yield "workload", f"another workload that is called {old.workload}"
    elif old.function and (had := sorted(old.axes | old.fixed)) != sorted(new.axes | new.fixed):
        yield "workload", f"{old.workload} of the arguments {', '.join(had)}"
    if any(space.ranges or space.early_stopping for space in (old, new)):
        yield from _whole_difference(old, new)
    for key in ("name", "workload", "zip", *KEYS):  # zip before axes, because zipped axes are compared together
        if key in (*FREE, "ranges") or (key in ("precision", "budget") and not (old.precision and new.precision)):
            continue  # rows of a grid and rows for a precision can be in one sweep
        if key == "exclude":
            difference = _exclude_difference(old, new)
        elif key == "when":
            difference = _when_difference(old, new)
        else:
            difference = _key_difference(key, before.get(key), after.get(key), new.zip if old.zip == new.zip else [])
        if difference:
            yield difference


def _key_difference(key: str, old: Any, new: Any, zips: list[list[str]]) -> tuple[str, str] | None:
    if key == "seeds":
        kept = set(new)
        lost = [seed for seed in old if seed not in kept]
        return ("seeds", f"seed {lost[0]}, which is not asked for now") if lost else None
    if key in ("precision", "budget"):
        return _demand_difference(key, old or {}, new or {})
    if key not in ("axes", "fixed"):
        return (key, f"{key} = {old!r}, not {new!r}") if old != new else None
    here, elsewhere = ("on an axis", "fixed") if key == "axes" else ("fixed", "on an axis")
    for name in sorted({*old, *new}):
        if name not in new or name not in old:
            return f"{key}.{name}", f"{name} {here if name in old else elsewhere}"
        if key == "fixed" and old[name] != new[name]:
            return f"fixed.{name}", f"{name} = {as_typed(old[name])}, not {as_typed(new[name])}"
        kept = set(new[name]) if key == "axes" else set()
        if kept and (lost := [value for value in old[name] if value not in kept]):
            return f"axes.{name}", f"the value {as_typed(lost[0])} on this axis, which is not asked for now"
    for group in zips if key == "axes" else ():
        before, after = (set(zip(*(axes[name] for name in group), strict=True)) for axes in (old, new))
        if before - after:
            return f"axes.{group[0]}", f"values combined otherwise in {', '.join(group)}"
    return None


def _demand_difference(key: str, old: dict[str, Any], new: dict[str, Any]) -> tuple[str, str] | None:
    """A smaller half-width and a larger budget ask for more. A budget that is not given is without limit."""
    if key == "budget":
        lost = [unit for unit in new if old.get(unit, math.inf) > new[unit]]
        return (f"budget.{lost[0]}", f"{lost[0]} = {old.get(lost[0], 'any')}, not {new[lost[0]]}") if lost else None
    for name in (name for name in old if name != POINTWISE):
        if name not in new or new[name] > old[name]:
            return f"precision.{name}", f"{name} = {old[name]:g}, not {new.get(name, 'none')}"
    every = new[POINTWISE] and not old[POINTWISE]
    return (f"precision.{POINTWISE}", f"{POINTWISE} = false, not true") if every else None


def _exclude_difference(old: Space, new: Space) -> tuple[str, str] | None:
    """Compare the exclude rules on the values that both spaces have on their axes. Other rules are ignored."""

    def on_both(rule: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {name: [one for one in values if _has_both(old, new, name, one)] for name, values in rule.items()}

    before, after = ([rule for rule in map(on_both, space.exclude) if all(rule.values())] for space in (old, new))
    return ("exclude", f"exclude = {old.exclude!r}, not {new.exclude!r}") if before != after else None


def _has_both(old: Space, new: Space, name: str, value: Any) -> bool:
    """Whether both spaces have this value on an axis."""
    return value in old.axes.get(name, ()) and value in new.axes.get(name, ())


def _whole_difference(old: Space, new: Space) -> Iterator[tuple[str, str]]:
    """What differs where a search asks for other cells, or rows are stopped, if any axis or seed does."""
    if old.early_stopping and old.seeds != new.seeds:
        yield "seeds", f"{len(old.seeds):,} seeds, and rows that are stopped early"
    for name in sorted({*old.axes, *new.axes}):
        if (old.axes.get(name), old.ranges.get(name)) != (new.axes.get(name), new.ranges.get(name)):
            values = ", ".join(map(as_typed, old.axes.get(name, ())))
            kind = f"a {old.ranges[name]} range [{values}]" if name in old.ranges else f"the values {values}"
            yield f"axes.{name}", f"{kind} on this axis" if name in old.axes else f"{name} fixed"
    if old.exclude != new.exclude:
        yield "exclude", f"exclude = {old.exclude!r}, not {new.exclude!r}"


def _when_difference(old: Space, new: Space) -> tuple[str, str] | None:
    """Compare the conditions of axes on the values that both spaces have on their axes. Other values are ignored."""
    for name in sorted({*old.when, *new.when}):
        conditions = (space.when.get(name, {}) for space in (old, new))
        before, after = (
            {other: {one for one in values if _has_both(old, new, other, one)} for other, values in condition.items()}
            for condition in conditions
        )
        if before != after:
            condition = f"when {old.when[name]!r}" if name in old.when else "in every cell"
            return f"axes.{name}.when", f"{name} {condition}"
    return None
