"""The slices of a space that asks for a precision: the cells along the axis of an analysis, all else equal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.errors import InputError
from raysweep.fits.statistics import LEVEL, stopped_level
from raysweep.space import precision

if TYPE_CHECKING:
    from raysweep.plan.cells import Cells
    from raysweep.space.schema import Space


@dataclass(frozen=True, eq=False)
class Slice:
    """One curve whose place is to be located.

    analysis: where it stands in the space, "analysis[0].optimum". Slices of one share draws.
    kind: the key of `precision`: boundary or optimum.
    fit: the analysis: boundary, optimum or inflection.
    metric, axis: what is fitted along which axis.
    at: the values of the other axes.
    cells: its cells, ordered along the axis, (points,).
    x: their values on the axis, (points,), finite and different.
    level: the confidence level that is asked for. Intervals are computed at stricter ones: see `single` and `strict`.
    together: of how many slices all are to hold at once; 1 if pointwise.
    wanted: the half-width that is asked for; on a logarithmic axis of an optimum, the logarithm of the factor.
    logarithmic: whether places are sought in log x.
    declared_log: the scale that the space or the workload states (True: log); None if they state none.
    maximize: whether the best value is the largest.
    heavy: which cells have draws without a variance, (points,); None if the workload does not say.
    """

    analysis: str
    kind: str
    fit: str
    metric: str
    axis: str
    at: Mapping[str, Any]
    cells: tuple[int, ...]
    x: np.ndarray
    level: float
    together: int
    wanted: float
    logarithmic: bool
    declared_log: bool | None
    maximize: bool
    heavy: np.ndarray | None

    @property
    def single(self) -> float:
        """The level at which the interval of one slice by itself is computed, as the report does (`stopped_level`)."""
        return stopped_level(self.level)

    @property
    def strict(self) -> float:
        """The level that applies: that of all slices of a fit at once (Bonferroni)."""
        return 1 - (1 - self.single) / self.together


@dataclass(frozen=True, eq=False)
class Ask:
    """What is asked of a slice. most: the most draws of a cell. exact: whether values have no noise."""

    slice: Slice
    most: int
    exact: bool = False


def of_space(space: Space, cells: Cells) -> list[Slice]:
    """The slices of all analyses that the precision of a space binds, in the order of the analyses and of the plan.

    Those with too few values of the axis are among them (see `enough`): nothing is spent on them, and they are named.

    InputError if an analysis has no others.
    """
    out: list[Slice] = []
    for kind in (kind for kind in precision.KINDS if kind in space.precision):
        for place, options in precision.bound(kind, space.analysis):
            members = _of_analysis(space, cells, place, kind, options)
            if not any(enough(each) for each in members):
                raise InputError(
                    f"precision.{kind}",
                    f"no slice of {place} has the {precision.FEWEST_VALUES[kind]} values of {options['x']} on which a "
                    "place is sought (exclude, where or zip leave too few)",
                )
            out += members
    return out


def asked(slice_: Slice) -> tuple[object, ...]:
    """What is asked of a slice, besides its rows, as plain values."""
    names = ("kind", "fit", "level", "together", "wanted", "logarithmic", "declared_log", "maximize")
    return tuple(getattr(slice_, name) for name in names)


def enough(slice_: Slice) -> bool:
    """Whether a slice has the values of the axis on which a place can be sought."""
    return len(slice_.x) >= precision.FEWEST_VALUES[slice_.kind]


def _of_analysis(space: Space, cells: Cells, analysis: str, kind: str, options: Mapping[str, Any]) -> list[Slice]:
    workload, x, metric, fit = space.declaration, options["x"], options["metric"], options["fit"]
    scale = space.scale.get(x)
    declared = workload.logarithmic(x) if scale is None else scale == "log"
    others = [name for name in space.axes if name not in _moving_with(space, x)]
    inside = np.ones(len(cells), dtype=bool)
    for name, values in (options.get("where") or {}).items():
        inside &= np.isin(cells.columns[name], values if isinstance(values, list) else [values])
    members: dict[tuple[Any, ...], list[int]] = {}
    for cell in np.flatnonzero(inside).tolist():
        members.setdefault(tuple(cells.columns[name][cell] for name in others), []).append(cell)
    wanted, level = space.precision[kind], float(options.get("level", LEVEL))
    sizes = _slices_at_once(list(members), others, fit, options)
    slices: list[Slice] = []
    for key, positions in members.items():
        along = cells.columns[x][np.asarray(positions)].astype(float)
        order = np.argsort(along, kind="stable")
        order = order[np.isfinite(along[order])]
        log = kind == "optimum" and len(order) > 0 and precision.is_logarithmic(fit, along[order].tolist(), declared)
        if log:  # 0 has no logarithm and stays outside the fit
            order = order[along[order] > 0]
        at, chosen, heavy = along[order], tuple(positions[place] for place in order), None
        if kind == "boundary" and chosen and workload.heavy_tailed is not None:
            heavy = np.asarray(workload.heavy_tailed(metric, cells.take(np.asarray(chosen))), dtype=bool)
        slices.append(
            Slice(
                analysis=analysis,
                kind=kind,
                fit=fit,
                metric=metric,
                axis=x,
                at={name: _plain(value) for name, value in zip(others, key, strict=True) if len(space.axes[name]) > 1},
                cells=chosen,
                x=at,
                level=level,
                together=1 if space.precision[precision.POINTWISE] else sizes[key],
                wanted=math.log(wanted) if log else wanted,
                logarithmic=log,
                declared_log=declared,
                maximize=workload.maximized(metric),
                heavy=heavy,
            )
        )
    return slices


def _moving_with(space: Space, x: str) -> Iterable[str]:
    """The axis and the axes that it determines: those that are zipped with it, if its values differ."""
    group = next(group for group in space.groups() if x in group)
    return group if len(set(space.axes[x])) == len(space.axes[x]) else (x,)


def _slices_at_once(
    keys: Sequence[tuple[Any, ...]], others: Sequence[str], fit: str, options: Mapping[str, Any]
) -> dict[tuple[Any, ...], int]:
    """For each slice, how many slices its simultaneous interval is for: as in the tables of the report those of one map
    for a boundary (the values of `y`), and otherwise all of the analysis."""
    apart = [place for place, name in enumerate(others) if fit == "boundary" and name != options.get("y")]
    maps = {key: tuple(key[place] for place in apart) for key in keys}
    sizes = Counter(maps.values())
    return {key: sizes[of_map] for key, of_map in maps.items()}


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
