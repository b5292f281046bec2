"""The design of the sweeps of a report: which parameters vary together, and in which parameters the sweeps differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from raysweep.errors import InputError
from raysweep.lazy import pd
from raysweep.space.analyses import metrics_of, opened, registry
from raysweep.workloads.declaration import Workload


@dataclass(frozen=True)
class Design:
    """The declared spaces of the sweeps of a report.

    spaces, names: the resolved space of each sweep, as plain data, and its name.
    usual: the analysis entries that are made if no space asks for any.
    """

    spaces: tuple[Mapping[str, Any], ...] = ()
    names: tuple[str, ...] = ()
    usual: tuple[Mapping[str, Any], ...] = ()

    def values(self, name: str) -> list[Any]:
        """All values that a parameter has in any sweep, without repeats, in the order of the axes."""
        return list(dict.fromkeys(value for space in self.spaces for value in values_in(space, name)))

    def analyses(self) -> list[Any]:
        """The analysis entries of all sweeps, without repeats."""
        asked: list[Any] = []
        for space in self.spaces:
            asked += [entry for entry in space.get("analysis") or [] if entry not in asked]
        return asked or list(self.usual)

    def metrics(self) -> list[str]:
        """All names that may be metrics in the analyses, without repeats. x and y are included, because in a relation
        they are metrics. What the options of somebody else's functions mean is not known."""
        named = list[Any]()
        for kind, given in map(opened, self.analyses()):
            if kind in registry().names():
                named += [*metrics_of(given), *given.get("predictors", ()), *map(given.get, ("beside", "x", "y"))]
        return list(dict.fromkeys(filter(None, named)))

    def varied(self) -> list[str]:
        """The axes of all sweeps, then the other parameters that differ between sweeps."""
        axes = dict.fromkeys(name for space in self.spaces for name in space.get("axes") or {})
        return [*axes, *(name for name in self.between() if name not in axes)]

    def scaled(self, workload: Workload) -> Workload:
        """The workload with the scales that the spaces declare for its parameters, of two that differ the first; an
        InputError if a sweep has a value below 0 on a logarithmic axis."""
        chosen = {name: scale for space in self.spaces[::-1] for name, scale in (space.get("scale") or {}).items()}
        parameters = [replace(one, scale=chosen.get(one.name, one.scale)) for one in workload.parameters]
        scaled = replace(workload, parameters=tuple(parameters))
        for name in dict.fromkeys(name for space in self.spaces for name in space.get("axes") or {}):
            for sweep, space in zip(self.names, self.spaces, strict=True) if scaled.logarithmic(name) else ():
                if (low := min(values_in(space, name), default=1)) < 0:
                    raise InputError(
                        f"scale.{name}",
                        "expected no value below 0 on an axis that is read in log, got "
                        f"{low:g} in {sweep}; a scale changes no row (say --set "
                        f"scale.{name}=linear when running what has this axis)",
                    )
        return scaled

    def between(self) -> list[str]:
        """The parameters that have one value in each sweep, but not the same value in all sweeps."""
        parts = [space.get(part) or {} for space in self.spaces for part in ("axes", "fixed")]
        names = dict.fromkeys(name for part in parts for name in part)
        return [
            name
            for name in names
            if len(self.values(name)) > 1 and all(len(values_in(space, name)) == 1 for space in self.spaces)
        ]

    def follows(self, name: str, names: Sequence[str]) -> bool:
        """Whether the parameters `names` determine the value of `name`, because every space declares this with a zip;
        that the finished cells happen to show it does not count."""
        ties = [tie for space in self.spaces if (tie := tied(space, name, names)) is not None]
        if not ties or len(ties) < len(self.spaces):
            return False
        return all(map(agree, ties)) and all(  # two zips can be compared if they have a position in common
            apart(one, other, names) or (not dict(tie).keys().isdisjoint(dict(further)) and agree([*tie, *further]))
            for (one, tie), (other, further) in combinations(zip(self.spaces, ties, strict=True), 2)
        )


NOTHING_DECLARED = Design()
"""The design without any declared space: every parameter that varies distinguishes rows."""

Tie = list[tuple[tuple[Any, ...], Any]]
"""One (values of the known parameters, value of the parameter that varies with them) for each position of a zip."""


def values_in(space: Mapping[str, Any], name: str) -> list[Any]:
    """The values of a parameter in one space; an empty list if the space does not mention it."""
    axes, fixed = space.get("axes") or {}, space.get("fixed") or {}
    return list(axes[name]) if name in axes else [fixed[name]] if name in fixed else []


def tied(space: Mapping[str, Any], name: str, names: Sequence[str]) -> Tie | None:
    """How a parameter varies with the known parameters in one space; None if no zip connects them."""
    group: Sequence[str] = next((group for group in space.get("zip") or [] if name in group), ())
    known = [space["axes"][helper] for helper in sorted(group) if helper in names]
    return list(zip(zip(*known, strict=True), space["axes"][name], strict=True)) if known else None


def apart(one: Mapping[str, Any], other: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether some known parameter has one value in each of two spaces, and the two values differ."""
    pairs = [(values_in(one, name), values_in(other, name)) for name in names]
    return any(len(mine) == len(theirs) == 1 and mine != theirs for mine, theirs in pairs)


def agree(pairs: Tie) -> bool:
    """Whether equal values of the known parameters always come with equal values of the other parameter."""
    return len(set(pairs)) == len({at for at, _ in pairs})


def usual(table: pd.DataFrame, keys: Sequence[str]) -> dict[str, Any]:
    """The setting from which every other one differs in a single axis, and in what the value of that axis determines;
    empty without one, or if fewer than two axes are tried so."""
    if len(keys) < 2 or table.empty:
        return {}
    base = table[list(keys)].mode(dropna=False).iloc[0]
    differs = table[list(keys)] != base
    fixed = {key: table.groupby(key, dropna=False)[list(keys)].nunique(dropna=False).max() == 1 for key in keys}
    kinds = differs.drop_duplicates().to_dict("records")
    apart = list(filter(None, ([key for key in keys if kind[key]] for kind in kinds)))
    alone = all(any(fixed[key][some].all() for key in some) for some in apart)
    return base.to_dict() if alone and len(apart) > 1 and not differs.any(axis=1).all() else {}
