"""Forecasts of a best rate, a turn or a loss where nothing was computed, frozen in a file and scored later."""

from __future__ import annotations

import hashlib
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
from raysweep.query.losses import Losses
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
    """What forecasts are made of. reasons: why the places or the losses are not forecast, by their names."""

    question: Question
    subjects: Sequence[Places | Losses]
    reasons: Mapping[str, str]

    def entries(self, at: Mapping[str, float]) -> list[dict[str, Any]]:
        """What is forecast at a setting: an entry per subject and setting of the other axes."""
        tail, out = (1 - self.question.level) / 2, []
        for subject in self.subjects:
            scale = np.exp if isinstance(subject, Places) else np.asarray
            for one in subject.forecasts(at):
                low, middle, high, *quantiles = scale(
                    np.quantile(one.new, np.r_[tail, 0.5, 1 - tail, QUANTILES])
                ).tolist()
                entry = {"of": subject.name, "where": {name: _plain(value) for name, value in one.where.items()}}
                entry |= {"estimate": middle, "low": low, "high": high, "quantiles": quantiles}
                entry |= {"outside": {name: factor for name, factor in one.beyond.items() if factor > 1}}
                out.append({**entry, "inside_estimate": float(scale(np.median(one.edge))), **one.more})
        return out


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
    made = {
        "version": VERSION,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "sweep": sweep.name,
        "rows": len(question.rows),
        "law": {name: options[name] for name in ("metric", "lr", "at_best", "over") if options.get(name)},
        "place": options["place"],
        "at": {name: float(value) for name, value in at.items()},
        "level": question.level,
        "forecasts": known.entries(at),
        "not_forecast": known.reasons,
    }
    return made | {"digest": digest(made)}


def known_of(sweep: Asked, at: Mapping[str, float]) -> Known:
    """What a sweep knows for forecasts over the axes in `at`. Raises InputError if that is nothing."""
    question = _question(sweep, at)
    subjects, problems = list[Places | Losses](), dict[str, InputError]()
    try:
        subjects.append(places := _places(question, at))
        if reason := places.why_not():
            raise InputError(sweep.name, f"has no law of the {places.name}: {reason}")
    except InputError as problem:
        subjects, problems = [], {_name(question): problem}
    try:
        subjects.append(losses := _losses(question, at))
        losses.curves(at)
    except InputError as problem:
        subjects = [one for one in subjects if isinstance(one, Places)]
        problems[question.metric] = problem
    if not subjects:
        raise problems[_name(question)]
    return Known(question, subjects, {name: str(problem) for name, problem in problems.items()})


def score(made: Mapping[str, Any], sweep: Asked) -> dict[str, Any]:
    """Hold a forecast against rows: an entry per forecast setting that the sweep has by now, and a summary by subject.

    inside: whether the interval of the forecast holds the value that the rows give. crps: the continuous ranked
    probability score, in log units for places and in those of the metric for losses; lower is better. sign: whether the
    value moved, from the edge of what was computed before, as forecast; None inside of that range.

    Raises InputError if the file was changed after it was made, or if no row of these settings is there.
    """
    if made.get("version") != VERSION or made.get("digest") != digest(made):
        raise InputError("FORECAST", "was changed after it was made, or is no forecast of this version")
    at, law = made["at"], made["law"]
    asked = {"law": {**law, "level": made["level"]}}
    if made["place"] == TURN:
        asked = {TURNS: {"metric": law["metric"], "x": law["lr"], "level": made["level"]}}
    question = _question(sweep, at, asked)
    kinds = {"along" in entry for entry in made["forecasts"]}
    subjects: dict[bool, Places | Losses] = {loss: (_losses if loss else _places)(question, at) for loss in kinds}
    lines = list[dict[str, Any]]()
    for entry in made["forecasts"]:
        loss = "along" in entry
        if (own := subjects[loss].value_at(entry["where"], at)) is None:
            continue
        scale = np.asarray if loss else np.log
        drawn, value, edge = scale(entry["quantiles"]), scale(own["estimate"]), scale(entry["inside_estimate"])
        apart = np.abs(drawn[:, None] - drawn[None]).mean() / 2
        same = np.sign(value - edge) == np.sign(scale(entry["estimate"]) - edge)
        lines.append(
            {
                "of": entry["of"],
                "where": entry["where"],
                "forecast": [entry["low"], entry["estimate"], entry["high"]],
                "measured": [own["low"], own["estimate"], own["high"]],
                "inside": bool(entry["low"] <= own["estimate"] <= entry["high"]),
                "crps": float(np.abs(drawn - value).mean() - apart),
                "unit": "" if loss else "log units",
                "sign": bool(same) if entry["outside"] else None,
            }
        )
    if not lines:
        places = ", ".join(f"{name} = {value:g}" for name, value in at.items())
        names = " and no ".join(dict.fromkeys(entry["of"] for entry in made["forecasts"]))
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
    return {"forecast": made["digest"], "sweep": sweep.name, "settings": lines, "scores": scores}


def digest(made: Mapping[str, Any]) -> str:
    """What a forecast says, as 16 digits: the file is as it was made if they agree."""
    content = {name: value for name, value in made.items() if name != "digest"}
    return hashlib.sha256(plain_json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _question(sweep: Asked, at: Mapping[str, float], entry: Mapping[str, Any] | None = None) -> Question:
    """The question of the law of a sweep. entry: an analysis; None for one of the space."""
    from raysweep.analyses.findings import designed

    rows, names = sweep.results(), list(sweep.space.axes)
    for name, value in at.items():
        if name not in names:
            raise unknown("--at", f"axis of {sweep.name}", name, names)
        if rows[name].nunique() < 2 and entry is None:
            raise InputError("--at", f"{name} was never varied in {sweep.name}")
        if not 0 < float(value) < np.inf:
            raise InputError("--at", f"expected a value above 0 of {name}, got {shown(value)}")
    if rows.empty:
        raise InputError(sweep.name, "there are no rows yet")
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
    searched = [question.options[name] for name in ("lr", "at_best") if question.options.get(name)]
    return Losses.of(question, searched if question.options["place"] == BEST else [], at)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
