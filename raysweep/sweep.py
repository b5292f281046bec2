"""The Python API: run a space, resume a sweep, sync it to MLflow, open it, write its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from raysweep.driver import start_and_resume
from raysweep.driver.options import Options
from raysweep.driver.stored_sweep import Sweep, open_sweep, report
from raysweep.space import space_files

__all__ = ["Options", "Sweep", "open_sweep", "report", "resume", "run", "sync"]


def run(space: str | Path | Mapping[str, Any], *, set: Mapping[str, Any] | None = None, **keywords: Any) -> Sweep:
    """Run a space to its end and return the sweep.

    A sweep of that name that exists already is continued or extended. If the space is only a part of that sweep, the
    returned sweep is this part.

    space: a path, the name of a packaged space, or plain data.
    set: maps dotted keys of the space to values, like `--set`.
    keywords: the fields of `Options` (`storage`, `workers` …). Any other keyword replaces a key of the space
        (`seeds=5`); `axes` and `fixed` replace only the parameters that they name.

    Raises InputError for bad input, and KeyboardInterrupt after everything finished so far is safe.
    """
    options = Options(**{key: keywords.pop(key) for key in {field.name for field in fields(Options)} & keywords.keys()})
    changes = dict(set or {})
    for key, value in keywords.items():
        if key in ("axes", "fixed") and isinstance(value, Mapping):
            changes |= {f"{key}.{inner}": entry for inner, entry in value.items()}
        else:
            changes[key] = value
    return start_and_resume.run(space_files.read(space, changes), options)


def resume(name: str, **options: Any) -> Sweep:
    """Compute the rows that a sweep still lacks, and compute failed rows again. options: the fields of `Options`."""
    return start_and_resume.resume(name, Options(**options))


def sync(name: str, **options: Any) -> Sweep:
    """Replay a sweep's ledger into MLflow. Runs that are there already stay as they are.

    options: `storage`, `tracking_uri` and `say` of `Options`.

    Raises InputError or Halted if MLflow cannot be given the whole sweep.
    """
    return start_and_resume.sync(name, Options(**options))
