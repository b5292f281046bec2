"""YAML as people mean it: 1e-3 is a number, `on` is a word, a key stands once.

PyYAML follows YAML 1.1, which reads 1e-3 as text, `off` as false and 1:30 as 90. Here the scalars follow the core
schema of YAML 1.2, repeated keys are errors, and nothing but plain data can be built.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from raysweep.errors import InputError


class _Reader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


class _Writer(yaml.SafeDumper):
    yaml_implicit_resolvers = _Reader.yaml_implicit_resolvers  # so that text that looks like a number is quoted


for _tag, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?[0-9]+$", list("-+0123456789")),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.(?:inf|Inf|INF)$"
              r"|^\.(?:nan|NaN|NAN)$", list("-+.0123456789")),
):
    _Reader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(node.value)  # 010 is ten, as in YAML 1.2, not eight


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        where = f"line {key_node.start_mark.line + 1}, column {key_node.start_mark.column + 1}"
        if not isinstance(key, (str, int, float, bool)):
            raise InputError("", f"{where}: expected a plain key")
        if key in result:
            raise InputError(str(key), f"repeated key ({where})")
        result[key] = loader.construct_object(value_node, deep=True)
    return result


_Reader.add_constructor("tag:yaml.org,2002:int", _integer)
_Reader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse(text: str, source: str) -> Any:
    """The data in a YAML text; InputError names `source` (a file, or an option), line and column."""
    try:
        return yaml.load(text, Loader=_Reader)  # a SafeLoader: plain data only
    except InputError as error:
        raise InputError(source, str(error)) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise InputError(source, f"{where}{error.problem or error.context or 'not YAML'}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(source, f"not YAML: {error}") from None


def dump(data: Any) -> str:
    """Plain data as YAML that `parse` reads back as the same data."""
    return yaml.dump(data, Dumper=_Writer, sort_keys=False, allow_unicode=True)
