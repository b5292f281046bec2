"""The title of a finding, and what else a reader must know of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from raysweep.analyses import registry
from raysweep.analyses.finding import Finding, Move
from raysweep.fits.statistics import LEVEL, normal_quantile
from raysweep.numbers import number
from raysweep.phrases import counted
from raysweep.report.names import as_called, called, line_label, listed, plain, settings, unit_of
from raysweep.report.phrases import ESTIMATES, FACTS, METHODS, NOTHINGS
from raysweep.workloads.declaration import Workload


def title(finding: Finding, workload: Workload) -> str:
    """What a finding answers, as its kind asks it; of a function of the user its name."""
    workload, facts = as_called(finding, workload), finding.facts
    kind = finding.kind if ":" in finding.kind else plain(finding.kind).capitalize()  # a file's name stays as it is
    metrics = [finding.metric] if finding.metric or "metric" not in finding.table else finding.table["metric"].unique()
    names = {"x": finding.x, "lr": finding.x, "y": finding.metric, **facts, "metric": metrics}
    asked = asked_by(finding.kind, names, workload) if finding.kind in registry.names() else ""
    text = asked or f"{kind}{f': {called(finding.metric, workload)}' * bool(finding.metric)}"
    where = "; ".join(", ".join(listed(name, values, workload)) for name, values in finding.where.items())
    return f"{text} ({where})" if where else text


def asked_by(kind: str, names: Mapping[str, Any], workload: Workload) -> str:
    """The question of a kind with the names of its metrics and axes; empty if one of these is not there."""
    form, called_by = registry.get(kind).question, dict[str, str]()
    for key in (key for _, key, _, _ in Formatter().parse(form) if key):
        value = names.get(key, "")
        several = " or " if key == "metric" else " and "  # how does one or the other change
        called_by[key] = several.join(called(name, workload) for name in ([value] if isinstance(value, str) else value))
    return form.format_map(called_by) if all(called_by.values()) else ""


def headings_of(findings: Sequence[Finding], workload: Workload) -> list[str]:
    """What each finding answers: its question, with its title if others have this question; else its title."""
    asked = Counter(one.question for one in findings if one.question)
    own = [one.question if asked[one.question] == 1 else f"{one.question} {title(one, workload)}" for one in findings]
    return list(map(str.strip, own))


def notes(finding: Finding, workload: Workload) -> list[str]:
    """What else a reader must know of a finding: which rows it has, and further texts of a user's function."""
    out = [*finding.texts[1:], *(move_words(move, finding, workload) for move in finding.moves)]
    joint = finding.facts.get("joint", {"z": 0.0})
    if abs(joint["z"]) > normal_quantile(LEVEL):
        size = f"{number(abs(joint['distance']), 2)}{unit_of(finding.x, workload)} "
        side = f"{size * (joint['distance'] * joint['z'] > 0)}{'above' if joint['z'] > 0 else 'below'}"
        out.append(f"On average the zeros lie {side} theory's (z = {joint['z']:+.1f}).")
    for name, line in finding.facts.get("lines", {}).items():
        label = line_label(name, line["value"], finding.x, workload)
        out.append(f"{label} lies outside {line['outside']} of {counted(line['of'], 'interval')}.")
    if level := finding.facts.get("computed_at"):
        out.append(
            f"Draws were added until intervals were narrow enough, which costs coverage, so these "
            f"{100 * finding.level:g} % intervals are computed at {100 * level:.1f} %."
        )
    if finding.idle:
        idle = " and ".join(called(name, workload) for name in finding.idle)
        out.append(f"This does not depend on {idle}: each draw counts once.")
    facts = finding.facts
    if "alone_here" in finding.table:
        out += left_alone(finding)
    for name, form in FACTS.items():
        if value := facts.get(name):
            listed_names = value if isinstance(value, list) else [value] if isinstance(value, str) else []
            names = ", ".join(called(one, workload) for one in listed_names)
            out.append(form.format(count=value, names=names, x=called(finding.x, workload)))
    level = f"{100 * finding.level:g} % interval"
    if shares := facts.get("shares"):
        large = [f"{called(name, workload)} {100 * share:.0f} %" for name, share in shares.items() if share >= 0.005]
        small = ["each other axis less than 1 %"] if len(large) < len(shares) else []
        rest = f"combinations of axes and chance {100 * max(0, 1 - sum(shares.values())):.0f} %"
        out.append(f"Share of variance: {', '.join([*large, *small, rest])}.")
    if score := facts.get("one_out"):
        out.append(f"Each setting forecast from all others: {score['inside']} of {score['of']} inside their {level}.")
    if score := facts.get("longest_out"):
        share, length = f"{score['inside']} of {score['of']}", called(facts["length"], workload)
        among = f" in {counted(score['settings'], 'setting')}" if score["settings"] > 1 else ""
        out.append(f"The largest values of {length}, forecast from the others: {share} inside their {level}{among}.")
    if cases := facts.get("cases"):
        words = ", ".join(f"{'not decided' if case == 'undetermined' else case} in {n}" for case, n in cases.items())
        out.append(f"By the losses at the best rate (O §3.4.2): {words}.")
    for metric, count in facts.get("left_out", {}).items():
        out.append(f"Left out: {counted(count, 'ok row')} in which {called(metric, workload)} is not finite.")
    for lost in facts.get("lost", ()):
        few = f"{lost['fewest']}" + (f" to {lost['most']}" if lost["most"] > lost["fewest"] else "")
        where = "; ".join(settings(place, workload) for place in lost["where"] if place)
        cells, draws = counted(lost["cells"], "cell"), f"{few} of {lost['draws']} draws ok"
        where = f": {where}" if where else ""
        out.append(f"Left out: the ok draws of {cells} in which most diverged or failed ({draws}){where}.")
    return [*out, *filter(None, [METHODS.get(facts.get("method", finding.kind))])]


def left_alone(finding: Finding) -> list[str]:
    """What a comparison leaves out: cells that one sweep alone has, and sweeps that share none with the first one."""
    out, first = list[str](), finding.facts["first"]
    for row in finding.table.drop_duplicates("sweep").to_dict("records"):
        counts = ((first, row["alone_here"]), (row["sweep"], row["alone_there"]))
        if alone := " and ".join(f"{counted(count, 'cell')} that only {name} has" for name, count in counts if count):
            out.append(f"Not compared: {alone}.")
    why = finding.facts["not_compared"]
    return [*out, *(f"{name} is not compared: {NOTHINGS[reason]}." for name, reason in why.items())]


def move_words(move: Move, finding: Finding, workload: Workload) -> str:
    """How a place changes along one other axis: "With depth from 1 to 20 it falls in 2, …, of 3 settings"."""
    counts = [(move.rises, "rises"), (move.falls, "falls"), (move.both, "goes up and down")]
    counts += [(move.open, "is not shown to move")]
    unit, every = unit_of(move.key, workload), sum(count for count, _ in counts)
    ways = ", ".join(f"{way} in {count}" if every > 1 else way for count, way in counts if count)
    ways += f" of {every} settings" if every > 1 else ""
    in_theory = zip(move.theory, ("rises", "falls", "stays"), strict=True)
    theory = ", ".join(f"{way} in {count}" if every > 1 else way for count, way in in_theory if count)
    more = (f"; theory {theory}" if theory else "") + (", of some only a bound" if move.by_bounds else "")
    name, zero = called(move.key, workload), finding.kind == "boundary"
    what = "zero" if zero else ESTIMATES.get(finding.kind, "place")
    return f"With {name} from {number(move.first)} to {number(move.last)}{unit} the {what} {ways}{more}."
