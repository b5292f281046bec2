"""Questions to finished rows, in Python: fits, the best cell, and one sweep against another, as the report has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raysweep.errors import InputError, shown
from raysweep.fits.statistics import LEVEL
from raysweep.space import analysis_functions, user_files
from raysweep.space.analyses import check_analysis
from raysweep.space.checks import Context

if TYPE_CHECKING:
    import pandas

    from raysweep.analyses.finding import Finding
    from raysweep.query.state import State
    from raysweep.query.stored_sweep import StoredSweep
    from raysweep.report.answers import Fitted, Tabled


def fit(sweep: StoredSweep, asked: Mapping[str, Mapping[str, Any] | None]) -> Fitted:
    """The fit that exactly one of the entries asks for. asked: {kind: options, or None if it is not asked for}."""
    from raysweep.report.answers import fitted

    entry = {kind: options for kind, options in asked.items() if options is not None}
    if len(entry) != 1:
        given = " and ".join(entry) or "none"
        raise InputError("fit", f"expected one of {', '.join(asked)}, like {next(iter(asked))}={{…}}, got {given}")
    (options,) = entry.values()
    return fitted(_finding(sweep, entry, "fit"), sweep.workload, float(options.get("level") or LEVEL))


def best_cells(sweep: StoredSweep, metric: str) -> Tabled:
    """The cells by the mean of the metric."""
    from raysweep.report.answers import tabled

    return tabled("best", _finding(sweep, {"best": {"metric": metric}}, ""), sweep.workload)


def findings(sweep: StoredSweep) -> list[Finding]:
    """What each analysis of the space finds, as the report has it."""
    from raysweep.analyses.findings import designed, findings_of
    from raysweep.query.report import with_times

    state = sweep.state()
    rows = with_times(_rows(sweep, state), state)
    design, workload = designed((sweep.space.as_dict(),), (sweep.name,))
    files = user_files.recall_analyses(sweep.record.sweep_id)
    return findings_of(rows, design, workload, lambda: sweep.curves(state, ()), files)


def analyse(sweep: StoredSweep, function: Any, options: Mapping[str, Any]) -> Tabled:
    """What a function of somebody else finds in the rows. function: itself, or its name as in YAML."""
    from raysweep.analyses import user_function
    from raysweep.report.answers import Tabled
    from raysweep.report.figures.style import styled

    if isinstance(function, str):
        kind, files = function, analysis_functions.files_of([{function: None}], Path())
        function = analysis_functions.find(kind, files, "analyse")
    elif callable(function):
        kind = analysis_functions.name_of(function)
    else:
        raise InputError("analyse", f"expected a function or the name of one, got {shown(function)}")
    with styled():
        returned = user_function.call(function, kind, _rows(sweep), options)
    return Tabled(returned.table, user_function.finding(kind, function, returned), sweep.workload)


def _finding(sweep: StoredSweep, entry: Mapping[str, Any], path: str) -> Finding:
    """The finding of an entry that is checked as in YAML. path: the key of the entry, for errors."""
    from raysweep.analyses.findings import one_finding

    space = sweep.space
    check_analysis(entry, path, Context(sweep.workload, space.axes, space.ranges))
    return one_finding(_rows(sweep), space.as_dict(), entry, sweep.name)


def _rows(sweep: StoredSweep, state: State | None = None) -> pandas.DataFrame:
    """The rows of a sweep. Raises InputError without any."""
    table = sweep.results(state)
    if table.empty:
        raise InputError(sweep.name, "there are no rows yet")
    return table.assign(sweep=sweep.name)


def compare(first: StoredSweep, second: Any) -> Tabled:
    """The second sweep less the first, paired by seed, for the metrics that the analyses of either name."""
    import pandas

    from raysweep.analyses.comparison import compared
    from raysweep.analyses.findings import designed
    from raysweep.query.report import tables_of
    from raysweep.query.stored_sweep import StoredSweep
    from raysweep.report.answers import tabled

    if not isinstance(second, StoredSweep):
        raise InputError("compare", f"expected another sweep, such as raysweep.open(NAME), got {shown(second)}")
    if str(first.folder) == str(second.folder) and repr(first.space) == repr(second.space):
        raise InputError("compare", f"expected another sweep than {first.name} itself")
    labels, _, tables = tables_of([first, second])
    for label, table in zip(labels, tables, strict=True):
        if table.empty:
            raise InputError(label, "there are no rows yet")
    spaces = [sweep.space.as_dict() for sweep in (first, second)]
    design, workload = designed(spaces, labels)
    return tabled("compare", compared(pandas.concat(tables, ignore_index=True), design, workload), workload)
