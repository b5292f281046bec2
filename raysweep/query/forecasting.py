"""Forecasts of a best rate, a turn or a loss where nothing was computed, frozen in a file and scored later."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from raysweep import plain_json
from raysweep.analyses.findings import designed
from raysweep.analyses.kinds.law import over_of
from raysweep.analyses.prepared import for_analyses, restricted
from raysweep.analyses.question import Question
from raysweep.errors import InputError, shown, unknown
from raysweep.fits.reasons import Reason
from raysweep.query.subjects import BEST, TURN, Losses, Places, here
from raysweep.space.analyses import opened

Entry = dict[str, Any]
Asking = Any
"""A sweep, or the findings of a table: what has a name, a space and results."""
VERSION = 3
ENDS = ("low", "estimate", "high")
TURNS = "inflection"
PLACES = {"law": "lr", "regime": "lr", "optimum": "x", TURNS: "x"}
"""The analyses that ask for a best value or a turn, the most telling first, and the option that names its axis."""


def entries_at(sweep: Asking, points: Sequence[Entry]) -> tuple[Question, list[list[Entry]], dict[str, str]]:
    """What is forecast where some axes have these values: the question, for each point an entry per subject and setting
    of the other axes, and why other subjects are not forecast, by name.

    The best rate, or the turn, is that of the first `law` of the space, else of its first `regime`, `optimum` or
    `inflection`, over these axes. Its metric, if it is minimized, is forecast along one of these axes, at the best of
    the rates that were run. An entry has median, low and high of a new setting, and how far the point lies outside of
    the values that were computed, as a factor by axis.

    Raises InputError for an axis that does not vary or is not in the law, and if nothing can be forecast.
    """
    rows, axes = _rows(sweep), list(points[0])
    for name in axes:
        if name not in (*sweep.space.axes, *sweep.space.fixed):
            raise unknown("--at", f"axis of {sweep.name}", name, sweep.space.axes)
        if name not in rows or rows[name].nunique() < 2:
            raise InputError("--at", f"{name} was never varied in {sweep.name}")
        if rows[name].dtype.kind not in "if":
            raise InputError("--at", f"{name} is no axis of numbers")
        if wrong := [point[name] for point in points if not 0 < point[name] < np.inf]:
            raise InputError("--at", f"expected a value above 0 of {name}, got {shown(wrong[0])}")
    question = _question(sweep, rows, axes)
    subjects, reasons = dict[str, Places | Losses](), dict[str, str]()
    place = f"{question.options['place']} {question.options['lr']}"
    for of, kind in ((place, Places), (question.metric, Losses)):
        try:
            subjects[of] = kind.of(question, axes)
        except InputError as problem:
            reasons[of] = str(problem)
    ranks = [0.5, (1 - question.level) / 2, (1 + question.level) / 2, *np.arange(1, 100) / 100]  # a score reads these
    entries_of: list[list[Entry]] = [[] for _ in points]
    for (point, entries), (of, subject) in itertools.product(zip(points, entries_of, strict=True), subjects.items()):
        try:
            for one in subject.forecasts(point):
                new = one.law.at(one.logs, np.random.default_rng(0))
                edge = one.law.at(one.inside, np.random.default_rng(0), new=False)
                estimate, low, high, *quantiles = subject.scale(np.quantile(new, ranks)).tolist()
                beyond = np.exp(np.abs(one.logs - one.inside)).ravel().tolist()
                entry = {"of": of, "where": _plain(one.where), "estimate": estimate, "low": low, "high": high}
                entry |= {"quantiles": quantiles, "inside_estimate": float(subject.scale(np.median(edge)))}
                entry |= {"outside": {name: x for name, x in zip(one.axes, beyond, strict=True) if x > 1}}
                entries.append({**entry, **one.more})
        except InputError as problem:
            reasons[of] = str(problem)
    if not any(entries_of):
        raise InputError("", reasons.get(place) or reasons[question.metric])
    return question, entries_of, reasons


def forecast(sweep: Asking, at: Mapping[str, float]) -> Entry:
    """What is forecast at the values `at` of some axes, as `entries_at` says: plain data for JSON."""
    question, (entries,), reasons = entries_at(sweep, [{**at}])
    rows, space, options = question.rows, sweep.space, question.options
    single = {name: rows[name].iloc[0] for name in space.axes if name not in at and rows[name].nunique() == 1}
    made: Entry = {"version": VERSION, "made": datetime.now(UTC).isoformat(timespec="seconds")}
    made |= {"sweep": sweep.name, "rows": len(rows), "place": options["place"], "level": question.level}
    made |= {"law": {name: options[name] for name in ("metric", "lr", "at_best", "over") if options.get(name)}}
    made |= {"at": {name: float(value) for name, value in at.items()}, "constants": _plain({**space.fixed, **single})}
    made |= {"forecasts": entries, "not_forecast": reasons}
    return made | {"digest": digest(made)}


def score(made: Mapping[str, Any], sweep: Asking, file: str = "FORECAST") -> dict[str, list[Entry]]:
    """Hold a forecast against rows: `settings`, an entry per forecast setting that the sweep has by now, `scores`, a
    summary by subject, and `not_scored`, how many settings have no value in the rows, by the outcome there or NO_ROWS.

    inside: whether the interval of the forecast holds the value that the rows give. crps: the continuous ranked
    probability score, in log units for places and in those of the metric for losses; lower is better. sign: whether the
    value moved, from the edge of what was computed before, as forecast; None inside of that range.

    file: its name. Raises InputError if it was changed after it was made, or if no row of these settings is there.
    """
    if made.get("version") != VERSION or made.get("digest") != digest(made):
        raise InputError(file, "was changed after it was made, or is no forecast of this version")
    entries, at, law, rows = made["forecasts"], made["at"], made["law"], _rows_for(sweep, made)
    subjects, settings, left = dict[str, Places | Losses](), list[Entry](), Counter[tuple[str, str]]()
    for entry in entries:
        of, where, is_loss = entry["of"], entry["where"], "along" in entry
        if of not in subjects:
            options = {"metric": law["metric"], "level": made["level"], "by": [*where]}
            analysis = {TURNS: {**options, "x": law["lr"]}} if made["place"] == TURN else {"law": {**law, **options}}
            subjects[of] = (Losses if is_loss else Places).of(_question(sweep, rows, at, analysis), at)
        if others := [key for key in subjects[of].keys if key not in (*at, *where)]:
            raise InputError(sweep.name, f"varies {others[0]}, of which the forecast says nothing")
        table = subjects[of].table
        measured = next(iter(table[here(table, {**where, **at})].to_dict("records")), {"outcome": Reason.NO_ROWS})
        if not np.isfinite(measured.get("estimate", np.nan)):
            left[of, str(measured.get("outcome", Reason.NO_ROWS))] += 1
            continue
        unscale = np.asarray if is_loss else np.log
        drawn, edge = unscale(entry["quantiles"]), unscale(entry["inside_estimate"])
        value, middle = unscale(measured["estimate"]), unscale(entry["estimate"])
        line = {"of": of, "where": where, "unit": "" if is_loss else "log units"}
        middles = [float(measured.get(end, measured["estimate"])) for end in ENDS]
        line |= {"forecast": [entry[end] for end in ENDS], "measured": middles}
        line |= {"inside": bool(entry["low"] <= measured["estimate"] <= entry["high"])}
        line |= {"crps": float(np.abs(drawn - value).mean() - np.abs(drawn[:, None] - drawn).mean() / 2)}
        line |= {"sign": bool(np.sign(value - edge) == np.sign(middle - edge)) if entry["outside"] else None}
        settings.append(line)
    if not settings and all(reason == Reason.NO_ROWS for _, reason in left):
        places = ", ".join(f"{name} = {value:g}" for name, value in at.items())
        raise InputError(sweep.name, f"has no {' and no '.join(subjects)} at {places} yet")
    scores = []
    for of, lines in ((of, [*lines]) for of, lines in itertools.groupby(settings, lambda line: line["of"])):
        signs = [line["sign"] for line in lines if line["sign"] is not None]
        summary = {"of": of, "inside": sum(line["inside"] for line in lines), "settings": len(lines)}
        summary |= {"crps": float(np.mean([line["crps"] for line in lines])), "unit": lines[0]["unit"]}
        scores.append({**summary, "signs_right": sum(signs), "signs_of": len(signs)})
    every = Counter(entry["of"] for entry in entries)
    not_scored = [{"of": of, "reason": why, "settings": n, "forecasts": every[of]} for (of, why), n in left.items()]
    return {"settings": settings, "scores": scores, "not_scored": not_scored}


def digest(made: Mapping[str, Any]) -> str:
    """What a forecast says, as 16 digits: the file is as it was made if they agree."""
    content = {name: value for name, value in made.items() if name != "digest"}
    return hashlib.sha256(plain_json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _plain(values: Mapping[str, Any]) -> Entry:
    return {name: np.asarray(value).item() for name, value in values.items()}


def _rows(sweep: Asking) -> pd.DataFrame:
    if (rows := sweep.results()).empty:
        raise InputError(sweep.name, "there are no rows yet")
    return rows


def _rows_for(sweep: Asking, made: Mapping[str, Any]) -> pd.DataFrame:
    """The rows of a sweep with the constants of a forecast, and what is fixed. InputError if it lacks any of it."""
    rows, law = _rows(sweep), made["law"]
    rows = rows.assign(**{name: value for name, value in sweep.space.fixed.items() if name not in rows})
    numbers = [*made["at"], *(law[name] for name in ("lr", "at_best") if name in law)]
    where = [name for entry in made["forecasts"] for name in entry["where"]]
    for noun, names in (("axis", [*numbers, *where]), ("metric", [law["metric"]])):
        if gone := [name for name in names if name not in rows]:
            raise InputError(sweep.name, f"has no {noun} {gone[0]}, which the forecast is about")
    if words := [name for name in numbers if rows[name].dtype.kind not in "if"]:
        raise InputError(sweep.name, f"{words[0]} is no axis of numbers")
    for name, value in made.get("constants", {}).items():
        if name in rows and (rows := rows[here(rows, {name: value})]).empty:
            raise InputError(sweep.name, f"has no rows with {name} = {value}, as the forecast has")
    return rows


def _question(sweep: Asking, rows: pd.DataFrame, at: Collection[str], entry: Entry | None = None) -> Question:
    """The question of the law of a sweep. entry: an analysis; None for one of the space."""
    design, workload = designed((sweep.space.as_dict(),), (sweep.name,))
    asked = dict(reversed([opened(one) for one in ([entry] if entry else design.analyses())]))  # the first of each kind
    kind = next((kind for kind in PLACES if kind in asked), None)
    if kind is None:
        kinds = ", ".join(PLACES)
        raise InputError(sweep.name, f"asks for no best value and no turn; give its space an analysis {kinds}")
    options = {**asked[kind], "lr": asked[kind][PLACES[kind]], "place": TURN if kind == TURNS else BEST}
    options["over"] = over_of(options) if kind == "law" else list(at)
    if kind == TURNS:  # an axis of one value tells no curves apart by itself
        options["by"] = list(dict.fromkeys([*at, *(options.get("by") or ())]))
    best = [options[name] for name in ("lr", "at_best") if options.get(name) in at]
    if best and kind not in ("law", TURNS):
        raise InputError("--at", f"{best[0]} is what is forecast; name the axes that its best value depends on")
    if stray := [name for name in at if name not in options["over"]]:
        raise InputError("--at", f"{stray[0]} is not in the law, which is over {', '.join(options['over'])}")
    chosen, _ = restricted(rows, options, workload)
    return Question(for_analyses(chosen, [options["metric"]]), options, workload, "law", design)
