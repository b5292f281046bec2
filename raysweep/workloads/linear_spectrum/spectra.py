"""How a spectrum is written as text, and how that text is read."""

import functools
import math

import numpy as np

FORMS = (
    "singular values as in 2,1.5,1 (the rest 0), or power:FIRST:EXPONENT, "
    "geometric:FIRST:RATIO, linear:FIRST:LAST, each with :COUNT at the end for fewer than dim"
)
_KINDS = ("power", "geometric", "linear")


@functools.lru_cache(maxsize=4096)
def read(text: str, dim: int, falling: bool = False) -> np.ndarray:
    """The singular values that `text` names, shape (dim,), read-only; zeros follow if it names fewer.

    power:a:p is a·i^-p, geometric:a:q is a·q^(i-1), linear:a:b goes from a to b in even steps, i = 1 … COUNT.
    falling: no value may be above the value before it.
    ValueError says what was expected.
    """
    kind, *rest = (part.strip() for part in text.split(":"))
    if kind in _KINDS:
        if len(rest) not in (2, 3):
            raise ValueError(f"expected {kind} with two or three numbers, as in {kind}:2:0.5:4, got {text!r}")
        first, shape = _number(rest[0], text), _number(rest[1], text)
        count = dim
        if len(rest) == 3:
            number = _number(rest[2], text)
            if number != int(number) or number < 1:
                raise ValueError(f"expected a whole COUNT of at least 1, got {rest[2]} in {text!r}")
            count = int(number)
        _fits(count, dim, text)
        index = np.arange(1, count + 1, dtype=float)
        values = np.linspace(first, shape, count)
        with np.errstate(over="ignore"):
            if kind != "linear":
                values = first * (index**-shape if kind == "power" else shape ** (index - 1))
    else:
        if rest:
            raise ValueError(f"expected {FORMS}; got {text!r}")
        listed = [_number(part.strip(), text) for part in text.split(",")]
        _fits(len(listed), dim, text)
        values = np.array(listed)
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError(f"expected finite singular values of at least 0, got {text!r}")
    if falling and (np.diff(values) > 0).any():
        raise ValueError(
            f"expected singular values from the largest to the smallest (the order they are learned in), got {text!r}"
        )
    if falling and not values.any():
        raise ValueError(f"expected at least one singular value above 0, got {text!r}")
    spectrum = np.concatenate([values, np.zeros(dim - len(values))])
    spectrum.setflags(write=False)
    return spectrum


def _number(part: str, text: str) -> float:
    try:
        value = float(part)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"expected {FORMS}; got {part!r} in {text!r}")
    return value


def _fits(count: int, dim: int, text: str) -> None:
    if count > dim:
        raise ValueError(f"expected at most dim = {dim} singular values, got {count} in {text!r}")
