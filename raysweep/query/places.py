"""The best value of an axis, or the turn, as a product of powers of other axes: forecast, and what the rows give."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.held_out import law_of, place
from raysweep.analyses.kinds import inflection
from raysweep.analyses.kinds.law import laws_of
from raysweep.analyses.question import Question
from raysweep.analyses.rows import groups
from raysweep.errors import InputError
from raysweep.fits.reasons import Reason
from raysweep.fits.surface.law import Law
from raysweep.query.losses import TURN, Ahead, here

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Places:
    """name: such as "best lr". over: the axes of the laws.

    laws: (the setting of the other axes, its law, the table of its places) each.
    """

    name: str
    over: Sequence[str]
    laws: Sequence[tuple[Mapping[str, Any], Law, pd.DataFrame]]
    scale = staticmethod(np.exp)

    @classmethod
    def of(cls, question: Question, at: Collection[str]) -> Places:
        """Raises InputError if `at` lacks an axis of the law, or a law of turns would be over that of the curves."""
        kind = question.options["place"]
        over, laws = _turn_laws(question) if kind == TURN else ((found := laws_of(question)).over, found.laws)
        if gone := [axis for axis in over if axis not in at]:
            raise InputError("--at", f"missing {gone[0]}; the law is over {', '.join(over)}")
        return cls(f"{kind} {question.options['lr']}", over, laws)

    @property
    def keys(self) -> Sequence[str]:
        """The axes that tell the laws apart."""
        return [*self.laws[0][0]] if self.laws else []

    def why_not(self) -> str:
        """Why there is no law of any setting; empty if there is one."""
        reasons = [str(law.reason).replace("_", " ") for _, law, _ in self.laws]
        return "" if not all(reasons) else reasons[0] if reasons else "no rows"

    def forecasts(self, at: Mapping[str, float]) -> Iterator[Ahead]:
        """What each law says of a new setting, in log."""
        logs = np.log([[float(at[axis]) for axis in self.over]])
        for where, law, _ in self.laws:
            if not law.reason:
                inside = nearest(law.logs, logs)
                new = law.at(logs, np.random.default_rng(0))
                edge = law.at(inside, np.random.default_rng(0), new=False)
                beyond = dict(zip(self.over, np.exp(np.abs(logs - inside))[0].tolist(), strict=True))
                exponents = dict(zip(self.over, law.exponents()[1].tolist(), strict=True))
                yield Ahead(where, new, edge, beyond, {"exponents": exponents, "settings": len(law.logs)})

    def value_at(self, where: Mapping[str, Any], at: Mapping[str, float]) -> dict[str, float] | str:
        """The place that the rows themselves give at a setting; its outcome if it is not located, NO_ROWS without
        rows."""
        for other, _, table in self.laws:
            for row in table[here(table, at)].to_dict("records") if other == where else ():
                measured = {name: float(row[name]) for name in ("low", "estimate", "high")}
                return measured if np.isfinite(measured["estimate"]) else str(row["outcome"])
        return Reason.NO_ROWS


def nearest(settings: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Each axis moved into its range among the settings with the same values of the other axes; of all, without any.

    settings: (settings, axes), logs. logs: (1, axes).
    """
    same, out = np.isclose(settings, logs, rtol=0, atol=1e-5), logs.copy()
    for k in range(logs.shape[1]):
        alike = np.delete(same, k, axis=1).all(axis=1)
        column = settings[alike if alike.any() else ..., k]
        out[:, k] = np.clip(logs[:, k], column.min(), column.max())
    return out


def _turn_laws(question: Question) -> tuple[list[str], list[tuple[Mapping[str, Any], Law, pd.DataFrame]]]:
    """Locate the turns of all curves, and fit a law for each setting of the axes that it does not have."""
    over, x = list(question.options["over"]), question.x
    if x in over:
        raise InputError("--at", f"{x} is where {question.metric} turns; name the axes that its place depends on")
    finding = inflection.run(question)
    values = question.rows[x].to_numpy(float)
    ends = np.log([values[values > 0].min(), values.max()])
    others, laws = [key for key in finding.keys if key not in over], []
    for where, table in groups(finding.table, others):
        places = [place(row, ends, question.level) for row in table.to_dict("records")]
        axes = table[over].to_numpy(float)[[one is not None for one in places]]
        law = law_of([one for one in places if one is not None], axes, table["outcome"])
        laws.append((where, law, table))
    return over, laws
