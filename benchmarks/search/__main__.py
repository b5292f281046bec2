"""What it takes to locate every zero, or every best value, with a precision: searches replayed from rows of a pool.

    python -m benchmarks.search POOLS [--workers 2] [--only QUESTION ...] [--replications 100] [--write docs/search.md]

POOLS is a folder: the rows of each question are computed there once, through raysweep, and kept. Every replication
takes its draws from the pool at random, with replacement, so the mean of all rows of the pool is the truth. The same
numbers everywhere, but for the seconds: every replication has a random seed of its slice_. What is measured is kept in
POOLS too, and with --continue it is not measured again.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.search.contestants import CONTESTANTS, Result, World
from benchmarks.search.places import Answer, floor, half_width, true_places
from benchmarks.search.pools import Pool, load
from benchmarks.search.questions import MOST, questions
from benchmarks.shares import interval_of_share, markdown
from raysweep.plan.cost import estimate

OTHERS = 100  # of so many replications of ours, one is done of the other searches too
NAMES = {
    "grid": "grid",
    "bisection": "`search: boundary` or `optimum`",
    "random": "random",
    "straddle": "straddle",
    "ours": "`precision`",
}
MARK = "<!-- Below this line: written by make bench-search. -->\n"
WITHIN = 1.001  # an interval is as narrow as asked for up to the rounding of its ends


@functools.lru_cache(maxsize=1)
def prepared(key: str, folder: Path) -> tuple[Pool, np.ndarray]:
    """The pool of a question and its true places."""
    pool = load(questions()[key], folder)
    return pool, true_places(pool)


def draws_of_slices(pool: Pool, counts: np.ndarray) -> int:
    """How many draws the slices take together: what a search costs where a draw is cheap to share along the axis."""
    return sum(int(counts[list(slice_.cells)].max()) for slice_ in pool.slices)


def declared_seconds(pool: Pool, counts: np.ndarray) -> float:
    """What the rows cost on one core, as their workload declares it. counts: the draws of each cell, (cells,)."""
    rows = {draw: np.flatnonzero(counts > draw) for draw in range(int(counts.max()))}
    return estimate(pool.space.declaration, pool.cells, rows, pool.space.keep)[0]


def replicate(key: str, folder: Path, name: str, number: int) -> dict[str, Any]:
    """One replication of one search: what it took, and whether its intervals hold the true places."""
    pool, places = prepared(key, folder)
    sought = np.isfinite(places)
    rng = np.random.default_rng([number, 14])
    world = World(pool, pool.values[rng.integers(len(pool.values), size=MOST)], sought)
    started = time.process_time()
    result = CONTESTANTS[name](world, rng)
    seconds = time.process_time() - started
    return {"search": name, "number": number, "choosing": seconds, **judged(pool, places, result)}


def judged(pool: Pool, places: np.ndarray, result: Result) -> dict[str, Any]:
    """What a search took and result. Slices without a place count only by their rows.

    places: the true ones, (slices,), NaN where there is none.
    """
    each = [
        (slice_, answer, place)
        for slice_, answer, place in zip(pool.slices, result.answers, places, strict=True)
        if np.isfinite(place)
    ]

    def holds(answer: Answer | None, place: float, ends: tuple[str, str]) -> bool:
        return answer is not None and getattr(answer, ends[0]) <= place <= getattr(answer, ends[1])

    strict = [holds(answer, place, ("low_strict", "high_strict")) for _, answer, place in each]
    return {
        "rows": int(result.counts.sum()),
        "draws": draws_of_slices(pool, result.counts),
        "declared": declared_seconds(pool, result.counts),
        "within": float(np.mean([half_width(slice_, answer) <= WITHIN * slice_.wanted for slice_, answer, _ in each])),
        "pointwise": float(np.mean([holds(answer, place, ("low", "high")) for _, answer, place in each])),
        "all": float(all(strict)),
    }


def measured(key: str, folder: Path, jobs: Sequence[tuple[str, int]], workers: int, go_on: bool) -> pd.DataFrame:
    """One row per replication of the jobs, (search, number). go_on: those in the folder are not measured again."""
    kept = folder / f"{key}.csv"
    earlier = pd.read_csv(kept) if go_on and kept.exists() else pd.DataFrame({"search": [], "number": []})
    there = set(zip(earlier["search"], earlier["number"], strict=True))
    missing = [job for job in jobs if job not in there]
    one = functools.partial(replicate, key, folder)
    prepared(key, folder)  # before there are several processes
    if not missing:
        rows: Iterator[dict[str, Any]] = iter(())
    elif workers > 1:
        processes = ProcessPoolExecutor(workers)
        rows = processes.map(one, *zip(*missing, strict=True))
    else:
        rows = map(one, *zip(*missing, strict=True))
    table = earlier
    for row in rows:
        table = pd.concat([each for each in (table, pd.DataFrame([row])) if len(each)], ignore_index=True)
        table.to_csv(kept, index=False)  # after each of them, because a run may be ended
    wanted = pd.MultiIndex.from_tuples(jobs)
    return table[pd.MultiIndex.from_frame(table[["search", "number"]]).isin(wanted)]


def section(key: str, folder: Path, table: pd.DataFrame) -> str:
    """What is said of a question. table: the rows of `measured`."""
    pool, places = prepared(key, folder)
    least = floor(pool, places)
    lines = [
        {
            "search": "floor",
            "rows": f"{least.sum():,}",
            "x the floor": "1",
            "draws": f"{draws_of_slices(pool, least):,}",
            "core s, declared": f"{declared_seconds(pool, least):.1f}",
        }
    ]
    for name in [name for name in CONTESTANTS if name in set(table["search"])]:
        part = table[table["search"] == name]
        mean = part.mean(numeric_only=True)
        low, high = interval_of_share(int(part["all"].sum()), len(part))
        lines.append(
            {
                "search": NAMES[name],
                "rows": f"{mean['rows']:,.0f}",
                "x the floor": f"{mean['rows'] / least.sum():.2f}",
                "draws": f"{mean['draws']:,.0f}",
                "core s, declared": f"{mean['declared']:.1f}",
                "s to choose": f"{mean['choosing']:.2f}",
                "narrow enough": f"{mean['within']:.3f}",
                "each covered": f"{mean['pointwise']:.3f}",
                "all covered": f"{mean['all']:.3f} ({low:.2f} to {high:.2f})",
                "replications": f"{len(part)}",
            }
        )
    there = f"{len(pool.cells)} cells, {len(pool.slices)} slices, {int(np.isfinite(places).sum())} of them with a place"
    return f"### {questions()[key].title}\n\n{there}.\n\n{markdown(pd.DataFrame(lines).fillna(''))}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="POOLS")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=list(questions()), default=list(questions()))
    parser.add_argument("--searches", nargs="*", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--replications", type=int, default=100, help="of ours; a hundredth of it of the others")
    parser.add_argument("--continue", dest="go_on", action="store_true", help="keep what an earlier run has measured")
    parser.add_argument("--write", type=Path, help="the document in which the tables stand, instead of the terminal")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    sections = []
    for key in options.only:
        jobs = [
            (name, number)
            for name in options.searches
            for number in range(options.replications if name == "ours" else max(1, options.replications // OTHERS))
        ]
        sections.append(
            section(key, options.folder, measured(key, options.folder, jobs, options.workers, options.go_on))
        )
        if not options.write:
            print(sections[-1], flush=True)
    if options.write:
        before = options.write.read_text().split(MARK)[0]
        options.write.write_text("\n".join([before + MARK + "\n", *sections]))


if __name__ == "__main__":
    main()
