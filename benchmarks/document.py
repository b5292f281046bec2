"""Tables in a document, between the two lines that say which target of `make` wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def write(document: Path, target: str, lines: Sequence[str]) -> None:
    """Put the lines in place of those that `make TARGET` wrote before. ValueError if the document has no such place."""
    begin, end = f"<!-- Written by make {target}: -->\n", f"<!-- Up to here: make {target}. -->\n"
    before, there, rest = document.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not (there and ended):
        raise ValueError(f"{document}: expected the lines {begin.strip()} and {end.strip()}")
    document.write_text("\n".join([before + begin, *lines, "", end + after]))
