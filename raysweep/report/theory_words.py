"""Whether theory agrees with a finding, and where it is farthest, in words."""

from __future__ import annotations

from raysweep.analyses.against_theory import shares, verdict
from raysweep.analyses.finding import Finding
from raysweep.analyses.rows import varying
from raysweep.numbers import alike, at_most, number
from raysweep.phrases import some_of
from raysweep.report.names import settings, unit_of
from raysweep.report.phrases import IN_X
from raysweep.workloads.declaration import Workload

FEWEST = 6
"""The fewest estimates of which it is worth a word that all lie on one side of theory."""


def theory_words(finding: Finding, workload: Workload) -> list[str]:
    """Whether theory agrees, and how far it is from estimates, the longest form first; empty without a theory."""
    if not (theory := verdict(finding)):
        return []
    angles = _in_degrees(finding, workload)
    far = f"{at_most(theory.apart if angles else 100 * theory.share)}{'°' if angles else ' %'}"
    near, every = angles or not theory.near_zero, theory.every
    if every == 0:
        if theory.agrees:
            return ["theory agrees"]
        differs = f"theory differs by at most {far}" if near else "theory differs"
        return [differs] * (finding.kind != "curves")  # values near 0 differ by any share
    if every == 1:
        return [f"theory {'agrees' if theory.agrees else 'differs'} ({number(theory.value)})"]
    if not theory.agrees:
        some = f"theory differs in {theory.outside} of {every}"
        return [f"{some}, by at most {far}"] * near + [some]
    if not near:
        return ["theory agrees"]
    noun = "means" if finding.kind == "curves" else "estimates"
    inside = some_of(every - theory.outside, every, "interval")
    side = f", all {noun} {'above' if theory.side > 0 else 'below'} it" * (every >= FEWEST and theory.side != 0)
    within = f"theory agrees within {far}"
    return [*(f"{within} (inside {inside}{after})" for after in (side, "")), within, "theory agrees"]


def farthest(finding: Finding, workload: Workload) -> int | None:
    """The label of the row in which theory is farthest from an estimate; None without one."""
    table = finding.table
    far = (table["estimate"] - table["theory"]).abs() if _in_degrees(finding, workload) else shares(table)
    return int(far.idxmax()) if far.notna().any() else None


def farthest_words(finding: Finding, workload: Workload) -> str:
    """In which setting theory is farthest from an estimate, and both; empty if they read alike."""
    table, angles = finding.table, _in_degrees(finding, workload)
    if (at := farthest(finding, workload)) is None:
        return ""
    row = table.loc[at]
    where = settings({key: row[key] for key in varying(finding.keys, table)}, workload)
    estimate, theory = (f"{text}{'°' * angles}" for text in alike(row["estimate"], row["theory"]))
    return f"Theory is farthest for {where}: {theory}, measured {estimate}." * (theory != estimate)


def missed_words(finding: Finding) -> str:
    """How theory can agree although it lies outside of some intervals; empty if it lies in all or differs."""
    if not (said := verdict(finding)) or not said.agrees or not said.outside:
        return ""
    chance = number((1 - finding.level) * said.every, 1)
    some = f"{said.outside} of {said.every} intervals ({chance} expected)"
    return f"Theory misses {some}; settings share seeds, so they err alike."


def _in_degrees(finding: Finding, workload: Workload) -> bool:
    """Whether estimates are angles."""
    return unit_of(finding.x, workload) == "°" and finding.kind in IN_X
