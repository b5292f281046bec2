"""Other names, within the analyses, for parameters that are called like a column of their tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from raysweep.analyses.design import Design
from raysweep.analyses.question import Question
from raysweep.space.analyses import ANALYSES, NAME_AXES, opened
from raysweep.workloads.declaration import Workload

MEANS = "mean standard_error median draws computed no_variance theory"
FITTED = "draws estimate exact high low method_spread note points reason scale status theory z"
HALVED = "draws_to_halve half_the_interval_takes halved method points_from points_to points_to_halve turn"
EVERYWHERE = "high_simultaneous low_simultaneous"
ADDED = {
    "best": f"{MEANS} axis axis_value best_at cells importance worst_at",
    "curves": MEANS,
    "learning_curves": "draws draws_left_out first_mean high left_out low mean metric share shares step steps",
    "agreement": f"{MEANS} cell difference inside_95 z",
    "boundary": f"{FITTED} {EVERYWHERE} clear_points closed_form crossings sign zero_end",
    "inflection": f"{FITTED} {HALVED} closed_form",
    "optimum": f"{FITTED} {HALVED} {EVERYWHERE} closed_form diverged_from",
    "trend": "back back_from back_to changes closed_form draws exact high logarithmic low method move move_from "
    "move_to note p_against p_against_holm p_along p_along_holm p_holm p_if_it_never_turns_back "
    "p_if_some_step_does_not_go_its_way p_if_there_is_no_trend p_throughout p_throughout_holm p_value points "
    "reason slope status throughout trend turns_back",
    "power_law": "bend bend_high bend_low bend_p bend_p_holm bends closed_form draws exponent first "
    "geometric_mean high last low note p_if_it_has_none points prefactor reason theory values",
    "predicted_boundary": "apart beyond draws estimate high low measured note predicted predicted_high predicted_low "
    "predicted_note ratio status",
    "shift": "draws factor high left_out low setting shown slices values_averaged",
    "regime": f"{FITTED} {HALVED} {EVERYWHERE} censored diverged_from lengths_bounded lengths_left_out lengths_located "
    "limit mean metric paper_case rate regime_by_the_slope slope tuned tuned_turn tuned_turn_high tuned_turn_low "
    "verdict",
    "engines": "difference draws engine error_by_reference largest mean mean_by_reference median metric quarter "
    "reference rows size standard_error three_quarters times_less_variance value",
    "relation": f"{MEANS} cells cells_of group high low note rank_correlation",
    "r_squared": "best correlation draws high low more more_high more_low more_than_the_first note over_draws "
    "predictor r_squared reason units",
    "landscape": "draws grid metric seed value",
    "comparison": f"{EVERYWHERE} difference draws error high low p_holm p_value size status",
}
"""What each kind of analysis calls the columns of its tables, besides the parameters and what is named after a metric.
They are given as names: `left_out` is shown as "left out"."""


def given_way(kind: str, asked: Question) -> Question:
    """The question, in which a parameter that is called like a column of this kind of analysis has another name.

    Example: an argument `draws` is `draws_argument` in the tables, beside `draws`, the number of draws.
    """
    workload = asked.workload
    word = "argument" if workload.function else "parameter"
    other = {name: f"{name}_{word}" for name in workload.by_name if name in ADDED[kind].split()}
    if workload.engines:  # its tables have this column already
        other.pop(workload.engines.parameter, None)
    if not other:
        return asked
    return replace(
        asked,
        rows=asked.rows.rename(columns=other),
        options=_options(kind, asked.options, other),
        workload=_workload(workload, other),
        design=_design(asked.design, other),
    )


def _renamed(value: Any, other: Mapping[str, str]) -> Any:
    """The names of axes in a value: a name, a list or the keys of a mapping."""
    if isinstance(value, Mapping):
        return {other.get(name, name): inner for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_renamed(inner, other) for inner in value]
    return other.get(value, value) if isinstance(value, str) else value


def _options(kind: str, options: Mapping[str, Any], other: Mapping[str, str]) -> dict[str, Any]:
    if kind not in ANALYSES:  # a function of somebody else gets the rows as they are
        return dict(options)
    axes = ("by",) if kind == "relation" else NAME_AXES
    return {key: _renamed(value, other) if key in axes else value for key, value in options.items()}


def _design(design: Design, other: Mapping[str, str]) -> Design:
    def space(given: Mapping[str, Any]) -> dict[str, Any]:
        parts = {part: _renamed(given[part], other) for part in ("axes", "fixed", "ranges", "zip") if given.get(part)}
        entries = [opened(entry) for entry in given.get("analysis") or []]
        return {**given, **parts, "analysis": [{kind: _options(kind, options, other)} for kind, options in entries]}

    return replace(design, spaces=tuple(map(space, design.spaces)))


def _workload(workload: Workload, other: Mapping[str, str]) -> Workload:
    first = {new: old for old, new in other.items()}

    def asked(function: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """A function of columns (its last argument) that gets them under the names that it knows."""
        if function is None:
            return None
        return lambda *given: function(*given[:-1], {first.get(name, name): at for name, at in given[-1].items()})

    stages = tuple(
        replace(
            stage,
            until=other.get(stage.until, stage.until),
            together=stage.together and tuple(other.get(name, name) for name in stage.together),
        )
        for stage in workload.stages
    )
    return replace(
        workload,
        parameters=tuple(replace(known, name=other.get(known.name, known.name)) for known in workload.parameters),
        metrics=tuple(
            replace(known, free_of=tuple(other.get(name, name) for name in known.free_of)) for known in workload.metrics
        ),
        stages=stages,
        closed_form=asked(workload.closed_form),
        heavy_tailed=asked(workload.heavy_tailed),
    )
