"""The best rate as a product of powers of other axes, with what it forecasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Needed, Outcome
from raysweep.analyses.held_out import enough, largest_out, law_of
from raysweep.analyses.outcomes import outcome, side, takes
from raysweep.analyses.places import PlaceLine, PlacesPlot
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import Where, groups, is_number, spread, with_choice
from raysweep.analyses.series import CurvesPlot, Panel, plain_series
from raysweep.errors import InputError, shown
from raysweep.fits.reasons import Reason
from raysweep.fits.result import Status
from raysweep.fits.surface.law import SPARE, Law, inside
from raysweep.fits.surface.slice_places import SlicePlaces, slice_places
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.space import checks
from raysweep.space.checks import Context

LINES, FINE = 6, 41
SEVERAL = 3
"""Settings with a law from which on its exponents are drawn over them."""
SLICE = ("outcome", "estimate", "low", "high", "law", "law_low", "law_high", "inside", "choice", "regret")


@dataclass(frozen=True, eq=False)
class Laws:
    """The laws of a question. over: their axes. others: the axes that tell them apart. surface: of all slices.

    laws: (the setting of `others`, its law, the table of its slices) each.
    """

    over: list[str]
    others: list[str]
    surface: SlicePlaces
    laws: Sequence[tuple[Where, Law, pd.DataFrame]]


def run(question: Question) -> Finding:
    """The exponents of each setting of the axes that are not in the law: one row per setting and axis of the law."""
    made, level = laws_of(question), question.level
    over, others = made.over, made.others
    rows = [{**where, **row} for where, law, part in made.laws for row in exponent_rows(law, len(part), over, level)]
    whole = pd.concat([part for *_, part in made.laws], ignore_index=True)
    return question.finding(
        "law",
        rows,
        [*others, "axis"],
        x=str(question.options["lr"]),
        facts=facts_of(made, question.options.get("at_best"), level),
        tables={f"{question.name}_values": whole[[*others, *over, *SLICE]]},
        plots=lambda: [*exponents_plot(question, made, rows), *plots_of(question, made)],
    )


def laws_of(question: Question) -> Laws:
    """Fit all slices as one surface, and a law for each setting of the axes that it does not have."""
    lr, over, at_best = str(question.options["lr"]), over_of(question.options), question.options.get("at_best")
    level, beside = question.level, [at_best] if at_best else []
    others = question.keys_besides(lr, *over, *beside)
    of_slice = [*others, *over]
    frame = with_choice(question.rows, lr, of_slice)
    error, turn = question.error_in(frame), question.turn
    surface = slice_places(frame, [lr, *beside], question.metric, of_slice, turn=turn, error=error, level=level)
    table = slices_table(surface, of_slice)
    laws = [(where, *one_law(surface, part, over, level)) for where, part in groups(table, others)]
    return Laws(over, others, surface, laws)


def over_of(options: Mapping[str, Any]) -> list[str]:
    over = options["over"]
    return [over] if isinstance(over, str) else list(over)


def slices_table(surface: SlicePlaces, keys: Sequence[str]) -> pd.DataFrame:
    """One row per slice with its best value. _slice: its number."""
    lines = []
    for s, (setting, one) in enumerate(zip(surface.slices.settings, surface.bests, strict=True)):
        line = {**dict(zip(keys, setting, strict=True)), "_slice": s, **dict.fromkeys(SLICE, np.nan)}
        status = one.status if one else Status.UNDETERMINED
        reason = one.reason if one else Reason.TOO_FEW_POINTS
        line |= {"outcome": outcome(status, reason), "status": status, "reason": reason}
        if one and surface.places[s] is not None:
            values = {name: getattr(one, name) for name in ("estimate", "low", "high", "choice")}
            line |= {name: float(np.exp(end)) for name, end in values.items()} | {"regret": one.regret}
        lines.append(line)
    return pd.DataFrame(lines)


def one_law(surface: SlicePlaces, part: pd.DataFrame, over: Sequence[str], level: float) -> tuple[Law, pd.DataFrame]:
    """The law of one setting, and the table of its slices with what the others forecast of each."""
    axes, places = part[list(over)].to_numpy(float), [surface.places[s] for s in part["_slice"]]
    usable = np.array([place is not None for place in places]) & ((axes > 0) & np.isfinite(axes)).all(axis=1)
    some = [place for place, use in zip(places, usable, strict=True) if place and use]
    outcomes = part.loc[usable, "outcome"].to_numpy(object)
    law, part = law_of(some, axes[usable], outcomes), part.assign(inside="", _used=usable)
    if law.reason:
        return law, part
    rng, tail = np.random.default_rng(0), (1 - level) / 2
    for k, row in enumerate(part.index[usable]):
        if not enough(np.delete(outcomes, k), axes):
            continue
        new = law.without(k, rng)
        part.loc[row, ["law", "law_low", "law_high"]] = np.exp(np.quantile(new, [0.5, tail, 1 - tail]))
        part.loc[row, "inside"] = "yes" if inside(some[k], new, level, rng) else "no"
    return law, part


def exponent_rows(law: Law, slices: int, over: Sequence[str], level: float) -> list[dict[str, Any]]:
    """The exponents of one law as rows of the finding. slices: how many the setting has."""
    out, used, least = [], len(law.logs), len(over) + 1 + SPARE
    for axis, (low, middle, high, p) in zip(over, law.exponents(level).T, strict=True):
        outcome, decides = Outcome.UNDECIDED if law.reason else side(low, high), dict[str, Any]()
        if outcome == Outcome.UNCLEAR:
            decides = takes(Needed.MORE_DRAWS)
        elif law.reason and used < least:
            decides = takes(Needed.MORE_SETTINGS, least)
        elif law.reason and law.reason != Reason.AXES_TOGETHER:
            decides = takes(Needed.MORE_X)
        row = {"axis": axis, "outcome": outcome, "reason": law.reason, "estimate": middle, "low": low, "high": high}
        out.append({**row, "p": p, "slices": used, "left_out": slices - used, **decides})
    return out


def facts_of(made: Laws, at_best: str | None, level: float) -> dict[str, Any]:
    """How well the laws forecast: each slice from all others, and the largest values of the first axis from smaller.
    Of a single law the best value in the middle of its axes, too."""
    over, surface = made.over, made.surface
    laws = [(law, part) for _, law, part in made.laws if not law.reason]
    facts: dict[str, Any] = {"over": over, **({"at_best": at_best} if at_best else {})}
    if not laws:
        return facts
    scores = [one for _, part in laws for one in part["inside"] if one]
    facts["one_out"] = {"inside": scores.count("yes"), "of": len(scores)}
    facts["scatter"] = float(np.median([np.median(law.scatter) for law, _ in laws]))
    if len(laws) == 1:
        at = middle_of(laws[0][1].query("_used"), over)
        drawn = laws[0][0].at(np.log([list(at.values())]), np.random.default_rng(0), new=False)
        ends = np.exp(np.quantile(drawn, [0.5, (1 - level) / 2, (1 + level) / 2])).tolist()
        facts["middle"] = {"at": at, **dict(zip(("estimate", "low", "high"), ends, strict=True))}
    hits = []
    for _, part in laws:
        used = part[part["_used"]]
        places = [place for s in used["_slice"] if (place := surface.places[s]) is not None]
        hits.append(largest_out(places, used[list(over)].to_numpy(float), used["outcome"].to_numpy(object), level))
    all_hits = np.concatenate(hits)
    if np.isfinite(all_hits).any():
        facts["largest_out"] = {"inside": int(np.nansum(all_hits)), "of": int(np.isfinite(all_hits).sum())}
    return facts


def middle_of(table: pd.DataFrame, axes: Sequence[str]) -> dict[str, float]:
    """One of the middle values of each axis."""
    return {axis: float(table[axis].sort_values().iloc[len(table) // 2]) for axis in axes}


def exponents_plot(question: Question, made: Laws, rows: Sequence[Mapping[str, Any]]) -> list[CurvesPlot]:
    """The exponents over the axis that tells settings apart, a panel for each axis of the law; empty without one."""
    if len(made.others) != 1 or not is_number(question.rows, made.others[0]):
        return []
    (x,), panels = made.others, []
    columns = [x, "estimate", "low", "high"]
    for axis in made.over:
        some = pd.DataFrame([row for row in rows if row["axis"] == axis and not row["reason"]], columns=columns)
        panels.append(Panel({"exponent of": axis}, [plain_series({}, some, columns)]))
    lr, name = str(question.options["lr"]), f"{question.name}_exponents"
    return [CurvesPlot(name, panels, x, lr)] if len(some) >= SEVERAL else []


def plots_of(question: Question, made: Laws) -> list[PlacesPlot]:
    """The best values over each axis in a panel of its own, with the law and the interval of a new setting. Values are
    moved along the law to one of the middle values of the other axes."""
    panels = list[Panel[PlaceLine]]()
    tail, rng = (1 - question.level) / 2, np.random.default_rng(0)
    laws = [one for one in made.laws if not one[1].reason]
    shown = [(where, law, part[part["_used"]]) for where, law, part in spread(laws, LINES)]
    for axis in made.over if laws else ():
        every, lines = pd.concat([used for *_, used in shown]), list[PlaceLine]()
        fine = np.geomspace(every[axis].min(), every[axis].max(), FINE)
        at = middle_of(every, [one for one in made.over if one != axis])
        logs = np.log(np.column_stack([fine if one == axis else np.full(FINE, float(at[one])) for one in made.over]))
        for where, law, used in shown:
            places = law.at(logs, rng, new=False)
            new = places + (law.scatter * rng.standard_normal(len(places)))[:, None]
            band = np.exp(np.quantile(new, [tail, 1 - tail], axis=0))
            powers = dict(zip(made.over, law.exponents()[1], strict=True))
            moved = np.prod([(at[one] / used[one]) ** powers[one] for one in at], axis=0)
            table = used.assign(**{end: used[end] * moved for end in ("estimate", "low", "high")})
            lines.append(PlaceLine(where, axis, table, fine, np.exp(np.median(places, axis=0)), band))
        panels.append(Panel(at, lines))
    plot = PlacesPlot(f"{question.name}_line", panels, question.options["lr"], question.metric, "optimum", len(laws))
    return [plot] if panels else []


def number_axes(value: Any, path: str, context: Context) -> Any:
    for name in value if isinstance(value, list) else [value]:
        allowed.number_axis(name, path, context)
    return value


def check(options: Mapping[str, Any], path: str, context: Context) -> None:
    """The axes of the law are above 0, so that they have powers."""
    for name in over_of(options):
        for value in context.axes.get(name, []):
            if not value > 0:
                raise InputError(f"{path}.over", f"expected values above 0 of {name}, got {shown(value)}")


ANALYSIS = Analysis(
    kind="law",
    question="How does the best {lr} for {metric} scale with {over}?",
    run=run,
    required={"metric": checks.metric, "lr": allowed.number_axis, "over": number_axes},
    optional={"at_best": allowed.number_axis, **allowed.BY_LEVEL},
    columns=("p", "slices", "left_out", *SLICE),
    along="lr",
    above=0.0,
    check=check,
)
