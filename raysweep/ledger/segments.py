"""The ledger: finished rows in immutable segments. It is the truth about a sweep.

A segment is a JSON-lines file: one row a line, then a trailer {"rows": count, "sha256": digest of all bytes before it}.
It is published in one step and never changed. A segment whose trailer is missing or wrong, or with a line that is no
row (row_checks.py), is damaged; its rows are computed again. JSON has no NaN and no infinity: these are written as the
words "NaN", "Infinity" and "-Infinity".

Small segments are merged into larger ones (compaction.py). A merged segment is there before the first of its sources is
removed. So a reader finds every row at least once, and counts it once.
"""

from __future__ import annotations

import errno
import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from raysweep import plain_json as json
from raysweep.ledger import row_checks
from raysweep.storage import files
from raysweep.storage.paths import AnyPath
from raysweep.storage.sealed import WORDS, Damaged, encode, plain, restored

MERGED = "merged-"
REQUESTS = 32  # simultaneous requests to a bucket; each takes some 20 ms
NOT_ROWS = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""Errors of a segment that is not whole, or of a line that is no row."""
CURVES = ("curves", "shared_curves")
"""Keys of a row that hold learning curves."""
LISTINGS = 20  # after these, a segment that is listed but not there counts as damaged


Curve = Mapping[str, Sequence[float]]
"""A learning curve: "step", and for each metric its value at each step."""
SharedCurves = dict[str, tuple[int, Curve]]
"""The curves of kept stages: {id: (number of the attempt in which it was recorded, curve)}."""


class Row(TypedDict):
    """The result of one draw of one cell.

    cell: its id, a content hash
    status: a word of workloads.declaration.Status
    attempt: number of the attempt at this row, from 1 on
    seconds: its share of the time that its pack took
    error: the traceback, if it failed
    asked: as in `Cells`, if the sweep has an axis that is a range
    pack, host, finished: where it was computed, and when (seconds of the epoch)
    stages: its kept stages: {name: [id, ...]}, one id for each point
    other_code: the versions of the code that computed kept stages of it, where they are not of the row's own version
    identity: the id of its last stage, for a workload that says by what its stages are identified
    curves: what its other stages logged: {name: {"step": [...], METRIC: [...]}}
    version: of a function, if it is not 1
    shared_curves: what kept stages of the rows of its pack logged: {id: {"step": [...], ...}}. They stand in the pack's
        first row; readers take them out of the rows.
    """

    cell: str
    seed: int
    status: str
    attempt: int
    seconds: float
    code_version: str
    metrics: dict[str, float]
    error: NotRequired[str]
    asked: NotRequired[Mapping[str, Any]]
    pack: NotRequired[str]
    host: NotRequired[str]
    finished: NotRequired[float]
    stages: NotRequired[dict[str, list[str]]]
    other_code: NotRequired[list[str]]
    identity: NotRequired[str]
    curves: NotRequired[Mapping[str, Curve]]
    version: NotRequired[int]
    shared_curves: NotRequired[Mapping[str, Curve]]


@dataclass
class Contents:
    """All rows of a ledger, one per (cell, seed), what kept stages logged, and the segments that could not be read."""

    rows: dict[tuple[str, int], Row] = field(default_factory=dict)
    shared_curves: SharedCurves = field(default_factory=dict)
    damaged: list[AnyPath] = field(default_factory=list)
    repeated: int = 0


def segment_path(folder: AnyPath, pack: str, attempt: int) -> AnyPath:
    """The path of a pack's segment. The same rows have the same path, so they cannot be published twice."""
    return folder / f"{pack}-{attempt}.jsonl"


def write_segment(path: AnyPath, rows: Iterable[Row]) -> None:
    """Publish rows as one segment. FileExistsError if one with that name is there and has other results. The same
    results are no error: a trial that was taken for lost, and was computed again, publishes twice."""
    lines: list[bytes] = []
    digest = hashlib.sha256()
    for row in rows:
        changed: dict[str, Any] = {"metrics": {name: encode(value) for name, value in row["metrics"].items()}}
        curves: dict[str, Any] = {key: value for key, value in row.items() if key in CURVES}
        changed |= {key: _encoded(value) for key, value in curves.items()}
        if "asked" in row:
            changed["asked"] = plain(row["asked"])  # a value may be infinite
        if "error" in row:  # it may quote a file's name that is no UTF-8, as half of a surrogate pair
            changed["error"] = row["error"].encode(errors="backslashreplace").decode()
        line = json.dumps({**row, **changed}, separators=(",", ":"), allow_nan=False) + "\n"
        lines.append(line.encode())
        digest.update(lines[-1])
    trailer = json.dumps({"rows": len(lines), "sha256": digest.hexdigest()}) + "\n"
    content = b"".join([*lines, trailer.encode()])
    if not files.create(path, content) and _results(files.read(path)) != _results(content):
        raise FileExistsError(errno.EEXIST, f"{path.name} is there already, with other results", str(path))


def _results(content: bytes) -> list[Any]:
    """What the rows of a segment came to, wherever and whenever they were computed; empty if it is damaged."""
    try:  # NaN equals itself here, because it is one object
        return [(row["cell"], row["seed"], row["status"], row["metrics"]) for row in _parsed(content)]
    except NOT_ROWS:
        return []


def read_segment(path: AnyPath) -> list[Row]:
    """The rows of a segment; Damaged if a byte is missing or changed, or if a line is no row."""
    content = files.read(path)
    try:
        return _parsed(content)
    except NOT_ROWS as error:
        raise Damaged(f"{path}: not a whole segment ({error})") from None


def _parsed(content: bytes) -> list[Row]:
    cut = content.rfind(b"\n", 0, -1) + 1
    trailer = json.loads(content[cut:])
    if trailer["sha256"] != hashlib.sha256(content[:cut]).hexdigest() or not content.endswith(b"\n"):
        raise ValueError("its rows do not match its checksum")
    rows = [json.loads(line) for line in content[:cut].splitlines()]
    if len(rows) != trailer["rows"]:
        raise ValueError(f"{len(rows)} rows where {trailer['rows']} were written")
    if b"\\ud" in content or b"\\uD" in content:  # perhaps half of a surrogate pair, which cannot be printed
        json.dumps(rows, ensure_ascii=False).encode()
    for row in rows:
        metrics = row["metrics"].items()
        row["metrics"] = {name: WORDS[value] if isinstance(value, str) else value for name, value in metrics}
        if "asked" in row:
            values = row["asked"]["values"]
            values |= {name: restored(value) for name, value in values.items() if isinstance(value, dict)}
        row_checks.check(row)
        for key in CURVES:
            if key in row:
                row[key] = _decoded(row[key])
    return rows


def _encoded(curves: Mapping[str, Curve]) -> dict[str, Any]:
    return {
        name: {metric: [encode(value) for value in values] for metric, values in curve.items()}
        for name, curve in curves.items()
    }


def _decoded(curves: dict[str, dict[str, list[Any]]]) -> dict[str, Curve]:
    """Curves with their numbers as arrays: lists would take four times as much of the driver's memory."""
    decoded: dict[str, Curve] = {
        name: {metric: _numbers(values) for metric, values in curve.items()} for name, curve in curves.items()
    }
    for curve in decoded.values():
        points = len(curve["step"])
        if any(len(values) != points for values in curve.values()):
            raise ValueError("a learning curve lacks values")
    return decoded


def _numbers(values: list[Any]) -> array[float]:
    try:
        return array("d", values)
    except TypeError:
        return array("d", [WORDS[value] if isinstance(value, str) else value for value in values])


def segments(folder: AnyPath) -> list[AnyPath]:
    names = [name for name in files.names(folder) if name.endswith(".jsonl")]
    return [folder / name for name in sorted(names, key=lambda name: not name.startswith(MERGED))]


def read(folder: AnyPath) -> Contents:
    """All rows of the ledger. A later attempt at a row replaces an earlier one; of equal attempts the first counts."""
    listed = segments(folder)
    for left in reversed(range(LISTINGS)):
        contents = Contents()
        try:
            for path, rows in load(listed, missing=left == 0):
                if rows is None:
                    contents.damaged.append(path)
                else:
                    gather(contents.shared_curves, rows)
                    contents.repeated += enter(contents.rows, rows)
        except FileNotFoundError:  # merged after it was listed
            listed = segments(folder)
            continue
        now = segments(folder)  # during a merge, one listing may miss both the old segment and the new one
        if _merged(now) <= _merged(listed):
            break
        listed = now
    return contents


def load(paths: Sequence[AnyPath], missing: bool = False) -> Iterator[tuple[AnyPath, list[Row] | None]]:
    """Segments with their rows; None for a damaged one, and if `missing` for one that is not there."""
    if not paths or isinstance(paths[0], Path):
        yield from zip(paths, (_rows(path, missing) for path in paths), strict=True)
        return
    with ThreadPoolExecutor(REQUESTS) as pool:
        yield from zip(paths, pool.map(lambda path: _rows(path, missing), paths), strict=True)


def _rows(path: AnyPath, missing: bool) -> list[Row] | None:
    try:
        return read_segment(path)
    except (Damaged, FileNotFoundError) as error:
        if isinstance(error, FileNotFoundError) and not missing:
            raise
        return None


def enter(winners: dict[tuple[str, int], Row], rows: Iterable[Row]) -> int:
    """Add rows to `winners`, the rows that count, by (cell, seed); returns how many were there already. A later attempt
    replaces an earlier one; of equal attempts the first counts."""
    repeated = 0
    for row in rows:
        key = (row["cell"], row["seed"])
        repeated += key in winners
        if key not in winners or row["attempt"] > winners[key]["attempt"]:
            winners[key] = row
    return repeated


def gather(shared: SharedCurves, rows: Iterable[Row]) -> None:
    """Take the curves of kept stages out of rows, and add them to `shared` by id. A later attempt's counts."""
    for row in rows:
        for identity, curve in row.pop("shared_curves", {}).items():
            if identity not in shared or row["attempt"] > shared[identity][0]:
                shared[identity] = row["attempt"], curve


def _merged(paths: Iterable[AnyPath]) -> set[str]:
    return {path.name for path in paths if path.name.startswith(MERGED)}


def set_aside(path: AnyPath) -> AnyPath:
    """Rename a damaged segment: it is kept for inspection, and its name is free again."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    files.move(path, aside)
    return aside
