"""The report as one HTML file that contains its figures, loads nothing from elsewhere and needs no JavaScript.

With JavaScript it can be explored: the script (page.js) adds what the data beside a part lets it draw.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raysweep.reporting.document.page import SCRIPT, data_element, policy
from raysweep.reporting.document.parts import Part

STYLE = Path(__file__).with_name("report.css")
FIGURE = r'src="(figures/[^"]+\.png)"'


TABLE = '<div class="scroll" role="region" tabindex="0" aria-label="Table">\n<table>'
"""A wide table scrolls, by keyboard too."""


def to_html(
    parts: Sequence[Part],
    title: str,
    directory: Path,
    explored: Mapping[str, Sequence[Mapping[str, Any]]],
    sweep: Mapping[str, Any] | None,
) -> str:
    """Convert the parts to an HTML page. The images below `directory` are embedded in the page.

    explored: what can be explored in a part (see `analyses.explored`), by the part's anchor.
    sweep: the space of the sweep, for the next one (see `page.next_sweep`); None if it cannot be extended so.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")

    def embedded(match: re.Match[str]) -> str:
        path = directory / html.unescape(match.group(1))
        data = base64.b64encode(path.read_bytes()).decode("ascii")
        return f'src="data:image/png;base64,{data}"'

    def rendered(part: Part) -> str:
        text = re.sub(FIGURE, embedded, parser.render("\n".join(part.lines)))
        text = re.sub(r'(<img [^>]*?alt="[^"]*)"', lambda match: f'{match.group(1)}: {html.escape(part.alt)}"', text)
        text = text.replace("<table>", TABLE).replace("</table>", "</table>\n</div>")
        text = text.replace("<pre>", '<pre tabindex="0">')  # it scrolls too
        text += "".join(data_element(one, "explored") for one in explored.get(part.anchor, ()))
        if not part.title:
            about = f' data-about="{part.about}"' if part.about else ""
            return f'<div id="{part.anchor}"{" class=wide" if part.wide else ""}{about}>\n{text}</div>\n'
        # A link opens a folded part only if what it names lies within.
        summary = f"<summary>{html.escape(part.title)}</summary>"
        return f'<details>\n{summary}\n<div id="{part.anchor}">\n{text}</div>\n</details>\n'

    style = STYLE.read_text(encoding="utf-8")
    unfolded, rest = ("".join(rendered(part) for part in parts if bool(part.title) == after) for after in (False, True))
    script = SCRIPT.read_text(encoding="utf-8")
    data = data_element(sweep, "sweep") if sweep else ""
    body = f"<main>\n{unfolded}</main>\n{rest}{data}<script>{script}</script>\n"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" '
        f'content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(script)}">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
