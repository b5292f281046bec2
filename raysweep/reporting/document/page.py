"""What makes the page explorable: our script, the data that it draws, and the space of the next sweep."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from raysweep import plain_json as json
from raysweep.analyses.design import Design
from raysweep.space import yaml_reader

SCRIPT = Path(__file__).with_name("page.js")
EMPTY: tuple[Any, ...] = (None, {}, [])


def policy(script: str) -> str:
    """The content security policy of a page: it loads nothing, and runs this script and no other."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def data_element(data: Any, kind: str) -> str:
    """Plain data as an element that a page does not show. kind: its class, by which the script finds it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
    for letter in "<>&":  # no text can end the element or begin a comment
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return f'<script type="application/json" class="{kind}">{text}</script>\n'


def next_sweep(design: Design, sweep: str) -> dict[str, Any] | None:
    """The space of the sweep in pieces, to which the script adds seeds and values of an axis.

    Returns its name, how many seeds it has, every axis with its values as YAML, the axes that move together with
    others, and the rest as YAML. None if there is no single grid that can be extended so: several sweeps, a search
    between values, runs that stop early, a Python function (of which the space has only the name), or chosen seeds.
    """
    space = design.spaces[0]
    seeds = list(space.get("seeds") or [])
    grid = not any(space.get(key) for key in ("ranges", "early_stopping", "function", "precision"))
    if len(design.spaces) > 1 or not grid or not seeds or seeds != list(range(len(seeds))):
        return None
    rest = {key: value for key, value in space.items() if key not in ("name", "axes", "seeds") and value not in EMPTY}
    return {
        "name": sweep,
        "seeds": len(seeds),
        "axes": {name: [as_yaml(value) for value in values] for name, values in space["axes"].items()},
        "together": [name for group in space.get("zip") or [] for name in group],
        "rest": yaml_reader.dump({"name": sweep, **rest}),
    }


def as_yaml(value: Any) -> str:
    """A number or a word as YAML."""
    return yaml_reader.dump([value]).removeprefix("- ").strip()
