"""The command line. Also the file that `ray submit` copies alone to a cluster, so it only imports what is installed."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":  # as a script, Python puts this file's own folder first on the path: modules are not there
    _HERE = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]

import json
import shutil
from collections.abc import Callable
from typing import Any

try:
    import click

    import raysweep
    from raysweep import terminal
    from raysweep.driver import signals
    from raysweep.errors import InputError, RaysweepError, unknown
except ModuleNotFoundError as missing:
    sys.exit(
        f"raysweep: {missing.name} is not installed for {sys.executable}; install raysweep there "
        "(pip install raysweep) and try again"
    )

VERSION = "0.1.0"  # of this file: a copy may meet another version of the package


class _Hours(click.FloatRange):
    """Hours above 0, for which click would take nan too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; a usage error for anything else."""
        hours = super().convert(value, param, ctx)
        return hours if hours > 0 else self.fail(f"{value} is not in the range x>0.", param, ctx)


STORAGE = click.option(
    "--storage",
    default="sweeps",
    show_default=True,
    metavar="DIR",
    help="Folder that holds the sweeps, or s3://BUCKET/PREFIX or gs://BUCKET/PREFIX.",
)
TRACKING = click.option(
    "--tracking-uri",
    metavar="URI|none",
    help="MLflow to mirror into [default: sqlite database STORAGE/mlflow.db; ./mlflow.db of this "
    "machine where STORAGE is a bucket].",
)
WORKERS = click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Trials at a time on Ray [default: as many as fit]."
)
EXECUTOR = click.option(
    "--executor",
    type=click.Choice(["ray", "inline"]),
    help="Ray Tune, or this process [default: this process up to about 20 s of work].",
)
ON_CODE_CHANGE = click.option(
    "--on-code-change",
    type=click.Choice(["reuse", "recompute", "refuse"]),
    default="reuse",
    show_default=True,
    help="What to do with rows and stages that older code computed.",
)
MAX_HOURS = click.option(
    "--max-hours",
    type=_Hours(min=0, min_open=True),
    metavar="H",
    help="Stop in time, resumable: packs that, going by those that ended, would take too long are "
    "not started, and what still runs at the end is given up.",
)
STORE = click.option(
    "--store", metavar="URL", help="The stage store: a folder, s3://, gs:// … [default: STORAGE/store]."
)
NO_REPORT = click.option("--no-report", is_flag=True, help="Leave the report to `raysweep report`.")


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Start with: raysweep run quickstart",
)
@click.version_option(raysweep.__version__, prog_name="raysweep")
def cli() -> None:
    """How does what you get after fine-tuning depend on pretraining length, fine-tuning rate, depth and overlap angle,
    and where does it tip over? raysweep runs the grid, records it in MLflow and reports the boundary with error bars.
    """


@cli.command()
@click.argument("space", metavar="SPACE")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change any key of the space by its dotted path; VALUE is YAML, null removes the key. "
    "Example: --set axes.depth=[1,2,5]",
)
@click.option("--name", metavar="N", help="Name of the sweep [default: the space's name].")
@STORAGE
@STORE
@TRACKING
@WORKERS
@EXECUTOR
@MAX_HOURS
@click.option(
    "--runs-per",
    type=click.Choice(["cell", "pack", "sweep"]),
    help="What has a run of its own in MLflow [default: cell; above 5,000 cells packs of 250 cells].",
)
@ON_CODE_CHANGE
@NO_REPORT
@click.option("--yes", is_flag=True, help="Go ahead with 1,000,000 rows and more.")
@click.option("--dry-run", is_flag=True, help="Say what would be computed, how long and how large; compute nothing.")
def run(
    space: str,
    sets: tuple[str, ...],
    name: str | None,
    storage: str,
    store: str | None,
    tracking_uri: str | None,
    workers: int | None,
    executor: str | None,
    max_hours: float | None,
    runs_per: str | None,
    on_code_change: str,
    no_report: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Run SPACE (a path, or the name of a packaged space) to its end.

    A sweep of that name that exists is continued; with more seeds or more values on an axis it is extended.
    """
    from raysweep import sweep
    from raysweep.commands import dry_run as dry
    from raysweep.driver import driver

    changes = _sets(sets)
    if dry_run:
        options = driver.Options(executor, workers, on_code_change)
        click.echo("\n".join(dry.describe(sweep.read(space, changes, {}), name, storage, options, yes, store)))
        return
    _finish(
        sweep.run(
            space,
            set=changes,
            name=name,
            storage=storage,
            store=store,
            tracking_uri=tracking_uri,
            workers=workers,
            executor=executor,
            max_hours=max_hours,
            runs_per=runs_per,
            report=not no_report,
            yes=yes,
            on_code_change=on_code_change,
        )
    )


@cli.command()
@click.argument("sweep_name", metavar="SWEEP")
@STORAGE
@STORE
@TRACKING
@WORKERS
@EXECUTOR
@MAX_HOURS
@ON_CODE_CHANGE
@NO_REPORT
def resume(
    sweep_name: str,
    storage: str,
    store: str | None,
    tracking_uri: str | None,
    workers: int | None,
    executor: str | None,
    max_hours: float | None,
    on_code_change: str,
    no_report: bool,
) -> None:
    """Compute what SWEEP still lacks, and once more what failed."""
    from raysweep import sweep

    _finish(
        sweep.resume(
            sweep_name,
            storage=storage,
            store=store,
            tracking_uri=tracking_uri,
            workers=workers,
            executor=executor,
            max_hours=max_hours,
            report=not no_report,
            on_code_change=on_code_change,
        )
    )


@cli.command()
@click.argument("sweep_name", metavar="SWEEP")
@STORAGE
@TRACKING
def sync(sweep_name: str, storage: str, tracking_uri: str | None) -> None:
    """Replay SWEEP's ledger into MLflow; what is there already stays as it is."""
    from raysweep import sweep

    found = sweep.sync(sweep_name, storage=storage, tracking_uri=tracking_uri)
    terminal.say(f"{found.name}: mirrored")


@cli.command("list")
@STORAGE
def list_sweeps(storage: str) -> None:
    """The sweeps in the storage, one a line."""
    from raysweep.commands import status
    from raysweep.storage import paths

    click.echo("\n".join(status.overview(paths.storage(storage))))


@cli.command("status")
@click.argument("sweep_name", metavar="SWEEP")
@STORAGE
@TRACKING
@click.option("--watch", is_flag=True, help="Look again every two seconds until nobody works on it any more.")
def show_status(sweep_name: str, storage: str, tracking_uri: str | None, watch: bool) -> None:
    """How far SWEEP is, how fast, what it used, what runs where, what failed and why, and what to do next."""
    from raysweep import sweep
    from raysweep.commands import status

    found = sweep.open_sweep(sweep_name, storage)
    for lines in status.watch(found) if watch else [status.details(found)]:
        if watch and sys.stdout.isatty():
            click.clear()
        click.echo("\n".join(lines))
    status.settle(found, tracking_uri)


@cli.command()
@click.argument("sweep_names", metavar="SWEEP...", nargs=-1, required=True)
@click.option("--format", "kind", type=click.Choice(["csv", "json", "parquet"]), default="csv", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="File to write [default: stdout].")
@STORAGE
def results(sweep_names: tuple[str, ...], kind: str, output: str | None, storage: str) -> None:
    """The rows of one or several sweeps as a tidy table, in plan order, then by seed."""
    import pandas

    from raysweep import sweep
    from raysweep.ledger import results as table
    from raysweep.storage import paths

    tables = []
    for entry in [sweep.open_sweep(name, storage) for name in sweep_names]:
        state = entry.state()
        for path in state.damaged:
            terminal.say(
                f"{entry.name}: {path.name} is damaged and left out; `raysweep resume {entry.name}` computes "
                "its rows again"
            )
        if state.outdated:
            terminal.say(f"{entry.name}: {state.outdated}; `raysweep resume {entry.name}` computes its rows")
        tables.append(entry.results(state))
    frame = pandas.concat(tables, ignore_index=True)
    if output is None:
        sys.stdout.buffer.write(table.dump(frame, kind))
    else:
        _writing(output, lambda: table.write(frame, kind, paths.locate(output)))


@cli.command()
@click.argument("sweep_names", metavar="SWEEP...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="DIR", help="Folder to write [default: STORAGE/SWEEP/report].")
@STORAGE
def report(sweep_names: tuple[str, ...], output: str | None, storage: str) -> None:
    """Fit, draw and write the report of one or several sweeps of one workload."""
    from raysweep import sweep

    written = _writing(
        output or "report", lambda: sweep.report([sweep.open_sweep(name, storage) for name in sweep_names], output)
    )
    for line in (*written.headline, f"report: {written.directory / 'report.html'}"):
        click.echo(line)


@cli.command()
@click.argument("sweep_name", metavar="SWEEP")
@click.argument("cell", metavar="CELL")
@click.argument("seed", metavar="[SEED]", type=int, required=False)
@STORAGE
def debug(sweep_name: str, cell: str, seed: int | None, storage: str) -> None:
    """Compute one row in this process, its traceback at home. CELL is the hash of a cell, or its beginning."""
    from raysweep import sweep
    from raysweep.commands import status

    click.echo(json.dumps(status.one_row(sweep.open_sweep(sweep_name, storage), cell, seed), indent=1))


@cli.command()
@click.argument("sweep_name", metavar="SWEEP")
@STORAGE
@TRACKING
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(sweep_name: str, storage: str, tracking_uri: str | None, yes: bool) -> None:
    """Delete SWEEP: its rows and report here, and its runs in MLflow (which keeps them in its trash)."""
    from raysweep import sweep
    from raysweep.commands import status

    found = sweep.open_sweep(sweep_name, storage, to_delete=True)
    if not yes and sys.stdin.isatty():
        click.confirm(f"delete {found.name} ({sum(found.statuses().values()):,} rows)?", abort=True)
    status.delete(found, tracking_uri)
    terminal.say(f"{found.name}: deleted")


@cli.command("workloads")
@click.argument("name", metavar="[NAME]", required=False)
def show_workloads(name: str | None) -> None:
    """The workloads, or one with its parameters, units, defaults and metrics."""
    from raysweep import workloads
    from raysweep.commands import status

    if name is None:
        for entry in workloads.names():
            click.echo(f"{entry:18} {workloads.get(entry).summary}")
    elif name not in workloads.names():
        raise unknown(name, "workload", name, workloads.names())
    else:
        click.echo("\n".join(status.declaration(workloads.get(name))))


@cli.command("spaces")
def show_spaces() -> None:
    """The packaged spaces: each asks one question and can be run by its name."""
    from raysweep.commands import status
    from raysweep.space import packaged

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    asked = {name: status.first_comment(path) for name, path in packaged.spaces().items()}
    click.echo("\n".join(status.listed(asked, 34, width)))


@cli.group("store")
def store_group() -> None:
    """What the stages of all sweeps left behind: trained weights, each computed once."""


@store_group.command("list")
@STORAGE
@STORE
def store_list(storage: str, store: str | None) -> None:
    """The stored stages: size, age, which sweeps refer to them, and what is damaged or under way."""
    from raysweep.commands import store_commands

    click.echo("\n".join(store_commands.overview(store_commands.open_store(storage, store))))


@store_group.command("verify")
@STORAGE
@STORE
def store_verify(storage: str, store: str | None) -> None:
    """Compare every byte with its checksum; damaged stages are set aside (exit code 1)."""
    from raysweep.commands import store_commands

    lines, well = store_commands.verify(store_commands.open_store(storage, store))
    click.echo("\n".join(lines))
    if not well:
        sys.exit(1)


@store_group.command("prune")
@click.argument("stages", metavar="[STAGE]...", nargs=-1)
@STORAGE
@STORE
@click.option("--referred", is_flag=True, help="Also those of the named STAGEs that a sweep refers to.")
@click.option("--damaged", is_flag=True, help="Also what was set aside as damaged or superseded.")
@click.option("--dry-run", is_flag=True, help="Say what would go; take nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def store_prune(
    stages: tuple[str, ...], storage: str, store: str | None, referred: bool, damaged: bool, dry_run: bool, yes: bool
) -> None:
    """Delete stages that no sweep refers to, and leftovers of crashes; or only the STAGEs named."""
    from raysweep.commands import store_commands

    found = store_commands.open_store(storage, store)
    if not dry_run and not yes and sys.stdin.isatty():
        click.echo("\n".join(store_commands.prune(found, stages, referred=referred, damaged=damaged, dry_run=True)))
        click.confirm("prune these?", abort=True)
    click.echo("\n".join(store_commands.prune(found, stages, referred=referred, damaged=damaged, dry_run=dry_run)))


def _sets(pairs: tuple[str, ...]) -> dict[str, Any]:
    from raysweep.space import yaml_reader

    changes = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise InputError(f"--set {pair}", "expected KEY=VALUE, such as axes.depth=[1,2,5]")
        changes[key] = yaml_reader.parse(text, f"--set {key}", below=key)
    return changes


def _finish(found: Any) -> None:
    """Exit 1, with the failures counted and listed, if some rows failed."""
    failures = found.failures()
    signals.leave_when_told(1 if failures else 0)
    if not failures:
        return
    terminal.say(f"{found.name}: {len(failures):,} of {sum(found.statuses().values()):,} rows failed")
    for row in failures[:10]:
        reason = row.get("error", "").strip().splitlines()
        terminal.say(f"  cell {row['cell']} seed {row['seed']}: {reason[-1] if reason else 'no reason kept'}")
    first = failures[0]
    terminal.say(
        f"look at one with: raysweep debug {found.name} {first['cell']} {first['seed']} --storage {found.folder.parent}"
    )
    sys.exit(1)


def _writing(target: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except OSError as error:
        raise InputError(target, f"cannot be written: {error.strerror or error}") from None


def _traceback_without_credentials(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """What Python prints of an error that nobody expected; it may quote an address with a password."""
    import traceback

    from raysweep.redaction import redact

    sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))


def main(arguments: list[str] | None = None) -> None:
    """The command `raysweep`: exit codes 0 done, 1 some rows failed, 2 bad input, 130 interrupted and resumable."""
    if raysweep.__version__ != VERSION:
        sys.exit(
            f"raysweep: this main.py is of version {VERSION}, the installed package of {raysweep.__version__}; "
            "use files of one version (reinstall the package, or copy its own main.py)"
        )
    arguments = sys.argv[1:] if arguments is None else arguments
    terminal.open_streams()
    sys.excepthook = _traceback_without_credentials
    try:
        for argument in arguments:
            if "\0" in argument:  # from a caller in Python: no shell can say it, and no file is called so
                raise InputError(argument.partition("=")[0], "expected a text without NUL characters")
        cli.main(arguments, prog_name="raysweep", standalone_mode=False)
    except RaysweepError as error:
        terminal.say(str(error))
        sys.exit(2)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.exceptions.NoSuchCommand as error:
        terminal.say(str(unknown(error.command_name, "command", error.command_name, sorted(cli.commands))))
        sys.exit(2)
    except click.UsageError as error:
        parameter = getattr(error, "param", None)
        path = (
            parameter.opts[0]
            if parameter is not None and parameter.opts[0].startswith("-")
            else getattr(error, "option_name", None) or (parameter.human_readable_name if parameter else "")
        )
        terminal.say(str(InputError(path, error.format_message().removeprefix(f"{path}: "))))
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        signals.leave_soon()
        sys.exit(signals.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


if __name__ == "__main__":
    if os.path.dirname(os.path.abspath(__file__)) != os.path.dirname(os.path.abspath(raysweep.__file__)):
        os.environ.setdefault("RAY_ADDRESS", "auto")  # the copy that `ray submit` makes runs on the head of a cluster
    main()
