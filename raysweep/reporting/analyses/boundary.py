"""The boundary analysis: where a metric changes sign along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.closed_form import add_lines, add_theory, displacements, excluded
from raysweep.analyses.kinds.boundary import one_line
from raysweep.analyses.maps import Map
from raysweep.analyses.places import in_front, joined
from raysweep.analyses.question import Question
from raysweep.analyses.rows import groups, is_number, means_table, signs_of
from raysweep.fits.comparison import Joint, joint
from raysweep.fits.processes import mapped
from raysweep.fits.result import Fit, Status
from raysweep.fits.statistics import LEVEL, normal_quantile
from raysweep.numbers import interval, number, signed
from raysweep.phrases import counted
from raysweep.report.names import first_capital, line_label, plain, settings, without_common_beginning
from raysweep.report.statuses import THEORY, outside, why_one
from raysweep.reporting.analyses.between import of_difference
from raysweep.reporting.analyses.boundary_drawings import line_of, maps_of, slices_of
from raysweep.reporting.analyses.closed_form import summary
from raysweep.reporting.analyses.explored_places import explored_places
from raysweep.reporting.analyses.fitted_places import Places
from raysweep.reporting.analyses.movement import movement
from raysweep.reporting.analyses.place_widths import still_open, sure
from raysweep.reporting.analyses.section import Drawing, DrawnLater, Section
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    pass

FEWEST_FOLDED = 3  # this many consecutive slices without a result, for the same reason, share one line of the table


def boundary_section(asked: Question) -> Section:
    """Fits, figures and table of one `boundary` entry."""
    import pandas as pd

    asked, measured = of_difference(asked).with_signs_in_words(), asked
    x, y, metric, workload = asked.x, asked.options.get("y"), asked.metric, asked.workload
    lines = asked.lines
    of_y = [y] if y else []
    keys = [key for key in asked.keys(x, *of_y) if key != y]
    parts, level = list(groups(asked.rows, keys)), asked.read_at("boundary")
    maps: list[Map] = []
    fits: list[Fit] = []
    notes: dict[str, None] = {}  # without repeats
    how = partial(one_line, x=x, y=y, metric=metric, level=level, workload=workload)
    found = mapped(how, [rows for _, rows in parts])
    for (values, rows), (fit, expected, fine, roots) in zip(parts, found, strict=True):
        crossings = fit.crossings.assign(**dict(zip(keys, values, strict=True)))
        fits.append(replace(fit, crossings=in_front(crossings, keys)))
        notes |= dict.fromkeys(fit.notes)
        table = add_theory(fit.table, expected, asked.level)
        # On the sign scale the zero is a zero of the median, but the closed form gives the zero of the mean.
        table.loc[table["scale"] == "sign", "z"] = np.nan
        table = add_lines(table, lines, asked.level)
        maps.append(Map(dict(zip(keys, values, strict=True)), rows, table, fine, roots))
    lead = [*keys, *of_y]
    whole = in_front(joined(((values, one.table) for (values, _), one in zip(parts, maps, strict=True)), keys), lead)
    what = f"{'break-even' if all(signs_of(metric, workload)) else 'zero'} {plain(x)} of {metric}"
    at, by = change_of_sign(fits, metric, x, workload)
    places = Places(asked, whole, lead, what, "setting", "boundary", at, signs_of(metric, workload), by)
    moved = pd.concat([displacements(one.rows, one.table, x, y, metric) for one in maps], axis=1).to_numpy(float)

    along = y if y and is_number(asked.rows, y) else next((key for key in keys if is_number(asked.rows, key)), None)

    def drawings() -> list[Drawing]:
        first = maps_of(maps, [values for values, _ in parts], asked, lines) if y else []
        known = {values: one for (values, _), one in zip(parts, maps, strict=True)} if along == y else {}
        second = line_of(places, along, lines, known) if along and (along != y or len(parts) > 1) else []
        if len(parts) > 1 or lines:  # several lines in one figure are easier to compare than maps
            first, second = second, first
        slices = slices_of(parts, keys, of_y, places)
        return [*slices, *first, *second] if places.few else [*first, *second, *slices]

    together = joint(moved)
    against = "; ".join(filter(None, (verdicts(places, lines), bias(together, places))))
    headline, detail = places.said(against, lambda row: beside_place(places, row, lines))
    tables = {f"{asked.name}_zeros": whole}
    if asked is not measured:  # a difference is a metric of no other table
        tables[f"{asked.name}_differences"] = means_table(asked.rows, [*keys, *of_y, x], metric, workload)
    return Section(
        title=f"Boundary: where {metric} changes sign",
        headline=headline,
        detail=detail,
        paragraphs=[
            *movement(whole, lead, "zero", workload),
            *paragraphs(places, lines, together),
            *(f"{first_capital(note)}." for note in notes),
        ],
        drawings=DrawnLater(drawings),
        fits=fits,
        shown=[shown_row(run, places, lines) for run in folded(whole.to_dict("records"), lead)],
        tables=tables,
        explored=[partial(explored_places, places, asked.rows, along)],
        sure=sure(places),
        undecided=still_open(places, one_of_two=asked is not measured),
    )


def change_of_sign(fits: Sequence[Fit], metric: str, x: str, workload: Workload) -> tuple[str, str]:
    """What changes at a zero, as `Places.at` and `Places.by`: by what the signs mean, if they mean something and all
    zeros go the same way."""
    ways = {bool(rising) for fit in fits for rising in fit.crossings["rising"]}
    positive, negative = signs_of(metric, workload)
    if len(ways) != 1:
        return f"{metric} changes sign at {plain(x)} {{place}}", ""
    if not positive:
        first, second = ("negative", "positive") if ways == {True} else ("positive", "negative")
        return f"{metric} is {first} below {plain(x)} {{place}}, {second} above", ""
    below, above = (negative, positive) if ways == {True} else (positive, negative)
    short = without_common_beginning(below, above)
    return f"{below} below {plain(x)} {{place}}, {short} above", f"measured by {metric}"


def beside_place(places: Places, row: Mapping[str, Any], lines: Mapping[str, float]) -> str:
    """What stands beside a single zero: theory's zero, and whether reference lines lie outside its interval."""
    asked, said = places.asked, [places.beside_theory(row)]
    for name, value in lines.items():
        verdict = "inside" if row["low"] <= value <= row["high"] else "outside"
        said.append(f"{line_label(name, value, asked.x, asked.workload)} lies {verdict} the interval")
    return "; ".join(filter(None, said))


def verdicts(places: Places, lines: Mapping[str, float]) -> str:
    """How many intervals each reference line and theory lie outside of; empty without either."""
    asked, table = places.asked, places.table
    counts = [
        (line_label(name, value, asked.x, asked.workload), *excluded(table, np.full(len(table), value)))
        for name, value in lines.items()
    ]
    if places.with_theory:
        counts.append((THEORY, *excluded(table, table["theory"].to_numpy(float))))
    return outside(counts, asked.level)


def bias(together: Joint | None, places: Places) -> str:
    """That all located slices together lie above or below the closed form, and by how much, in words; empty if that is
    not shown."""
    if together is None or abs(together.z) <= normal_quantile(LEVEL):
        return ""
    distance = float((places.found["estimate"] - places.found["theory"]).mean())
    # A bias may be certain and tiny, for example that of an iteration which stops; without its size it would alarm.
    size = f"{number(abs(distance), 2)}{places.unit} " if distance * together.z > 0 else ""
    return f"on average {size}{'above' if together.z > 0 else 'below'} theory (z = {together.z:+.1f})"


def example(places: Places) -> str:
    """An example: the zero and theory's zero in the slice that is farthest from the closed form, of those whose
    intervals exclude it; empty if there is none."""
    known = places.found[places.found["theory"].notna()]
    outside = known[(known["theory"] < known["low"]) | (known["theory"] > known["high"])]
    if not len(outside):
        return ""
    row = outside.loc[outside["z"].abs().idxmax()] if outside["z"].notna().any() else outside.iloc[0]
    where, unit = (settings(places.keys, row[places.keys], places.asked.workload), places.unit)
    zero = interval(row["estimate"], row["low"], row["high"])
    return f" ({where}: {zero}{unit}, {THEORY} {number(row['theory'], 4)}{unit})"


def paragraphs(places: Places, lines: Mapping[str, float], together: Joint | None) -> list[str]:
    """The paragraphs on the method, the comparison with the closed form, and the slices without a located zero.

    together: the test of all located slices against the closed form at once.
    """
    table, percent = places.table, places.asked.percent
    beside, with_z = summary(table, places.asked.level), bool(table["z"].notna().any())
    text = [f"{first_capital(beside)}{example(places)}."] if beside else []
    if together is not None:
        text.append(
            "Slices share draws, so their z are not as many looks at the closed form. All located slices together, "
            f"with the draw as the unit: z = {together.z:+.2f} ({together.draws} draws), the fitted zeros lie "
            f"{together.mean:+.2g} ± {together.error:.2g} of one draw's scatter from the closed form's. "
            + (
                "That is a bias, small or not, that the scatter between draws does not explain."
                if abs(together.z) > normal_quantile(LEVEL)
                else "No bias shows."
            )
        )
    text += [line_sentence(places, name, value) for name, value in lines.items()]
    scales = ", ".join(f"{word} in {int(count)}" for word, count in table["scale"].value_counts().items())
    text.append(
        f"The draw is the unit: intervals come from a posterior of the mean curve and of the noise between draws, so "
        f"they hold although the points of one draw move together. They are pointwise {percent} intervals; the CSV has "
        f"low_simultaneous and high_simultaneous, which hold for all slices at once. Scale of the values: {scales} of "
        f"{counted(len(table), 'slice')} (sign: zero of the median, where draws have no variance"
        + ("; no z then)." if with_z else ").")
    )
    text += [*places.asked.reading("boundary"), *places.not_located()]
    if with_z:
        text.append(
            "z is the distance to the closed form in units of the slice's own error; |z| is beyond 1.96 exactly where "
            "a 95 % interval misses it."
        )
    return text


def line_sentence(places: Places, name: str, value: float) -> str:
    """A sentence on the distance of the slices from a named reference line."""
    asked, table = places.asked, places.table
    out, among, _ = excluded(table, np.full(len(table), value))
    label = line_label(name, value, asked.x, asked.workload)
    if not among:
        return f"{label}: no slice can say."
    text = f"{label}: outside the {asked.percent} interval in {out} of {counted(among, 'slice')}"
    score = table[f"z {name}"].to_numpy(float)
    score = score[np.isfinite(score)]
    if len(score):
        far = score[np.argmax(np.abs(score))]
        text += f"; distance in units of the slice's own error: median |z| {np.median(np.abs(score)):.2g}, "
        text += f"farthest {far:+.2g}"
    if places.with_theory:
        kept, said, _ = excluded(table, table["theory"].to_numpy(float))
        text += f". Theory: outside in {kept} of {said}"
    return text + "."


def folded(rows: Sequence[Mapping[str, Any]], lead: Sequence[str]) -> list[list[Mapping[str, Any]]]:
    """Group the rows for the report, in the order of the table.

    FEWEST_FOLDED or more consecutive rows without a result, for the same reason, form one group. Each other row is a
    group of its own.
    """

    def silent(row: Mapping[str, Any]) -> Any:
        return (row["note"], *(row[key] for key in lead[:-1])) if row["status"] == Status.UNDETERMINED else None

    runs = [list(run) for _, run in groupby(rows, silent)]
    apart = [[[row] for row in run] if len(run) < FEWEST_FOLDED or silent(run[0]) is None else [run] for run in runs]
    return [run for several in apart for run in several]


def shown_row(run: Sequence[Mapping[str, Any]], places: Places, lines: Mapping[str, float]) -> dict[str, str]:
    """One slice, or a group of slices without a result, as a row of formatted text."""
    row, last = run[0], places.keys[-1] if places.keys else ""
    out = places.row(row, f"zero in {plain(places.asked.x)}", digits=5)
    if len(run) > 1:
        out[plain(last)] = f"{number(row[last])} … {number(run[-1][last])}"
        out["status"] += f" in {len(run)} slices" + why_one(row["note"])
        out |= {THEORY: "–"} if places.with_theory else {}
    for name in lines:
        score = row[f"z {name}"]
        out[f"z to {name}"] = signed(score) if np.isfinite(score) else "beyond" if row[f"excluded {name}"] else "–"
    return out | {"draws": str(row["draws"])}
