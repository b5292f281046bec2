"""YAML as people mean it: 1e-3 is a number, `on` is a word, and no key occurs twice.

PyYAML follows YAML 1.1, which reads 1e-3 as text, `off` as false and 1:30 as 90. This reader follows the core schema of
YAML 1.2 for scalars, treats repeated keys as errors, and builds only plain data.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from raysweep.errors import InputError, shown


class _Reader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def __init__(self, text: str, source: str, path: list[str | int]) -> None:
        super().__init__(text)
        self.source = source
        self.path = path  # of the node that is being built

    def refused(self, problem: str, node: yaml.Node, *below: str) -> InputError:
        """The error for a node at or below the current path."""
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in (*self.path, *below))
        path, place = steps.removeprefix("."), _place(node.start_mark)
        return InputError(path or self.source, f"{problem} ({f'{self.source}, {place}' if path else place})")


class _Writer(yaml.SafeDumper):
    yaml_implicit_resolvers = _Reader.yaml_implicit_resolvers  # so that text that looks like a number is quoted


for _tag, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?[0-9]+$", list("-+0123456789")),
    (
        "float",
        r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.(?:inf|Inf|INF)$"
        r"|^\.(?:nan|NaN|NAN)$",
        list("-+.0123456789"),
    ),
):
    _Reader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)


def _float(loader: _Reader, node: yaml.ScalarNode) -> float:
    value = loader.construct_yaml_float(node)
    if math.isinf(value) and "inf" not in node.value.lower():
        raise loader.refused(f"{shown(node.value)} is beyond what a number can hold; write .inf", node)
    return value


def _mapping(loader: _Reader, node: yaml.MappingNode) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, (str, int, float, bool)):
            raise loader.refused("expected a plain key", key_node)
        if key in result:
            raise loader.refused("repeated key", key_node, str(key))
        result[key] = _below(loader, str(key), value_node)
    return result


def _below(loader: _Reader, step: str | int, node: yaml.Node) -> Any:
    loader.path.append(step)
    value = loader.construct_object(node, deep=True)
    loader.path.pop()
    return value


HINTS = {
    r"'\t'": "; YAML is indented with spaces, not with tabs",
    "got '?'": '; a question within {…} stands in quotes: {question: "How fast?"}',
}
"""What to say more, by what stands in the parser's message."""


def _place(mark: yaml.Mark) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


_Reader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))  # 010 is ten, as in YAML 1.2
_Reader.add_constructor("tag:yaml.org,2002:float", _float)
_Reader.add_constructor(
    "tag:yaml.org,2002:seq", lambda loader, node: [_below(loader, *entry) for entry in enumerate(node.value)]
)
_Reader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse(text: str, source: str, below: str = "") -> Any:
    """The data in a YAML text; InputError names the key (or else `source`, a file or an option), and line and column.
    below: the path of the key whose value the text is, if it is not a whole file."""
    try:
        return _Reader(text, source, [below] if below else []).get_single_data()  # a SafeLoader: plain data only
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{_place(mark)}: " if mark else ""
        problem = error.problem or error.context or "not YAML"
        hint = next((hint for mark, hint in HINTS.items() if mark in problem), "")
        raise InputError(source, f"{where}{problem}{hint}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(source, f"not YAML: {error}") from None


def dump(data: Any) -> str:
    """Plain data as YAML; `parse` reads it back as the same data."""
    return yaml.dump(data, Dumper=_Writer, sort_keys=False, allow_unicode=True)
