"""Identities: equal inputs have equal ids, however they were written.

An id is a SHA-256 of canonical JSON over (workload, stage, the workload's identity_version, the parameters that matter,
seed, the parent's id). The digest of the source is recorded with the id and is not part of it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from raysweep import __version__
from raysweep import plain_json as json
from raysweep.errors import InputError, RaysweepError, shown, summary
from raysweep.workloads.declaration import Stage, Workload

T = TypeVar("T")

ELSEWHERE = "elsewhere"
"""The code version of rows that the workload of their sweep did not compute."""


def canonical(value: Any) -> str:
    """Canonical JSON: sorted keys, no spaces, shortest float digits, infinities as words; otherwise TypeError."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _plain(value: Any) -> Any:
    if type(value) in (str, int, bool, type(None)):  # most of all; the checks below take ten times as long
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, (int, str)):
        return value
    raise TypeError(f"{type(value).__name__} has no canonical form")


def content_id(value: Any) -> str:
    """The id of plain data: 16 hexadecimal digits."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def _identifying(workload: Workload, parameters: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """These parameters, without those that were added later and say nothing, and in the form that they had first."""
    values = {}
    for name in names:
        parameter, value = workload.by_name[name], parameters[name]
        if parameter.formerly is not None:
            values[parameter.formerly.name] = parameter.formerly.old(value)
        elif not (parameter.late and value == parameter.absent):
            values[name] = value
    return values


def cell_id(workload: Workload, parameters: Mapping[str, Any]) -> str:
    """The identity of a cell: everything except the seed."""
    values = _identifying(workload, parameters, workload.by_name)
    return content_id([workload.name, workload.identity_version, values])


def stage_id(
    workload: Workload, index: int, parameters: Mapping[str, Any], seed: int, parent: str, point: float | None = None
) -> str:
    """The id of a stage of one row: equal for all rows with equal parameters of this stage and of those before.

    index: its place in the chain.
    parent: the id of what it continues; "" if it is the first.
    point: where it stops, for a stage with points.

    InputError if the workload's `identify` says anything but a mapping of plain values.
    """
    stage = workload.chain.stages[index]
    values: Any = _identifying(workload, parameters, workload.chain.dependencies[index])
    if stage.until:
        values.pop(stage.until, None)
    path = f"{workload.name}.{stage.name}.identify"
    if workload.identify is not None:
        values = answer(path, workload.identify, stage.name, values, parameters)
        if not isinstance(values, Mapping):
            raise InputError(path, f"expected a mapping of plain values, got {shown(values)}")
    version = stage.version or workload.identity_version
    place = [] if point is None else [point]
    try:
        return content_id([workload.name, stage.name, version, values, *place, seed, [parent] if parent else []])
    except TypeError as error:
        raise InputError(path, f"expected a mapping of plain values, got one in which {error}") from None


def answer(path: str, function: Callable[..., T], *arguments: Any) -> T:
    """What a function of a declaration returns. InputError at the path if it raises anything but our errors."""
    try:
        return function(*arguments)
    except RaysweepError:
        raise
    except Exception as error:  # whatever somebody has declared
        raise InputError(path, summary(error)) from error


def source_files(modules: Iterable[str]) -> list[Path]:
    files: list[Path] = []
    for module in modules:
        try:
            spec = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            spec = None
        if spec is None:
            raise InputError("sources", f"there is no module {module}; expected modules whose source decides the rows")
        if spec.origin is None:
            continue
        origin = Path(spec.origin)
        files += sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
    return files


@functools.cache
def source_digest(modules: tuple[str, ...]) -> str:
    """12 hexadecimal digits over the text of these modules."""
    digest = hashlib.sha256()
    for path in source_files(modules):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def code_version(workload: Workload, stage: Stage | None = None) -> str:
    """The version of raysweep and the digest of the source that decide a row, or the artifact of a stage."""
    if workload.function is not None:
        return f"{__version__}+{workload.function.digest}"
    if stage is not None:
        return f"{__version__}+{source_digest(tuple(stage.sources) or workload.source_modules)}"
    others = tuple(dict.fromkeys(module for stage in workload.chain.stages for module in stage.sources))
    added = _added(workload.source_modules, others) if others else ()
    return f"{__version__}+{source_digest(workload.source_modules + added)}"


@functools.cache
def _added(modules: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the other modules that have a file that these modules have not."""
    there = set(source_files(modules))
    return tuple(module for module in others if not there.issuperset(source_files([module])))
