"""A plain Python function as a workload of one stage.

`describe` reads a function's signature. `declared` makes the declaration from the description alone, so that everything
except computing rows (results, report, status, sync, delete) needs no code of the user.
"""

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

from raysweep.errors import InputError, shown, unknown
from raysweep.workloads.chain import Cost, Stage
from raysweep.workloads.declaration import ANY, Metric, Workload
from raysweep.workloads.function_description import DIRECTIONS, TAKEN, TYPES, Description, check_metric
from raysweep.workloads.parameters import Former, Parameter

VALUE = "value"  # the metric of a function that returns a plain number
LOG = "log"
UNMEASURED = 60.0  # seconds that a row is taken to cost until one was measured: then a pack on Ray has only few rows


def declared(description: Description) -> Workload:
    named = description.returned if description.returned is not None else tuple(description.metrics)
    seconds = UNMEASURED if description.seconds is None else description.seconds
    stage = stage_name(description.name)  # what runs is the function itself, wherever it is from

    def cost(columns: Mapping[str, Any]) -> Cost:
        rows = len(next(iter(columns.values()))) if columns else 1
        return Cost(seconds * rows, 0.0, seconds * rows)

    return Workload(
        name=description.name,
        summary=f"a Python function{f', {description.source}' if description.source else ''}",
        identity_version=description.version,
        parameters=tuple(_parameter(parameter) for parameter in description.parameters),
        metrics=tuple(
            Metric(name, f"what {description.name} returns", direction=description.metrics.get(name, DIRECTIONS[0]))
            for name in named
        ),
        stages=(Stage(stage, f"python:{stage}", together=ANY if description.vectorized else None, cost=cost),),
        gpu_guess="" if description.seconds is not None else "because no row was measured yet",
        function=description,
    )


def stage_name(name: str) -> str:
    plain = re.sub(r"\W", "_", name)
    return plain if plain.isidentifier() else f"_{plain}"


def _parameter(plain: Mapping[str, Any]) -> Parameter:
    kind, name, choices = TYPES[plain["type"]], plain["name"], tuple(plain.get("choices") or ())
    # whether a number is whole is only inferred from the values at hand: 1 and 1.0 are one cell, so that more values on
    # an axis extend a sweep
    number: dict[str, Any] = {"infinite": True, "formerly": Former(name, _whole)} if kind is float else {}
    return Parameter(name, kind, plain.get("default"), f"argument {name}", choices=choices, **number)


def _whole(value: float) -> float:
    return int(value) if value == value and abs(value) < 2**53 and value == int(value) else value


def describe(
    function: Callable[..., Any],
    *,
    name: str | None,
    digest: str,
    source: str = "",
    axes: Any = None,
    fixed: Any = None,
    metrics: Any = None,
    version: Any = 1,
    vectorized: Any = False,
) -> Description:
    """The description of a function for these axes and fixed values.

    name: its name; None for the name with which it was defined.
    axes, fixed: as in a space, not checked yet; the types of arguments without annotation come from their values.
    metrics, version, vectorized: as the user gives them.

    InputError, which begins with the offending key, for anything that is no function that a space can run.
    """
    called = _name(function) if name is None else name
    if not isinstance(vectorized, bool):
        raise InputError("vectorized", f"expected true or false, got {shown(vectorized)}")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InputError("version", f"expected a whole number of at least 1, got {shown(version)}")
    arguments = _arguments(function, called, vectorized)
    axes, fixed = (given if isinstance(given, Mapping) else {} for given in (axes, fixed))
    names = [argument.name for argument in arguments]
    for path, given in (("axes", axes), ("fixed", fixed)):
        for key in given:
            if key == "seed":
                raise InputError(f"{path}.seed", "the seeds stand under seeds: a count, or a list")
            if key == LOG:
                raise InputError(f"{path}.{LOG}", f"is what {called} gets from raysweep; leave it out")
            if key not in names:
                raise unknown(f"{path}.{key}", f"argument of {called}", key, names or ["none"])
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # an annotation that names what is not there; it is then shown as text where it matters
        hints = dict(getattr(function, "__annotations__", {}))
    described = [_described(called, each, hints.get(each.name), axes, fixed, vectorized) for each in arguments]
    parameters = tuple(each for each in described if each is not None)
    return Description(called, version, parameters, _directions(metrics), None, None, vectorized, digest, source)


def _name(function: Any) -> str:
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or not name.isidentifier():
        what = "a lambda" if name == "<lambda>" else f"{type(function).__name__}"
        raise InputError("workload", f"expected a function with a name, got {what}; define it with def, or say name=")
    return name


def _arguments(function: Any, name: str, vectorized: bool) -> list[inspect.Parameter]:
    """The arguments that a space sets: all but the seed and the log."""
    if inspect.isclass(function) or not callable(function):
        what = f"the class {function.__name__}" if inspect.isclass(function) else shown(function)
        raise InputError("workload", f"expected a function, got {what}")
    waits = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if waits or inspect.isgeneratorfunction(function):
        what = "a coroutine (async def)" if waits else "a generator"
        raise InputError("workload", f"expected a function that returns its metrics, {name} is {what}")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        why = f"the arguments of {name} cannot be read; wrap it in a function with def"
        raise InputError("workload", why) from None
    for argument in signature.parameters.values():
        star = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(argument.kind.name)
        if star or argument.kind is argument.POSITIONAL_ONLY:
            text = f"{star}{argument.name}" if star else f"{argument.name} before /"
            raise InputError("workload", f"{name} has {text}; expected arguments that each have a name")
        if argument.name in (*TAKEN, "stage", "step") and argument.name != "seed":
            text = f"an argument {argument.name}, which is a column of the results; rename it"
            raise InputError("workload", f"{name} has {text}")
    seeds = [key for key in ("seed", *(["seeds"] if vectorized else [])) if key in signature.parameters]
    if not seeds:
        raise InputError("workload", f"{name} has no argument seed, which every function needs: def {name}(…, seed)")
    return [argument for key, argument in signature.parameters.items() if key not in (*seeds, LOG)]


def takes_log(function: Callable[..., Any]) -> bool:
    return LOG in inspect.signature(function).parameters


def _values(given: Any) -> list[Any]:
    """The values of an axis, as far as they tell its type."""
    if isinstance(given, Mapping) and "values" in given:
        given = given["values"]
    if isinstance(given, Mapping):  # between two numbers lie numbers that are not whole
        given = [0.5]
    return list(given) if isinstance(given, (list, tuple)) else []


def _described(
    name: str,
    argument: inspect.Parameter,
    hint: Any,
    axes: Mapping[str, Any],
    fixed: Mapping[str, Any],
    vectorized: bool,
) -> dict[str, Any] | None:
    """One argument as a parameter; None if it has a default that a space cannot write and is not asked for."""
    key, required = argument.name, argument.default is argument.empty
    default = None if required else argument.default
    on_axis, axis = key in axes, axes.get(key)
    asked = on_axis or key in fixed
    if required and not asked:
        raise InputError(f"fixed.{key}", f"missing; {name} has no default for {key}: put it on an axis, or fix it")
    if default is None and isinstance(axis, Mapping) and "when" in axis:
        needs = f"{name} needs a default for {key}, which it has in the cells without this axis"
        raise InputError(f"axes.{key}.when", needs)
    kind, choices = _annotated(hint)
    given = (_values(axis) if on_axis else []) + [value for value in (fixed.get(key), default) if value is not None]
    if kind is None and hint is not None and not vectorized:
        if not asked:
            return None
        annotation = getattr(hint, "__name__", str(hint))
        raise InputError("workload", f"{name}: {key} is annotated {annotation}; expected int, float, bool or str")
    kind = kind or _inferred(given)
    if kind is None:
        if not asked:
            return None
        raise InputError(
            f"{'axes' if on_axis else 'fixed'}.{key}",
            f"expected {'a list of values, at least one and all' if on_axis else 'a value'} of one type (numbers, true "
            f"and false, or texts) for {key} of {name}"
            + ("" if required else f", whose default is {shown(argument.default)}"),
        )
    plain: dict[str, Any] = {"name": key, "type": kind.__name__, "default": None, "choices": list(choices)}
    try:
        plain["default"] = _parameter(plain).coerce((given or [None])[0] if default is None else default)
    except (ValueError, OverflowError) as error:
        if default is None:
            return plain  # a value on the axis, which is checked where the axis is
        raise InputError("workload", f"{name}: {key} is annotated {kind.__name__}: default {error}") from None
    return plain if asked or argument.default is not None else None


def _annotated(hint: Any) -> tuple[type | None, tuple[str, ...]]:
    """The type that an annotation says, and its choices; (None, ()) if it says none of the four."""
    options = [entry for entry in typing.get_args(hint) if entry is not type(None)]
    if typing.get_origin(hint) is typing.Literal and all(isinstance(entry, str) for entry in options):
        return str, tuple(options)
    if len(options) == 1 and typing.get_origin(hint) is not list and type(None) in typing.get_args(hint):
        return _annotated(options[0])
    if isinstance(hint, str):
        return TYPES.get(hint), ()
    return (hint, ()) if hint in TYPES.values() else (None, ())


def _inferred(values: list[Any]) -> type | None:
    """The type that all these values have: float if one of several numbers is no int."""
    kinds = {type(value) for value in values}
    if kinds <= {int, float} and kinds:
        return float if float in kinds else int
    return kinds.pop() if len(kinds) == 1 and kinds <= {bool, str} else None


def _directions(metrics: Any) -> dict[str, str]:
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise InputError("metrics", f"expected a mapping like {{accuracy: maximize}}, got {shown(metrics)}")
    for name, direction in metrics.items():
        check_metric(name, "metrics")
        if direction not in DIRECTIONS:
            raise InputError(f"metrics.{name}", f"expected {' or '.join(DIRECTIONS)}, got {shown(direction)}")
    return dict(metrics)
