"""First tables of the kinds whose settings say less than what they are about: laws, and predictors."""

from __future__ import annotations

import numpy as np
import pandas as pd

from raysweep.analyses.counts import clear_sides
from raysweep.analyses.finding import Finding
from raysweep.analyses.rows import in_order, spread, varying
from raysweep.numbers import fixed, interval
from raysweep.phrases import counted, plural
from raysweep.report.names import called, settings, unit_of
from raysweep.report.tables import Table, axis_column, of_columns, or_outcome, with_intervals
from raysweep.report.which_settings import condition_words
from raysweep.workloads.declaration import Workload

ACROSS = 3
"""The most values of an axis that have a column each."""


def of_law(finding: Finding, workload: Workload, most: int) -> Table:
    """The best values that a single law was fitted to, beside what the other settings forecast of each."""
    (values,) = finding.tables.values()
    over, every = finding.facts["over"], len(values)
    values = values.iloc[spread(range(every), most)]
    rows, unit = values.to_dict("records"), unit_of(finding.x, workload)
    forecasts = [{**row, "estimate": row["law"], "low": row["law_low"], "high": row["law_high"]} for row in rows]
    level = f"[{100 * finding.level:g} %]"
    columns = [axis_column(one, values[one], workload) for one in over]
    best = or_outcome(with_intervals(rows, unit)[0], rows, finding)
    columns.append((f"best {called(finding.x, workload)} {level}", True, best))
    notes = list[str]()
    if middle := finding.facts.get("middle"):  # else no law was fitted
        columns.append((f"forecast by other settings {level}", True, with_intervals(forecasts, unit)[0]))
        (law,), _ = with_intervals([middle], unit)
        notes.append(f"The law gives {law} at {settings(middle['at'], workload)}.")
        inside, scored = finding.facts["one_out"].values()
        notes.append(f"{inside} of {counted(scored, 'setting')} lie as the others forecast.")
    if every > len(rows):
        notes.append(f"{len(rows)} of {counted(every, 'setting')} are shown; all are in the CSV.")
    return of_columns(columns, " ".join(notes))


def of_predictors(finding: Finding, workload: Workload) -> Table:
    """A line for each predictor, the best first: between what its R² lies, at each value of an axis of few values, and
    in how many settings it is clearly the best; or where it is and where it is not, if that is a condition."""
    (values,), table = finding.tables.values(), finding.table
    means = values.groupby("predictor")["r_squared"].mean().sort_values(ascending=False)
    columns = [("predictor", False, [called(each, workload) for each in means.index])]
    sides = clear_sides(finding)
    parts, several = {f"R² [{100 * finding.level:g} %]": values}, len(table) > 1
    counts = {key: table[key].nunique() for key in varying(finding.keys, table)}
    if several:
        across = min(counts, key=counts.__getitem__)
        each = sorted(table[across].unique(), key=in_order) if counts[across] <= ACROSS else ()
        parts = {f"R², {settings({across: at}, workload)}": values[values[across] == at] for at in each}
        parts = parts or {"R² (range)": values}
        if sides:
            held = {condition_words(one, workload): table.loc[holds, one.key] for one, holds in sides}
            parts = {f"R², {where}": values[values[sides[0][0].key].isin(at)] for where, at in held.items()}
    for head, part in parts.items():
        columns.append((head, True, [_between(part[part["predictor"] == each]) for each in means.index]))
    clear = values[values["best"]].groupby("predictor").size().reindex(means.index, fill_value=0)
    if not sides:  # else the heads say where
        shown = [f"{count} of {len(table)}" * (several and count > 0) for count in clear]
        columns.append(("clearly best in", True, shown))
    note = f"Ranges over the {counted(len(table), 'setting')}; intervals are in the CSV." * several
    unit = called(finding.facts.get("unit", "cell"), workload)
    where = f" for {condition_words(sides[0][0], workload)}" if sides else ""
    sure = f" Clearly best{where}: on the same {plural(unit)}, its R² is shown to be above each other one."
    return of_columns(columns, f"{note}{sure * bool(clear.any())}".strip())


def _between(rows: pd.DataFrame) -> str:
    """Between what R² lies; that of one setting with its interval."""
    known = rows[np.isfinite(rows["r_squared"])]
    if len(rows) == 1 == len(known):
        (row,) = known.to_dict("records")
        return interval(row["r_squared"], row["low"], row["high"], 2)
    return " to ".join(dict.fromkeys(fixed(end, 2) for end in known["r_squared"].agg(["min", "max"]) if len(known)))
