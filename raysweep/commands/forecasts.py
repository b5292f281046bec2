"""`raysweep forecast` and `raysweep score`: the best rate where nothing was computed, and how right it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raysweep import plain_json
from raysweep.errors import InputError
from raysweep.numbers import interval, number
from raysweep.phrases import place
from raysweep.query import forecasting

if TYPE_CHECKING:
    from raysweep.query.stored_sweep import StoredSweep


def values(texts: Sequence[str]) -> dict[str, float]:
    """AXIS=VALUE[,AXIS=VALUE] as values by axis."""
    out: dict[str, float] = {}
    for text in ",".join(texts).split(","):
        name, _, value = text.partition("=")
        try:
            out[name.strip()] = float(value)
            if not name.strip():
                raise ValueError
        except ValueError:
            raise InputError("--at", f"expected AXIS=NUMBER, such as pretrain_length=3e12, got {text}") from None
    return out


def forecast(sweep: StoredSweep, at: Mapping[str, float], target: Path) -> list[str]:
    """Make and freeze a forecast. Returns the lines for the user. A file that is there is never overwritten."""
    made = forecasting.forecast(sweep, at)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(plain_json.dumps(made, indent=1) + "\n")
    except FileExistsError:
        raise InputError(str(target), "is there already; name another file with -o") from None
    lines = []
    for one in made["forecasts"]:
        where = _setting(made["at"] | one["where"])
        ends = interval(one["estimate"], one["low"], one["high"])
        what = f"{made['place']} {made['law']['lr']}"
        lines.append(f"{where}: {what} {ends}, {100 * made['level']:g} % of a new setting")
        lines += [f"  {name} lies {number(x)} times outside of what was computed" for name, x in one["outside"].items()]
    return [*lines, f"frozen: {place(target)}"]


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
    found = forecasting.score(made, sweep)
    lines = [
        f"{_setting(made['at'] | one['where'])}: forecast {_ends(one['forecast'])}, measured {_ends(one['measured'])}"
        + ("" if one["inside"] else ", outside")
        for one in found["settings"]
    ]
    signs = f"; direction right in {found['signs_right']} of {found['signs_of']}" * bool(found["signs_of"])
    return [*lines, f"{found['inside']} of {found['of']} inside; CRPS {number(found['crps'])} in log units{signs}"]


def _ends(values: Sequence[float]) -> str:
    low, middle, high = values
    return interval(middle, low, high)


def _setting(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {number(value)}" for name, value in values.items())
