"""Arguments and options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from raysweep.driver.options import EXECUTORS, ON_CODE_CHANGE


def _not_nan(context: click.Context, parameter: click.Parameter, hours: float | None) -> float | None:
    if hours is not None and hours != hours:
        raise click.BadParameter(f"{hours} is not in the range x>0.")
    return hours


SETS = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change any key of the space by its dotted path; VALUE is YAML, null removes the key. "
    "Example: --set axes.depth=[1,2,5]",
)
STORAGE = click.option(
    "--storage",
    default="sweeps",
    show_default=True,
    metavar="DIR",
    help="Folder that holds the sweeps, or s3://BUCKET/PREFIX or gs://BUCKET/PREFIX.",
)
STORE = click.option(
    "--store", metavar="URL", help="The stage store: a folder, s3://, gs:// … [default: STORAGE/store]."
)
TRACKING = click.option(
    "--tracking-uri",
    metavar="URI|none",
    help="MLflow to mirror into [default: sqlite database STORAGE/mlflow.db; ./mlflow.db of this "
    "machine where STORAGE is a bucket].",
)
WORKLOAD = click.option(
    "--workload",
    metavar="FILE.py:NAME",
    help="The function of the sweep, if it is a Python function; its source must be unchanged [default: where your own "
    "run found it].",
)
YES = click.option("--yes", is_flag=True, help="Do not ask. Needed without a terminal.")
SWEEP = click.argument("sweep", metavar="SWEEP")
SWEEPS = click.argument(  # each once: rows of a sweep that is named twice would be there twice
    "sweeps", metavar="SWEEP...", nargs=-1, required=True, callback=lambda *found: tuple(dict.fromkeys(found[-1]))
)
HOW_TO_RUN = (  # keywords of raysweep.driver.options.Options
    STORAGE,
    STORE,
    TRACKING,
    click.option(
        "--workers", type=click.IntRange(min=1), metavar="N", help="Trials at a time on Ray [default: as many as fit]."
    ),
    click.option(
        "--executor",
        type=click.Choice(EXECUTORS),
        help="Ray Tune, or this process [default: this process up to about 20 s of work].",
    ),
    click.option(
        "--max-hours",
        type=click.FloatRange(min=0, min_open=True),
        callback=_not_nan,
        metavar="H",
        help="Stop in time, resumable: packs that, going by those that ended, would take too long are "
        "not started, and what still runs at the end is given up.",
    ),
    click.option(
        "--on-code-change",
        type=click.Choice(ON_CODE_CHANGE),
        default="reuse",
        show_default=True,
        help="What to do with rows and stages that older code computed.",
    ),
    click.option("--no-report", is_flag=True, help="Leave the report to `raysweep report`."),
)


def how_to_run(function: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command with the options of running a sweep. The command receives them as keyword arguments."""

    @functools.wraps(function)
    def command(no_report: bool, **options: Any) -> None:
        function(report=not no_report, **options)

    for option in reversed(HOW_TO_RUN):
        command = option(command)
    return command
