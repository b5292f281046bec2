"""The report as Markdown, in which all parts but the first screen are folded."""

from __future__ import annotations

import html
from collections.abc import Sequence

from raysweep.reporting.document.parts import Part


def to_markdown(parts: Sequence[Part]) -> str:
    """The whole text. GitHub renders it with the parts folded: a blank line after the summary is what it needs."""
    return "\n".join(line for part in parts for line in (folded(part) if part.title else part.lines))


def folded(part: Part) -> list[str]:
    """A part that opens with a click, as lines of Markdown."""
    title = html.escape(" ".join(part.title.split()), quote=False)
    return [
        "<details>",
        f"<summary><b>{title}</b></summary>",
        "",
        f'<a id="{part.anchor}"></a>',
        "",
        *part.lines,
        "",
        "</details>",
        "",
    ]
