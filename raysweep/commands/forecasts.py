"""`raysweep forecast` and `raysweep score`: what to expect where nothing was computed, and how right that was."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raysweep import plain_json
from raysweep.errors import InputError
from raysweep.fits.reasons import Reason
from raysweep.numbers import interval, number
from raysweep.phrases import place
from raysweep.query import forecasting
from raysweep.query.stored_sweep import StoredSweep
from raysweep.report.phrases import OUTCOMES
from raysweep.storage import files
from raysweep.storage.paths import AnyPath

EXISTS = "is there already; name another file with -o"


def values(texts: Sequence[str]) -> dict[str, float]:
    """AXIS=VALUE[,AXIS=VALUE] as values by axis."""
    given = ",".join(texts)
    pairs = [text.partition("=") for text in given.split(",")]
    with contextlib.suppress(ValueError):
        out = {name.strip(): float(value) for name, _, value in pairs}
        if "" not in out and len(out) == len(pairs):
            return out
    raise InputError("--at", f"expected AXIS=NUMBER, such as pretrain_length=3e12, each axis once, got {given}")


def forecast(sweep: StoredSweep, at: Mapping[str, float], target: AnyPath | None = None) -> list[str]:
    """Make and freeze a forecast, in a new file; None for a dated one in the sweep's folder. Returns lines."""
    if target is not None and target.exists():
        raise InputError(str(target), EXISTS)
    if reason := files.why_not_writable(target.parent if target else sweep.folder):
        raise InputError(str(target or sweep.folder), f"cannot be written ({reason})")
    made = forecasting.forecast(sweep, at)
    if target is None:
        date = made["made"][:19].replace(":", "")
        target = sweep.folder / "forecasts" / f"{date}-{made['digest'][:4]}.json"
    if isinstance(target, Path):
        target.parent.mkdir(parents=True, exist_ok=True)
    if not files.create(target, f"{plain_json.dumps(made, indent=1)}\n".encode()):
        raise InputError(str(target), EXISTS)
    lines = []
    for one in made["forecasts"]:
        estimate = interval(one["estimate"], one["low"], one["high"])
        where = _setting(made["at"] | one["where"])
        lines.append(f"{where}: {one['of']} {estimate}, {100 * made['level']:g} % of a new setting")
        if families := one.get("families"):
            lines.append("  " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in families.items()))
        lines += [f"  {name} lies {number(x)} times outside of what was computed" for name, x in one["outside"].items()]
    lines += [f"no forecast of the {of}: {reason}" for of, reason in made["not_forecast"].items()]
    return [*lines, f"frozen: {place(target)}"]


def score(file: AnyPath, sweep: StoredSweep) -> list[str]:
    """Hold a frozen forecast against the rows of a sweep. Returns the lines for the user."""
    try:
        made = plain_json.loads(files.read(file))
    except OSError as error:
        raise InputError(str(file), f"cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        made = None
    scored = forecasting.score(made if isinstance(made, dict) else {}, sweep, str(file))
    lines = []
    for one in scored["settings"]:
        expected, measured = (interval(middle, low, high) for low, middle, high in (one["forecast"], one["measured"]))
        line = f"{_setting(made['at'] | one['where'])}: {one['of']} forecast {expected}, measured {measured}"
        lines.append(line.removesuffix(" (exact)") + ", outside" * (not one["inside"]))
    for one in scored["scores"]:
        signs = f"; direction right in {one['signs_right']} of {one['signs_of']}" * bool(one["signs_of"])
        crps = f"CRPS {number(one['crps'])} {one['unit'] and 'in ' + one['unit']}".rstrip()
        lines.append(f"{one['of']}: {one['inside']} of {one['settings']} inside; {crps}{signs}")
    for one in scored["not_scored"]:
        reason = OUTCOMES.get(one["reason"]) or Reason(one["reason"]).text
        lines.append(f"{one['of']}: {one['settings']} of {one['forecasts']} not scored: {reason}")
    return lines


def _setting(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {number(value)}" for name, value in values.items())
