"""The report as one file that needs nothing else: figures inside, no request to anywhere."""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; color: #1c1e21;
  background: #fff;
  max-width: 62rem; margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.3rem; margin: 2.4rem 0 .6rem; padding-top: 1rem; border-top: 1px solid #e3e5e8; }
h1 + p { color: #4a4f57; margin-top: 0; }
p, li { max-width: 50rem; }
li { margin: .3rem 0; }
p:has(img) { max-width: none; }
img { max-width: 100%; height: auto; display: block; margin: 1rem auto .4rem; }
em { color: #4a4f57; }
p > em:only-child { font-size: .92rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; font-variant-numeric: tabular-nums;
  display: block; overflow-x: auto; }
th, td { padding: .28rem .75rem; text-align: left; border-bottom: 1px solid #e9ebee; white-space: nowrap; }
th { border-bottom: 2px solid #c9cdd3; font-weight: 600; }
tr:hover td { background: #f6f8fa; }
code { font: .88em ui-monospace, "SF Mono", Menlo, Consolas, monospace; background: #f2f4f6;
  padding: .1em .3em; border-radius: 3px; }
pre { background: #f2f4f6; padding: .8rem 1rem; overflow-x: auto; border-radius: 5px; }
pre code { background: none; padding: 0; }
blockquote { margin: 1rem 0; padding: .2rem 1.1rem; border-left: 4px solid #0072b2; background: #f4f8fb; }
@media print { body { margin: 0; max-width: none; } h2 { break-after: avoid; } img { break-inside: avoid; } }
"""


def to_html(markdown: str, title: str, directory: Path) -> str:
    """Markdown as a page; images that lie below `directory` become part of it."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)

    def embedded(match: re.Match[str]) -> str:
        path = directory / html.unescape(match.group(1))
        data = base64.b64encode(path.read_bytes()).decode("ascii")
        return f'src="data:image/png;base64,{data}"'

    body = re.sub(r'src="(figures/[^"]+\.png)"', embedded, body)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" '
        f'content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
