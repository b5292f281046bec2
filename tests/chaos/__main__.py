"""`python -m tests.chaos`: disturb small sweeps, resume them, and hold what came out against undisturbed ones.

Every kind of sweep has a process of its own (those on Ray share one), so that they get in each other's way as on a
machine that is used.
"""

import argparse
import importlib.metadata
import multiprocessing
import os
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.chaos.damages import DAMAGES
from tests.chaos.faults import LIVES
from tests.chaos.sweeps import KINDS, ON_RAY
from tests.chaos.world import Tally, work


def main():
    """The long run: exit code 0 if nothing was lost, doubled, orphaned or in need of a hand."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=60, help="stop after so many")
    parser.add_argument("--minutes", type=float, default=13.0, help="start no further sweep after so many")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--report", type=Path, help="write the result there, as Markdown")
    asked = parser.parse_args()
    started = time.monotonic()
    share = -(-asked.faults // len(asked.kinds))
    groups = [[kind] for kind in asked.kinds if kind not in ON_RAY]
    if on_ray := [kind for kind in asked.kinds if kind in ON_RAY]:
        groups.append(on_ray)  # one Ray for all of them
    with ProcessPoolExecutor(len(groups), multiprocessing.get_context("spawn")) as pool:
        tally = sum(pool.map(partial(work, asked.seed, share, asked.minutes), groups), start=Tally())
    text = report(tally, asked, time.monotonic() - started)
    print(text)
    if asked.report:
        asked.report.write_text(text)
    sys.exit(not tally.well)


def report(tally, asked, seconds):
    totals = {
        "faults injected": tally.faults,
        "what undisturbed sweeps leave behind and these do not, or otherwise": tally.differences.total(),
        "manual repairs": tally.counts["repairs"],
        "ends not as they should be": len(tally.complaints),
        **tally.differences,
    }
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("ray", "mlflow", "torch", "numpy"))
    count = tally.counts
    lines = [
        "# What faults leave behind",
        "",
        "Small sweeps are disturbed at random moments, resumed, and held against the same sweep left alone: every "
        "column of every row but `seconds` (exactly; in `mirror`, where packs are cut otherwise after a fault, to "
        "1e-9), every point of its learning curves (but for those of a stage that a fault has damaged and that no "
        "later row needs again), and in MLflow one finished run a cell with the same metrics. In "
        "`staged` and `scheduled`, the store must hold every distinct stage once; no stage may begin that is there "
        "whole, or that a living process has begun. `tests/chaos/` is the program.",
        "",
        f'    make chaos CHAOS="--seed {asked.seed} --faults {asked.faults} --minutes {asked.minutes:g} '
        f'--kinds {" ".join(asked.kinds)}"',
        "",
        f"{count['sweeps']} sweeps ({count['row']:,} rows, {count['stage']:,} stages, "
        f"{count['run'] + count['parent']:,} runs in MLflow), {count['drivers']} lives of drivers, "
        f"{seconds / 60:.0f} minutes on {os.cpu_count()} cores; {platform.system()}, "
        f"Python {platform.python_version()}, {versions}.",
        "",
        "| | |",
        "|:---|---:|",
        *(f"| {name} | {count} |" for name, count in totals.items()),
        "",
        f"| fault | {' | '.join(asked.kinds)} |",
        f"|:---|{'---:|' * len(asked.kinds)}",
    ]
    for name in (*LIVES, *DAMAGES):
        counts = [tally.injected[kind, name] for kind in asked.kinds]
        if any(counts):
            lines.append(f"| {name} | {' | '.join(str(count or '') for count in counts)} |")
    lines += [
        "",
        "`rows`: 24 rows that take a while, in this process, mirrored into SQLite; "
        "`staged`: 24 rows of four stages, in this process, and then a sweep that shares some of these stages; "
        "`ray`: `rows` on Ray with two workers; "
        "`server`: `rows`, mirrored to an MLflow server that stays away at the end until `raysweep sync`; "
        "`mirror`: 32 cells of linear_transfer, most of whose time goes to MLflow; `language`: pretrainings kept "
        "in the stage store and fine-tuned.",
    ]
    lines += ["", *(f"- {text}" for text in tally.complaints)] if tally.complaints else []
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
