"""Losses along one axis, off the rows of a question: at each setting the value itself, or the lowest over the rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from raysweep.analyses.question import Question
from raysweep.analyses.rows import all_keys, better_extremum, groups, means_table, with_choice
from raysweep.errors import InputError
from raysweep.fits.reasons import Reason
from raysweep.query.loss_curves import FEWEST, LossCurve, fit_losses

if TYPE_CHECKING:
    import pandas as pd


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
    """The loss of a question, by name. keys: the axes that tell its values apart. table: the keys and `loss`."""

    name: str
    keys: Sequence[str]
    table: pd.DataFrame
    _fitted: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, question: Question, searched: Sequence[str], at: Mapping[str, float]) -> Losses:
        """searched: the axes over which the loss is the lowest mean. Raises InputError if the metric is no loss."""
        metric, workload, rows = question.metric, question.workload, question.rows
        if better_extremum(metric, workload) != "min":
            raise InputError(metric, "is not minimized")
        apart = list(dict.fromkeys([*at, *question.by]))
        keys = [key for key in all_keys(rows, workload, None, apart, question.design) if key not in searched]
        for axis in searched:
            rows = with_choice(rows, axis, keys)
        means = means_table(rows, [*keys, *searched], metric, workload)
        means["loss"] = means["median"].where(means["no_variance"].astype(bool), means["mean"])
        return cls(metric, keys, means.groupby(keys, dropna=False)["loss"].min().reset_index())

    def curves(self, at: Mapping[str, float]) -> tuple[str, list[tuple[dict[str, Any], np.ndarray, LossCurve]]]:
        """The axis along which the loss goes on to `at`, and (setting of the others, logs of the lengths, curve) each.

        Raises InputError if several axes of `at` have values that were not computed, or no setting has enough lengths.
        """
        new = [name for name, value in at.items() if not near(self.table[name], value).any()]
        if len(new) > 1:
            raise InputError("--at", f"losses go on along one axis, and {' and '.join(new)} were not computed there")
        along = new[0] if new else next(iter(at))
        rest = {name: value for name, value in at.items() if name != along}
        if (known := (along, *rest.items())) not in self._fitted:
            part = self.table[np.isfinite(self.table[along].astype(float)) & (self.table[along] > 0)]
            for name, value in rest.items():
                part = part[near(part[name], value)]
            others = [key for key in self.keys if key not in at]
            lines = [(where, own) for where, own in groups(part, others) if own[along].nunique() >= FEWEST]
            if not lines:
                raise InputError("--at", f"fewer than {FEWEST} values of {along} in every setting")
            logs = [np.log(own[along].to_numpy(float)) for _, own in lines]
            found = fit_losses([(x, own["loss"].to_numpy(float)) for x, (_, own) in zip(logs, lines, strict=True)])
            self._fitted[known] = [(where, x, fit) for (where, _), x, fit in zip(lines, logs, found, strict=True)]
        return along, self._fitted[known]

    def forecasts(self, at: Mapping[str, float]) -> Iterator[Ahead]:
        """What each curve says of a new value. Raises InputError where `curves` does."""
        along, curves = self.curves(at)
        for where, logs, curve in curves:
            log = np.log([at[along]])
            inside = np.clip(log, logs.min(), logs.max())
            edge = curve.at(inside, np.random.default_rng(0), new=False)
            beyond = {along: float(np.exp(np.abs(log - inside)[0]))}
            more = {"along": along, "settings": len(logs), "families": curve.families}
            yield Ahead(where, curve.at(log, np.random.default_rng(0)), edge, beyond, more)

    def value_at(self, where: Mapping[str, Any], at: Mapping[str, float]) -> dict[str, float] | Reason:
        """What was computed at a setting; NO_ROWS if nothing was."""
        here = np.all([near(self.table[name], value) for name, value in {**where, **at}.items()], axis=0)
        own = self.table["loss"][here].dropna()
        return dict.fromkeys(("low", "estimate", "high"), float(own.iloc[0])) if len(own) else Reason.NO_ROWS


def near(column: pd.Series, value: Any) -> np.ndarray:
    """Where a column has a value, up to rounding if it is a number."""
    if isinstance(value, (str, bool)) or column.dtype.kind not in "if":
        return np.asarray(column == value)
    return np.isclose(column.to_numpy(float), value)
