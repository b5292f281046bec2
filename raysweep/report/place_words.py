"""Where places lie, and how they change from setting to setting, in words of several lengths."""

from __future__ import annotations

from collections.abc import Sequence

from raysweep.analyses.counts import Drive, Group
from raysweep.analyses.finding import Finding, Outcome
from raysweep.numbers import alike, interval_numbers, number
from raysweep.report.names import called, setting, short, unit_of
from raysweep.report.phrases import IN_X
from raysweep.workloads.declaration import Workload

SYMBOL = 4
"""Letters at most of a name that takes no article: x, lr, step."""
EVEN = 0.1
"""So many times a value are about the value up to this."""
STAY = 5
"""Of so many settings places move along an axis although in one of them that is not clear."""
RISING, FALLING = "rising", "falling"
ENDS, NAMING, BRIEF, SIZES = -1, 2, 4, 6
"""The size of intervals alone; those from which on a place does not say at which values of an axis it lies, and not
even that it changes; and in how many lengths it is said."""


def at_words(finding: Finding, group: Group, workload: Workload, size: int) -> str:
    """Where on its axis: "an overlap angle of 57.1° to 60.0°"; in short without the name of an axis that has a unit or
    a symbol: "60.0°", "t = 2.3"."""
    x = called(finding.x, workload)
    if len(x) <= SYMBOL:
        return place_words(finding, group, workload, size, f"{x} ")
    place = place_words(finding, group, workload, size)
    unit, symbol = unit_of(finding.x, workload), workload.symbol(finding.x)
    if size % 2 and (unit or symbol):
        return place if unit else f"{symbol} = {place}"
    if (what := x.split(" per ")[0]).endswith("s") and not what.endswith("ss"):  # several things have no article
        return f"{symbol or x} = {place}"
    return f"{'an' if x[0].lower() in 'aeiou' else 'a'} {x} of {place}"


def place_words(finding: Finding, group: Group, workload: Workload, size: int = 0, name: str = "") -> str:
    """The estimate with its interval if one setting has it; else what all are about, or from where to where they lie,
    and with which axis that changes (size 0 and 1: and at which of its values; `ENDS`: how far intervals reach, alone).
    name: stands before the number."""
    unit = unit_of(finding.x, workload) if finding.kind in IN_X else ""
    degrees, unit = (unit, "") if unit == "°" else ("", unit)
    drive, numbers = group.drive, group.reach or (group.low, group.middle, group.high)
    ends = (drive.first[1], drive.last[1]) if drive else ()
    if (apart := group.apart) and finding.kind in IN_X and size < BRIEF:
        texts = [f"{text}{degrees}" for text in alike(apart.others, apart.low, apart.high, error=group.error)]
        other = " to ".join(dict.fromkeys(texts[1:]))
        inner = apart.drive if apart.drive and apart.drive.one_way else None
        along = f" ({_way(inner)} with {_named(inner.key, workload)})" if inner else ""
        where = setting(apart.key, apart.value, workload)
        return f"about {name}{texts[0]}{unit}, but {other}{unit} for {where}{along}"
    texts = alike(*numbers, *ends, error=group.error)
    if group.reach and texts[1] == texts[2]:  # the interval is far smaller than the place
        finer = interval_numbers(numbers[0], numbers[1], numbers[2])
        texts = finer if len(finer) > 1 else texts
    low, middle, high, *moved = (f"{text}{degrees}" for text in texts)
    if group.reach:
        return f"{name}{low}{unit}{f' ({100 * finding.level:g} %: {middle} to {high})' * (size < BRIEF)}"
    if group.times:
        return f"{name}{times_words(*group.times, workload)}"
    if low == high:
        return f"{name}{low}{unit}"
    mostly, ways = moving(finding, group)
    if ways and ENDS < size < BRIEF:
        said = {
            way: _and([_named(key, workload, symbols=size >= NAMING) for key in keys]) for way, keys in ways.items()
        }
        first, last = (low, high) if RISING in said else (high, low)
        if len(said) == 1:
            ((way, names),) = said.items()
            return f"{name}{first}{unit}, {mostly}{way} to {last}{unit} with {names}"
        pattern = ", ".join(f"{way} with {names}" for way, names in said.items())
        return f"{name}{first} to {last}{unit} ({mostly}{pattern})"
    if drive and drive.one_way and size < BRIEF and moved[0] != moved[1]:
        way = _way(drive)
        if size >= NAMING:
            return f"{name}{moved[0]} {way} to {moved[1]}{unit} with {_named(drive.key, workload)}"
        begin, end = (setting(drive.key, at, workload) for at, _ in (drive.first, drive.last))
        median = " in the median" * (drive.medians and not group.alike)
        return f"{name}{moved[0]}{unit} at {begin} ({way} to {moved[1]} at {end}{median})"
    if drive and not drive.one_way and not drive.medians and size < NAMING:
        begin, end = (setting(drive.key, at, workload) for at, _ in (drive.first, drive.last))
        return f"{name}{low}{unit} ({begin}) to {high}{unit} ({end})"
    if group.alike and group.count == 2 and group.outcome != Outcome.LOCATED:
        return f"{name}{low} to {high}{unit}"
    about = f"about {name}{middle}{unit}"
    across = f"{low} to {high}{unit}"
    sure, more = f"{100 * finding.level:g} %", f"median {middle}" * (group.count > 2)
    if group.span and group.error > 0 and group.outcome == Outcome.LOCATED:
        middle, *span = (f"{text}{degrees}" for text in alike(group.middle, *group.span, error=group.error))
        if size == ENDS:
            return f"{name}{' to '.join(span)}{unit} ({sure})"
        about, more = f"about {name}{middle}{unit}", f"{sure} intervals within {' to '.join(span)}{unit}"
    elif group.alike:
        more = across
    return f"{about if group.alike else f'{name}{across}'}{f' ({more})' * (size < NAMING and bool(more))}"


def _way(drive: Drive) -> str:
    return RISING if drive.last[1] > drive.first[1] else FALLING


def _named(key: str, workload: Workload, *, symbols: bool = True) -> str:
    return symbols * workload.symbol(key) or called(key, workload)


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)


def moving(finding: Finding, group: Group) -> tuple[str, dict[str, list[str]]]:
    """How places clearly move along several axes: "mostly " if in one setting of `STAY` they need not, and which axes
    they rise and fall with; no axes if they do so along fewer than two, or are about one value."""
    ways: dict[str, list[str]] = {}
    mostly = ""
    for move in finding.moves if group.outcome == Outcome.LOCATED and not group.alike else ():
        clear = move.rises + move.falls
        few = STAY * move.open <= clear + move.open and not (move.both or move.by_bounds)
        if bool(move.rises) != bool(move.falls) and few:
            mostly = mostly or "mostly " * bool(move.open)
            ways.setdefault(RISING if move.rises else FALLING, []).append(move.key)
    return (mostly, dict(sorted(ways.items(), reverse=True))) if sum(map(len, ways.values())) > 1 else ("", {})


def is_words(finding: Finding, group: Group, workload: Workload, size: int) -> str:
    """The verb and the place: "is about 60°", or what the places do along the axis that drives them."""
    drive = group.drive
    if not drive or group.alike or size >= BRIEF or moving(finding, group)[1]:
        return f"is {place_words(finding, group, workload, size)}"
    unit = unit_of(finding.x, workload) if finding.kind in IN_X else ""
    first, last = (f"{text}{unit}" for text in alike(drive.first[1], drive.last[1], error=group.error))
    begin, end = (short(drive.key, at, workload) for at, _ in (drive.first, drive.last))
    name, median = called(drive.key, workload), "median " * drive.medians
    if not drive.one_way:
        return f"is highest at {name} {end} ({median}{last}), lowest at {begin} ({first})"
    way = "rises" if drive.last[1] > drive.first[1] else "falls"
    if size >= NAMING:
        return f"{way} with {name} from {first} to {last}"
    return f"{way} with {name} from {median}{first} (at {begin}) to {last} (at {end})"


def times_words(key: str, factor: float, workload: Workload) -> str:
    """What estimates are about so many times of: "about the target norm (0.98 times)"."""
    name, times = called(key, workload), f"{number(factor, 2)} times"
    return f"about the {name} ({times})" if abs(factor - 1) < EVEN else f"about {times} the {name}"
