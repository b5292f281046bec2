"""The report as one HTML file that contains its figures, loads nothing from elsewhere and needs no JavaScript."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from pathlib import Path

from raysweep.reporting.document.parts import Part

STYLE = Path(__file__).with_name("report.css")
FIGURE = r'src="(figures/[^"]+\.png)"'


def to_html(parts: Sequence[Part], title: str, directory: Path) -> str:
    """Convert the parts to an HTML page. The images below `directory` are embedded in the page."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")

    def embedded(match: re.Match[str]) -> str:
        path = directory / html.unescape(match.group(1))
        data = base64.b64encode(path.read_bytes()).decode("ascii")
        return f'src="data:image/png;base64,{data}"'

    def rendered(part: Part) -> str:
        text = re.sub(FIGURE, embedded, parser.render("\n".join(part.lines)))
        if not part.title:
            return f'<div id="{part.anchor}"{" class=wide" if part.wide else ""}>\n{text}</div>\n'
        # A link opens a folded part only if what it names lies within.
        summary = f"<summary>{html.escape(part.title)}</summary>"
        return f'<details>\n{summary}\n<div id="{part.anchor}">\n{text}</div>\n</details>\n'

    style = STYLE.read_text(encoding="utf-8")
    unfolded, rest = ("".join(rendered(part) for part in parts if bool(part.title) == after) for after in (False, True))
    body = f"<main>\n{unfolded}</main>\n{rest}"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" '
        f'content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
