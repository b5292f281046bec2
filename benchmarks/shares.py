"""Shares with their uncertainty, and tables of them as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import beta

SHARES = ("located", "covers", "coverage", "at 68 %", "bounds hold", "right", "wrong", "undetermined")


def interval_of_share(hits: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """The exact (Clopper-Pearson) confidence interval of a share, from `hits` of `count`."""
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, hits, count - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, count - hits)) if hits < count else 1.0
    return low, high


def stretched(table: pd.DataFrame, factor: float) -> float:
    """The coverage of located places if both sides of their intervals were `factor` times as long."""
    found = table[table["status"] == "located"]
    low = found["estimate"] - factor * (found["estimate"] - found["low"])
    high = found["estimate"] + factor * (found["high"] - found["estimate"])
    return float(((low <= found["turn"]) & (found["turn"] <= high)).mean())


def line_of(part: pd.DataFrame) -> dict[str, float | int | str]:
    """Of some curves: how many, the share located, the coverage with its interval, the median width, and the median of
    the ratio of width to before where both locate (NaN without columns of before)."""
    found = part[part["status"] == "located"]
    hits, count = int(found["covers"].sum()), len(found)
    low, high = interval_of_share(hits, count) if count else (np.nan, np.nan)
    line: dict[str, float | int | str] = {
        "curves": len(part),
        "located": count / len(part) if len(part) else np.nan,
        "coverage": hits / count if count else np.nan,
        "its 95 % interval": f"{low:.2f} to {high:.2f}" if count else "–",
        "median width": float((found["high"] - found["low"]).median()) if count else np.nan,
    }
    if "before_status" in part:
        known = part[part["before_status"].notna()]
        line["located before"] = float((known["before_status"] == "located").mean())
        line["width / before"] = width_ratio(part)
    return line


def width_ratio(part: pd.DataFrame) -> float:
    """The median of width now over width before, of the curves that both locate; NaN if there is none."""
    both = part[(part["status"] == "located") & (part["before_status"] == "located")]
    ratio = (both["high"] - both["low"]) / (both["before_high"] - both["before_low"])
    return float(ratio.median()) if len(both) else np.nan


def lines_of(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """`line_of` for each setting of `by`, in the order in which they appear."""
    groups = table.groupby(list(by), sort=False)
    return pd.DataFrame([{**dict(zip(by, values, strict=True)), **line_of(part)} for values, part in groups])


def markdown(table: pd.DataFrame) -> str:
    """A table as Markdown: shares with three digits, other numbers with two."""
    rows = [" | ".join(table.columns)]
    for row in table.to_dict("records"):
        rows.append(" | ".join(cell(str(name), value) for name, value in row.items()))
    lines = [f"| {row} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(table.columns), *lines[1:]])


def cell(name: str, value: object) -> str:
    """One entry of a table."""
    if not isinstance(value, float):
        return str(value)
    if not np.isfinite(value):
        return "–"
    return f"{value:.3f}" if name in SHARES or name.startswith("located") else f"{value:.2f}"


@dataclass(frozen=True)
class Bar:
    """What is asked for and what was measured: the number lies in [low, high] or not."""

    what: str
    low: float
    high: float
    measured: float
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the measured number, as it is printed, lies in the asked range."""
        return self.low <= round(self.measured, 3) <= self.high

    def row(self) -> dict[str, str]:
        """One line of the table of bars."""
        if np.isinf(self.low) and np.isinf(self.high):
            return {"": self.what, "asked": "–", "measured": f"{self.measured:.3f}", "met": "–"}
        if self.low == -np.inf:
            asked = f"≤ {self.high:g}"
        else:
            asked = f"≥ {self.low:g}" if self.high == np.inf else f"{self.low:g} to {self.high:g}"
        number = f"{self.measured:.3f}" + (f" ({self.note})" if self.note else "")
        return {"": self.what, "asked": asked, "measured": number, "met": "yes" if self.met else "**no**"}
