"""Where the numbers of a report come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raysweep import plain_json as json
from raysweep.analyses.design import Design
from raysweep.numbers import number
from raysweep.phrases import counted
from raysweep.report.names import plain

if TYPE_CHECKING:
    import pandas as pd


def provenance(frame: pd.DataFrame, design: Design, facts: Sequence[str] = ()) -> list[str]:
    """The lines on provenance: code version, computing time, sweeps, fixed parameters, seeds and the full spaces.

    facts: further lines.
    """
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
    lines += [f"- {fact}" for fact in facts]
    lines += ["", f"The space{'s' if len(spaces) > 1 else ''}, resolved:"]
    for space in design.spaces:
        told = {key: value for key, value in space.items() if key != "description"}
        lines += ["", "```json", json.dumps(told, default=str, ensure_ascii=False), "```"]
    return lines


def seeds_in_words(seeds: list[int]) -> str:
    """The first and last seed and their number, for example "0 … 9 (10)"."""
    return f"{seeds[0]}" + (f" … {seeds[-1]} ({len(seeds)})" if len(seeds) > 1 else "") if seeds else ""
