"""Lists what the storage and the package hold: sweeps, workloads with their parameters, packaged spaces."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping
from pathlib import Path

from raysweep import workloads as declared
from raysweep.errors import InputError, RaysweepError, as_typed, unknown
from raysweep.ledger import sweep_record
from raysweep.phrases import place
from raysweep.query.sweep import open_sweep
from raysweep.space import function_files, space_files
from raysweep.storage.paths import AnyPath
from raysweep.theory import papers
from raysweep.workloads.declaration import SIGN_SPREAD, Metric, Parameter


def sweeps(storage: AnyPath) -> list[str]:
    """One line per sweep: name, workload, rows, state, start time."""
    lines = []
    for name in sweep_record.sweeps(storage):
        try:
            sweep = open_sweep(name, storage)
            state = sweep.state()
        except RaysweepError as error:
            lines.append(f"{name:32} {error}")
            continue
        done, left = len(state.rows), state.missing_rows
        rows = f"{done:>9,} of {done + left:<9,} {sweep.phase(left):12}"
        lines.append(f"{name:32} {sweep.space.workload:18} {rows} {sweep.record.created}")
    return lines or [f"no sweeps in {place(storage)}; start one with: raysweep run quickstart"]


def workloads() -> list[str]:
    """One line per workload; of one that cannot be loaded it says why."""
    lines = []
    for name in declared.names():
        try:
            lines.append(f"{name:18} {declared.get(name).summary}")
        except InputError as error:
            lines.append(f"{name:18} {error}")
    return lines


def with_label(declared: Parameter | Metric) -> str:
    """The description, with what reports call it in front."""
    return f"{declared.label}: {declared.description}" if declared.label else declared.description


def workload(name: str) -> list[str]:
    """Lines about a workload: its stages, its parameters with unit, range and default, then its metrics."""
    if function_files.is_named(name):
        raise InputError(name, "its arguments are its parameters; a space names it as `workload` (docs/functions.md)")
    if name not in declared.names():
        raise unknown(name or "NAME", "workload", name, declared.names())
    workload = declared.get(name)
    chain, last = workload.chain, workload.chain.stages[-1].name
    lines = [f"{workload.name}: {workload.summary}", ""]
    if len(chain) > 1:
        kept = ", ".join(chain.names[index] for index in chain.kept()) or "none unless a space says so"
        lines += [f"stages: {' > '.join(chain.names)}; kept: {kept}", ""]
    for stage, names in zip(chain.names, chain.parameters, strict=True):
        if not names:
            continue
        lines.append(f"parameters of {stage}" if len(chain) > 1 else "parameters")
        for parameter in (workload.by_name[each] for each in names):
            default = ".inf" if parameter.default == float("inf") else parameter.default
            lines.append(f"  {parameter.name:18} {parameter.expected()}; default {as_typed(default)}")
            lines.append(f"  {'':18} {with_label(parameter)}")
        lines.append("")
    lines.append("metrics")
    for metric in workload.metrics:
        unit = f" [{metric.unit}]" if metric.unit else ""
        direction = f" ({metric.direction})" if metric.direction != "none" else ""
        stage = f", measured in {metric.stage}" if metric.stage not in ("", last) else ""
        lines.append(f"  {metric.name:26} {with_label(metric)}{unit}{direction}{stage}")
    if workload.symmetry is not None:
        apart = ", ".join(f"{name}{SIGN_SPREAD}" for name in workload.symmetry.metrics)
        lines += ["", f"with symmetric: true also their standard deviation over the signs: {apart}"]
    if workload.closed_form is not None:
        closed = [name for name in workload.metric_names() if name.endswith("_theory")]
        lines += ["", "closed forms: " + ", ".join(closed)]
    if cited := papers.legend("\n".join(lines)):
        lines.insert(1, cited)
    return lines


def spaces(width: int | None) -> list[str]:
    """The packaged spaces, each with its question, and the papers that these cite. width: as in `listed`."""
    questions = {name: first_comment(path) for name, path in space_files.packaged().items()}
    cited = {f"paper {letter}": papers.PAPERS[letter] for letter in papers.cited(" ".join(questions.values()))}
    return listed({**questions, **cited}, 34, width)


def first_comment(path: Path) -> str:
    lines = itertools.dropwhile(lambda line: not line.startswith("#"), path.read_text().splitlines())
    words = itertools.takewhile(lambda line: line.startswith("#") and line.strip("# "), lines)
    return " ".join(line.lstrip("# ").rstrip() for line in words)


def listed(entries: Mapping[str, str], column: int, width: int | None) -> list[str]:
    """Lines of names with their texts, which begin at a column and are wrapped at the width of a terminal."""
    lines = []
    for name, text in entries.items():
        parts = [text] if width is None else textwrap.wrap(text, max(width - column, 20), break_on_hyphens=False)
        lines += [f"{start:{column - 1}} {part}" for start, part in itertools.zip_longest([name], parts, fillvalue="")]
    return lines
