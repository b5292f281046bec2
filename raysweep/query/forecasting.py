"""Forecasts of a best rate or a turn where nothing was computed, frozen in a file, and scored against later rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from raysweep import plain_json
from raysweep.analyses.kinds.law import Laws, laws_of, over_of
from raysweep.analyses.prepared import for_analyses, restricted
from raysweep.analyses.question import Question
from raysweep.errors import InputError, shown, unknown
from raysweep.query.turn_laws import TurnLaws
from raysweep.space.analyses import opened

if TYPE_CHECKING:
    import pandas as pd

    from raysweep.space.schema import Space

VERSION = 2
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


def forecast(sweep: Asked, at: Mapping[str, float]) -> dict[str, Any]:
    """The best rate, or the turn, at the values `at` of some axes, from the law of the sweep: plain data for JSON.

    The law is that of the first `law` of the space, else of its first `regime`, `optimum` or `inflection`, over the
    axes in `at`.
    Each setting of the other axes has an entry: median, low and high of a new setting, and how far `at` lies outside of
    the values that were computed, as a factor by axis.

    Raises InputError for an axis that does not vary or is not in the law, and if there is no law.
    """
    question, laws = question_and_laws(sweep, at)
    options = question.options
    made = {
        "version": VERSION,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "sweep": sweep.name,
        "rows": len(question.rows),
        "law": {name: options[name] for name in ("metric", "lr", "at_best") if options.get(name)} | {"over": laws.over},
        "place": options["place"],
        "at": {name: float(value) for name, value in at.items()},
        "level": question.level,
        "forecasts": entries(laws, question.level, at),
    }
    return made | {"digest": digest(made)}


def question_and_laws(sweep: Asked, at: Mapping[str, float]) -> tuple[Question, Laws | TurnLaws]:
    """The law of a sweep for forecasts over the axes in `at`."""
    question = _question(sweep, at)
    laws = _laws(question)
    if gone := [name for name in laws.over if name not in at]:
        raise InputError("--at", f"missing {gone[0]}; the law is over {', '.join(laws.over)}")
    if all(law.reason for _, law, _ in laws.laws):
        reason = laws.laws[0][1].reason if laws.laws else "no rows"
        raise InputError(
            sweep.name,
            f"has no law of the {question.options['place']} {question.options['lr']}: {str(reason).replace('_', ' ')}",
        )
    return question, laws


def entries(laws: Laws | TurnLaws, level: float, at: Mapping[str, float]) -> list[dict[str, Any]]:
    """What each law forecasts: an entry per setting of the axes that are not in the law."""
    logs = np.log([[float(at[name]) for name in laws.over]])
    tail, out = (1 - level) / 2, []
    for where, law in ((where, law) for where, law, _ in laws.laws if not law.reason):
        new = law.at(logs, np.random.default_rng(0))[:, 0]
        near = np.clip(logs, law.logs.min(0), law.logs.max(0))
        beyond = dict(zip(laws.over, law.beyond(logs)[0].tolist(), strict=True))
        low, middle, high = np.exp(np.quantile(new, [tail, 0.5, 1 - tail])).tolist()
        out.append(
            {
                "where": {name: _plain(value) for name, value in where.items()},
                "estimate": middle,
                "low": low,
                "high": high,
                "outside": {name: factor for name, factor in beyond.items() if factor > 1},
                "inside_estimate": float(np.exp(np.median(law.at(near, np.random.default_rng(0), new=False)))),
                "quantiles": np.exp(np.quantile(new, QUANTILES)).tolist(),
                "exponents": dict(zip(laws.over, law.exponents()[1].tolist(), strict=True)),
                "settings": len(law.logs),
            }
        )
    return out


def score(made: Mapping[str, Any], sweep: Asked) -> dict[str, Any]:
    """Hold a forecast against rows: an entry per forecast setting that the sweep has by now, and their summary.

    inside: whether the interval of the forecast holds the best value that the rows give. crps: the continuous ranked
    probability score in log units, lower is better. sign: whether the best value moved, from the edge of what was
    computed before, as forecast; None inside of that range.

    Raises InputError if the file was changed after it was made, or if no row of these settings is there.
    """
    if made.get("version") != VERSION or made.get("digest") != digest(made):
        raise InputError("FORECAST", "was changed after it was made, or is no forecast")
    at, law = made["at"], made["law"]
    entry = {"law": {**law, "level": made["level"]}}
    if made["place"] == TURN:
        entry = {TURNS: {"metric": law["metric"], "x": law["lr"], "level": made["level"]}}
    question = _question(sweep, at, entry)
    laws, lines = _laws(question), []
    for entry in made["forecasts"]:
        own = _value_at(laws, entry["where"], at)
        if own is None:
            continue
        logs, value = np.log(entry["quantiles"]), np.log(own["estimate"])
        apart = np.abs(logs[:, None] - logs[None]).mean() / 2
        turn = np.sign(np.log(entry["estimate"] / entry["inside_estimate"]))
        lines.append(
            {
                "where": entry["where"],
                "forecast": [entry["low"], entry["estimate"], entry["high"]],
                "measured": [own["low"], own["estimate"], own["high"]],
                "inside": bool(entry["low"] <= own["estimate"] <= entry["high"]),
                "crps": float(np.abs(logs - value).mean() - apart),
                "sign": bool(np.sign(value - np.log(entry["inside_estimate"])) == turn) if entry["outside"] else None,
            }
        )
    if not lines:
        places = ", ".join(f"{name} = {value:g}" for name, value in at.items())
        raise InputError(sweep.name, f"locates no {made['place']} {law['lr']} at {places} yet")
    signs = [line["sign"] for line in lines if line["sign"] is not None]
    return {
        "forecast": made["digest"],
        "sweep": sweep.name,
        "settings": lines,
        "inside": sum(line["inside"] for line in lines),
        "of": len(lines),
        "crps": float(np.mean([line["crps"] for line in lines])),
        "signs_right": sum(signs),
        "signs_of": len(signs),
    }


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


def _laws(question: Question) -> Laws | TurnLaws:
    return TurnLaws.of(question) if question.options["place"] == TURN else laws_of(question)


def _value_at(laws: Laws | TurnLaws, where: Mapping[str, Any], at: Mapping[str, float]) -> dict[str, float] | None:
    """The best value that the rows themselves give at a setting; None if it is not located there."""
    for own, _, part in laws.laws:
        if {name: _plain(value) for name, value in own.items()} != dict(where):
            continue
        near = np.all([np.isclose(part[name].to_numpy(float), value) for name, value in at.items()], axis=0)
        found = part[near & np.isfinite(part["estimate"].to_numpy(float))]
        if len(found):
            return {name: float(found[name].iloc[0]) for name in ("estimate", "low", "high")}
    return None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
