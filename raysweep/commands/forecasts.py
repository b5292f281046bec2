"""`raysweep forecast` and `raysweep score`: what to expect where nothing was computed, and how right that was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raysweep import plain_json
from raysweep.errors import InputError
from raysweep.fits.reasons import MESSAGES
from raysweep.numbers import interval, number
from raysweep.phrases import place
from raysweep.query import forecasting
from raysweep.report.phrases import OUTCOMES

if TYPE_CHECKING:
    from raysweep.query.stored_sweep import StoredSweep


def values(texts: Sequence[str]) -> dict[str, float]:
    """AXIS=VALUE[,AXIS=VALUE] as values by axis."""
    out: dict[str, float] = {}
    for text in ",".join(texts).split(","):
        name, value = (part.strip() for part in text.partition("=")[::2])
        if name in out:
            raise InputError("--at", f"{name} is there twice; expected each axis once")
        try:
            out[name] = float(value)
            if not name:
                raise ValueError
        except ValueError:
            raise InputError("--at", f"expected AXIS=NUMBER, such as pretrain_length=3e12, got {text}") from None
    return out


def forecast(sweep: StoredSweep, at: Mapping[str, float], target: Path, *, dated: bool = False) -> list[str]:
    """Make and freeze a forecast. Returns the lines for the user. A file that is there is never overwritten.

    dated: whether another one of the same second goes beside it.
    """
    made = forecasting.forecast(sweep, at)
    target = _frozen(plain_json.dumps(made, indent=1) + "\n", target, dated=dated)
    lines = []
    for one in made["forecasts"]:
        where = _setting(made["at"] | one["where"])
        ends = interval(one["estimate"], one["low"], one["high"])
        lines.append(f"{where}: {one['of']} {ends}, {100 * made['level']:g} % of a new setting")
        if families := one.get("families"):
            lines.append("  " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in families.items()))
        lines += [f"  {name} lies {number(x)} times outside of what was computed" for name, x in one["outside"].items()]
    lines += [f"no forecast of the {of}: {reason}" for of, reason in made["not_forecast"].items()]
    return [*lines, f"frozen: {place(target)}"]


def _frozen(text: str, target: Path, *, dated: bool) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    for k in count(1):
        file = target.with_stem(f"{target.stem}-{k}") if k > 1 else target
        try:
            with file.open("x", encoding="utf-8") as out:
                out.write(text)
            break
        except FileExistsError:
            if not dated:
                raise InputError(str(file), "is there already; name another file with -o") from None
    return file


def score(file: Path, sweep: StoredSweep) -> list[str]:
    """Hold a frozen forecast against the rows of a sweep. Returns the lines for the user."""
    try:
        made = plain_json.loads(file.read_bytes())
    except OSError as error:
        raise InputError(str(file), f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        made = {}
    if not isinstance(made, dict):
        made = {}
    found = forecasting.score(made, sweep, str(file))
    lines = [
        f"{_setting(made['at'] | one['where'])}: {one['of']} forecast {_ends(one['forecast'])}, "
        f"measured {_ends(one['measured'])}" + ("" if one["inside"] else ", outside")
        for one in found["settings"]
    ]
    for one in found["scores"]:
        signs = f"; direction right in {one['signs_right']} of {one['signs_of']}" * bool(one["signs_of"])
        crps = f"CRPS {number(one['crps'])} {one['unit'] and 'in ' + one['unit']}".rstrip()
        lines.append(f"{one['of']}: {one['inside']} of {one['settings']} inside; {crps}{signs}")
    for one in found["not_scored"]:
        reason = OUTCOMES.get(one["reason"]) or MESSAGES[one["reason"]]
        lines.append(f"{one['of']}: {one['settings']} of {one['forecasts']} not scored: {reason}")
    return lines


def _ends(values: Sequence[float]) -> str:
    low, middle, high = values
    return number(middle, 6) if low == high else interval(middle, low, high)


def _setting(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {number(value)}" for name, value in values.items())
