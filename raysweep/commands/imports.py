"""`raysweep import`: runs that were computed elsewhere become a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raysweep.phrases import command, counted
from raysweep.query import importing, sources
from raysweep.query import table as tables
from raysweep.query.columns import place
from raysweep.redaction import without_credentials
from raysweep.space import space_files
from raysweep.space.schema import plain_name
from raysweep.storage import paths


def run(
    name: str, storage: str, dry_run: bool, sets: dict[str, Any], *, source: str, workload: str | None, **options: Any
) -> list[str]:
    """Import the runs, unless this is a dry run. Returns the lines for the user: what was guessed, and what there is.

    sets: changes of the space, by dotted key. options: as in `table.read`; axes and labels are names with commas
        between, and the standard errors of lm-eval are taken by themselves if no row lacks one.
    """
    plain_name(name, "NAME")
    frame = sources.load(source)
    metric = options["metrics"][0].partition(":")[0]
    harness, without = f"{metric}_stderr", frame.index[:0]
    if options["error"] is None and source.startswith("lm-eval:") and {metric, harness} <= {*frame}:
        without = frame.index[frame[metric].notna() & frame[harness].isna()]
        options["error"] = None if len(without) else harness
    options |= {one: [text.strip() for text in options[one].split(",") if text.strip()] for one in ("axes", "labels")}
    asked: dict[str, Any] = {}
    for key, value in sets.items():
        space_files.apply_set(asked, key, value)
    if isinstance(asked.get("analysis"), list):
        options["questions"], sets = asked["analysis"], {key: one for key, one in sets.items() if key != "analysis"}
    scale = asked["scale"] if isinstance(asked.get("scale"), Mapping) else {}
    options |= {"scale": scale, "together": asked.get("zip") != [], "source": without_credentials(source)}
    table = tables.read(frame, name=name, **options)
    if len(without):
        table.guesses.loc[len(table.guesses)] = [harness, "not used", "", "", "", f"{place(without[:1])} has none"]
    made = importing.space_of(table, sets, workload)
    lines = table.guesses.to_string(index=False, justify="left").splitlines()
    rows, cells = counted(len(table.rows), "row"), counted(int(table.rows["cell"].nunique()), "cell")
    statuses = ", ".join(f"{count:,} {status}" for status, count in table.rows["status"].value_counts().items())
    gone = f"; {counted(table.missing, 'run')} that did not end or lack a value left out" if table.missing else ""
    lines += ["", f"{name}: {rows} of {cells} ({statuses}){gone}"]
    if not dry_run:
        sweep = importing.create(table, storage, made)
        state = sweep.state()
        if left_out := len(table.rows) - len(state.rows):
            lines.append(f"{counted(left_out, 'row')} that the space leaves out")
        if missing := state.missing_rows:
            lines.append(f"{counted(missing, 'row')} that {workload} can compute")
        lines.append(f"go on with: {command('resume' if missing else 'report', name, paths.storage(storage))}")
    return lines
