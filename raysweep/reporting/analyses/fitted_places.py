"""The common parts of sections that locate one place per setting (boundary, inflection, optimum)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.closed_form import excluded
from raysweep.analyses.question import Question
from raysweep.fits.result import Status
from raysweep.numbers import interval, number, signed
from raysweep.phrases import counted, some_of
from raysweep.report.names import plain, settings, unit_of
from raysweep.report.statuses import NO_EFFECT, THEORY, others, outside, status_word, status_words, why_one
from raysweep.reporting.analyses.movement import movement_words
from raysweep.reporting.analyses.no_place import among_all, nowhere
from raysweep.reporting.analyses.single_place import one_sign, sizes_at_the_ends
from raysweep.reporting.analyses.where import where

if TYPE_CHECKING:
    import pandas as pd

SHORT = 30  # the most letters of a setting that stands beside an end of a range
NAMED = 2  # so few axes are named where settings are counted
EACH, ALL = 3, 100  # so few places are all said, each with its setting, if that takes no more letters


def settings_noun(table: pd.DataFrame, keys: Sequence[str], noun: str) -> str:
    """The word for a setting with the axes that tell settings apart, if they are one or two: "setting of depth"."""
    varied = [key for key in keys if table[key].nunique(dropna=False) > 1]
    return f"{noun} of {' and '.join(map(plain, varied))}" if 0 < len(varied) <= NAMED else noun


@dataclass(frozen=True, eq=False)
class Places:
    """The fitted places of a section.

    asked: the question of the section.
    table: one row per setting, with its keys, status, estimate, low, high, note, the closed form's place `theory` and
        the distance `z` to it. theory and z are NaN without a closed form.
    keys: the columns that distinguish the settings.
    what: the kind of place, in words.
    noun: the word for a setting.
    kind: what a `precision` calls such a place: boundary or optimum.
    at: the finding with {place} for the place, for example "risk changes sign at gamma {place}".
    signs: what positive and negative values of the metric mean, if they mean something.
    by: which metric says so, if `at` does not name it.
    meaning: what such a place means, as the space says it; said where at least half of the settings have one.
    """

    asked: Question
    table: pd.DataFrame
    keys: list[str]
    what: str
    noun: str
    kind: str
    at: str
    signs: tuple[str, str] = ("", "")
    by: str = ""
    meaning: str = ""

    @property
    def unit(self) -> str:
        """The unit as written after a place."""
        return unit_of(self.asked.x, self.asked.workload)

    @cached_property
    def found(self) -> pd.DataFrame:
        """The settings with a located place."""
        return self.table[self.table["status"] == Status.LOCATED]

    @property
    def few(self) -> bool:
        """Whether so few settings have a place that the curves themselves say more."""
        return len(self.found) < len(self.table) / 4

    @property
    def with_theory(self) -> bool:
        """Whether the closed form has a place in some setting."""
        return bool(self.table["theory"].notna().any())

    def said(
        self, against: str, beside: Callable[[Mapping[str, Any]], str], left_out: Collection[str] = ()
    ) -> tuple[str, str]:
        """(the headline, the detail) of the section.

        against: with several settings, what theory and reference lines have to do with the place; it is said first in
            the detail, so that no cut takes it away. It may be empty.
        beside: with a single setting, gives the text that stands after its place.
        left_out: axes of which another analysis says more.
        """
        if len(self.table) > 1:
            moves, still = movement_words(self.table, self.keys, self.asked.workload, left_out)
            headline, rest, by = self.of_several(moves)
            still = f"{self.this} {still}" if still else ""
            return headline, "; ".join(text for text in (against, *rest, still, by) if text)
        row, unit = self.table.iloc[0], self.unit
        if row["status"] == Status.LOCATED:
            known = interval(row["estimate"], row["low"], row["high"])
            found = self.at.replace("{place}", f"{known}{unit}")
            found = f"{self.meaning}: {found}" if self.meaning else found
            return f"{found} ({self.asked.percent})", "; ".join(filter(None, (self.by, beside(row))))
        known = status_words(row.to_dict(), self.asked.x, unit)
        sizes = sizes_at_the_ends(self.asked, row) if self.kind == "boundary" else ""
        way = one_sign(self.asked, row, self.signs)
        detail = f"{self.asked.metric} is {sizes}" if sizes else f"measured by {self.asked.metric}" if way else ""
        return way or f"{known}{why_one(row['note'])}: {self.what}", detail

    def of_several(self, moves: str) -> tuple[str, list[str], str]:
        """(the places of several settings, how many have one and how they move; what the others say and why; which
        metric says so if the first text does not name it).

        moves: how the place moves; empty if it does not, or if that is not known.
        """
        rest = others(self.table, self.unit, self.signs, self.which)
        noun = settings_noun(self.table, self.keys, self.noun)
        every = counted(len(self.table), noun)
        located = (self.table["status"] == Status.LOCATED).to_numpy()
        among = some_of(len(self.found), len(self.table), noun)
        there = "" if self.each_said else self.which(located)
        among += f" ({there})" if there else ""
        without = self.table[~located].to_dict("records")
        words = Counter(status_word(row["status"], row["note"]) for row in without)
        silent = words[NO_EFFECT]
        if len(self.found):
            few = 2 * len(self.found) < len(self.table) - silent
            somewhere, moved = self.somewhere(bare=bool(moves)), f"; {self.this} {moves}" if moves else ""
            if self.few and 2 * max(words.values()) >= len(self.table):  # what most settings say comes first
                first, *rest = among_all(rest, every)
                which = f" ({there})" if there else ""
                return f"{first}: {self.what}; {somewhere}, in {len(self.found)}{which}{moved}", rest, self.by
            headline = f"{somewhere}, in {'only ' if few else ''}{among}"
            headline = f"{self.meaning} in {among}: {somewhere}" if self.meaning and not few else headline
            return headline + moved, rest, self.by
        return *nowhere(rest, self.what, len(self.table), every), ""

    def which(self, chosen: np.ndarray) -> str:
        """Which settings the chosen ones are, in few words; empty if it takes many. chosen: one boolean per row."""
        return where(self.table, chosen, self.keys, self.asked.workload)

    @property
    def each_said(self) -> bool:
        """Whether `somewhere` says every place with its setting."""
        if not 1 < len(self.found) <= EACH:
            return False
        longest = max(len(self.setting(place)) for place in range(len(self.found)))
        return longest <= SHORT and len(self.each) <= ALL

    @property
    def each(self) -> str:
        """Every place with its interval and its setting, in words."""
        known = self.found[["estimate", "low", "high"]].to_numpy(float)
        *some, end = (f"{interval(*one)}{self.unit} ({self.setting(k)})" for k, one in enumerate(known))
        return f"{', '.join(some)} and {end}"

    def setting(self, place: int) -> str:
        """The setting of a located place, by as many axes as tell it from the others."""
        own = np.zeros(len(self.table), bool)
        own[np.flatnonzero(self.table["status"] == Status.LOCATED)[place]] = True
        varied = [key for key in self.keys if self.table[key].nunique() > 1]
        return self.which(own) or settings(varied, self.found.iloc[place][varied], self.asked.workload)

    def beside_theory(self, row: Mapping[str, Any]) -> str:
        """The theory's place and, if known, z; empty without a closed form."""
        if not np.isfinite(row["theory"]):
            return ""
        score = "" if np.isnan(row["z"]) else f" (z = {row['z']:+.2g})"
        return f"{THEORY} {number(row['theory'], 5)}{self.unit}{score}"

    def somewhere(self, bare: bool) -> str:
        """Where the located places are, in words: each of a few, or between which two all of them lie.

        bare: whether to leave out the settings of these two, which stand beside them if they are short.
        """
        unit, x = self.unit, plain(self.asked.x)
        known = self.found[["estimate", "low", "high"]].to_numpy(float)
        if len(known) == 1:
            return self.at.replace("{place}", f"{interval(*known[0])}{unit}")
        ends = (known[:, 0].argmin(), known[:, 0].argmax())
        first, last = (f"{number(known[end, 0], 3)}{unit}" for end in ends)
        if first == last:
            return self.at.replace("{place}", first)
        if self.each_said:
            return self.at.replace("{place}", self.each)
        at = [self.setting(int(end)) for end in ends]
        if not bare and 0 < max(map(len, at)) <= SHORT:
            between = f"between {first} ({at[0]}) and {last} ({at[1]})"
        else:  # between 20° and 60°, between 2 and 24 steps
            between = f"between {first.removesuffix(unit) if unit.startswith(' ') else first} and {last}"
        return self.at.replace(f"{x} {{place}}", f"some {x} {between}").replace("{place}", between)

    @property
    def this(self) -> str:
        """The subject of a sentence on how the place moves."""
        name = plain(self.asked.x)
        return f"this {'value' if name.endswith('s') else name}"

    def against_theory(self) -> str:
        """In how many settings theory lies outside the interval; empty without a theory."""
        if not self.with_theory:
            return ""
        return outside([(THEORY, *excluded(self.table, self.table["theory"].to_numpy(float)))], self.asked.level)

    @property
    def logarithmic(self) -> bool | None:
        """Whether x is declared to have a logarithmic scale; None if nothing is declared."""
        return self.asked.workload.logarithmic(self.asked.x)

    def methods(self) -> list[str]:
        """A paragraph on what the intervals cover and how they were computed; an empty list if there are none."""
        methods = "; ".join(
            f"{word} ({counted(int(count), self.noun)})"
            for word, count in self.table["method"].value_counts().items()
            if word != "none"
        )
        covers = f"Intervals are {self.asked.percent} for each {self.noun} on its own"
        return [f"{covers}, and allow for the curve between its points. Method: {methods}."] if methods else []

    def not_located(self) -> list[str]:
        """A paragraph on the settings without a located place, by status and reason; an empty list if all have one."""
        other = self.table[self.table["status"] != Status.LOCATED]
        reasons = other.groupby(["status", "note"], sort=False).size()
        said = (f"{status_word(status, note)} in {count}{why_one(note)}" for (status, note), count in reasons.items())
        return [f"Not located: {'; '.join(said)}."] if len(other) else []

    def row(self, row: Mapping[str, Any], place: str, digits: int = 4, z: bool = True) -> dict[str, str]:
        """The first columns of one setting as formatted text: keys, status, place and, if any setting has one, the
        closed form's place.

        digits: significant digits of the closed form's place.
        z: whether to add the distance to it.
        """
        out = {plain(key): number(row[key]) for key in self.keys}
        out["status"] = status_word(row["status"], row["note"])
        out[f"{place} [interval]"] = interval(row["estimate"], row["low"], row["high"])
        if self.with_theory:
            out[THEORY] = number(row["theory"], digits)
            out |= {"z": signed(row["z"])} if z else {}
        return out
