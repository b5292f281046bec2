"""Losses along one axis, off the rows of a question: at each setting the value itself, or the lowest over the rates."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from raysweep.analyses.question import Question
from raysweep.analyses.rows import all_keys, better_extremum, groups, means_table, with_choice
from raysweep.errors import InputError
from raysweep.query.loss_curves import FEWEST, LossCurve, fit_losses

if TYPE_CHECKING:
    import pandas as pd

BEST, TURN = "best", "turning"
"""What a question is about: the best value of an axis, or where the metric turns."""


class Ahead(NamedTuple):
    """A forecast. where: the setting of the other axes. new: draws of a new value. edge: of the curve or law itself at
    the nearest place that was computed. beyond: how far outside of that, as a factor by axis; 1 inside."""

    where: Mapping[str, Any]
    new: np.ndarray
    edge: np.ndarray
    beyond: Mapping[str, float]
    more: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Losses:
    """keys: the axes that tell the losses of a question apart. table: the keys and `estimate`."""

    keys: Sequence[str]
    table: pd.DataFrame
    _fitted: dict[Any, Any] = field(default_factory=dict)
    scale = staticmethod(np.asarray)

    @classmethod
    def of(cls, question: Question, at: Collection[str]) -> Losses:
        """The loss is the lowest mean over the axes whose best value is asked for. Raises InputError if the metric is
        no loss."""
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
        """What each curve says of a new value. Raises InputError if several axes of `at` have values that were not
        computed, or no setting has enough lengths."""
        new = [name for name, value in at.items() if not here(self.table, {name: value}).any()]
        if len(new) > 1:
            raise InputError("--at", f"losses go on along one axis, and {' and '.join(new)} were not computed there")
        along = new[0] if new else next(iter(at))
        rest = {name: value for name, value in at.items() if name != along}
        if (line := (along, *rest.items())) not in self._fitted:
            self._fitted[line] = self._curves(along, rest, [key for key in self.keys if key not in at])
        for where, logs, curve in self._fitted[line]:
            log = np.log([at[along]])
            inside = np.clip(log, logs.min(), logs.max())
            edge = curve.at(inside, np.random.default_rng(0), new=False)
            beyond = {along: float(np.exp(np.abs(log - inside)[0]))}
            more = {"along": along, "settings": len(logs), "families": curve.families}
            yield Ahead(where, curve.at(log, np.random.default_rng(0)), edge, beyond, more)

    def _curves(
        self, along: str, rest: Mapping[str, float], others: list[str]
    ) -> list[tuple[Mapping[str, Any], np.ndarray, LossCurve]]:
        """(setting of the others, logs of the lengths, curve) for each setting with enough lengths."""
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
        same &= np.isclose(column.to_numpy(float), value) if is_number else np.asarray(column == value)
    return same
