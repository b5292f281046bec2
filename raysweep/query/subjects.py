"""What can be forecast off the rows of a question: the best value of an axis, or the turn, and the loss."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from raysweep.analyses.held_out import law_of, place
from raysweep.analyses.kinds import inflection
from raysweep.analyses.kinds.law import laws_of
from raysweep.analyses.question import Question
from raysweep.analyses.rows import Where, all_keys, better_extremum, groups, means_table, with_choice
from raysweep.errors import InputError
from raysweep.fits.surface.law import Law
from raysweep.query.loss_curves import FEWEST, LossCurve, fit_losses

BEST, TURN = "best", "turning"
"""What a question is about: the best value of an axis, or where the metric turns."""


class Ahead(NamedTuple):
    """A forecast at a setting, `where`, of the other axes. logs: of the axes at the new place. inside: at the nearest
    place that was computed. more: what else there is to say."""

    where: Where
    law: Law | LossCurve
    axes: Sequence[str]
    logs: np.ndarray
    inside: np.ndarray
    more: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Places:
    """over: the axes of the laws. keys: those that tell the laws apart. table: the places. laws: (the setting of the
    keys, its law) each. sweep, name: for errors."""

    over: Sequence[str]
    keys: Sequence[str]
    table: pd.DataFrame
    laws: Sequence[tuple[Where, Law]]
    sweep: str = ""
    name: str = ""
    scale = staticmethod(np.exp)

    @classmethod
    def of(cls, question: Question, at: Collection[str]) -> Places:
        """Raises InputError if `at` lacks an axis of the law, or a law of turns would be over that of the curves."""
        kind = question.options["place"]
        if kind == TURN:
            over, keys, table, laws = _turns(question)
        else:
            best = laws_of(question)
            over, keys, laws = best.over, best.others, [(where, law) for where, law, _ in best.laws]
            table = pd.concat([part for *_, part in best.laws])
        if gone := [axis for axis in over if axis not in at]:
            raise InputError("--at", f"missing {gone[0]}; the law is over {', '.join(over)}")
        return cls(over, keys, table, laws, question.design.names[0], f"{kind} {question.options['lr']}")

    def forecasts(self, at: Mapping[str, float]) -> Iterator[Ahead]:
        """What each law says of a new setting, in log. Raises InputError without any law."""
        if all(reasons := [law.reason for _, law in self.laws]):
            why = str(reasons[0]).replace("_", " ") if reasons else "no rows"
            raise InputError(self.sweep, f"has no law of the {self.name}: {why}")
        logs = np.log([[float(at[axis]) for axis in self.over]])
        for where, law in self.laws:
            if not law.reason:
                exponents = dict(zip(self.over, law.exponents()[1].tolist(), strict=True))
                more = {"exponents": exponents, "settings": len(law.logs)}
                yield Ahead(where, law, self.over, logs, nearest(law.logs, logs), more)


def nearest(settings: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """The logs of a place (1, axes), each moved into its range among the settings, (settings, axes), that have the same
    values of the other axes; among all of them, if there is none."""
    same, out = np.isclose(settings, logs, rtol=0, atol=1e-5), logs.copy()
    for k in range(logs.shape[1]):
        alike = np.delete(same, k, axis=1).all(axis=1)
        column = settings[alike if alike.any() else ..., k]
        out[:, k] = np.clip(logs[:, k], column.min(), column.max())
    return out


def _turns(question: Question) -> tuple[list[str], list[str], pd.DataFrame, list[tuple[Where, Law]]]:
    """Locate the turns of all curves, and fit a law for each setting of the axes that it does not have."""
    over, x = list(question.options["over"]), question.x
    if x in over:
        raise InputError("--at", f"{x} is where {question.metric} turns; name the axes that its place depends on")
    finding = inflection.run(question)
    values = question.rows[x].to_numpy(float)
    ends = np.log([values[values > 0].min(), values.max()])
    keys, laws = [key for key in finding.keys if key not in over], []
    for where, table in groups(finding.table, keys):
        places = [place(row, ends, question.level) for row in table.to_dict("records")]
        axes = table[over].to_numpy(float)[[one is not None for one in places]]
        laws.append((where, law_of([one for one in places if one is not None], axes, table["outcome"])))
    return over, keys, finding.table, laws


@dataclass(frozen=True, eq=False)
class Losses:
    """keys: the axes that tell the losses of a question apart. table: the keys and `estimate`."""

    keys: Sequence[str]
    table: pd.DataFrame
    _fitted: dict[Any, Any] = field(default_factory=dict)
    scale = staticmethod(np.asarray)

    @classmethod
    def of(cls, question: Question, at: Collection[str]) -> Losses:
        """The loss is the lowest mean over the axes whose best value is asked for. InputError if it is no loss."""
        metric, workload, rows, options = question.metric, question.workload, question.rows, question.options
        if better_extremum(metric, workload) != "min":
            raise InputError(metric, "is not minimized")
        searched = [options[name] for name in ("lr", "at_best") if options.get(name) and options["place"] == BEST]
        apart = list(dict.fromkeys([*at, *question.by]))
        keys = [key for key in all_keys(rows, workload, None, apart, question.design) if key not in searched]
        for axis in searched:
            rows = with_choice(rows, axis, keys)
        means = means_table(rows, [*keys, *searched], metric, workload)
        means["estimate"] = means["median"].where(means["no_variance"].astype(bool), means["mean"])
        return cls(keys, means.groupby(keys, dropna=False)["estimate"].min().reset_index())

    def forecasts(self, at: Mapping[str, float]) -> Iterator[Ahead]:
        """What each curve says of a new value. InputError without one, or if several axes of `at` go on."""
        new = [name for name, value in at.items() if not here(self.table, {name: value}).any()]
        if len(new) > 1:
            raise InputError("--at", f"losses go on along one axis, and {' and '.join(new)} were not computed there")
        along = new[0] if new else next(iter(at))
        rest = {name: value for name, value in at.items() if name != along}
        if (line := (along, *rest.items())) not in self._fitted:
            self._fitted[line] = self._curves(along, rest)
        for where, logs, curve in self._fitted[line]:
            log = np.log([at[along]])
            more = {"along": along, "settings": len(logs), "families": curve.families}
            yield Ahead(where, curve, [along], log, np.clip(log, logs.min(), logs.max()), more)

    def _curves(self, along: str, rest: Mapping[str, float]) -> list[tuple[Where, np.ndarray, LossCurve]]:
        """(setting of the other axes, logs of the lengths, curve) for each setting with enough lengths."""
        others = [key for key in self.keys if key not in (along, *rest)]
        lengths = self.table[along].astype(float)
        table = self.table[np.isfinite(lengths) & (lengths > 0) & here(self.table, rest)]
        parts = [(where, part) for where, part in groups(table, others) if part[along].nunique() >= FEWEST]
        if not parts:
            raise InputError("--at", f"fewer than {FEWEST} values of {along} in every setting")
        logs = [np.log(part[along].to_numpy(float)) for _, part in parts]
        losses = [part["estimate"].to_numpy(float) for _, part in parts]
        curves = fit_losses(list(zip(logs, losses, strict=True)))
        return [(where, x, curve) for (where, _), x, curve in zip(parts, logs, curves, strict=True)]


def here(table: pd.DataFrame, values: Mapping[str, Any]) -> np.ndarray:
    """Which rows have these values, up to rounding where they are numbers."""
    same = np.ones(len(table), dtype=bool)
    for name, value in values.items():
        column, is_number = table[name], table[name].dtype.kind in "if" and not isinstance(value, (str, bool))
        same &= np.isclose(column.to_numpy(float), value, atol=0) if is_number else np.asarray(column == value)
    return same
