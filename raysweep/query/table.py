"""A table of runs made elsewhere as the rows and the space of a sweep, with what was guessed of its columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow

from raysweep.analyses import registry
from raysweep.analyses.rows import ERROR
from raysweep.errors import InputError, shown, unknown
from raysweep.fits.lost_draws import LARGEST
from raysweep.numbers import number
from raysweep.phrases import counted
from raysweep.query import columns
from raysweep.query.columns import Axis, absent, axis_of, numbers_in, place
from raysweep.workloads.declaration import DIVERGED, FAILED, OK
from raysweep.workloads.function_description import DIRECTIONS, TAKEN, Description, check_metric

SOURCE_DIRECTIONS = "raysweep_directions"
"""Among the attributes of a data frame: maximize or minimize, by metric, as its source has it."""
MISSING = ("na", "n/a", "null", "none", "-")
"""What files write, in any letters, for a number that is not there."""
Names = Collection[str]


class Table(NamedTuple):
    """Runs made elsewhere.

    rows: one per run: sweep, cell, seed, status, the axes and the metrics, as `Sweep.results` has them, and
        METRIC_standard_error, if that is given.
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
    questions: Sequence[Any] = (),
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
    questions: analyses, about the first metric where they name none.
    seed: the column of the seed; None if there is one run per cell. repeats: whether several are draws of it.
    error: the column of the standard errors of the first metric.
    status: the column that says how a run ended; None for a column `status` or `state` with the words of tools, empty
        for none. Without one a number that is not finite has diverged.
    scale: log or linear, for axes that are read otherwise than guessed. labels: axes whose numbers are only names.
    together: whether axes whose values come in pairs move together.
    name, source: of the sweep, and from where it is; shown in reports.

    A value that is not there (None, NA, an empty text) is missing, never diverged. So is a run without any setting. A
    run that failed and was run again counts no more, unless it is one of several draws.

    Raises InputError for a column that is not there, text in a number, and several runs of a cell.
    """
    frame, settings, scale = as_frame(table), [*axes, *by], scale or {}
    directed = [_metric(str(one), frame.attrs.get(SOURCE_DIRECTIONS, {})) for one in metrics]
    directions, first = dict(directed), directed[0][0]
    seed, error, status = (one if one is None else str(one) for one in (seed, error, status))
    used = [*(metric for metric, _ in directed), *settings, *(one for one in (seed, error, status) if one)]
    if status is None and (status := columns.status_column(frame, used)):
        used.append(status)
    _check(frame, directions, settings, used, status)
    for option, names in (("scale", scale), ("labels", labels)):
        if strange := [column for column in names if column not in settings]:
            raise unknown(option, "axis", strange[0], settings)
    for column in used:
        gaps = MISSING if column in (*directions, error) else ("nan", "-nan") if column in settings else ()
        frame[column] = columns.plain_column(frame[column], gaps)
    values = pd.DataFrame({metric: numbers_in(frame[metric], metric) for metric in directions})
    for metric, largest in values[np.isfinite(values)].abs().max().items():
        if 0 < largest < 1 / LARGEST:
            raise InputError(metric, f"no value is as large as {1 / LARGEST:g}, so that squares are 0; multiply it")
    statuses = columns.statuses_of(frame, status, values[first])
    kept = (statuses != "") & ~(absent(frame[settings]).all(axis=1) & bool(settings))  # some stand above others
    if not kept.any() and status:
        words, ended = columns.few_words(frame[status]), ", ".join(columns.ENDED)
        raise InputError(status, f"no run has a value and ended: {words}; expected one of {ended}")
    if not kept.any():
        raise InputError(first, "no run has a value")
    frame, statuses = frame[kept], statuses[kept]
    guessed = [axis_of(frame[one], one, "axis" if one in axes else "by", one in labels) for one in settings]
    for axis in guessed:
        axis.scale = scale.get(axis.name, axis.scale)
    varied = [axis for axis in guessed if len(axis.values) > 1]
    if not any(axis.role == "axis" for axis in varied):
        raise InputError(axes[0] if axes else "axes", "expected an axis with several values")
    setting = pd.DataFrame({axis.name: columns.values_on(frame[axis.name], axis) for axis in varied}, index=frame.index)
    cells = setting.groupby([*setting], sort=False).ngroup().astype(str)
    failed, draw = statuses == FAILED, [cells, *([frame[seed]] if seed else [])]
    again = failed & (~failed).groupby(draw, dropna=False).transform("any") & bool(seed or not repeats)
    frame, cells, statuses = frame[~again], cells[~again], statuses[~again]
    if repeats and not seed:
        _check_listed_once(frame[np.isfinite(values.loc[frame.index, first])], [*directions])
    seeds = _seeds(frame, cells, used, seed, repeats, name)
    along = setting.loc[frame.index, [axis.name for axis in varied if axis.role == "axis" and axis.kind != "str"]]
    apart = [name for name in along if (along[name].groupby(seeds).nunique() == 1).all()]
    if apart and seeds.duplicated().any() and seeds.groupby(cells).nunique().max() > 1:  # no draw goes along these axes
        seeds = seeds.groupby([along[name] for name in apart]).transform(lambda some: pd.factorize(some, sort=True)[0])
    rows = pd.DataFrame({"sweep": name, "cell": cells, "seed": seeds, "status": statuses}).join(setting).join(values)
    if error:
        rows[f"{first}{ERROR}"] = errors = numbers_in(frame[error], error)
        if (wrong := (statuses == OK) & ~(errors >= 0)).any():
            got = "none" if np.isnan(errors[wrong].iloc[0]) else number(errors[wrong].iloc[0])
            got = f"{got} in {place(frame.index[wrong][:1])}"
            raise InputError(error, f"expected a standard error of at least 0, got {got}")
    if together:
        _together(rows, varied)
    diverged = int((statuses == DIVERGED).sum())
    notes = {first: f"{diverged:,} not finite: diverged (None and NA are missing)" if diverged else ""}
    if seed and (rows["seed"] != pd.to_numeric(frame[seed])).any():
        notes[seed] = "none occurs at two values of an axis: they number runs, and are no shared draws"
    if status and again.any():
        notes[status] = f"{again.sum():,} failed and run again: the other run counts"
    roles = {metric: f"metric, {direction}d" for metric, direction in directions.items()}
    roles |= {one: role for one, role in ((seed, "seed"), (error, "standard error"), (status, "status")) if one}
    lines = [*map(_guess, guessed), *([one, role, "", "", "", notes.get(one, "")] for one, role in roles.items())]
    space = _space(guessed, directions, rows, source) | {"analysis": [_about(first, one) for one in questions]}
    guesses = pd.DataFrame(lines, columns=["column", "role", "type", "values", "scale", "note"])
    return Table(rows.reset_index(drop=True), space, guesses, int((~kept).sum()))


def _check(frame: pd.DataFrame, metrics: Names, settings: Names, used: Names, status: str | None) -> None:
    """Raise InputError for a column that is not there once, is used twice, or has a name that it cannot have."""
    for column in used:
        if (frame.columns == column).sum() > 1:
            raise InputError(column, "several columns have this name; rename all but one")
        if column not in frame:
            if status in frame and column in metrics and not (columns.reported(frame[status]) == OK).any():
                raise InputError(column, f"no run has it, and none has finished: {columns.few_words(frame[status])}")
            raise unknown("axes" if column in settings else column, "column", column, frame.columns)
    if twice := [column for column in used if [*used].count(column) > 1]:
        raise InputError(twice[0], "this column is used twice; expected each once")
    if taken := [column for column in settings if column in TAKEN]:
        raise InputError(taken[0], "this name is a column of every table of results; rename it")
    if inner := [column for column in settings if column.startswith("_")]:
        raise InputError(inner[0], "names that begin with _ are those of columns that analyses add; rename it")
    if wrong := [column for column in settings if not column.strip() or not column.isprintable()]:
        raise InputError(shown(wrong[0]), "expected a column with a printable name; rename it")
    for metric in metrics:
        check_metric(metric, "metric")


def as_frame(table: Any) -> pd.DataFrame:
    """A table as a pandas data frame of its own, its columns named by texts. A null of other libraries is None."""
    if not isinstance(table, (pd.DataFrame, Mapping)) and hasattr(table, "__arrow_c_stream__"):  # polars, DuckDB, …
        table = pyarrow.table(table).to_pydict()
    if isinstance(table, Mapping):
        try:
            table = pd.DataFrame(dict(table), dtype=object)
        except ValueError as problem:
            raise InputError("table", str(problem)) from None
    if not isinstance(table, pd.DataFrame):
        raise InputError("table", f"expected a data frame or a mapping of columns, got {shown(table)}")
    frame = table.set_axis(table.columns.map(str), axis=1)
    return frame if frame.index.is_unique else frame.reset_index(drop=True)


def _metric(text: str, source: Mapping[str, str]) -> tuple[str, str]:
    """(name, direction). source: the directions that the source states."""
    name, _, direction = text.rpartition(":")
    if not name:
        return text, source.get(text, DIRECTIONS[0])
    if direction not in DIRECTIONS:
        raise InputError("metric", f"expected {' or '.join(DIRECTIONS)} behind the colon, got {shown(direction)}")
    if source.get(name, direction) != direction:
        raise InputError("metric", f"{text} contradicts the source, which says {name}:{source[name]}")
    return name, direction


def _check_listed_once(frame: pd.DataFrame, metrics: Sequence[str]) -> None:
    """Raise InputError for repeats that are equal in all columns, unless metrics have ties between cells too."""
    texts = frame.map(str)
    again, once = texts.duplicated(), texts.drop_duplicates()
    if again.any() and not once[metrics].duplicated().any():
        same = frame[(texts == texts[again].iloc[0]).all(axis=1)]
        raise InputError(
            "repeats",
            f"{place(same.index[:3])} are equal in all columns: a run that is listed twice is no second draw; drop "
            f"{counted(int(again.sum()), 'row')} or add a column that tells draws apart",
        )


def _shuffled(frame: pd.DataFrame, cells: pd.Series) -> pd.Series:
    """A number for each run among those of its cell, by a hash of its values. The order of a table tells nothing: if it
    is sorted by the metric, the best runs of all cells would be one draw."""
    order = pd.util.hash_pandas_object(frame.map(str), index=False)
    return order.groupby(cells, sort=False).rank(method="first").astype(int) - 1


def _seeds(
    frame: pd.DataFrame, cells: pd.Series, used: Sequence[str], seed: str | None, repeats: bool, name: str
) -> pd.Series:
    """The seed of each run. Raises InputError if several runs of a cell have the same. used: columns with a role.
    name: of the sweep: draws of two sweeps are no pairs either."""
    told_by = frame[[column for column in used if column != seed]].assign(sweep=name)
    if seed is not None:
        numbers_in(frame[seed], seed)
        seeds = pd.to_numeric(frame[seed], errors="coerce") + 0  # also of booleans
        whole = (seeds >= 0) & (seeds < 2**63) & (seeds % 1 == 0)
        if not whole.all():
            raise InputError(seed, f"expected whole numbers of at least 0, got {number(seeds[~whole].iloc[0])}")
        if seeds.is_unique and cells.nunique() > 1:
            return _shuffled(told_by, cells)  # the seeds number the runs: no draw is shared by two cells
        seeds = seeds.astype(np.int64)
    else:
        seeds = _shuffled(told_by, cells)
    alike = pd.DataFrame({"cell": cells, "seed": seeds if seed or repeats else 0})
    if (several := alike.duplicated(keep=False)).any():
        same = frame[(alike == alike[several].iloc[0]).all(axis=1)]
        rest = frame.columns.difference(used, sort=False)
        differ = ", ".join([column for column in rest if same[column].map(str).nunique() > 1][:5])
        more = f"; they differ in {differ}, which may be an axis or the seed" if differ else ""
        way = "the same seed" if seed else "the same values on all axes"
        take = "" if seed else " (--repeats, in Python repeats=True, takes them as draws of one cell)"
        raise InputError(seed or "seed", f"{place(same.index[:3])} have {way}{more}{take}")
    return seeds


def _together(rows: pd.DataFrame, axes: Sequence[Axis]) -> None:
    """Put axes that vary together in one group: each value of one comes with one value of the other. Where no value
    occurs twice, numbers also rise or fall together, which those of a random search do not."""
    for k, axis in enumerate(axes):
        for first in (one for one in axes[:k] if one.name in [*one.group, one.name][:1]):
            pairs = rows[[first.name, axis.name]].drop_duplicates().sort_values(first.name)
            second = pairs[axis.name]
            ordered = "str" in (axis.kind, first.kind) or len(pairs) < rows["cell"].nunique()
            ordered = ordered or second.is_monotonic_increasing or second.is_monotonic_decreasing
            if ordered and len(pairs) == pairs[first.name].nunique() == second.nunique():
                axis.group = first.group = first.group or [first.name]
                axis.group.append(axis.name)
                break


def _space(axes: Sequence[Axis], directions: Mapping[str, str], rows: pd.DataFrame, source: str) -> dict[str, Any]:
    parameters: Any = tuple({"name": axis.name, "type": axis.kind, "default": None, "choices": []} for axis in axes)
    name, returned, none = rows["sweep"].iloc[0], tuple(directions), "0" * 12
    function = Description(name, 1, parameters, dict(directions), returned, 0.0, digest=none, source=source)
    varied = [axis for axis in axes if len(axis.values) > 1]
    values = {axis.name: list(axis.values) for axis in varied}
    zipped = [axis.group for axis in varied if axis.group[:1] == [axis.name]]
    for group in zipped:
        values |= rows[group].drop_duplicates().sort_values(group[0]).to_dict("list")
    about = f"computed elsewhere ({source})" if source else "computed elsewhere"
    fixed = {axis.name: axis.values[0] for axis in axes if len(axis.values) == 1}
    scale, seeds = {axis.name: axis.scale for axis in varied if axis.scale}, sorted(map(int, rows["seed"].unique()))
    space = {"name": name, "description": about, "workload": name, "function": function.plain(), "axes": values}
    return space | {"scale": scale, "zip": zipped, "fixed": fixed, "seeds": seeds}


def _guess(axis: Axis) -> list[str]:
    others, count = [name for name in axis.group if name != axis.name], len(axis.values)
    notes = [f"{short!r} is {long!r}" for short, long in axis.joined.items()][:3]
    notes += [f"varies with {', '.join(others)}"] if others else []
    few = ", ".join(map(number, axis.values if count <= 4 else [*axis.values[:2], "…", axis.values[-1]]))
    role, few = (axis.role, f"{count}: {few}") if count > 1 else ("constant", few)
    return [axis.name, role, axis.kind, few, axis.scale, "; ".join(notes)]


def _about(metric: str, entry: Any) -> Any:
    """An analysis, about a metric if its kind asks for one and it names none."""
    if not isinstance(entry, Mapping) or len(entry) != 1:
        return entry
    ((kind, options),) = entry.items()
    options = {} if options is None else options
    analysis = registry.get(kind) if kind in registry.names() and isinstance(options, Mapping) else None
    if analysis and not {"metric", "metrics"} & {*options} and "metric" in {**analysis.required, **analysis.optional}:
        options = {"metric": metric, **options}
    return {kind: options}
