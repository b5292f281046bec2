"""YAML as people mean it: 1e-3 is a number, `on` is a word, a key stands once.

PyYAML follows YAML 1.1, which reads 1e-3 as text, `off` as false and 1:30 as 90. Here the scalars follow the core
schema of YAML 1.2, repeated keys are errors, and nothing but plain data can be built.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from raysweep.errors import InputError, shown


class _Refused(Exception):
    """What is wrong with the node at a path, and the node that shows where."""

    def __init__(self, path: list[str | int], problem: str, node: yaml.Node) -> None:
        super().__init__(problem)
        self.path, self.node = path, node


class _Reader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.path: list[str | int] = []  # of the node under construction


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


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(node.value)  # 010 is ten, as in YAML 1.2, not eight


def _float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    value = loader.construct_yaml_float(node)
    if math.isinf(value) and "inf" not in node.value.lower():
        raise _Refused(loader.path, f"{shown(node.value)} is beyond what a number can hold; write .inf", node)
    return value


def _sequence(loader: _Reader, node: yaml.SequenceNode) -> list[Any]:
    return [_below(loader, index, entry) for index, entry in enumerate(node.value)]


def _mapping(loader: _Reader, node: yaml.MappingNode) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, (str, int, float, bool)):
            raise _Refused(loader.path, "expected a plain key", key_node)
        if key in result:
            raise _Refused([*loader.path, str(key)], "repeated key", key_node)
        result[key] = _below(loader, str(key), value_node)
    return result


def _below(loader: _Reader, step: str | int, node: yaml.Node) -> Any:
    loader.path.append(step)
    value = loader.construct_object(node, deep=True)
    loader.path.pop()
    return value


def _place(mark: yaml.Mark) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _dotted(path: list[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


_Reader.add_constructor("tag:yaml.org,2002:int", _integer)
_Reader.add_constructor("tag:yaml.org,2002:float", _float)
_Reader.add_constructor("tag:yaml.org,2002:seq", _sequence)
_Reader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse(text: str, source: str, below: str = "") -> Any:
    """The data in a YAML text; InputError names the key, or else `source` (a file, an option), and line and column.

    below: the path of the key whose value the text is, where it is not a whole file.
    """
    try:
        loader = _Reader(text)  # a SafeLoader: plain data only
        loader.path += [below] if below else []
        return loader.get_single_data()
    except _Refused as error:
        path = _dotted(error.path)
        raise InputError(
            path or source, f"{error} ({f'{source}, ' if path else ''}{_place(error.node.start_mark)})"
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{_place(mark)}: " if mark else ""
        raise InputError(source, f"{where}{error.problem or error.context or 'not YAML'}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(source, f"not YAML: {error}") from None


def dump(data: Any) -> str:
    """Plain data as YAML that `parse` reads back as the same data."""
    return yaml.dump(data, Dumper=_Writer, sort_keys=False, allow_unicode=True)
