"""The keys `precision` and `budget` of a space: how well places are to be located, and what that may cost at most.

precision: {boundary: 1.0}   # half-width of the 95 % interval of every zero, in the units of the axis
precision: {optimum: 1.2}    # of every best value, a factor either way (on a linear axis a half-width)
budget: {gpu_hours: 8}       # or rows, core_hours; by declared costs
seeds: 400                   # with a precision: the most draws that a cell may get (at most 100,000)

A precision binds every analysis of its kind: `boundary` those of zeros, `optimum` those of best values and inflection
points. It holds for all slices of an analysis at once, with `pointwise: true` for each slice by itself. A sweep that
ends when its intervals are narrow computes what it calls 95 % at a stricter level (`fits.statistics.stopped_level`),
and so does its report.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from raysweep.errors import InputError, shown
from raysweep.space import checks
from raysweep.space.analyses import opened
from raysweep.space.checks import Check, Context, expect

POINTWISE = "pointwise"
KINDS = {"boundary": ("boundary",), "optimum": ("optimum", "inflection")}
"""What a precision can be asked of, and the analyses that it binds."""
FEWEST_VALUES = {"boundary": 2, "optimum": 5}
"""The fewest values of an axis on which a place of each kind can be located."""
MOST_DRAWS = 100_000
"""The most draws that a cell may get: a larger count of seeds means no limit, and counts as this."""
HOURS = ("gpu_hours", "core_hours")
"""The budgets in hours of one GPU or of one core."""


def check(value: Any, context: Context) -> dict[str, Any]:
    """The `precision` of a space with defaults filled in, empty if it is not given; InputError names the key."""
    if value is None or value == {}:
        return {}
    pointwise = checks.fits("true or false", lambda value: isinstance(value, bool))
    options: dict[str, Check] = {**dict.fromkeys(KINDS, checks.above_0), POINTWISE: pointwise}
    checked = checks.keys(value, "precision", context, options)
    if not any(kind in checked for kind in KINDS):
        raise InputError("precision", f"expected {' or '.join(KINDS)} with a number, such as {{boundary: 1.0}}")
    return {**checked, POINTWISE: checked.get(POINTWISE, False)}


def check_alone(precision: Mapping[str, Any], search: Any, early_stopping: Any) -> None:
    """InputError if a space with a precision also asks for a search, or stops rows early."""
    if not precision:
        return
    kind = next(iter(search), None) if isinstance(search, Mapping) else search
    if kind != "grid":
        why = f"expected none with precision, which chooses cells and draws by itself, got {shown(kind)}"
        raise InputError("search", why)
    if early_stopping:
        raise InputError("early_stopping", "expected none with precision: it would take rows out of the means")


def check_axes(
    precision: Mapping[str, Any], analysis: Sequence[Any], scale: Mapping[str, str], context: Context
) -> None:
    """InputError if no analysis of a kind is asked for, or if its axis cannot give the precision."""
    for kind in (kind for kind in KINDS if kind in precision):
        path, size, bound_to = f"precision.{kind}", precision[kind], list(bound(kind, analysis))
        if not bound_to:
            names = " or ".join(KINDS[kind])
            raise InputError(path, f"expected an analysis {names} in the space, which says what is to be located")
        for place, options in bound_to:
            if options.get("between"):
                raise InputError(path, f"{place} asks for the zero of a difference, which has no precision yet")
            logarithmic = {"log": True, "linear": False}.get(scale.get(options["x"], ""))
            logarithmic = context.workload.logarithmic(options["x"]) if logarithmic is None else logarithmic
            _check_size(path, size, options, logarithmic, context)


def bound(kind: str, analysis: Sequence[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The analyses that a precision of this kind binds: the path of each and its options, the analysis as `fit`."""
    for number, entry in enumerate(analysis):
        name, options = opened(entry)
        if name in KINDS[kind]:
            yield f"analysis[{number}].{name}", {**options, "fit": name}


def is_logarithmic(fit: str, values: Sequence[float], declared: bool | None) -> bool:
    """Whether a fit reads an axis in log. values: finite, sorted. declared: what space or workload say, or None."""
    from raysweep.fits.draws import decades, even_in_log

    above = np.asarray([value for value in values if value != 0])
    return even_in_log(above, declared) or bool(declared is None and fit == "optimum" and decades(above))


def _check_size(path: str, size: float, options: Mapping[str, Any], logarithmic: bool | None, context: Context) -> None:
    kind, x = path.rpartition(".")[2], options["x"]
    values = sorted({float(value) for value in context.axes[x] if math.isfinite(value)})
    if len(values) < (least := FEWEST_VALUES[kind]):
        expected = f"expected at least {least} values of {x}, on which places are sought"
        raise InputError(path, f"{expected}, got {len(values)}")
    unit = context.workload.by_name[x].unit
    if kind == "optimum" and is_logarithmic(options["fit"], values, logarithmic):
        most = math.sqrt(values[-1] / min(value for value in values if value > 0))
        expected = f"a factor above 1 and below {most:.4g}, which is all of the logarithmic axis {x}"
        expect(1 < size < most, path, expected, size)
        return
    most = (values[-1] - values[0]) / 2
    expected = f"a half-width below {most:.4g}{f' {unit}' if unit else ''}, which is all of the axis {x}"
    expect(size < most, path, expected, size)


def check_budget(
    value: Any, precision: Mapping[str, Any], resources: Mapping[str, Any], context: Context
) -> dict[str, Any]:
    """The `budget` of a space, empty if it is not given; InputError names the key."""
    if value is None or value == {}:
        return {}
    if not precision:
        raise InputError("budget", "is for a space with a precision; a search has a budget of its own, a grid has none")
    options: dict[str, Check] = {"rows": partial(checks.whole, least=1), **dict.fromkeys(HOURS, checks.above_0)}
    budget = checks.keys(value, "budget", context, options)
    trials = [resources, *(resources.get("where") or [])]
    on_gpus = [bool(rule.get("gpus_per_trial")) for rule in trials if "gpus_per_trial" in rule]
    declared = not context.workload.function and any(stage.cost for stage in context.workload.chain.stages)
    for key, there, why in (
        ("gpu_hours", any(on_gpus), "no trial has a GPU"),
        ("core_hours", not all(on_gpus), "every trial computes on GPUs"),
    ):
        if key in budget and not declared:
            raise InputError(f"budget.{key}", f"expected rows, since {context.workload.name} declares no costs")
        if key in budget and not there:
            raise InputError(f"budget.{key}", f"expected rows or hours of another kind, since {why}")
    return budget
