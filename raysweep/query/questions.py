"""Questions to finished rows, in Python: fits, the best cell, and one sweep against another, as the report has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raysweep.errors import InputError, shown
from raysweep.fits.statistics import LEVEL
from raysweep.space import analysis_functions
from raysweep.space.analyses import check_analysis
from raysweep.space.checks import Context

if TYPE_CHECKING:
    from raysweep.query.stored_sweep import StoredSweep
    from raysweep.reporting.analyses.section import Section
    from raysweep.reporting.answers import Analysed, Best, Comparison, Fitted


def fit(sweep: StoredSweep, asked: Mapping[str, Mapping[str, Any] | None]) -> Fitted:
    """The fit that exactly one of the entries asks for. asked: {kind: options, or None if it is not asked for}."""
    from raysweep.reporting.answers import fitted

    entry = {kind: options for kind, options in asked.items() if options is not None}
    if len(entry) != 1:
        given = " and ".join(entry) or "none"
        raise InputError("fit", f"expected one of {', '.join(asked)}, like {next(iter(asked))}={{…}}, got {given}")
    section = _section(sweep, entry, "fit")
    (options,) = entry.values()
    return fitted(section, float(options.get("level") or LEVEL))


def best_cells(sweep: StoredSweep, metric: str) -> Best:
    """The cells by the mean of the metric."""
    from raysweep.reporting.answers import best

    return best(_section(sweep, {"best": {"metric": metric}}, ""))


def analyse(sweep: StoredSweep, function: Any, options: Mapping[str, Any]) -> Analysed:
    """What a function of somebody else says of the rows. function: itself, or its name as in YAML."""
    from raysweep.report.figures.style import styled
    from raysweep.reporting.analyses import user_function
    from raysweep.reporting.answers import Analysed

    if isinstance(function, str):
        kind, files = function, analysis_functions.files_of([{function: None}], Path())
        function = analysis_functions.find(kind, files, "analyse")
    elif callable(function):
        kind = analysis_functions.name_of(function)
    else:
        raise InputError("analyse", f"expected a function or the name of one, got {shown(function)}")
    table = sweep.results()
    if table.empty:
        raise InputError(sweep.name, "there are no rows yet")
    with styled():
        returned = user_function.call(function, kind, table, options)
        return Analysed(returned.table, user_function.section(kind, function, returned))


def _section(sweep: StoredSweep, entry: Mapping[str, Any], path: str) -> Section:
    """The section of an entry that is checked as in YAML. path: how errors call the place of the entry."""
    from raysweep.reporting.sections import one_section

    space = sweep.space
    check_analysis(entry, path, Context(sweep.workload, space.axes, space.ranges))
    table = sweep.results()
    if table.empty:
        raise InputError(sweep.name, "there are no rows yet")
    return one_section(table, space.as_dict(), entry, sweep.name)


def compare(first: StoredSweep, second: Any) -> Comparison:
    """The second sweep less the first, paired by seed, for the metrics that the analyses of either name."""
    import pandas

    from raysweep.query.report import tables_of
    from raysweep.query.stored_sweep import StoredSweep
    from raysweep.reporting.answers import comparison
    from raysweep.reporting.sections import section_of_comparison

    if not isinstance(second, StoredSweep):
        raise InputError("compare", f"expected another sweep, such as raysweep.open(NAME), got {shown(second)}")
    if str(first.folder) == str(second.folder) and repr(first.space) == repr(second.space):
        raise InputError("compare", f"expected another sweep than {first.name} itself")
    labels, _, tables = tables_of([first, second])
    for label, table in zip(labels, tables, strict=True):
        if table.empty:
            raise InputError(label, "there are no rows yet")
    spaces = [sweep.space.as_dict() for sweep in (first, second)]
    return comparison(section_of_comparison(pandas.concat(tables, ignore_index=True), spaces, labels))
