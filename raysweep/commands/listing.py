"""What the storage and the package offer: sweeps, workloads and their parameters, packaged spaces."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from raysweep import workloads as declared
from raysweep.commands.status import phase
from raysweep.driver.stored_sweep import open_sweep
from raysweep.errors import RaysweepError, as_typed, unknown
from raysweep.ledger import sweep_record
from raysweep.space import packaged
from raysweep.storage.paths import AnyPath

if TYPE_CHECKING:
    pass


def sweeps(storage: AnyPath) -> list[str]:
    """A line a sweep: name, workload, rows, state, when it was started."""
    lines = []
    for name in sweep_record.sweeps(storage):
        try:
            found = open_sweep(name, storage)
        except RaysweepError as error:
            lines.append(f"{name:32} {error}")
            continue
        state = found.state()
        done, left = len(state.rows), state.missing().rows
        lines.append(
            f"{name:32} {found.space.workload:18} {done:>9,} of {done + left:<9,} {phase(found, left):12} "
            f"{found.record.created}"
        )
    return lines or [f"no sweeps in {storage}; start one with: raysweep run quickstart"]


def workloads() -> list[str]:
    """A line a workload."""
    return [f"{name:18} {declared.get(name).summary}" for name in declared.names()]


def workload(name: str) -> list[str]:
    """A workload: its parameters with unit, range and default, then its metrics."""
    if name not in declared.names():
        raise unknown(name, "workload", name, declared.names())
    workload = declared.get(name)
    lines = [f"{workload.name}: {workload.summary}", "", "parameters"]
    for parameter in workload.parameters:
        default = ".inf" if parameter.default == float("inf") else parameter.default
        lines.append(f"  {parameter.name:18} {parameter.expected()}; default {as_typed(default)}")
        lines.append(f"  {'':18} {parameter.description}")
    lines += ["", "metrics"]
    for metric in workload.metrics:
        unit = f" [{metric.unit}]" if metric.unit else ""
        direction = f" ({metric.direction})" if metric.direction != "none" else ""
        lines.append(f"  {metric.name:26} {metric.description}{unit}{direction}")
    if workload.closed_form is not None:
        closed = [name for name in workload.metric_names() if name.endswith("_theory")]
        lines += ["", "closed forms beside them: " + ", ".join(closed)]
    return lines


def spaces(width: int | None) -> list[str]:
    """The packaged spaces and what each asks; width: of the terminal, if it is one."""
    return listed({name: first_comment(path) for name, path in packaged.spaces().items()}, 34, width)


def first_comment(path: Path) -> str:
    """The first paragraph of a space's comments, in one line: what it asks."""
    lines = itertools.dropwhile(lambda line: not line.startswith("#"), path.read_text().splitlines())
    words = itertools.takewhile(lambda line: line.startswith("#") and line.strip("# "), lines)
    return " ".join(line.lstrip("# ").rstrip() for line in words)


def listed(entries: Mapping[str, str], column: int, width: int | None) -> list[str]:
    """Names with what is said of each, from this column on; of a terminal so wide, what is longer goes on below."""
    found = []
    for name, text in entries.items():
        parts = [text] if width is None else textwrap.wrap(text, max(width - column, 20), break_on_hyphens=False)
        found += [f"{start:{column - 1}} {part}" for start, part in itertools.zip_longest([name], parts, fillvalue="")]
    return found
