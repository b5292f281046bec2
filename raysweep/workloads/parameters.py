"""The parameters of a workload: type, unit, range and default."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.errors import shown

SCALES = ("log", "linear")  # how an axis of numbers can be drawn and fitted

_REQUIRED = object()
_SPELLED = {"pretrain": "pretraining", "finetune": "fine-tuning", "lr": "rate", "warmup": "warm-up"}


@dataclass(frozen=True)
class Former:
    """An earlier form of a parameter. Cells keep the identity that they had in that form.

    name: its name then.
    old: the value in that form of a present value.
    """

    name: str
    old: Callable[[Any], Any]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a workload: its type, unit, range and default.

    minimum, maximum: inclusive, except that `open_minimum` excludes the minimum.
    infinite: whether `.inf` is accepted too, whatever minimum and maximum are.
    stage: the first stage of the workload that it matters to; empty if the workload has one stage.
    absent: for a parameter that was added after the first release of its workload: rows with this value keep the
        identity that they had before the parameter existed.
    scale: how its axis is drawn and fitted (log or linear) if a space does not say; empty: decided by the spacing of
        the values.
    symbol: its letter in papers and figures.
    label: what sentences and figures call it; empty: its name with spaces, that of `finetune_lr` and the like in words
        ("fine-tuning rate"). A name of one word has none, since it may be a word of a sentence.
    words: what sentences and figures call the parameter with a value that is a word: "masked pretraining" for masked;
        None: the parameter's label and the value.
    formerly: its name and values in an earlier release, or None.
    searched_by: the search (boundary, optimum) that refines along it if a space names no axis.
    """

    name: str
    type: type
    default: Any
    description: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    open_minimum: bool = False
    infinite: bool = False
    whole: bool = False
    choices: tuple[str, ...] = ()
    stage: str = ""
    absent: Any = _REQUIRED
    scale: str = ""
    symbol: str = ""
    label: str = ""
    words: Callable[[str], str] | None = None
    searched_by: str = ""
    formerly: Former | None = None

    def __post_init__(self) -> None:
        if self.scale and (self.categorical or self.scale not in SCALES):
            expected = "no scale, its values being categories" if self.categorical else f"one of {', '.join(SCALES)}"
            raise ValueError(f"{self.name}.scale: expected {expected}, got {self.scale!r}")
        words = self.name.split("_")
        if not self.label and words[0] in ("pretrain", "finetune"):
            object.__setattr__(self, "label", " ".join(_SPELLED.get(word, word) for word in words))
        try:
            if self.default is not None:  # an argument of a function without a default
                self.coerce(self.default)
        except ValueError as error:
            raise ValueError(f"{self.name}.default: {error}") from None

    def coerce(self, value: Any) -> Any:
        """The value in the declared type, so that 1 and 1.0 are the same; ValueError says what was expected."""
        if self.categorical:
            if isinstance(value, self.type) and (not self.choices or value in self.choices):
                if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
                    raise ValueError(f"expected text that UTF-8 can hold, got {shown(value)}")
                return value
        elif isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
            try:
                number = float(value)
            except OverflowError:  # a whole number of more than 308 digits
                raise ValueError(f"expected a number that a computer's float can hold, got {shown(value)}") from None
            inside = not math.isnan(number) and (self.infinite or not math.isinf(number))
            if inside and self.minimum is not None:
                inside = number > self.minimum if self.open_minimum else number >= self.minimum
            if inside and self.maximum is not None:
                inside = number <= self.maximum or (self.infinite and number == math.inf)
            if inside and (self.type is int or self.whole) and not math.isinf(number):
                inside = number.is_integer()
            if inside and self.type is int and not -(2**63) <= int(value) < 2**63:
                raise ValueError(f"expected {self.expected()} of at most 64 bits, got {shown(value)}")
            if inside:
                return int(value) if self.type is int else number + 0.0  # + 0.0 makes -0.0 and 0.0 one
        number = self.type is str and isinstance(value, (int, float)) and not isinstance(value, bool)
        quoted = f', in quotes: "{value}"' if number and not self.choices else ""
        raise ValueError(f"expected {self.expected()}{quoted}, got {shown(value)}")

    def expected(self) -> str:
        """What a value must be, in words, for errors and for `raysweep workloads NAME`."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.type is bool:
            return "true or false"
        if self.type is str:
            return "text"
        words = "a whole number" if self.type is int or self.whole else "a number"
        if self.minimum is not None and self.maximum is not None and not self.open_minimum:
            words += f" from {self.minimum:g} to {self.maximum:g}"
        else:
            if self.minimum is not None:
                words += f" above {self.minimum:g}" if self.open_minimum else f" of at least {self.minimum:g}"
            if self.maximum is not None:
                words += f"{' and' if self.minimum is not None else ' of'} at most {self.maximum:g}"
        if self.infinite:
            words += ", or .inf"
        return words + (f" ({self.unit})" if self.unit else "")

    @property
    def categorical(self) -> bool:
        """Whether its values are categories without a scale: words, or true and false."""
        return self.type in (str, bool)

    @property
    def late(self) -> bool:
        """Whether the parameter was added after the first release, and so has a value that means "absent"."""
        return self.absent is not _REQUIRED


def column(parameter: Parameter, values: list[Any]) -> np.ndarray:
    """Values of one parameter as an array of its declared type."""
    kinds: dict[type, Any] = {int: np.int64, float: np.float64}
    return np.asarray(values, dtype=kinds.get(parameter.type, object))
