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
from raysweep.fits.surface.law import Law
from raysweep.query.losses import TURN, Ahead

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Places:
    """over: the axes of the laws. keys: those that tell the laws apart. table: the places. sweep, name: for errors.

    laws: (the setting of the keys, its law) each.
    """

    over: Sequence[str]
    keys: Sequence[str]
    table: pd.DataFrame
    laws: Sequence[tuple[Mapping[str, Any], Law]]
    sweep: str = ""
    name: str = ""
    scale = staticmethod(np.exp)

    @classmethod
    def of(cls, question: Question, at: Collection[str]) -> Places:
        """Raises InputError if `at` lacks an axis of the law, or a law of turns would be over that of the curves."""
        import pandas as pd

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
                inside = nearest(law.logs, logs)
                new = law.at(logs, np.random.default_rng(0))
                edge = law.at(inside, np.random.default_rng(0), new=False)
                beyond = dict(zip(self.over, np.exp(np.abs(logs - inside))[0].tolist(), strict=True))
                exponents = dict(zip(self.over, law.exponents()[1].tolist(), strict=True))
                yield Ahead(where, new, edge, beyond, {"exponents": exponents, "settings": len(law.logs)})


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


def _turns(question: Question) -> tuple[list[str], list[str], pd.DataFrame, list[tuple[Mapping[str, Any], Law]]]:
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
