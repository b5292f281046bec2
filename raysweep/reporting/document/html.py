"""The report as one HTML file that contains its figures and loads nothing from elsewhere."""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path

STYLE = Path(__file__).with_name("report.css")


def to_html(markdown: str, title: str, directory: Path) -> str:
    """Convert Markdown to an HTML page. The images below `directory` are embedded in the page."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)

    def embedded(match: re.Match[str]) -> str:
        path = directory / html.unescape(match.group(1))
        data = base64.b64encode(path.read_bytes()).decode("ascii")
        return f'src="data:image/png;base64,{data}"'

    style = STYLE.read_text(encoding="utf-8")
    body = re.sub(r'src="(figures/[^"]+\.png)"', embedded, body)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" '
        f'content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
