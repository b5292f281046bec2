"""The parts of the page of a report, and the HTML and Markdown that templates make of it (`report.page_of`)."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raysweep import plain_json as json

if TYPE_CHECKING:
    from jinja2 import Environment

    from raysweep.report.tables import Table

TEMPLATES = Path(__file__).with_name("templates")
SPACE, JOINER, TIGHT = "\u00a0", "\u2060", frozenset("=≤≥<>%")
"""A space and a joint at which no line ends, and signs next to which none does."""
WIDE = 2.2
"""Width over height from which on a figure does not stand next to text."""


@dataclass(frozen=True)
class Picture:
    """A figure: its file below the folder of the report, what it shows, its caption and its width over its height."""

    file: str
    alt: str
    caption: str
    shape: float

    @property
    def wide(self) -> bool:
        """Whether it needs the whole width of a page."""
        return self.shape > WIDE


@dataclass(frozen=True)
class Part:
    """A finding in words.

    anchor: what a link names. question: empty if the page or an earlier part asks it. sentence: the answer.
    first: the rows that matter most; None without a table. open: whether they are shown before a click.
    full: all rows that the page shows. figures: without the one at the top. files: the names of its CSVs.
    explored: what the script draws.
    """

    anchor: str
    title: str
    question: str
    sentence: str
    first: Table | None
    open: bool
    full: Table | None
    figures: Sequence[Picture]
    notes: Sequence[str]
    files: Sequence[str]
    explored: Sequence[Mapping[str, Any]] = ()


def to_html(page: Mapping[str, Any], folder: Path) -> str:
    """The page as one HTML file that contains its figures (below `folder`), loads nothing and needs no script."""
    from markupsafe import Markup

    brushed = any(one.get("form") == "parallel" for part in page["parts"] for one in part.explored)
    names = ("report.css", *["parallel.js"] * brushed, "report.js")
    style, *scripts = ((TEMPLATES / name).read_text(encoding="utf-8") for name in names)
    script = "".join(scripts)
    template = _environment(markdown=False).get_template("report.html")
    return template.render(
        page=page,
        style=Markup(style),
        script=Markup(script),
        policy=policy(script),
        embedded=lambda picture: embedded(folder / picture.file),
        data=lambda value: Markup(in_element(value)),
    )


def to_markdown(page: Mapping[str, Any]) -> str:
    """The page as Markdown, in which all but the first screen is folded (as GitHub shows it)."""
    from markupsafe import Markup

    return _environment(markdown=True).get_template("report.md").render(page=page, raw=Markup)


@cache
def _environment(markdown: bool) -> Environment:
    """Where templates come from. All that they show is escaped, for HTML or for Markdown."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=escaped if markdown else unbroken,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def escaped(value: Any) -> Any:
    """A text for Markdown, in one line: without HTML, and with signs of Markdown as they are."""
    from markupsafe import Markup

    if isinstance(value, Markup):  # the output of a macro
        return value
    text = html.escape(" ".join(str(value).split()), quote=False)
    for sign in "\\`*[]|":
        text = text.replace(sign, f"\\{sign}")
    return Markup(text)


def unbroken(value: Any) -> Any:
    """A text for HTML in which no line ends inside a number with its name or unit, a range, an interval, or a name
    with a number, such as pythia-70m, nor before a symbol of one letter."""
    if not isinstance(value, str) or hasattr(value, "__html__") or " " not in value:
        return value
    words = value.split(" ")
    numbered = [word[:1].isalpha() and any(map(str.isdigit, word)) for word in words]
    words = [word.replace("-", f"-{JOINER}") if one else word for word, one in zip(words, numbered, strict=True)]
    out = words[:1]
    for before, after in pairwise(words):
        inside = before[:1] == "[" or after[-1:] == "]" or before in TIGHT or after in TIGHT
        ranged = "to" in (before, after) and any(map(str.isdigit, before + after))
        out += [SPACE if inside or ranged or (len(after) == 1 and after.isalpha()) else " ", after]
    return "".join(out)


def policy(script: str) -> str:
    """The content security policy of a page: it loads nothing, and runs this script and no other."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def embedded(path: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def in_element(value: Any) -> str:
    """Plain data as JSON in which no text can end the element around it or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
