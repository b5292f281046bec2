"""The Python API: run a space, resume a sweep, sync it to MLflow, open it, write its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from raysweep.driver import start_and_resume
from raysweep.driver.options import Options
from raysweep.driver.start_and_resume import resume, sync
from raysweep.errors import InputError, shown
from raysweep.query.report import report
from raysweep.query.sweep import Sweep
from raysweep.query.sweep import open_sweep as open
from raysweep.space import function_files, space_files

__all__ = ["Options", "Sweep", "open", "report", "resume", "run", "sync"]


def run(
    space: str | Path | Mapping[str, Any] | Callable[..., Any], *, set: Mapping[str, Any] | None = None, **keywords: Any
) -> Sweep:
    """Run a space, or a sweep over a function's arguments, to its end and return the sweep.

    A sweep of that name that exists already is continued or extended. If the space is only a part of that sweep, the
    returned sweep is this part.

    space: a path, the name of a packaged space, or plain data. Or a function of the arguments that the sweep sets, of
        `seed`, and if it likes of `log` (log(step, **metrics) draws learning curves). It returns its metrics, a mapping
        from names to numbers, or one number, the metric `value`. An exception makes a failed row.
    set: maps dotted keys of the space to values, like `--set`.
    keywords: the fields of `Options` (`storage`, `workers` …). Any other keyword replaces a key of the space
        (`seeds=5`); `axes` and `fixed` replace only the parameters that they name. For a function also `metrics`
        ({"accuracy": "maximize"}; others are minimized), `version` (raise it when the function computes something
        else; rows of another version are not used) and `vectorized` (one call gets many rows: arrays, shape (rows,),
        and returns such arrays).

    Raises InputError for bad input, and KeyboardInterrupt after everything finished so far is safe.
    """
    function_files.check_not_imported()
    options = Options(**{key: keywords.pop(key) for key in {field.name for field in fields(Options)} & keywords.keys()})
    if set is not None and not (isinstance(set, Mapping) and all(isinstance(key, str) for key in set)):
        raise InputError(
            "set", f"expected a mapping from keys to values like {{'axes.depth': [1, 2]}}, got {shown(set)}"
        )
    changes = dict(set or {})
    if callable(space):
        space, keywords = {"workload": space, **keywords}, {}
    for key, value in keywords.items():
        if key in ("axes", "fixed") and isinstance(value, Mapping):
            changes |= {f"{key}.{inner}": entry for inner, entry in value.items()}
        else:
            changes[key] = value
    found, function = space_files.read_with_function(space, changes, options.name)
    return start_and_resume.run(found, options, function, space_files.analysis_files(found, space))
