"""The Markdown text of a report: question, answer, uncertainty, set-up, one section per analysis, provenance."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from raysweep.phrases import counted
from raysweep.reporting import symmetric_draws
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.reporting.design import Design, values_in
from raysweep.reporting.words import coded, first_capital, markdown_table, number, plain, values_in_words
from raysweep.space.analyses import metrics_of, opened
from raysweep.workloads.declaration import STATUSES, Workload

if TYPE_CHECKING:
    import pandas as pd

SHOWN_ROWS = 60  # further rows of a table are in the CSV only


def to_markdown(
    frame: pd.DataFrame,
    design: Design,
    workload: Workload,
    sections: Sequence[Section],
    sweep: str,
    notes: Sequence[str],
) -> str:
    """The whole text of the report.

    frame: the rows; sweep: the title; notes: quoted under the set-up.
    """

    def prose(text: str) -> str:
        return sentence(coded(text, workload), {metric.name for metric in workload.metrics})

    lines = [f"# {sweep}", "", f"**Question.** {prose(question(design, workload))}", "", "**Answer.**", ""]
    lines += [f"- {prose(section.headline)}" for section in sections] or [
        "- The space asks for no analysis; the numbers are in the results."
    ]
    sure = sureness(frame) + symmetric_draws.sentences(frame, design, workload)
    lines += ["", "**How sure.** " + coded(sure, workload), ""]
    lines += ["**Set-up.** " + coded(set_up(design, workload), workload), ""]
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
    lines += ["## Where the numbers come from", "", *provenance(frame, design)]
    return "\n".join(lines) + "\n"


def picture(drawing: Drawing, workload: Workload) -> list[str]:
    """A figure and its caption in Markdown."""
    return [f"![{plain(drawing.name)}](figures/{drawing.name}.png)", "", f"*{coded(drawing.caption, workload)}*", ""]


def sentence(text: str, names: Collection[str] = ()) -> str:
    """The text with a capital first letter and a full stop. A column name at the start is not changed.

    names: columns whose names may be plain words.
    """
    first = text.split(" ", 1)[0]
    text = text if "_" in first or "`" in first or first.rstrip(":,") in names else first_capital(text)
    return text if text.endswith((".", "!", "?")) else text + "."


def question(design: Design, workload: Workload) -> str:
    """The question of the report: the descriptions of the spaces, or else a text made from the analyses."""
    described = dict.fromkeys(" ".join(str(space.get("description") or "").split()) for space in design.spaces)
    if any(described):
        return " ".join(filter(None, described))
    asked = []
    for entry in design.analyses():
        kind, options = opened(entry)
        metric, x, y = options.get("metric", ""), options.get("x", ""), options.get("y", "")
        asked.append(
            {
                "boundary": f"where does {metric} change sign in {plain(str(x))}",
                "inflection": f"where does {metric} turn in {plain(str(x))}",
                "trend": f"does {metric} rise or fall with {plain(str(x))}",
                "power_law": f"with which power of {plain(str(x))} does {metric} grow",
                "predicted_boundary": f"does a power law predict where {metric} changes sign in {plain(str(x))}",
                "shift": f"by what factor does the best {plain(str(x))} for {metric} move between settings",
                "curves": f"how do the metrics run over {plain(str(x))}",
                "agreement": "does the experiment agree with the closed form",
                "engines": "do the engines agree on the same draws",
                "relation": f"does {x} predict {y}",
                "r_squared": f"what explains {metric}",
                "best": f"which cell has the best {metric}",
                "landscape": f"how does {' and '.join(metrics_of(options))} look over {plain(x)} and {plain(y)}",
            }.get(kind, f"what is the {kind} of {metric}" if metric else f"what is the {kind}")
        )
    return "; ".join(dict.fromkeys(asked)).capitalize() + "?" if asked else workload.summary


def set_up(design: Design, workload: Workload) -> str:
    """The set-up in words: the varied parameters, the workload, and the meaning of the analysed metrics."""
    one = design.spaces[0] if len(design.spaces) == 1 else None  # keeps the repeated values of a zipped axis
    varied = [
        values_in_words(name, values_in(one, name) if one else design.values(name), workload, design.any_between(name))
        for name in design.varied()
    ]
    text = f"Varied: {'; '.join(varied)}. " if varied else ""
    if len(design.spaces) > 1:
        text += differences_in_words(design, workload)
    text += f"Workload `{workload.name}`: {workload.summary}."
    described = {metric.name: metric.description for metric in workload.metrics}
    meant = [f"{name} = {described[name]}" for name in design.metrics() if name in described]
    return text + (f" Here {'. '.join(meant)}." if meant else "")


def differences_in_words(design: Design, workload: Workload) -> str:
    """The values in which each sweep differs from the others, in words."""
    said = []
    for name, space in zip(design.names, design.spaces, strict=True):
        own = [
            f"{plain(key)} = {number(values[0])}" if len(values) == 1 else values_in_words(key, values, workload)
            for key in design.varied()
            if (values := values_in(space, key)) and set(values) != set(design.values(key))
        ]
        said.append(f"`{name}` {'has ' + ', '.join(own) if own else 'has all of these'}")
    return f"Of these {'; '.join(said)}. "


def sureness(frame: pd.DataFrame) -> str:
    """How many cells, draws and rows there are, and how many rows have each status, in words."""
    counts: dict[str, int] = {word: int((frame["status"] == word).sum()) for word in STATUSES}
    per_cell = frame.groupby("cell")["seed"].nunique() if "cell" in frame.columns else frame["seed"].value_counts()
    draws = counted(int(per_cell.max()), "draw") if len(per_cell) else "no draw"
    if len(per_cell) and per_cell.min() != per_cell.max():
        draws = f"{int(per_cell.min())} to {draws}"
    text = f"{counted(len(per_cell), 'cell')}, {draws} each, {counted(len(frame), 'row')}: {counts['ok']:,} ok"
    bad = {word: count for word, count in counts.items() if word != "ok" and count}
    if not bad:
        return text + ", none left out."
    listed = ", ".join(f"{count:,} {plain(word)}" for word, count in bad.items())
    return text + f". **Left out of every mean and fit: {listed}.**"


def provenance(frame: pd.DataFrame, design: Design) -> list[str]:
    """The lines on provenance: code version, computing time, sweeps, fixed parameters, seeds and the full spaces."""
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
    spaces = [str(space.get("name", "")) for space in design.spaces]
    if len(spaces) > 1:
        listed = (f"`{name}` (space `{space}`)" for name, space in zip(design.names, spaces, strict=True))
        lines.append(f"- Sweeps: {', '.join(listed)}.")
    elif "sweep" in frame.columns:
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(map(str, frame["sweep"])))
        lines.append(f"- Sweeps: {names}; space `{spaces[0]}`.")
    varied = set(design.varied())
    fixed = {name: value for name, value in (design.spaces[0].get("fixed") or {}).items() if name not in varied}
    if fixed:
        lines.append(f"- Fixed: {', '.join(f'{plain(name)} {number(value)}' for name, value in fixed.items())}.")
    seeds = [seeds_in_words(list(space.get("seeds") or [])) for space in design.spaces]
    if len(set(seeds)) > 1:
        listed = (f"{said} in `{name}`" for name, said in zip(design.names, seeds, strict=True))
        lines.append(f"- Seeds: {', '.join(listed)}.")
    elif seeds[0]:
        lines.append(f"- Seeds: {seeds[0]}.")
    lines += ["", f"The space{'s' if len(spaces) > 1 else ''}, resolved:"]
    for space in design.spaces:
        told = {key: value for key, value in space.items() if key != "description"}
        lines += ["", "```json", json.dumps(told, default=str, ensure_ascii=False), "```"]
    return lines


def seeds_in_words(seeds: list[int]) -> str:
    """The first and last seed and their number, for example "0 … 9 (10)"."""
    return f"{seeds[0]}" + (f" … {seeds[-1]} ({len(seeds)})" if len(seeds) > 1 else "") if seeds else ""
