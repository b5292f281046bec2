"""The description of a Python function, which needs none of its code.

The description is plain data: it is what the record of a sweep keeps, and it is read back strictly.
"""

import functools
import keyword
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from raysweep.errors import InputError, shown, unknown

TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}
DIRECTIONS = ("minimize", "maximize")
TAKEN = ("sweep", "cell", "seed", "status", "code_version", "seconds")
"""Columns of the results, which no argument and no metric can be called."""

METRIC_NAMES = "letters (a-z, A-Z), digits, spaces and _ . - / (100 at most, a letter or _ first, no // and no / last)"

LONGEST = 1e12  # seconds; no row takes 30,000 years


@dataclass(frozen=True)
class Description:
    """A function as far as its sweep needs it without the code.

    name: the name of the workload.
    version: the version that the user gives; rows of another version have other identities.
    parameters: the arguments that a space can set: {"name", "type", "default", "choices"}.
    metrics: the directions that the user stated, by metric.
    returned: the names of all metrics, as the first row returned them; None before a row is there.
    seconds: measured, of one row; None before.
    vectorized: whether it gets columns.
    digest: 12 hexadecimal digits over its source.
    source: "my_file.py:train" as the user wrote it; "" if it was given in Python. It is only shown: nothing that is
        read from a storage says which file is imported.
    """

    name: str
    version: int
    parameters: tuple[Mapping[str, Any], ...]
    metrics: Mapping[str, str] = field(default_factory=dict)
    returned: tuple[str, ...] | None = None
    seconds: float | None = None
    vectorized: bool = False
    digest: str = ""
    source: str = ""

    def plain(self) -> dict[str, Any]:
        """The description as plain data; `read` reads it back."""
        return {
            **{name: getattr(self, name) for name in ("name", "version", "seconds", "vectorized", "digest", "source")},
            "parameters": [dict(parameter) for parameter in self.parameters],
            "metrics": dict(self.metrics),
            "returned": None if self.returned is None else list(self.returned),
        }


def read(plain: Any) -> Description:
    """The description from plain data. It may come from anybody's storage: InputError unless every part is as
    `describe` makes it."""
    if not (isinstance(plain, Mapping) and set(plain) == {each.name for each in fields(Description)} and _good(plain)):
        raise InputError("function", "is no description of a function")
    returned = None if plain["returned"] is None else tuple(plain["returned"])
    return Description(**{**plain, "parameters": tuple(plain["parameters"]), "returned": returned})


def _good(plain: Mapping[str, Any]) -> bool:
    parameters, metrics, returned, seconds = (plain[key] for key in ("parameters", "metrics", "returned", "seconds"))
    return (
        _plain_name(plain["name"])
        and isinstance(parameters, list)
        and all(map(_good_parameter, parameters))
        and isinstance(metrics, Mapping)
        and all(_plain_name(name) and direction in DIRECTIONS for name, direction in metrics.items())
        and (returned is None or (isinstance(returned, list) and all(map(_plain_name, returned))))
        and (seconds is None or (isinstance(seconds, (int, float)) and 0 <= seconds < LONGEST))
        and isinstance(plain["version"], int)
        and isinstance(plain["digest"], str)
        and re.fullmatch(r"[0-9a-f]{12}", plain["digest"]) is not None
        and isinstance(plain["source"], str)
        and isinstance(plain["vectorized"], bool)
    )


def _good_parameter(plain: Any) -> bool:
    if not (isinstance(plain, Mapping) and set(plain) == {"name", "type", "default", "choices"}):
        return False
    choices = plain["choices"]
    if not (isinstance(choices, list) and all(isinstance(choice, str) for choice in choices)):
        return False
    return _plain_name(plain["name"]) and isinstance(plain["type"], str) and plain["type"] in TYPES


def _plain_name(name: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= 250 and name.isprintable()


class BadName(InputError):
    """A metric cannot have this name."""


def check_metric(name: Any, path: str) -> None:
    """BadName if a metric, returned or logged, cannot have this name."""
    taken = ", which is a column of the results" if name in TAKEN else ""
    taken = taken or (", which is a word of Python" if keyword.iskeyword(str(name)) else "")
    if taken or not is_metric_name(name):
        raise BadName(path, f"expected {METRIC_NAMES} as the name of a metric, got {shown(name)}{taken}; rename it")


@functools.lru_cache(maxsize=1024)
def is_metric_name(name: Any) -> bool:
    """Whether these letters can be the name of a metric. MLflow takes it as it is, also behind `STAGE/`."""
    good = isinstance(name, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./ -]{0,99}", name) is not None
    return good and posixpath.normpath(name) == name  # MLflow refuses a//b and a/../b


def check_returned(description: Description) -> None:
    """InputError, which suggests the nearest, if the user named a metric that the function does not return."""
    returned = description.returned
    for name in description.metrics if returned is not None else ():
        if returned is not None and name not in returned:
            raise unknown(f"metrics.{name}", f"metric of {description.name}", name, returned)
