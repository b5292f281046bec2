"""The Python API: run a space, resume a sweep, sync it to MLflow, open it, have it reported."""

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
    """Run a space to its end and return the sweep; one that exists already is continued or extended, and where only a
    part of it is asked for, the sweep that is returned is that part.

    space: a path, the name of a packaged space, or plain data.
    set: dotted keys to values, as `--set`.
    keywords: those of `Options` (`storage`, `workers` …); any other replaces a key of the space (`seeds=5`), those of
        axes and fixed one by one.

    InputError for bad input; KeyboardInterrupt once everything finished so far is safe.
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
    """Compute what a sweep still lacks, rows that failed included. options: those of `Options`."""
    return start_and_resume.resume(name, Options(**options))


def sync(name: str, **options: Any) -> Sweep:
    """Replay a sweep's ledger into MLflow; what is there already is left alone. InputError or Halted if it cannot be
    made whole there. options: `storage`, `tracking_uri` and `say` of `Options`."""
    return start_and_resume.sync(name, Options(**options))
