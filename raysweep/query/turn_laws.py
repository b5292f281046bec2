"""The place of a turn as a product of powers of other axes, off the turning points of the curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.held_out import place
from raysweep.analyses.kinds import inflection
from raysweep.analyses.question import Question
from raysweep.analyses.rows import groups
from raysweep.errors import InputError
from raysweep.fits.surface.law import Law, fit_law

if TYPE_CHECKING:
    import pandas as pd


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
