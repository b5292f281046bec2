"""Whether a sweep that exists may be continued with a space: the same, extended, or another question."""

from __future__ import annotations

from typing import Any

from raysweep.errors import InputError
from raysweep.space import Space

FREE = ("description", "analysis", "resources")
"""Keys that change no row: how it is told, analysed and computed may differ from one run to the next."""


def reconcile(recorded: dict[str, Any], asked: Space, sweep: str) -> bool:
    """Whether `asked` differs from the recorded space at all (it then extends it, or differs in a free key).

    InputError names the first difference that is neither more seeds nor more values on an axis.
    """
    new = asked.as_dict()
    for key in ("name", "workload", "zip", *new):  # zip before axes: axes that move together are compared together
        value = new[key]
        if key in FREE:
            continue
        complaint = _difference(key, recorded.get(key), value, asked.zip)
        if complaint:
            raise InputError(complaint[0], f"the sweep {sweep} exists with {complaint[1]}; choose another name with "
                                           "--name, or ask for the same space")
    return recorded != new


def _difference(key: str, old: Any, new: Any, zips: list[list[str]]) -> tuple[str, str] | None:
    if key == "seeds":
        lost = [seed for seed in old if seed not in set(new)]
        return ("seeds", f"more seeds ({len(old)}: seed {lost[0]} is not asked for now)") if lost else None
    if key == "axes":
        return _axes_difference(old, new, zips)
    if key == "fixed":
        for name in sorted({*old, *new}):
            if name not in new or name not in old:
                return f"fixed.{name}", f"{name} {'fixed' if name in old else 'on an axis'}"
            if old[name] != new[name]:
                return f"fixed.{name}", f"{name} = {old[name]}, not {new[name]}"
        return None
    return (key, f"{key} = {old!r}, not {new!r}") if old != new else None


def _axes_difference(old: dict[str, list[Any]], new: dict[str, list[Any]], zips: list[list[str]],
                     ) -> tuple[str, str] | None:
    for name in sorted({*old, *new}):
        if name not in new or name not in old:
            return f"axes.{name}", f"{name} {'on an axis' if name in old else 'fixed'}"
        lost = [value for value in old[name] if value not in set(new[name])]
        if lost:
            return f"axes.{name}", f"the value {lost[0]} on this axis, which is not asked for now"
    for group in zips:
        before = list(zip(*(old[name] for name in group), strict=True))
        after = set(zip(*(new[name] for name in group), strict=True))
        if any(values not in after for values in before):
            return f"axes.{group[0]}", f"other values beside each other in {', '.join(group)}"
    return None
