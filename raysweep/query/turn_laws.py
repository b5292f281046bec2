"""The place of a turn as a product of powers of other axes, off the turning points of the curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.finding import Outcome
from raysweep.analyses.kinds import inflection
from raysweep.analyses.question import Question
from raysweep.analyses.rows import groups
from raysweep.errors import InputError
from raysweep.fits.statistics import normal_quantile
from raysweep.fits.surface.law import Law, Place, fit_law

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 400
ABOVE = (Outcome.EDGE_HIGH, Outcome.BOUND_HIGH)
BELOW = (Outcome.EDGE_LOW, Outcome.BOUND_LOW)


@dataclass(frozen=True, eq=False)
class TurnLaws:
    """As `Laws`: their axes, and (the setting of the other axes, its law, the table of its turns) each."""

    over: list[str]
    laws: Sequence[tuple[Mapping[str, Any], Law, pd.DataFrame]]

    @classmethod
    def of(cls, question: Question) -> TurnLaws:
        """Locate the turns of all curves, and fit a law for each setting of the axes that it does not have.

        Raises InputError if a law would be over the axis of the curves.
        """
        over, x = list(question.options["over"]), question.x
        if x in over:
            raise InputError("--at", f"{x} is where {question.metric} turns; name the axes that its place depends on")
        finding = inflection.run(question)
        values = question.rows[x].to_numpy(float)
        ends = np.log([values[values > 0].min(), values.max()])
        others = [key for key in finding.keys if key not in over]
        laws = []
        for where, part in groups(finding.table, others):
            places = [place(row, ends, question.level) for row in part.to_dict("records")]
            known = [one for one in places if one is not None]
            axes = part[over].to_numpy(float)[[one is not None for one in places]]
            laws.append((dict(zip(others, where, strict=True)), fit_law(known, axes), part))
        return cls(over, laws)


def place(row: Mapping[str, Any], ends: np.ndarray, level: float) -> Place | None:
    """A turn as the law takes it: normal on either side of the estimate, in log. ends: of the curves' axis, in log.

    None where no turn is shown, since there may be none.
    """
    low, high = ends.tolist()
    none = np.empty(0)
    if row["outcome"] in ABOVE:
        return Place(none, low, high, 0.0, 1.0)
    if row["outcome"] in BELOW:
        return Place(none, low, high, 1.0, 0.0)
    if row["outcome"] != Outcome.LOCATED or not row["estimate"] > 0:
        return None
    centre = np.log(row["estimate"])
    below = centre - np.log(max(row["low"], np.exp(low)))
    above = np.log(row["high"]) - centre
    z = np.array([normal_quantile(2 * share - 1) for share in (np.arange(DRAWS // 2) + DRAWS / 2 + 0.5) / DRAWS])
    spread = np.r_[-z * max(below, 1e-9), z * max(above, 1e-9)] / normal_quantile(level)
    return Place(centre + spread, low, high, 0.0, 0.0)
