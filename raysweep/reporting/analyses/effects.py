"""What matters for a metric, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from raysweep.analyses.effects import effects as effects
from raysweep.analyses.effects import importance as importance
from raysweep.numbers import number
from raysweep.report.names import markdown_table, plain

if TYPE_CHECKING:
    import pandas as pd


def effects_table(table: pd.DataFrame, shares: dict[str, float], metric: str) -> str:
    """The main effects as a table in Markdown: one line per axis, the most important first; empty without any."""
    if not len(table):
        return ""
    order = [*shares, *(key for key in dict.fromkeys(table["axis"]) if key not in shares)]
    rows: list[Mapping[str, Any]] = []
    for key in order:
        of_key = table[table["axis"] == key]
        first, last = of_key.iloc[0], of_key.iloc[-1]
        rows.append(
            {
                "axis": plain(key),
                **({"importance": percent(shares[key])} if shares else {}),
                "best at": number(first["axis_value"]),
                f"mean {plain(metric)} there": number(first["mean"]),
                "worst at": number(last["axis_value"]),
                f"mean {plain(metric)} at worst": number(last["mean"]),
            }
        )
    return markdown_table(rows)


def importance_words(shares: dict[str, float], most: int = 3) -> str:
    """The most important axes with their shares; empty without any."""
    said = [f"{plain(key)} {percent(share)}" for key, share in list(shares.items())[:most] if share >= 0.01]
    return f"what matters most: {', '.join(said)}" if said else ""


def percent(share: float) -> str:
    """A share as text."""
    return f"{100 * share:.0f} %"
