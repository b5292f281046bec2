"""Forecasts of a best rate, a turn or a loss where nothing was computed, frozen in a file and scored later."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from raysweep import plain_json
from raysweep.analyses.kinds.law import over_of
from raysweep.analyses.prepared import for_analyses, restricted
from raysweep.analyses.question import Question
from raysweep.errors import InputError, shown, unknown
from raysweep.fits.reasons import Reason
from raysweep.query.losses import Losses, near
from raysweep.query.places import Places
from raysweep.space.analyses import opened

if TYPE_CHECKING:
    import pandas as pd

    from raysweep.space.schema import Space

VERSION = 3
BEST, TURN = "best", "turning"
QUANTILES = np.arange(1, 100) / 100
"""Of the forecast, which a score reads."""
TURNS = "inflection"
PLACES = {"law": "lr", "regime": "lr", "optimum": "x", TURNS: "x"}
"""The analyses that ask for a best value or a turn, the most telling first, and the option that names its axis."""


class Asked(Protocol):
    """Rows with a space that asks: a sweep, or the findings of a table."""

    @property
    def name(self) -> str: ...

    @property
    def space(self) -> Space: ...

    def results(self) -> pd.DataFrame: ...


@dataclass(frozen=True, eq=False)
class Known:
    """What forecasts are made of. reasons: why the places or the losses are forecast nowhere, by their names."""

    question: Question
    subjects: Sequence[Places | Losses]
    reasons: Mapping[str, str]

    def entries(self, at: Mapping[str, float]) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """What is forecast at a setting: an entry per subject and setting of the other axes. And why the others are
        not, by name."""
        tail, out, reasons = (1 - self.question.level) / 2, [], dict(self.reasons)
        for subject in self.subjects:
            scale = np.exp if isinstance(subject, Places) else np.asarray
            try:
                ahead = list(subject.forecasts(at))
            except InputError as problem:
                reasons[subject.name], ahead = str(problem), []
            for one in ahead:
                low, middle, high, *quantiles = scale(
                    np.quantile(one.new, np.r_[tail, 0.5, 1 - tail, QUANTILES])
                ).tolist()
                entry = {"of": subject.name, "where": {name: _plain(value) for name, value in one.where.items()}}
                entry |= {"estimate": middle, "low": low, "high": high, "quantiles": quantiles}
                entry |= {"outside": {name: factor for name, factor in one.beyond.items() if factor > 1}}
                out.append({**entry, "inside_estimate": float(scale(np.median(one.edge))), **one.more})
        return out, reasons


def forecast(sweep: Asked, at: Mapping[str, float]) -> dict[str, Any]:
    """What is forecast at the values `at` of some axes: plain data for JSON.

    The best rate, or the turn, is that of the first `law` of the space, else of its first `regime`, `optimum` or
    `inflection`, over the axes in `at`. Its metric, if it is minimized, is forecast along one of these axes, at the
    best of the rates that were run.
    Each setting of the other axes has an entry: median, low and high of a new setting, and how far `at` lies outside of
    the values that were computed, as a factor by axis.

    Raises InputError for an axis that does not vary or is not in the law, and if nothing can be forecast.
    """
    known = known_of(sweep, at)
    question, options = known.question, known.question.options
    entries, reasons = known.entries(at)
    if not entries:
        raise InputError("", next(iter(reasons.values())))
    made = {
        "version": VERSION,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "sweep": sweep.name,
        "rows": len(question.rows),
        "law": {name: options[name] for name in ("metric", "lr", "at_best", "over") if options.get(name)},
        "place": options["place"],
        "at": {name: float(value) for name, value in at.items()},
        "constants": _constants(sweep, question.rows, at),
        "level": question.level,
        "forecasts": entries,
        "not_forecast": reasons,
    }
    return made | {"digest": digest(made)}


def known_of(sweep: Asked, at: Mapping[str, float]) -> Known:
    """What a sweep knows for forecasts over the axes in `at`. Raises InputError for an axis that cannot be asked."""
    rows, names = _rows(sweep), [*sweep.space.axes, *sweep.space.fixed]
    for name, value in at.items():
        if name not in names:
            raise unknown("--at", f"axis of {sweep.name}", name, sweep.space.axes)
        if name not in rows or rows[name].nunique() < 2:
            raise InputError("--at", f"{name} was never varied in {sweep.name}")
        if rows[name].dtype.kind not in "if":
            raise InputError("--at", f"{name} is no axis of numbers")
        if not 0 < float(value) < np.inf:
            raise InputError("--at", f"expected a value above 0 of {name}, got {shown(value)}")
    question = _question(sweep, rows, at)
    subjects, reasons = list[Places | Losses](), dict[str, str]()
    try:
        subjects.append(places := _places(question, at))
        if reason := places.why_not():
            raise InputError(sweep.name, f"has no law of the {places.name}: {reason}")
    except InputError as problem:
        subjects, reasons = [], {_name(question): str(problem)}
    try:
        subjects.append(_losses(question, at))
    except InputError as problem:
        reasons[question.metric] = str(problem)
    return Known(question, subjects, reasons)


def score(made: Mapping[str, Any], sweep: Asked, file: str = "FORECAST") -> dict[str, Any]:
    """Hold a forecast against rows: an entry per forecast setting that the sweep has by now, and a summary by subject.

    inside: whether the interval of the forecast holds the value that the rows give. crps: the continuous ranked
    probability score, in log units for places and in those of the metric for losses; lower is better. sign: whether the
    value moved, from the edge of what was computed before, as forecast; None inside of that range. not_scored: how many
    settings have no value in the rows, by reason: the outcome of the place there, or NO_ROWS.

    file: its name. Raises InputError if it was changed after it was made, or if no row of these settings is there.
    """
    if made.get("version") != VERSION or made.get("digest") != digest(made):
        raise InputError(file, "was changed after it was made, or is no forecast of this version")
    entries, at, law = made["forecasts"], made["at"], made["law"]
    where = list(dict.fromkeys(name for entry in entries for name in entry["where"]))
    rows = _with_constants(sweep, law, [*at], where, made.get("constants", {}))
    subjects, lines, left = dict[str, Places | Losses](), list[dict[str, Any]](), Counter[tuple[str, str]]()
    for entry in entries:
        of, loss = entry["of"], "along" in entry
        if of not in subjects:
            shared = {"metric": law["metric"], "level": made["level"], "by": [*entry["where"]]}
            asked = {TURNS: {**shared, "x": law["lr"]}} if made["place"] == TURN else {"law": {**law, **shared}}
            subjects[of] = (_losses if loss else _places)(_question(sweep, rows, at, asked), at)
        if unknown_axes := [key for key in subjects[of].keys if key not in (*at, *entry["where"])]:
            raise InputError(sweep.name, f"varies {unknown_axes[0]}, of which the forecast says nothing")
        own = subjects[of].value_at(entry["where"], at)
        if isinstance(own, str):
            left[of, own] += 1
            continue
        scale = np.asarray if loss else np.log
        drawn, value, edge = scale(entry["quantiles"]), scale(own["estimate"]), scale(entry["inside_estimate"])
        apart = np.abs(drawn[:, None] - drawn[None]).mean() / 2
        same = np.sign(value - edge) == np.sign(scale(entry["estimate"]) - edge)
        lines.append(
            {
                "of": of,
                "where": entry["where"],
                "forecast": [entry["low"], entry["estimate"], entry["high"]],
                "measured": [own["low"], own["estimate"], own["high"]],
                "inside": bool(entry["low"] <= own["estimate"] <= entry["high"]),
                "crps": float(np.abs(drawn - value).mean() - apart),
                "unit": "" if loss else "log units",
                "sign": bool(same) if entry["outside"] else None,
            }
        )
    if not lines and all(reason == Reason.NO_ROWS for _, reason in left):
        places = ", ".join(f"{name} = {value:g}" for name, value in at.items())
        names = " and no ".join(subjects)
        raise InputError(sweep.name, f"has no {names} at {places} yet")
    scores = []
    for of in dict.fromkeys(line["of"] for line in lines):
        part = [line for line in lines if line["of"] == of]
        signs = [line["sign"] for line in part if line["sign"] is not None]
        scores.append(
            {
                "of": of,
                "inside": sum(line["inside"] for line in part),
                "settings": len(part),
                "crps": float(np.mean([line["crps"] for line in part])),
                "unit": part[0]["unit"],
                "signs_right": sum(signs),
                "signs_of": len(signs),
            }
        )
    every = Counter(entry["of"] for entry in entries)
    unscored = [{"of": of, "reason": why, "settings": n, "forecasts": every[of]} for (of, why), n in left.items()]
    found = {"forecast": made["digest"], "sweep": sweep.name, "settings": lines, "scores": scores}
    return {**found, "not_scored": unscored}


def digest(made: Mapping[str, Any]) -> str:
    """What a forecast says, as 16 digits: the file is as it was made if they agree."""
    content = {name: value for name, value in made.items() if name != "digest"}
    return hashlib.sha256(plain_json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _rows(sweep: Asked) -> pd.DataFrame:
    if (rows := sweep.results()).empty:
        raise InputError(sweep.name, "there are no rows yet")
    return rows


def _constants(sweep: Asked, rows: pd.DataFrame, at: Mapping[str, float]) -> dict[str, Any]:
    """The parameters that have one value in these rows."""
    single = {name: rows[name].iloc[0] for name in sweep.space.axes if name not in at and rows[name].nunique() == 1}
    return {name: _plain(value) for name, value in {**sweep.space.fixed, **single}.items()}


def _with_constants(
    sweep: Asked, law: Mapping[str, Any], at: Sequence[str], where: Sequence[str], constants: Mapping[str, Any]
) -> pd.DataFrame:
    """The rows of a sweep that have these constants, its fixed values as columns. Raises InputError if it lacks an axis
    or the metric, or has no such row."""
    fixed, numbers = sweep.space.fixed, [*at, *_searched(law)]
    rows = _rows(sweep)
    rows = rows.assign(**{name: value for name, value in fixed.items() if name not in rows})
    for noun, names in (("axis", [*numbers, *where]), ("metric", [law["metric"]])):
        if gone := [name for name in names if name not in rows]:
            raise InputError(sweep.name, f"has no {noun} {gone[0]}, which the forecast is about")
    if words := [name for name in numbers if rows[name].dtype.kind not in "if"]:
        raise InputError(sweep.name, f"{words[0]} is no axis of numbers")
    for name, value in constants.items():
        if name in rows and (rows := rows[near(rows[name], value)]).empty:
            raise InputError(sweep.name, f"has no rows with {name} = {value}, as the forecast has")
    return rows


def _question(
    sweep: Asked, rows: pd.DataFrame, at: Mapping[str, float], entry: Mapping[str, Any] | None = None
) -> Question:
    """The question of the law of a sweep. entry: an analysis; None for one of the space."""
    from raysweep.analyses.findings import designed

    design, workload = designed((sweep.space.as_dict(),), (sweep.name,))
    entries = [opened(one) for one in ([entry] if entry else design.analyses())]
    asked = {kind: options for kind, options in reversed(entries) if kind in PLACES}
    kind = next((kind for kind in PLACES if kind in asked), None)
    if kind is None:
        raise InputError(
            sweep.name, f"asks for no best value and no turn; give its space an analysis {', '.join(PLACES)}"
        )
    options = dict(asked[kind])
    options |= {"lr": options[PLACES[kind]], "over": over_of(options) if kind == "law" else list(at)}
    options |= {"place": TURN if kind == TURNS else BEST}
    if kind == TURNS:  # an axis of one value tells no curves apart by itself
        options["by"] = list(dict.fromkeys([*at, *(options.get("by") or ())]))
    if kind not in ("law", TURNS) and (best := [name for name in _searched(options) if name in at]):
        raise InputError("--at", f"{best[0]} is what is forecast; name the axes that its best value depends on")
    if stray := [name for name in at if name not in options["over"]]:
        raise InputError("--at", f"{stray[0]} is not in the law, which is over {', '.join(options['over'])}")
    chosen, _ = restricted(rows, options, workload)
    return Question(for_analyses(chosen, [options["metric"]]), options, workload, "law", design)


def _name(question: Question) -> str:
    """What the laws forecast, such as "best lr"."""
    return f"{question.options['place']} {question.options['lr']}"


def _places(question: Question, at: Mapping[str, float]) -> Places:
    return Places.of(question, at, _name(question), turns=question.options["place"] == TURN)


def _losses(question: Question, at: Mapping[str, float]) -> Losses:
    return Losses.of(question, _searched(question.options) if question.options["place"] == BEST else [], at)


def _searched(options: Mapping[str, Any]) -> list[str]:
    return [options[name] for name in ("lr", "at_best") if options.get(name)]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
