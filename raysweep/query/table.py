"""A table of runs made elsewhere as the rows and the space of a sweep, with what was guessed of its columns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.rows import ERROR
from raysweep.errors import InputError, shown, unknown
from raysweep.fits.lost_draws import LARGEST
from raysweep.numbers import number
from raysweep.query.columns import Axis, absent, axis_of, few_values, numbers_in, place, values_on
from raysweep.query.run_ends import ended_of, few_words, reported, run_again, without_end
from raysweep.workloads.declaration import DIVERGED, OK
from raysweep.workloads.function_description import DIRECTIONS, TAKEN, Description, check_metric

if TYPE_CHECKING:
    import pandas as pd

SOURCE_DIRECTIONS = "raysweep_directions"
"""Among the attributes of a data frame: maximize or minimize, by metric, as its source has it."""
MISSING = ("na", "n/a", "null", "none")
"""What files write, in any letters, for a number that is not there."""


@dataclass(frozen=True, eq=False)
class Table:
    """Runs made elsewhere.

    rows: one per run: sweep, cell, seed, status, the axes and the metrics, as `Sweep.results` has them, and
        METRIC_standard_error, if that is known.
    space: the space that they are a part of, as plain data.
    guesses: one row per column that is used: column, role, type, values, scale and note.
    missing: runs without a value; they are no rows.
    """

    rows: pd.DataFrame
    space: dict[str, Any]
    guesses: pd.DataFrame
    missing: int


def read(
    table: Any,
    metrics: Sequence[str],
    axes: Sequence[str],
    by: Sequence[str] = (),
    *,
    seed: str | None = None,
    error: str | None = None,
    status: str | None = None,
    scale: Mapping[str, str] | None = None,
    labels: Sequence[str] = (),
    together: bool = True,
    repeats: bool = False,
    name: str = "runs",
    source: str = "",
) -> Table:
    """The rows and the space of a table.

    table: a pandas data frame, one of polars, or a mapping of columns.
    metrics: names, each with `:maximize` or `:minimize` behind it if you like; without it the direction is that of the
        source, else it is minimized.
    axes, by: the columns of the settings; those that are optimized or located, and those that tell curves apart.
    seed: the column of the seed; None if there is one run per cell.
    error: the column of the known standard errors of the first metric.
    status: the column that says how a run ended; None if none does: then a number that is not finite has diverged.
    scale: log or linear, for axes that are read otherwise than guessed. labels: axes whose numbers are only names.
    together: whether axes whose values come in pairs move together.
    repeats: whether several runs of a cell without a seed are draws of it.
    name, source: of the sweep, and from where it is; shown in reports.

    A value that is not there (None, NA, an empty text) is missing, never diverged. So is a run without any setting. A
    run that failed and was run again counts no more, unless it is one of several draws.

    Raises InputError for a column that is not there, text in a number, and several runs of a cell.
    """
    import pandas as pd

    frame = as_frame(table)
    directions = dict(_metric(str(one), frame.attrs.get(SOURCE_DIRECTIONS, {})) for one in metrics)
    used = [*directions, *axes, *by, *(one for one in (seed, error, status) if one)]
    for column in used:
        if (frame.columns == column).sum() > 1:
            raise InputError(str(column), "several columns have this name; rename all but one")
        if column not in frame:
            if status in frame and column in directions and not (reported(frame[status]) == OK).any():
                raise InputError(str(column), f"no run has it, and none has finished: {few_words(frame[status])}")
            raise unknown("axes" if column in (*axes, *by) else str(column), "column", column, map(str, frame.columns))
    if twice := [column for column in used if used.count(column) > 1]:
        raise InputError(twice[0], "this column is used twice; expected each once")
    if taken := [column for column in (*axes, *by) if column in TAKEN]:
        raise InputError(taken[0], "this name is a column of every table of results; rename it")
    for metric in directions:
        check_metric(metric, "metric")
    for option, named in (("scale", list(scale or ())), ("labels", labels)):
        for column in named:
            if column not in (*axes, *by):
                raise unknown(option, "axis", column, [*axes, *by])
    for column in (*directions, *([error] if error else [])):
        words = (
            frame[column].map(lambda value: isinstance(value, str) and value.strip().lower() in MISSING).astype(bool)
        )
        if words.any():
            frame[column] = frame[column].astype(object).mask(words, None)
    values = {metric: numbers_in(frame[metric], metric) for metric in directions}
    for metric, numbers in values.items():
        if 0 < numbers[np.isfinite(numbers)].abs().max() < 1 / LARGEST:
            raise InputError(
                metric, f"no value is as large as {1 / LARGEST:g}; multiply the column, as squares of such values are 0"
            )
    first = next(iter(directions))
    ended = ended_of(frame, status, values[first])
    nowhere = np.all([absent(frame[axis]).to_numpy() for axis in (*axes, *by)], axis=0)  # a run above others
    ended = ended.mask(nowhere, "")
    there = (ended != "").to_numpy()
    if not there.any():
        raise without_end(frame.loc[~nowhere, status]) if status else InputError(first, "no run has a value")
    missing = int((~there).sum())
    frame, ended = frame[there], ended[there]
    found = [
        axis_of(frame[column], column, "axis" if column in axes else "by", column in labels) for column in (*axes, *by)
    ]
    for axis in found:
        if scale and axis.name in scale:
            axis.scale = scale[axis.name]
    varied = [axis for axis in found if len(axis.values) > 1]
    if not any(axis.role == "axis" for axis in varied):
        raise InputError(axes[0] if axes else "axes", "expected an axis with several values")
    rows = pd.DataFrame({axis.name: values_on(frame[axis.name], axis) for axis in varied}, index=frame.index)
    rows["cell"] = [_cell(values) for values in rows.itertuples(index=False, name=None)]
    again = run_again(ended, rows["cell"], *([frame[seed]] if seed else [])) & bool(seed or not repeats)
    frame, rows, ended = frame[~again], rows[~again].copy(), ended[~again]
    rows["seed"] = _seeds(frame, rows, [*directions, seed, error, status], seed, repeats)
    rows["sweep"], rows["status"] = name, ended
    for metric, numbers in values.items():
        rows[metric] = numbers.loc[frame.index]
    errors = []
    if error:
        errors = [f"{first}{ERROR}"]
        rows[errors[0]] = numbers_in(frame[error], error)
        wrong = rows.loc[(rows["status"] == OK) & ~(rows[errors[0]] >= 0), errors[0]]
        if len(wrong):
            got = "none" if wrong.isna().iloc[0] else number(wrong.iloc[0])
            raise InputError(error, f"expected a standard error of at least 0, got {got} in {place(wrong.index, 0)}")
    order = ["sweep", "cell", "seed", "status", *(axis.name for axis in varied), *directions, *errors]
    zipped = _together(rows, varied) if together else []
    guesses = _guesses(found, zipped, directions, {"seed": seed, "standard error": error, "status": status}, rows)
    if seed and (rows["seed"].to_numpy() != frame[seed].astype(float).to_numpy()).any():
        guesses.loc[guesses["column"] == seed, "note"] = (
            "no seed occurs twice: they number runs, and are no shared draws"
        )
    if again.any():
        guesses.loc[guesses.index[-1], "note"] = f"{again.sum():,} failed and run again: the other run counts"
    return Table(
        rows[order].reset_index(drop=True),
        _space(varied, found, zipped, directions, rows, name, source),
        guesses,
        missing,
    )


def as_frame(table: Any) -> pd.DataFrame:
    """A table as a pandas data frame of its own, its columns named by texts. A null of polars or pyarrow is None."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        frame = table.copy()
    elif isinstance(table, Mapping):
        try:
            frame = pd.DataFrame({name: _with_gaps(values) for name, values in table.items()})
        except ValueError as problem:
            raise InputError("table", str(problem)) from None
    elif hasattr(table, "to_pandas"):  # polars, pyarrow
        frame = table.to_pandas()
        for name in frame:
            gaps = getattr(table[name], "null_count", 0)
            if gaps() if callable(gaps) else gaps:
                listed = getattr(table[name], "to_pylist", None) or table[name].to_list
                frame[name] = pd.Series(listed(), index=frame.index, dtype=object)
    elif hasattr(table, "__dataframe__"):
        frame = pd.api.interchange.from_dataframe(table)
    else:
        raise InputError("table", f"expected a data frame or a mapping of columns, got {shown(table)}")
    frame.columns = frame.columns.map(str)
    return frame if frame.index.is_unique else frame.reset_index(drop=True)


def _with_gaps(values: Any) -> Any:
    """A column, in which pandas leaves None as it is."""
    gaps = isinstance(values, (list, tuple)) and any(value is None for value in values)
    return np.array(values, dtype=object) if gaps else values


def _metric(text: str, known: Mapping[str, str]) -> tuple[str, str]:
    """(name, direction). known: those of the source."""
    name, _, direction = text.rpartition(":")
    if not name:
        return text, known.get(text, DIRECTIONS[0])
    if direction not in DIRECTIONS:
        raise InputError("metric", f"expected {' or '.join(DIRECTIONS)} behind the colon, got {shown(direction)}")
    if known.get(name, direction) != direction:
        raise InputError("metric", f"{text} contradicts the source, which says {name}:{known[name]}")
    return name, direction


def _cell(values: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


def _seeds(
    frame: pd.DataFrame, rows: pd.DataFrame, others: Sequence[str | None], seed: str | None, repeats: bool
) -> Any:
    """The seed of each run. Raises InputError if several runs of a cell have the same.

    others: columns of no setting.
    """
    if seed is not None:
        numbers = numbers_in(frame[seed], seed)
        whole = numbers.notna() & (numbers >= 0) & (numbers == numbers.round())
        if not whole.all():
            wrong = number(float(numbers[~whole].iloc[0]))
            raise InputError(seed, f"expected whole numbers of at least 0, got {wrong}")
        seeds = numbers.astype(np.int64)
    else:
        seeds = rows.groupby("cell", sort=False).cumcount()
    rows = rows.assign(seed=seeds)
    alike = ["cell", "seed"] if seed or repeats else ["cell"]
    several = rows.duplicated(alike, keep=False)
    if seed and rows["cell"].duplicated().any() and not rows["seed"].duplicated().any() and rows["cell"].nunique() > 1:
        return rows.groupby("cell", sort=False).cumcount()  # numbers of runs: no draw is shared by two cells
    if several.any():
        one = rows[several].iloc[0]
        same = frame[(rows[alike] == one[alike]).all(axis=1)]
        settings = [column for column in frame if column not in rows and column not in others]
        differ = [column for column in settings if same[column].map(str).nunique() > 1]
        which = place(same.index, *range(min(3, len(same))))
        more = f"; they differ in {', '.join(differ[:5])}, which may be an axis or the seed" if differ else ""
        way = "the same seed" if seed else "the same values on all axes"
        take = "" if seed else " (--repeats, in Python repeats=True, takes them as draws of one cell)"
        raise InputError(seed or "seed", f"{which} have {way}{more}{take}")
    return seeds


def _together(rows: pd.DataFrame, axes: Sequence[Axis]) -> list[list[str]]:
    """The axes that vary together: each value of one comes with one value of the other."""
    groups: list[list[str]] = []
    for axis in axes:
        for group in groups:
            pairs = rows[[group[0], axis.name]].drop_duplicates()
            if len(pairs) == rows[group[0]].nunique() == rows[axis.name].nunique():
                group.append(axis.name)
                break
        else:
            groups.append([axis.name])
    return [group for group in groups if len(group) > 1]


def _space(
    varied: Sequence[Axis],
    axes: Sequence[Axis],
    zipped: list[list[str]],
    directions: Mapping[str, str],
    rows: pd.DataFrame,
    name: str,
    source: str,
) -> dict[str, Any]:
    """The space of the rows, as plain data."""
    described = Description(
        name,
        1,
        tuple({"name": axis.name, "type": axis.kind, "default": None, "choices": []} for axis in axes),
        metrics=dict(directions),
        returned=tuple(directions),
        seconds=0.0,
        digest="0" * 12,
        source=source,
    )
    values = {axis.name: list(axis.values) for axis in varied}
    for first, *others in zipped:
        pairs = rows.drop_duplicates(first).sort_values(first)
        values |= {other: pairs[other].tolist() for other in (first, *others)}
    return {
        "name": name,
        "description": f"computed elsewhere ({source})" if source else "computed elsewhere",
        "workload": name,
        "function": described.plain(),
        "axes": values,
        "scale": {axis.name: axis.scale for axis in varied if axis.scale},
        "zip": zipped,
        "fixed": {axis.name: axis.values[0] for axis in axes if len(axis.values) == 1},
        "seeds": sorted(int(one) for one in rows["seed"].unique()),
        "analysis": [],
    }


def _guesses(
    axes: Sequence[Axis],
    zipped: list[list[str]],
    directions: Mapping[str, str],
    others: Mapping[str, str | None],
    rows: pd.DataFrame,
) -> pd.DataFrame:
    """What was guessed of the columns. others: the columns of other roles."""
    import pandas as pd

    beside = {name: [other for other in group if other != name] for group in zipped for name in group}
    lines = [
        {
            "column": axis.name,
            "role": "constant" if len(axis.values) == 1 else axis.role,
            "type": axis.kind,
            "values": few_values(axis),
            "scale": axis.scale,
            "note": "; ".join(
                [*axis.notes[:3], *([f"varies with {', '.join(beside[axis.name])}"] if axis.name in beside else [])]
            ),
        }
        for axis in axes
    ]
    lines += [{"column": metric, "role": f"metric, {way}d"} for metric, way in directions.items()]
    lines += [{"column": column, "role": role} for role, column in others.items() if column]
    if diverged := int((rows["status"] == DIVERGED).sum()):
        lines[len(axes)]["note"] = f"{diverged:,} not finite: diverged (None and NA are missing)"
    return pd.DataFrame(lines, columns=["column", "role", "type", "values", "scale", "note"]).fillna("")
