"""The names of the files of a report. They are made from names of metrics and sweeps, which may hold any character."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from raysweep.reporting.analyses.section import Section

LONGEST = 200  # bytes without the extension; file systems allow 255


def plain_name(name: str, taken: set[str]) -> str:
    """A plain file name (letters, digits, `_`, `-`, `.`) that is not taken yet; it is then taken.

    Any other character becomes `_`. If two names would become the same file, also on a disk that does not distinguish
    capital letters, the later one ends in -2, -3, ...
    """
    word = re.sub(r"[^\w.-]", "_", name).encode()[:LONGEST].decode(errors="ignore")
    word = f"_{word[1:]}" if word.startswith(".") else word or "_"
    chosen, count = word, 1
    while chosen.casefold() in taken:
        count += 1
        chosen = f"{word}-{count}"
    taken.add(chosen.casefold())
    return chosen


def with_file_names(sections: Sequence[Section]) -> list[Section]:
    """The sections, in which each figure and each table has the name of a file of its own."""
    figures: set[str] = set()
    tables: set[str] = set()
    return [
        replace(
            section,
            drawings=[replace(drawing, name=plain_name(drawing.name, figures)) for drawing in section.drawings],
            tables={plain_name(name, tables): table for name, table in section.tables.items()},
        )
        for section in sections
    ]
