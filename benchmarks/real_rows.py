"""Real sweeps with hundreds of seeds: what a few of them say, held against all the others.

    python -m benchmarks.real_rows STORAGE

computes the sweeps through raysweep's own API, about an hour of one core, and keeps in benchmarks/real_rows.npz
what `benchmarks/real_fits.py` needs: groups of 3, 5 or 12 seeds (5 or 20 for zeros) on the grid that a user would
choose, and a reference for each, the place of the mean of all seeds that are not in the group, on a grid
four times as fine (on the same one for the language model, whose 16 seeds take half of the time).

The reference has an error of its own: where the noise moves the place, an interval that holds the true place in 95 %
holds the reference in 2Φ(1.96/√(1 + n/m)) - 1 of n seeds against m: 94.9 % of groups of 3, 94.4 % of groups of 12 of
240; 92.3 % of groups of 3 and 89.6 % of groups of 5 of the language model's 16.

All curves of a group share its seeds, and one unlucky group of 12 may miss most of its curves: so best rates of linear
networks have 960 seeds, 80 groups of a size, of which every third curve is fitted.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

import raysweep

ROWS = Path(__file__).with_name("real_rows.npz")
FINE = 8001


@dataclass(frozen=True)
class Curves:
    """Curves of one sweep.

    kind: optimum, inflection or zero.
    by: the parameters that tell the curves apart. step: every how manyeth x a user's grid has; the others serve the
    reference alone. groups: sizes of groups of seeds. most: groups of a size, if the seeds suffice. kept: seeds of
    which groups are made. apart: every how manyeth curve is fitted, of curves whose seeds are the same.
    """

    sweep: str
    kind: str
    metric: str
    x: str
    by: tuple[str, ...]
    step: int = 1
    groups: tuple[int, ...] = (3, 5, 12)
    most: int = 20
    kept: int = 240
    apart: int = 1
    logarithmic: bool = True


SWEEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "real_rates": (
        "four_axes",
        {"axes": {"overlap_angle": [60], "finetune_lr": {"geomspace": [0.0005, 0.256, 37]}}, "seeds": 960},
    ),
    "real_turns": (
        "overtraining_linear",
        {
            "axes": {
                "noise": [0.2, 0.25, 0.3, 0.35, 0.4, 0.5],
                "finetune_steps": [0] * 6,
                "finetune_lr": [0.01] * 6,
                "penalty": [0] * 6,
            },
            "seeds": 240,
        },
    ),
    "real_language": (
        "overtraining_language_tiny",
        {"axes": {"pretrain_length": [65536, 131072, 262144]}, "seeds": 16},
    ),
    "real_zeros": (
        "transfer_phase_diagram",
        {
            "axes": {"overlap_angle": {"linspace": [4.5, 90, 77]}, "gamma": {"linspace": [0.1, 0.9, 9]}},
            "fixed": {"symmetric": False},
            "seeds": 400,
        },
    ),
}
SETS: dict[str, Curves] = {
    "linear networks: best rates": Curves(
        *("real_rates", "optimum", "risk_finetune", "finetune_lr", ("depth", "pretrain_length"), 4),
        most=80,
        kept=960,
        apart=3,
    ),
    "linear networks: source loss": Curves(
        "real_turns", "inflection", "pretrain_loss_after", "pretrain_length", ("noise",), step=4, kept=120
    ),
    "linear networks: target loss": Curves(
        "real_turns", "inflection", "finetune_loss", "pretrain_length", ("noise",), step=4, kept=120
    ),
    "language model: best rates": Curves(
        "real_language", "optimum", "finetune_loss_validation", "finetune_lr", ("pretrain_length",), groups=(3, 5)
    ),
    "linear networks: zeros": Curves(
        *("real_zeros", "zero", "transferability_finetune", "overlap_angle", ("gamma",), 4, (5, 20), 200),
        logarithmic=False,
    ),
}


def run(storage: Path) -> None:
    """Compute the sweeps; what is there already stays."""
    for name, (space, changes) in SWEEPS.items():
        raysweep.run(
            space, **changes, name=name, storage=str(storage), tracking_uri="none", executor="inline", report=False
        )


def values_of(curves: Curves, storage: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each curve x (points,) and values (seeds, points), NaN where a row is not ok."""
    rows = raysweep.open(curves.sweep, storage=str(storage)).results()
    rows = rows.assign(**{curves.metric: rows[curves.metric].where(rows["status"] == "ok")})
    found = {}
    for values, part in rows.groupby(list(curves.by), sort=True):
        table = part.pivot_table(index="seed", columns=curves.x, values=curves.metric, aggfunc="mean", dropna=False)
        label = ", ".join(f"{name} {value:.4g}" for name, value in zip(curves.by, values, strict=True))
        found[label] = table.columns.to_numpy(dtype=float), table.to_numpy(dtype=float)
    return found


def place_of(kind: str, u: np.ndarray, mean: np.ndarray) -> float:
    """The lowest place, or the zero, of a mean curve, by a cubic spline through its points; NaN if it lies at an edge
    or there is none. A zero that is not the only one is that of the steepest crossing."""
    fine = np.linspace(u[0], u[-1], FINE)
    curve = CubicSpline(u, mean)(fine)
    if kind != "zero":
        k = int(np.argmin(curve))
        return float(fine[k]) if u[0] < fine[k] < u[-1] and 0 < np.argmin(mean) < len(u) - 1 else np.nan
    at = np.flatnonzero(curve[:-1] * curve[1:] < 0)
    return float(fine[at[np.argmax(np.abs(curve[at + 1] - curve[at]))]]) if len(at) else np.nan


def groups_of(seeds: int, size: int, most: int) -> list[np.ndarray]:
    """The seeds of each group, of `most` at most: each seed is in one group of a size."""
    return [np.arange(size * k, size * (k + 1)) for k in range(min(seeds // size, most))]


def pack(storage: Path, path: Path) -> None:
    """Keep what the fits need: of each curve the coarse grid's means and the deviations of the seeds, in half precision
    of the largest one, and the reference of each group."""
    kept: dict[str, Any] = {}
    for name, curves in SETS.items():
        found = values_of(curves, storage)
        x = next(iter(found.values()))[0]
        u = np.log(x) if curves.logarithmic else x
        values = np.stack([each for _, each in found.values()])
        if not np.isfinite(values).all():
            raise ValueError(f"{curves.sweep}: rows are missing or not ok")
        mean, seeds = values.mean(axis=1), min(curves.kept, values.shape[1])
        deviations = (values[:, :seeds] - mean[:, None])[:, :, :: curves.step]
        scale = np.abs(deviations).max(axis=(1, 2))
        kept |= {f"{name}, labels": np.array(list(found)), f"{name}, x": x[:: curves.step]}
        kept |= {f"{name}, mean": mean[:, :: curves.step], f"{name}, scale": scale}
        kept[f"{name}, deviations"] = (deviations / scale[:, None, None]).astype(np.float16)
        for size in curves.groups:
            kept[f"{name}, reference {size}"] = [
                [
                    place_of(curves.kind, u, np.delete(every, group, axis=0).mean(axis=0))
                    for group in groups_of(seeds, size, curves.most)
                ]
                for every in values
            ]
    np.savez_compressed(path, allow_pickle=False, **kept)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
    pack(Path(sys.argv[1]), ROWS)
