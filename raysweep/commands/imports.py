"""`raysweep import`: runs that were computed elsewhere become a sweep."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from raysweep.phrases import command, counted
from raysweep.query import importing, sources, table
from raysweep.query.columns import place
from raysweep.redaction import without_credentials
from raysweep.space import space_files
from raysweep.space.schema import plain_name
from raysweep.storage import paths


def run(
    name: str,
    storage: str,
    dry_run: bool,
    sets: Mapping[str, Any],
    *,
    source: str,
    axes: str,
    metrics: Sequence[str],
    seed: str | None,
    status: str | None,
    error: str | None,
    labels: str,
    repeats: bool,
    workload: str | None,
) -> list[str]:
    """Import the runs, unless this is a dry run. Returns the lines for the user: what was guessed, and what there is.

    sets: changes of the space, by dotted key. axes, labels: names of columns with commas between. The others are as in
        `table.read`.
    """
    plain_name(name, "NAME")
    frame = sources.load(source)
    tool = source.partition(":")[0]
    metric = metrics[0].partition(":")[0]
    harness, lacking = f"{metric}_stderr", frame.index[:0]
    if error is None and tool == "lm-eval" and {metric, harness} <= {*frame}:
        lacking = frame.index[frame[metric].notna() & frame[harness].isna()]
        error = None if len(lacking) else harness
    found = table.read(
        frame,
        metrics,
        listed(axes),
        seed=seed,
        error=error,
        labels=listed(labels),
        scale=scales(sets),
        together=sets.get("zip") != [],
        status=status,
        repeats=repeats,
        name=name,
        source=without_credentials(source),
    )
    if len(lacking):
        found.guesses.loc[len(found.guesses)] = [harness, "not used", "", "", "", f"{place(lacking, 0)} has none"]
    if isinstance(sets.get("analysis"), list):
        sets = {**sets, "analysis": importing.questions(sets["analysis"], found)}
    if workload is None:
        space = copy.deepcopy(found.space)
        for key, value in sets.items():
            space_files.apply_set(space, key, value)
        found = replace(found, space=space)
        importing.space_of(found)  # which refuses a set that does not fit, also in a dry run
        computed: tuple[Any, Any] = None, None
    else:
        computed = importing.space_of_workload(found, workload, sets)
    lines = found.guesses.to_string(index=False, justify="left").splitlines()
    rows = counted(len(found.rows), "row")
    cells = counted(int(found.rows["cell"].nunique()), "cell")
    left_out = f"; {counted(found.missing, 'run')} that did not end or lack a value left out" if found.missing else ""
    bad = ", ".join(f"{count:,} {status}" for status, count in found.rows["status"].value_counts().items())
    lines += ["", f"{name}: {rows} of {cells} ({bad}){left_out}"]
    if not dry_run:
        sweep = importing.create(found, storage, *computed)
        lacking = sweep.state().missing().rows
        if lacking:
            lines.append(f"{counted(lacking, 'row')} that {workload} can compute")
        what = "resume" if lacking else "report"
        lines.append(f"go on with: {command(what, name, paths.storage(storage))}")
    return lines


def scales(sets: Mapping[str, Any]) -> dict[str, Any]:
    """The scales that the changes of the space set, by axis."""
    whole = sets.get("scale")
    apart = {key.removeprefix("scale."): scale for key, scale in sets.items() if key.startswith("scale.")}
    return {**(whole if isinstance(whole, Mapping) else {}), **apart}


def listed(names: str) -> list[str]:
    """The names in a text, with commas between."""
    return [name.strip() for name in names.split(",") if name.strip()]
