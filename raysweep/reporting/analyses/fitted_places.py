"""The common parts of sections that locate one place per setting (boundary, inflection, optimum)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.result import Status
from raysweep.fits.signs import NO_CLEAR_SIGN
from raysweep.fits.statistics import mean_band
from raysweep.phrases import counted, some_of
from raysweep.reporting.analyses.closed_form import excluded
from raysweep.reporting.analyses.movement import movement_words
from raysweep.reporting.analyses.section import Question
from raysweep.reporting.analyses.where import where
from raysweep.reporting.statuses import (
    MAYBE_BEYOND,
    NO_EFFECT,
    NOT_DECIDED,
    PARTLY,
    THEORY,
    bound_words,
    others,
    outside,
    status_word,
    status_words,
    why_one,
)
from raysweep.reporting.words import amount, interval, number, plain, settings, signed

if TYPE_CHECKING:
    import pandas as pd

SHORT = 30  # the most letters of a setting that stands beside an end of a range
FEW = 8  # settings that are looked at one by one
EACH = 3  # so few places are all said, if each has its setting beside it
ONE_SIDE = {"below": ("up to", "above"), "above": ("from", "below")}
"""Of a curve with one sign below, or above, a value: how far it has this sign, and where its zero lies."""


def joined(parts: Iterable[tuple[tuple[Any, ...], pd.DataFrame]], keys: Sequence[str]) -> pd.DataFrame:
    """Concatenate the tables of several settings, with the values of the keys as columns."""
    import pandas as pd

    tables = [table.assign(**dict(zip(keys, values, strict=True))) for values, table in parts]
    return pd.concat(tables, ignore_index=True)


def in_front(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The table with the columns `names` first."""
    return table[[*names, *(name for name in table.columns if name not in names)]]


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

    @cached_property
    def found(self) -> pd.DataFrame:
        """The settings with a located place."""
        return self.table[self.table["status"] == Status.LOCATED]

    @property
    def with_theory(self) -> bool:
        """Whether the closed form has a place in some setting."""
        return bool(self.table["theory"].notna().any())

    def said(self, moving: str, against: str, beside: Callable[[Mapping[str, Any]], str]) -> tuple[str, str]:
        """(the headline, the detail) of the section.

        moving, against: with several settings, how the place moves, and what theory and reference lines have to do with
            it; the latter is said first, so that no cut takes it away. Both may be empty.
        beside: with a single setting, gives the text that stands after its place.
        """
        if len(self.table) > 1:
            headline, rest, by = self.of_several()
            # Of many settings a reader asks first how the place moves, of a few what each of them says.
            both = (moving, *rest) if len(self.table) > FEW else (*rest, moving)
            return headline, "; ".join(text for text in (against, *both, by) if text)
        row, unit = self.table.iloc[0], self.asked.unit
        if row["status"] == Status.LOCATED:
            known = interval(row["estimate"], row["low"], row["high"])
            found = self.at.replace("{place}", f"{known}{unit}")
            return f"{found} ({self.asked.percent})", "; ".join(filter(None, (self.by, beside(row))))
        known = status_words(row.to_dict(), self.asked.x, unit)
        sizes = self.sizes()
        way = self.one_sign(row)
        detail = f"{self.asked.metric} is {sizes}" if sizes else f"measured by {self.asked.metric}" if way else ""
        return way or f"{self.what}: {known}{why_one(row['note'])}", detail

    def one_sign(self, row: Mapping[str, Any]) -> str:
        """What a single setting without a zero says if its metric has one sign that means something; else empty."""
        word, x = row["note"].split(" ")[0], plain(self.asked.x)
        if row["note"] == NO_CLEAR_SIGN and all(self.signs):
            return f"it is shown at no {x} that {' or that '.join(self.signs)}"
        meaning = dict(zip(("positive", "negative"), self.signs, strict=True)).get(word, "")
        if not meaning:
            return ""
        everywhere = f"{meaning} at every {x} of the grid"
        if row["note"].startswith(f"{word} everywhere"):
            return everywhere
        if partly := PARTLY.search(row["note"]):
            return f"{meaning} at {partly[1]} of {partly[2]} values of {x}, not clear at the others"
        side = row["note"].removeprefix(f"{word} ").split(",")[0]
        if side not in ONE_SIDE:
            return ""
        if status_word(row["status"], row["note"]) != MAYBE_BEYOND:
            return everywhere
        reach, there = ONE_SIDE[side]
        bound, tried = bound_words(row, self.asked.unit), sorted(self.asked.rows[self.asked.x].unique())
        clear, other = tried[:: 1 if side == "below" else -1][:2] if len(tried) == 2 else (np.nan, np.nan)
        if bound == f"{number(clear, 3)}{self.asked.unit}":
            return f"{meaning} at {x} {bound}, not clear at {amount(other, self.asked.unit)}"
        return f"{meaning} {reach} {x} {bound}, not clear {there}"

    def sizes(self) -> str:
        """The mean of the metric at both ends of the grid with its interval over draws, for a single setting in which
        a zero is not located; empty without several draws, and where draws have no variance."""
        asked, row = self.asked, self.table.iloc[0]
        if self.kind != "boundary" or row.get("scale", "") == "sign" or "seed" not in asked.rows.columns:
            return ""
        draws = asked.rows.pivot_table(index="seed", columns=asked.x, values=asked.metric)
        if draws.shape[1] < 2 or len(draws) < 2:
            return ""
        ends = draws.iloc[:, [0, -1]]
        said = [
            f"{interval(mean, low, high)} at {amount(x, asked.unit)}"
            for x, mean, low, high in zip(ends.columns, *mean_band(ends.to_numpy(float), asked.level), strict=True)
            if np.isfinite(low)
        ]
        return f"{' and '.join(said)} ({asked.percent})" if said else ""

    def of_several(self) -> tuple[str, list[str], str]:
        """(the places of several settings and how many have one, what the others say and why, which metric says so if
        the first text does not name it).

        Where most have none, their number comes first.
        """
        rest = others(self.table, self.asked.unit, self.signs, self.which)
        every, located = counted(len(self.table), self.noun), (self.table["status"] == Status.LOCATED).to_numpy()
        among = some_of(len(self.found), len(self.table), self.noun)
        there = "" if self.each_said else self.which(located)
        among += f" ({there})" if there else ""
        silent = sum(status_word(row["status"], row["note"]) == NO_EFFECT for row in self.table.to_dict("records"))
        if 2 * len(self.found) >= len(self.table) - silent > 0:
            return f"{self.at.replace('{place}', self.span(3))}, in {among}", rest, self.by
        if len(self.found):
            return f"{self.what}, located in only {among}: {self.span(3)}", rest, ""
        nowhere, (most, *less) = f"no {self.what} is located in any of {every}", rest
        brief, _, why = most.partition(" (") if most.startswith(NOT_DECIDED) else (most, "", "")
        headline = (
            f"{NOT_DECIDED}: {nowhere}" if brief == f"{NOT_DECIDED} in {len(self.table)}" else f"{nowhere}: {brief}"
        )
        return headline, [*less, *([why.removesuffix(")")] if why else [])], ""

    def which(self, chosen: np.ndarray) -> str:
        """Which settings the chosen ones are, in few words; empty if it takes many. chosen: one boolean per row."""
        return where(self.table, chosen, self.keys, self.asked.workload)

    @property
    def each_said(self) -> bool:
        """Whether `span` says every place with its setting."""
        count = len(self.found)
        return 1 < count <= EACH and max(len(self.setting(place)) for place in range(count)) <= SHORT

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
        return f"{THEORY} {number(row['theory'], 5)}{self.asked.unit}{score}"

    def span(self, digits: int = 4) -> str:
        """The range of the located places, each of a few, or a single one with its interval; empty without any.

        An end has its setting beside it, if that is short: the range is one over settings, and no interval.
        """
        if not len(self.found):
            return ""
        if len(self.found) == 1:
            row = self.found.iloc[0]
            return f"{interval(row['estimate'], row['low'], row['high'])}{self.asked.unit}"
        unit, every = self.asked.unit, self.found["estimate"].to_numpy(float)
        first, last = (number(end, digits) for end in (every.min(), every.max()))
        if first == last:
            return f"{first}{unit}"
        if self.each_said:
            ends = self.found[["estimate", "low", "high"]].to_numpy(float)
            *some, end = (f"{interval(*ends[k])}{unit} ({self.setting(k)})" for k in range(len(ends)))
            return f"{', '.join(some)} and {end}"
        at = self.setting(int(every.argmin())), self.setting(int(every.argmax()))
        if 0 < max(map(len, at)) <= SHORT:
            return f"{first}{unit} ({at[0]}) to {last}{unit} ({at[1]})"
        return f"{first}{'' if unit.startswith(' ') else unit} to {last}{unit}"  # 20° to 60°, 2 to 24 steps

    def moving(self, left_out: Collection[str] = ()) -> str:
        """How the place changes with the other axes; empty if nothing can be compared.

        left_out: axes of which another analysis says more.
        """
        words = movement_words(self.table, self.keys, left_out)
        name = plain(self.asked.x)
        return f"this {'value' if name.endswith('s') else name} {words}" if words else ""

    def against_theory(self) -> str:
        """In how many settings theory lies outside the interval; empty without a theory."""
        if not self.with_theory:
            return ""
        return outside([(THEORY, *excluded(self.table, self.table["theory"].to_numpy(float)))], self.asked.level)

    @property
    def logarithmic(self) -> bool | None:
        """Whether x is declared to have a logarithmic scale; None if nothing is declared."""
        return self.asked.workload.logarithmic(self.asked.x)

    def methods(self, left_out: str = "") -> str:
        """What the intervals cover and how they were computed. left_out: a method that is not mentioned."""
        methods = "; ".join(
            f"{word} ({counted(int(count), self.noun)})"
            for word, count in self.table["method"].value_counts().items()
            if word != left_out
        )
        return (
            f"Intervals are {self.asked.percent} for each {self.noun} on its own, and allow for the curve between its "
            f"points. Method: {methods}."
        )

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
