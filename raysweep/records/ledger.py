"""The ledger: finished rows in immutable segments. It is the truth about a sweep.

A segment is a JSON-lines file, one row a line, closed by a trailer {"rows": count, "sha256": digest of all bytes before
it}. It is published in one step and never changed; a segment whose trailer is missing or wrong is damaged, and its rows
are computed again. JSON has no NaN and no infinity: they stand as the words "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raysweep.records import files

Row = dict[str, Any]
"""cell, seed, status, attempt, seconds, code_version, metrics {name: float}; error (a traceback) if it failed."""

WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Damaged(Exception):
    """A segment that does not agree with its trailer."""


@dataclass
class Contents:
    """All rows of a ledger, one per (cell, seed), and the segments that could not be read."""

    rows: dict[tuple[str, int], Row] = field(default_factory=dict)
    damaged: list[Path] = field(default_factory=list)
    repeated: int = 0


def encode(value: float) -> float | str:
    """A number as JSON can carry it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def segment_path(folder: Path, pack: str, attempt: int) -> Path:
    """Where a pack's rows go; the same rows have the same place, so nobody can publish them twice."""
    return folder / f"{pack}-{attempt}.jsonl"


def write_segment(path: Path, rows: Iterable[Row]) -> bool:
    """Publish rows as one segment; False if a segment of that name was published before."""
    lines = []
    for row in rows:
        metrics = {name: encode(value) for name, value in row["metrics"].items()}
        lines.append(json.dumps({**row, "metrics": metrics}, separators=(",", ":"), allow_nan=False))
    body = "".join(line + "\n" for line in lines).encode()
    trailer = json.dumps({"rows": len(lines), "sha256": hashlib.sha256(body).hexdigest()})
    return files.publish(path, body + trailer.encode() + b"\n")


def read_segment(path: Path) -> list[Row]:
    """The rows of a segment; Damaged if a byte is missing or changed."""
    content = path.read_bytes()
    cut = content.rfind(b"\n", 0, -1) + 1
    try:
        trailer = json.loads(content[cut:])
        if trailer["sha256"] != hashlib.sha256(content[:cut]).hexdigest() or not content.endswith(b"\n"):
            raise Damaged(f"{path}: its rows do not match its checksum")
        rows = [json.loads(line) for line in content[:cut].splitlines()]
        if len(rows) != trailer["rows"]:
            raise Damaged(f"{path}: {len(rows)} rows where {trailer['rows']} were written")
        for row in rows:
            row["metrics"] = {name: WORDS[value] if isinstance(value, str) else value
                              for name, value in row["metrics"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"{path}: not a whole segment ({error})") from None
    return rows


def read(folder: Path) -> Contents:
    """Every row of the ledger. A later attempt at a row replaces an earlier one; of one attempt the first counts."""
    contents = Contents()
    for path in sorted(folder.glob("*.jsonl")):
        try:
            rows = read_segment(path)
        except Damaged:
            contents.damaged.append(path)
            continue
        for row in rows:
            key = (row["cell"], row["seed"])
            known = contents.rows.get(key)
            if known is not None:
                contents.repeated += 1
            if known is None or row["attempt"] > known["attempt"]:
                contents.rows[key] = row
    return contents


def set_aside(path: Path) -> Path:
    """Rename a damaged segment so that it is kept for inspection and its place is free again."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return path.rename(aside)
