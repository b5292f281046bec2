"""The text of a report in Markdown: question, answer, how sure, set-up, a section for each analysis, provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raysweep.reporting.section import Drawing, Section
from raysweep.reporting.words import coded, counted, markdown_table, number, plain, values_in_words
from raysweep.workloads.declaration import STATUSES, Workload

if TYPE_CHECKING:
    import pandas as pd

SHOWN_ROWS = 60  # longer tables stand in the CSV only


def to_markdown(
    frame: pd.DataFrame,
    space: Mapping[str, Any],
    workload: Workload,
    sections: Sequence[Section],
    sweep: str,
    notes: Sequence[str],
) -> str:
    """The whole text: question, answer, how sure, set-up; then a section for each analysis."""

    def prose(text: str) -> str:
        return sentence(coded(text, workload))

    lines = [f"# {sweep}", "", f"**Question.** {prose(question(space, workload))}", "", "**Answer.**", ""]
    lines += [f"- {prose(section.headline)}" for section in sections] or [
        "- The space asks for no analysis; the numbers are in the results."
    ]
    lines += ["", "**How sure.** " + sureness(frame), ""]
    lines += ["**Set-up.** " + coded(set_up(space, workload), workload), ""]
    for note in notes:
        lines += [f"> {note}", ""]
    for section in sections:
        lines += [f"## {coded(section.title, workload)}", ""]
        for drawing in section.drawings[:1]:
            lines += picture(drawing, workload)
        lines += [f"{prose(section.headline)}", ""]
        for paragraph in section.paragraphs:
            lines += [coded(paragraph, workload), ""]
        for drawing in section.drawings[1:]:
            lines += picture(drawing, workload)
        if section.shown:
            lines += [coded(markdown_table(list(section.shown[:SHOWN_ROWS])), workload), ""]
            if len(section.shown) > SHOWN_ROWS:
                lines += [f"The first {SHOWN_ROWS} of {len(section.shown)} lines; all are in the CSV.", ""]
        if section.tables:
            lines += [
                "Numbers in full: " + ", ".join(f"[{name}.csv](tables/{name}.csv)" for name in section.tables) + ".",
                "",
            ]
    lines += ["## Where the numbers come from", "", *provenance(frame, space)]
    return "\n".join(lines) + "\n"


def picture(drawing: Drawing, workload: Workload) -> list[str]:
    """A figure and its caption in Markdown."""
    return [
        f"![{plain(drawing.name)}](figures/{drawing.name}.png)",
        "",
        f"*{coded(drawing.caption, workload)}*",
        "",
    ]


def sentence(text: str) -> str:
    """Text with a capital (names of columns stay as they are) and a full stop."""
    first = text.split(" ", 1)[0]
    text = text if "_" in first or "`" in first else text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."


def question(space: Mapping[str, Any], workload: Workload) -> str:
    """What is asked: in the words of the space's description, else put together from its analyses."""
    if space.get("description"):
        return " ".join(str(space["description"]).split())
    asked = []
    for entry in space.get("analysis") or []:
        kind, options = next(iter(entry.items()))
        options = options or {}
        metric, x, y = options.get("metric", ""), options.get("x", ""), options.get("y", "")
        asked.append(
            {
                "boundary": f"where does {metric} change sign in {plain(str(x))}",
                "inflection": f"where does {metric} turn in {plain(str(x))}",
                "trend": f"does {metric} rise or fall with {plain(str(x))}",
                "curves": f"how do the metrics run over {plain(str(x))}",
                "agreement": "does the experiment agree with the closed form",
                "engines": "do the engines agree on the same draws",
                "relation": f"does {x} predict {y}",
            }.get(kind, f"what is the {kind} of {metric}" if metric else f"what is the {kind}")
        )
    return "; ".join(dict.fromkeys(asked)).capitalize() + "?" if asked else workload.summary


def set_up(space: Mapping[str, Any], workload: Workload) -> str:
    """What was varied, by which workload, and what the metrics asked for mean."""
    axes = "; ".join(
        values_in_words(name, list(values), workload) for name, values in (space.get("axes") or {}).items()
    )
    text = f"Varied: {axes}. " if axes else ""
    text += f"Workload `{workload.name}`: {workload.summary}."
    described = {metric.name: metric.description for metric in workload.metrics}
    named: list[str] = []
    for entry in space.get("analysis") or []:
        for options in entry.values():
            for key in ("metric", "metrics", "x", "y"):
                value = (options or {}).get(key) or []
                named += [value] if isinstance(value, str) else list(value)
    meant = [f"{name} = {described[name]}" for name in dict.fromkeys(named) if name in described]
    return text + (f" Here {'. '.join(meant)}." if meant else "")


def sureness(frame: pd.DataFrame) -> str:
    """Draws, and what became of the rows."""
    counts = {word: int((frame["status"] == word).sum()) for word in STATUSES}
    per_cell = frame.groupby("cell")["seed"].nunique() if "cell" in frame.columns else frame["seed"].value_counts()
    draws = counted(int(per_cell.max()), "draw") if len(per_cell) else "no draw"
    if len(per_cell) and per_cell.min() != per_cell.max():
        draws = f"{int(per_cell.min())} to {draws}"
    text = f"{counted(len(per_cell), 'cell')}, {draws} each, {counted(len(frame), 'row')}: {counts['ok']:,} ok"
    bad = {word: count for word, count in counts.items() if word != "ok" and count}
    if not bad:
        return text + ", none left out."
    listed = ", ".join(f"{count:,} {word.replace('_', ' ')}" for word, count in bad.items())
    return text + f". **Left out of every mean and fit: {listed}.**"


def provenance(frame: pd.DataFrame, space: Mapping[str, Any]) -> list[str]:
    """Code version, amount of work, and the space itself."""
    versions = (
        ", ".join(f"`{v}`" for v in sorted(set(map(str, frame["code_version"]))))
        if "code_version" in frame.columns
        else "unknown"
    )
    lines = [
        f"- Code version {versions}; {counted(len(frame), 'row')}"
        + (f"; {number(frame['seconds'].sum(), 3)} s of computing" if "seconds" in frame.columns else "")
        + "."
    ]
    if "sweep" in frame.columns:
        lines.append(
            f"- Sweeps: {', '.join(f'`{name}`' for name in dict.fromkeys(map(str, frame['sweep'])))}; space "
            f"`{space.get('name', '')}`."
        )
    fixed = space.get("fixed") or {}
    if fixed:
        lines.append(
            "- Fixed: "
            + ", ".join(
                f"{plain(name)} {number(value) if isinstance(value, (int, float)) else value}"
                for name, value in fixed.items()
            )
            + "."
        )
    seeds = list(space.get("seeds") or [])
    if seeds:
        lines.append(f"- Seeds: {seeds[0]}" + (f" … {seeds[-1]} ({len(seeds)})" if len(seeds) > 1 else "") + ".")
    shown = json.dumps(
        {key: value for key, value in space.items() if key != "description"}, default=str, ensure_ascii=False
    )
    lines += ["", "The space, resolved:", "", "```json", shown, "```"]
    return lines
