"""Where the numbers of a report come from."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from raysweep import plain_json as json
from raysweep.analyses.design import Design
from raysweep.numbers import number
from raysweep.phrases import counted
from raysweep.report.names import plain
from raysweep.workloads.declaration import STATUSES


def provenance(frame: pd.DataFrame, design: Design, facts: Sequence[str]) -> list[str]:
    """Code version, computing time, sweeps, seeds and fixed parameters, a line each; then `facts`."""
    versions = sorted(set(map(str, frame["code_version"]))) if "code_version" in frame.columns else ["unknown"]
    seconds = f"; {number(frame['seconds'].sum(), 3)} s of computing" if "seconds" in frame.columns else ""
    lines = [f"Code version {', '.join(versions)}; {counted(len(frame), 'row')}{seconds}."]
    spaces = [str(space.get("name", "")) for space in design.spaces]
    pairs = [f"{name} (space {space})" for name, space in zip(design.names, spaces, strict=True)]
    lines.append(f"{'Sweep' if len(pairs) == 1 else 'Sweeps'}: {', '.join(pairs)}.")
    varied = set(design.varied())
    fixed = {name: value for name, value in (design.spaces[0].get("fixed") or {}).items() if name not in varied}
    if fixed:
        lines.append(f"Fixed: {', '.join(f'{plain(name)} {number(value)}' for name, value in fixed.items())}.")
    seeds = dict.fromkeys(seeds_in_words(list(space.get("seeds") or [])) for space in design.spaces)
    if any(seeds):
        lines.append(f"Seeds: {'; '.join(seeds)}.")
    return [*lines, *facts]


def resolved(design: Design) -> list[str]:
    """The resolved space of each sweep, as JSON."""
    plain_spaces = [{key: value for key, value in space.items() if key != "description"} for space in design.spaces]
    return [json.dumps(space, default=str, ensure_ascii=False) for space in plain_spaces]


def seeds_in_words(seeds: list[int]) -> str:
    """The first and last seed and their number, for example "0 … 9 (10)"."""
    return f"{seeds[0]}" + (f" … {seeds[-1]} ({len(seeds)})" if len(seeds) > 1 else "") if seeds else ""


def seeds_words(frame: pd.DataFrame) -> str:
    """How many seeds the cells have."""
    per_cell = frame.groupby("cell")["seed"].nunique() if "cell" in frame.columns else frame["seed"].value_counts()
    if not len(per_cell):
        return "no cell"
    fewest, most = int(per_cell.min()), int(per_cell.max())
    seeds = counted(most, "seed") if fewest == most else f"{fewest} to {counted(most, 'seed')}"
    return f"{counted(len(per_cell), 'cell')}, {seeds} each"


def rows_words(frame: pd.DataFrame) -> str:
    """How many rows are ok, and which are in no mean and no fit."""
    counts: dict[str, int] = {word: int((frame["status"] == word).sum()) for word in STATUSES}
    bad = ", ".join(f"{count:,} {plain(word)}" for word, count in counts.items() if word != "ok" and count)
    rows = counted(len(frame), "row")
    return f"{counts['ok']:,} of {rows} ok (in no mean and no fit: {bad})" if bad else f"{rows}, all ok"
