"""Parameters that had another name and other values in an earlier release: in records they are converted, and a space
that uses the earlier name is told the present one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from raysweep.errors import InputError
from raysweep.workloads.declaration import Parameter, Workload

SHOWN = 5
"""Values that an error converts for the user; of a longer list the first ones."""


def check(
    given: Any, path: str, workload: Workload, listed: Callable[[Any, str], Any] = lambda value, path: value
) -> None:
    """Raise InputError if a mapping from parameters to values uses an earlier name. It says the present name, and the
    converted values.

    path: the path of the mapping.
    listed: (value, its path) -> the values that are meant.
    """
    formers = _formers(workload)
    for name, values in given.items() if isinstance(given, Mapping) else ():
        if name in formers and values is not None:
            raise error(f"{path}.{name}", formers[name], listed(values, f"{path}.{name}"))


def error(path: str, parameter: Parameter, values: Any = None) -> InputError:
    """The error for an earlier name of a parameter. values: what was given for it."""
    unit = f", in {parameter.unit}" if parameter.unit else ""
    text = f"is now {parameter.name}{unit}: {parameter.description}"
    several = isinstance(values, list)
    numbers = [(value, _present(parameter, value)) for value in (values if several else [values])[:SHOWN]]
    numbers = [pair for pair in numbers if pair[1] is not None]
    if numbers:
        more = ", ..." if several and len(values) > SHOWN else ""
        old, new = (", ".join(_brief(pair[i]) for pair in numbers) + more for i in (0, 1))
        text += f"; [{old}] is {parameter.name}: [{new}]" if several else f"; {old} is {parameter.name} {new}"
    return InputError(path, text)


def find(name: object, workload: Workload) -> Parameter | None:
    """The parameter that had this name in an earlier release, or None."""
    return _formers(workload).get(name)


def converted(record: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    """A recorded space with present names and values instead of earlier ones. Values that cannot be converted stay."""
    formers = _formers(workload)
    used = {name for key in ("axes", "fixed") for name in record.get(key) or {} if name in formers}
    if not used:
        return dict(record)
    formers = {name: formers[name] for name in used}
    present = dict(record)
    for key in ("axes", "fixed", "zip", "exclude", "search", "resources", "analysis"):
        if key in present:
            # the names of parameters are keys everywhere, and values too where axes are named
            present[key] = _renamed(present[key], formers, values_too=key not in ("axes", "fixed"))
    if "scale" in present:  # the scale of an axis is none of its converted values
        present["scale"] = {name: scale for name, scale in present["scale"].items() if name not in formers}
    return present


def _formers(workload: Workload) -> dict[object, Parameter]:
    return {p.formerly.name: p for p in workload.parameters if p.formerly is not None and p.formerly.name != p.name}


def _renamed(plain: Any, formers: Mapping[object, Parameter], values_too: bool) -> Any:
    if isinstance(plain, Mapping):
        return {
            formers[key].name if key in formers else key: _values(formers[key], value)
            if key in formers
            else _renamed(value, formers, values_too)
            for key, value in plain.items()
        }
    if isinstance(plain, list):
        return [_renamed(entry, formers, values_too) for entry in plain]
    return formers[plain].name if values_too and isinstance(plain, str) and plain in formers else plain


def _values(parameter: Parameter, values: Any) -> Any:
    if isinstance(values, list):
        return [_values(parameter, value) for value in values]
    present = _present(parameter, values)
    return values if present is None else present


def _present(parameter: Parameter, value: Any) -> Any:
    """The present value of an earlier one; None if there is none."""
    assert parameter.formerly is not None
    try:
        return parameter.formerly.new(value)
    except (TypeError, ValueError):
        return None


def _brief(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
