"""The command line. `ray submit` copies this file alone to a cluster, so it imports only installed packages."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":  # Python puts a script's own folder first on the path; no import should look there
    _HERE = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]

import json
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from typing import Any

try:
    import click

    import raysweep
    from raysweep import commands, terminal
    from raysweep.commands.options import SETS, STORAGE, STORE, SWEEP, SWEEPS, TRACKING, WORKLOAD, YES, how_to_run
    from raysweep.driver import signal_handlers
    from raysweep.errors import InputError, RaysweepError, unknown
    from raysweep.phrases import place
    from raysweep.storage import paths
except ModuleNotFoundError as missing:
    sys.exit(
        f"raysweep: {missing.name} is not installed for {sys.executable}; install raysweep there "
        "(pip install raysweep) and try again"
    )

VERSION = "0.1.0"  # of this file: a copy of it may run with another version of the package


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Start with: raysweep run quickstart",
)
@click.version_option(raysweep.__version__, prog_name="raysweep")
@click.pass_context
def cli(context: click.Context) -> None:
    """How does what you get after fine-tuning depend on pretraining length, fine-tuning rate, depth and overlap angle,
    and where does it tip over? raysweep runs the grid, records it in MLflow and reports the boundary with error bars.
    """
    if context.invoked_subcommand is None:
        _show([context.get_help(), "", "Packaged spaces:", *_spaces()])


@cli.command()
@click.argument("space", metavar="SPACE")
@SETS
@click.option("--name", metavar="N", help="Name of the sweep [default: the space's name].")
@how_to_run
@click.option(
    "--runs-per",
    type=click.Choice(["cell", "pack", "sweep"]),
    help="What has a run of its own in MLflow [default: cell; above 5,000 cells packs of 250 cells].",
)
@click.option("--yes", is_flag=True, help="Go ahead with 1,000,000 rows and more.")
@click.option(
    "--download", is_flag=True, help="First fetch the published data sets that SPACE names and that are not there."
)
@click.option("--dry-run", is_flag=True, help="Say what would be computed, how long and how large; compute nothing.")
def run(space: str, sets: tuple[str, ...], dry_run: bool, **options: Any) -> None:
    """Run SPACE (a path, or the name of a packaged space) to its end.

    A sweep of that name that exists is continued; with more seeds or more values on an axis it is extended.

    \b
    An axis is a list of values, or one of
      {linspace: [first, last, count]}     {geomspace: [first, last, count]}
      {range: [low, high], log: true}      any value between, for search {random: ...} or {optuna: ...}
      {values: [0, 0.9], when: {optimizer: sgd}}   only in these cells; in others the default stands
    """
    changes = _sets(sets)
    if dry_run:
        from raysweep.driver.options import Options
        from raysweep.space import space_files

        resolved, _ = space_files.read_with_function(space, changes)
        _show(commands.dry_run.describe(resolved, Options(**options)))
        return
    _finish(raysweep.run(space, set=changes, **options))


@cli.command()
@SWEEP
@WORKLOAD
@how_to_run
def resume(sweep: str, workload: str | None, **options: Any) -> None:
    """Compute what SWEEP lacks, failed rows too."""
    _finish(raysweep.resume(sweep, workload, **options))


@cli.command()
@SWEEP
@STORAGE
@TRACKING
def sync(sweep: str, storage: str, tracking_uri: str | None) -> None:
    """Replay SWEEP's ledger into MLflow.

    A run that is there stays if its parameters and the last value of each of its metrics agree with the ledger; if not,
    it is written again.
    """
    from raysweep import sweep as sweeps

    mirrored = sweeps.sync(sweep, storage=storage, tracking_uri=tracking_uri)
    terminal.say(f"{mirrored.name}: mirrored; the parameters and last values of all runs agree with the ledger")


@cli.command("list")
@STORAGE
def list_sweeps(storage: str) -> None:
    """List the sweeps in the storage, one per line."""
    _show(commands.listing.sweeps(paths.storage(storage)))


@cli.command("status")
@SWEEP
@STORAGE
@click.option("--tracking-uri", hidden=True, expose_value=False)  # of earlier versions; MLflow is not asked any more
@click.option("--watch", is_flag=True, help="Look again every two seconds until nobody works on it any more.")
def show_status(sweep: str, storage: str, watch: bool) -> None:
    """Show how far SWEEP is and what to do next.

    Progress, rate and used time, what runs where, what failed and why. Nothing is written.
    """
    opened = raysweep.open(sweep, storage)
    for lines in commands.status.watch(opened) if watch else [commands.status.details(opened)]:
        if watch and sys.stdout.isatty():
            click.clear()
        _show(lines)


@cli.command()
@SWEEPS
@click.option("--curves", is_flag=True, help="Print learning curves instead: one line per step that a stage logged.")
@click.option(
    "--format", "kind", type=click.Choice(["csv", "json", "parquet", "xarray"]), default="csv", show_default=True
)
@click.option("-o", "--output", metavar="FILE", help="File to write [default: stdout].")
@STORAGE
def results(sweeps: tuple[str, ...], curves: bool, kind: str, output: str | None, storage: str) -> None:
    """Print the rows of sweeps as a tidy table.

    Rows stand in plan order, then by seed. With --curves, what each stage logged while it ran: every row has a line per
    stage and step, with the parameters that vary and the logged metrics (training_loss …). A metric that was not logged
    at a step is empty there, and a stage that rows share stands in each of them. A curve keeps at most 513 steps: of a
    longer one every second, fourth, … and the last.
    """
    from raysweep.ledger import results_table

    opened = [raysweep.open(name, storage) for name in sweeps]
    if kind == "xarray":
        if curves or output is None:
            raise InputError("--format", "xarray writes the rows to a file; name it with -o, such as rows.nc")
        _writing(output, lambda: commands.exchange.write_dataset(opened, paths.locate(output, "-o")))
        return
    frame = (commands.exchange.curves if curves else commands.exchange.table)(opened)
    if output is None:
        _print(results_table.dump(frame, kind))
    else:
        _writing(output, lambda: results_table.write(frame, kind, paths.locate(output, "-o")))


@cli.command()
@SWEEPS
@click.option("-o", "--output", metavar="DIR", help="Folder to write [default: STORAGE/SWEEP/report].")
@STORAGE
def report(sweeps: tuple[str, ...], output: str | None, storage: str) -> None:
    """Write the report of one or several sweeps.

    Several sweeps must be of one workload.
    """
    from raysweep.sweep import report as reported

    opened = [raysweep.open(name, storage) for name in sweeps]
    folder = None if output is None else paths.locate(output, "-o")
    written = _writing(output or f"{opened[0].folder / 'report'}", lambda: reported(opened, folder))
    _show([*written.answer, f"report: {place(written.directory / 'report.html')}"])


@cli.command("import")
@click.argument("name", metavar="NAME")
@click.option(
    "--from",
    "source",
    required=True,
    metavar="SOURCE",
    help="runs.csv, runs.parquet, runs.jsonl, mlflow:URI#EXPERIMENT, optuna:URL#STUDY, ray:FOLDER or lm-eval:FOLDER.",
)
@click.option("--axes", required=True, metavar="A,B", help="Columns of the settings, the swept one first.")
@click.option("--metric", "metrics", required=True, multiple=True, metavar="M[:maximize]", help="Column of a metric.")
@click.option("--seed", metavar="COLUMN", help="Column of the seed [default: one run per cell].")
@click.option("--status", metavar="COLUMN", help="Column that says how a run ended [default: what SOURCE says].")
@click.option("--error", metavar="COLUMN", help="Column of the known standard errors of the first metric.")
@click.option("--labels", default="", metavar="A,B", help="Axes whose numbers are only names.")
@click.option("--workload", metavar="W", help="A workload or FILE.py:NAME that computes the cells which are missing.")
@click.option("--repeats", is_flag=True, help="Several runs of a cell without a seed are draws of it.")
@click.option("--dry-run", is_flag=True, help="Show what is guessed of the columns; create nothing.")
@SETS
@STORAGE
def import_runs(name: str, storage: str, dry_run: bool, sets: tuple[str, ...], **options: Any) -> None:
    """Make the sweep NAME of runs that were computed elsewhere.

    Reports, results, comparisons and `raysweep sync` take it as any other sweep. Choose what the report answers
    by --set, for example --set "analysis=[{optimum: {metric: loss, x: lr}}]".
    """
    _show(commands.exchange.import_runs(name, storage, dry_run, _sets(sets), **options))


@cli.command()
@SWEEP
@click.argument("cell", metavar="[CELL]", required=False)
@click.argument("seed", metavar="[SEED]", type=click.IntRange(0, 2**63 - 1), required=False)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="FOLDER|hub:FOLDER|optuna:URL",
    help="A new folder for one model, a cache of huggingface_hub for all, or a new study of Optuna.",
)
@click.option("--stage", metavar="STAGE", help="The stage that left the models, such as pretrain.")
@click.option("--metric", metavar="M", help="The value of a trial [default: the first metric with a direction].")
@click.option("--study", metavar="N", help="Name of the study [default: that of the sweep].")
@STORAGE
def export(sweep: str, storage: str, **options: Any) -> None:
    """Give the models of SWEEP to transformers, or its rows to Optuna.

    With CELL one model goes to a folder that from_pretrained loads. With hub:FOLDER each model becomes a revision of
    raysweep/SWEEP, found with HF_HUB_CACHE=FOLDER. With optuna:URL each row becomes a trial.
    """
    opened = raysweep.open(sweep, storage)
    if revisions := _writing(options["target"], lambda: commands.exchange.export(opened, **options)):
        _show(revisions)


@cli.command()
@SWEEP
@click.option(
    "--at", required=True, multiple=True, metavar="AXIS=VALUE[,…]", help="Where: a value of each axis of the law."
)
@click.option("-o", "--output", metavar="FILE", help="File to write [default: STORAGE/SWEEP/forecasts/DATE.json].")
@STORAGE
def forecast(sweep: str, at: tuple[str, ...], output: str | None, storage: str) -> None:
    """Forecast the best rate of SWEEP, or where it turns, and the loss at a setting that was not computed.

    The intervals are those of a new setting. The forecast is frozen in a file.
    """
    opened, target = raysweep.open(sweep, storage), paths.locate(output, "-o") if output else None
    forecasts, place_of = commands.forecasts, output or str(opened.folder)
    _show(_writing(place_of, lambda: forecasts.forecast(opened, forecasts.values(at), target)))


@cli.command()
@click.argument("file", metavar="FORECAST")
@SWEEP
@STORAGE
def score(file: str, sweep: str, storage: str) -> None:
    """Hold the frozen FORECAST against the rows that SWEEP has by now."""
    _show(commands.forecasts.score(paths.locate(file, "FORECAST"), raysweep.open(sweep, storage)))


@cli.command()
@SWEEP
@click.argument("cell", metavar="CELL")
@click.argument("seed", metavar="[SEED]", type=click.IntRange(0, 2**63 - 1), required=False)
@WORKLOAD
@STORAGE
def debug(sweep: str, cell: str, seed: int | None, workload: str | None, storage: str) -> None:
    """Compute one row here, with its traceback.

    The row is computed in this process. CELL is a cell's hash or its beginning.
    """
    opened = raysweep.open(sweep, storage)
    if seed is not None and seed not in opened.space.seeds:
        terminal.say(f"{opened.name}: seed {seed:,} is not one of the sweep's; its row is computed here alone")
    _show([json.dumps(commands.debug.one_row(opened, cell, seed, workload), indent=1)])


@cli.command()
@SWEEP
@STORAGE
@TRACKING
@YES
def delete(sweep: str, storage: str, tracking_uri: str | None, yes: bool) -> None:
    """Delete SWEEP and its runs in MLflow.

    Its rows and report are deleted here; MLflow keeps the runs in its trash.
    """
    from raysweep.query.sweep import open_sweep

    opened = open_sweep(sweep, storage, to_delete=True)
    if not yes:
        _ask(f"delete {opened.name} ({sum(opened.statuses().values()):,} rows)?")
    commands.delete.delete(opened, tracking_uri)
    terminal.say(f"{opened.name}: deleted")


@cli.command("workloads")
@click.argument("name", metavar="[NAME]", required=False)
def show_workloads(name: str | None) -> None:
    """List the workloads, or describe one.

    One is shown with its parameters, units, defaults and metrics.
    """
    _show(commands.listing.workloads() if name is None else commands.listing.workload(name))


@cli.command("spaces")
def show_spaces() -> None:
    """List the packaged spaces. Each asks one question and can be run by its name."""
    _show(_spaces())


@cli.group("store")
def store_group() -> None:
    """List, verify or prune the store of stages.

    It holds trained weights that all sweeps share; each was computed once.
    """


@store_group.command("list")
@STORAGE
@STORE
def store_list(storage: str, store: str | None) -> None:
    """List the stored stages.

    Each with its size, its age and the sweeps that refer to it; also what is damaged or under way.
    """
    _show(commands.store.overview(commands.store.open_store(storage, store)))


@store_group.command("verify")
@STORAGE
@STORE
def store_verify(storage: str, store: str | None) -> None:
    """Compare every stage with its checksums.

    Damaged stages are set aside (exit code 1).
    """
    lines, well = commands.store.verify(commands.store.open_store(storage, store))
    _show(lines)
    if not well:
        sys.exit(1)


@store_group.command("prune")
@click.argument("stages", metavar="[STAGE]...", nargs=-1)
@STORAGE
@STORE
@click.option("--referred", is_flag=True, help="Also those of the named STAGEs that a sweep refers to.")
@click.option("--damaged", is_flag=True, help="Also what was set aside as damaged or superseded.")
@click.option("--dry-run", is_flag=True, help="Say what would go; take nothing.")
@YES
def store_prune(
    stages: tuple[str, ...], storage: str, store: str | None, dry_run: bool, yes: bool, **also: bool
) -> None:
    """Delete stages that no sweep refers to.

    Leftovers of crashes are deleted too. With STAGE named, only those are deleted.
    """
    opened = commands.store.open_store(storage, store)
    if not dry_run and not yes:
        _ask("prune these?", commands.store.prune(opened, stages, dry_run=True, **also))
    _show(commands.store.prune(opened, stages, dry_run=dry_run, **also))


def _spaces() -> list[str]:

    return commands.listing.spaces(shutil.get_terminal_size().columns if sys.stdout.isatty() else None)


def _ask(question: str, what: Sequence[str] = ()) -> None:
    """Show what would be deleted, and ask. InputError without a terminal, where nobody can answer."""
    if not sys.stdin.isatty():
        raise InputError("--yes", f"is needed where there is no terminal to ask: {question}")
    if what:
        _show(what)
    click.confirm(question, abort=True)


def _show(lines: Iterable[str]) -> None:
    _print("\n".join(lines))


def _print(text: str | bytes) -> None:
    try:
        click.echo(text, nl=isinstance(text, str))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:  # it goes to a file on a full disk
        terminal.silence(sys.stdout)
        raise InputError("stdout", f"cannot be written: {error.strerror}") from None


def _sets(pairs: tuple[str, ...]) -> dict[str, Any]:
    from raysweep.space import yaml_reader

    changes = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise InputError(f"--set {pair}", "expected KEY=VALUE, such as axes.depth=[1,2,5]")
        if not text.strip():
            raise InputError(f"--set {pair}", "there is no value after the =; null removes the key")
        changes[key] = yaml_reader.parse(text, f"--set {key}", below=key)
    return changes


def _finish(sweep: raysweep.Sweep) -> None:
    """If some rows failed, list them and exit with code 1."""
    failures = sweep.failures()
    signal_handlers.leave_on_signal(1 if failures else 0)
    if failures:
        for line in commands.status.failures(sweep, failures):
            terminal.say(line)
        sys.exit(1)


def _writing(target: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except OSError as error:
        raise InputError(target, f"cannot be written: {error.strerror or error}") from None


def _traceback_without_credentials(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Print an unexpected error as Python does, without credentials: it may quote an address with a password."""
    import traceback

    from raysweep.redaction import redact

    sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))


def main(arguments: list[str] | None = None) -> None:
    """Run the command `raysweep`. Exit codes: 0 done, 1 some rows failed, 2 bad input, 130 interrupted, resumable."""
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
            if "\0" in argument:  # only a caller in Python can pass one; no file name holds it
                raise InputError(argument.partition("=")[0], "expected a text without NUL characters")
        with signal_handlers.ending_process():
            cli.main(arguments, prog_name="raysweep", standalone_mode=False)
    except RaysweepError as error:
        terminal.say(str(error))
        sys.exit(2)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.exceptions.NoSuchCommand as error:
        group = error.ctx.command if error.ctx else cli
        known = group.commands if isinstance(group, click.Group) else {}
        terminal.say(str(unknown(error.command_name, "command", error.command_name, sorted(known))))
        sys.exit(2)
    except click.UsageError as error:
        if extra := re.match(r"Got unexpected extra arguments? \((.*)\)", error.format_message()):
            terminal.say(str(InputError(extra[1].split(" ")[0], "expected no more arguments")))
            sys.exit(2)
        parameter = getattr(error, "param", None)
        path = (
            parameter.opts[0]
            if parameter is not None and parameter.opts[0].startswith("-")
            else getattr(error, "option_name", None) or (parameter.human_readable_name if parameter else "")
        )
        terminal.say(str(InputError(path, error.format_message().removeprefix(f"{path}: "))))
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        signal_handlers.leave_soon()
        sys.exit(signal_handlers.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


if __name__ == "__main__":
    if os.path.dirname(os.path.abspath(__file__)) != os.path.dirname(os.path.abspath(raysweep.__file__)):
        os.environ.setdefault("RAY_ADDRESS", "auto")  # the copy that `ray submit` makes runs on the head of a cluster
    main()
