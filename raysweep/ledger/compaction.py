"""Merges many small segments of a ledger into few large ones, which read faster: in a bucket each takes a request.

Only the driver that holds the sweep does this. A merged segment is published and read back before the segments that it
replaces are removed. So wherever this is interrupted, the ledger holds every row once, or twice with equal content;
readers count such a row once (segments.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from raysweep.ledger import segments
from raysweep.storage import files
from raysweep.storage.paths import AnyPath
from raysweep.storage.sealed import Damaged

MORE_THAN = 100
"""Number of unmerged segments that may remain."""
ROWS = 20_000
"""Rows from which a merged segment is large enough (about 10 MB)."""


def compact(folder: AnyPath, still_ours: Callable[[], None] = lambda: None) -> int:
    """Merge the unmerged segments of a ledger if there are more than MORE_THAN; returns how many were merged. Damaged
    ones stay. still_ours: raises if the sweep is no longer ours; it is called before anything is removed."""
    listed = segments.segments(folder)
    small = [path for path in listed if not path.name.startswith(segments.MERGED)]
    if len(small) <= MORE_THAN:
        return 0
    number = max((int(path.name.split("-")[1]) for path in listed[: -len(small)]), default=0)  # merged ones come first
    merged, rows, parts = 0, 0, list[tuple[AnyPath, list[segments.Row]]]()
    for path, loaded in segments.load(small, missing=True):
        if loaded is not None:
            parts.append((path, loaded))
            rows += len(loaded)
        if parts and (rows >= ROWS or path is small[-1]):
            number += 1
            _merge(folder, number, parts, still_ours)
            merged, rows, parts = merged + len(parts), 0, []
    return merged


def _merge(
    folder: AnyPath, number: int, parts: list[tuple[AnyPath, list[segments.Row]]], still_ours: Callable[[], None]
) -> None:
    winners: dict[tuple[str, int], segments.Row] = {}
    shared: segments.SharedCurves = {}
    for _, rows in parts:
        segments.gather(shared, rows)
        segments.enter(winners, rows)
    if shared:  # in a row of the latest attempt, so that they still count before those of earlier attempts
        latest = max(winners, key=lambda key: winners[key]["attempt"])
        curves = {identity: curve for identity, (_, curve) in shared.items()}
        winners[latest] = {**winners[latest], "shared_curves": curves}
    names = hashlib.sha256("\n".join(path.name for path, _ in parts).encode()).hexdigest()
    path = folder / f"{segments.MERGED}{number:06d}-{names[:16]}.jsonl"
    segments.write_segment(path, winners.values())
    if len(segments.read_segment(path)) != len(winners):  # raises Damaged if it is not whole; then nothing is removed
        raise Damaged(f"{path}: is not what was written there")
    still_ours()
    files.remove([part for part, _ in parts])
