"""Drives one sweep to its end: it computes the rows that the ledger lacks, logs them to MLflow and writes the report.

Start, resume, extension and retry are the same thing here: the plan lists all rows, the ledger has the finished ones,
and the difference is cut into packs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from raysweep import phrases
from raysweep.driver import first_rows, outlook, records, shared_stages, signal_handlers
from raysweep.driver.limits import LivePage, TimeIsUp, TimeLimit
from raysweep.driver.options import Options
from raysweep.driver.placement import place, total_seconds
from raysweep.driver.progress import Phase, Progress
from raysweep.driver.shared_stages import SharedStages
from raysweep.errors import Halted, InputError, RaysweepError
from raysweep.executors import inline, local_ray, ray_tune, shipping
from raysweep.ledger import compaction, results_table, segments, sweep_record
from raysweep.ledger.sweep_record import Record
from raysweep.phrases import rows_are
from raysweep.plan.cells import Cells
from raysweep.plan.identity import code_version
from raysweep.plan.pack import Pack, PackQueue, rest_of
from raysweep.plan.packs import make_packs
from raysweep.query import stage_store, verdict
from raysweep.query.state import State
from raysweep.query.sweep import Sweep
from raysweep.space import user_files
from raysweep.space.function_files import Given
from raysweep.space.schema import Space
from raysweep.storage import files, paths, signs
from raysweep.storage.paths import AnyPath
from raysweep.storage.sealed import Damaged
from raysweep.tracking import address, server
from raysweep.tracking.session import Session
from raysweep.trial.early_stopping import Rule
from raysweep.trial.function import Function
from raysweep.trial.pack import Job
from raysweep.trial.run import Ended

FUNCTION_CEILING = 20.0  # seconds of a pack of rows of a Python function
COUNT_AGAIN_UP_TO = 20_000  # rows; with more, reading the ledger again takes too long while the driver is told to end


@dataclass
class Driver:
    """Drives one sweep: prepare, compute, report, close. Call `drive` once.

    record: the sweep's record; None for a new sweep.
    space, cells: what is asked for now.
    part: whether the space is only a part of the sweep. The record stays unchanged then, and nothing goes to MLflow.
    retry_failed: whether failed rows are computed again.
    function: the Python function that the space is about; None for any other workload, and if no row is missing.
    analyses: the files of functions that its analyses name, by what the space calls them.
    """

    folder: AnyPath
    record: Record | None
    space: Space
    cells: Cells
    options: Options
    part: bool = False
    retry_failed: bool = False
    function: Given | None = None
    analyses: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._say, self._limit = self.options.say, TimeLimit(self.options.max_hours)
        self._uri = None if self.part else address.chosen(self.options.tracking_uri, self.record, self.folder.parent)
        self._begun = False
        self._rule: Rule | None = None
        if stopping := self.space.early_stopping:
            worse = {"metric": stopping["metric"], "maximize": self.space.declaration.maximized(stopping["metric"])}
            self._rule = Rule(**worse, **{key: stopping[key] for key in ("rule", "grace", "reduction")})
        self._go_on, self._every = "resume", ""  # words for the message about kept rows
        self._session: Session | None = None
        self._stages: SharedStages  # set by `prepare`

    def drive(self) -> Sweep:
        """Do all steps and return the sweep. Raises KeyboardInterrupt if it is told to end or its time is up."""
        if self.record:
            files.check_not_read_only(self.folder)
        address.check(self._uri, self.record, self.folder.parent, self._say)
        storage = self.folder.parent
        self._new_storage = isinstance(storage, Path) and not storage.exists()  # a bucket has no folders
        asked = self.folder, self.space, self.cells, self.options
        record = self.record or records.create(*asked, self._uri, self._new_storage)
        self._sweep = Sweep(self.folder, record, self.space if self.part else None)
        # the thread that hears signals may call it too; a local name, so that all rows are freed with this object
        stop = signal_handlers.once(self._stop)
        with (
            records.only_driver(self.folder, record, self._say) as self._still_ours,
            signal_handlers.on_signals(lambda: stop("KILLED", "interrupted")) as self._put_handlers_back,
        ):
            try:
                with self._limit.enforced():
                    self.prepare(record)
                    self.compute()
                    if self._died:
                        signs.clear(self.folder, signs.COMPUTING)
                    self._say_if_nothing_was_logged()
                    self._remember_learned()
                    if account := self._stages.account():
                        self._say(account)
                    if self.options.report or self._session:
                        self._state = self._sweep.state()  # read once more, for both
                    self.report()
                    self.close()
            except (KeyboardInterrupt, SystemExit) as ending:  # SystemExit: Ray's SIGTERM handler while it starts
                over = isinstance(ending, TimeIsUp) or self._limit.left() <= 0  # Tune may replace a TimeIsUp
                stop("KILLED", str(self._limit.over()) if over else "interrupted")
                raise (self._limit.over() if over else KeyboardInterrupt()) from None
            except Exception as problem:
                if signal_handlers.received():
                    stop("KILLED", "interrupted")
                    raise KeyboardInterrupt from None
                halt = files.in_one_line(problem, self.folder) if isinstance(problem, OSError) else problem
                halt = halt if isinstance(halt, RaysweepError) else None  # an unexpected error
                stop("KILLED" if halt else "FAILED")
                if halt is None:
                    raise
                if self._begun and isinstance(halt, InputError) and self.record is None and not self._sweep.rows():
                    records.take_back(self._sweep, self._uri, self._new_storage)
                    raise halt from problem
                if self._begun:
                    raise Halted("", f"{halt}; {self._kept()}") from problem
                raise halt from None
        return self._sweep

    def prepare(self, record: Record) -> None:
        """Check that the request can be carried out, and record it, so that a sweep that is killed here can be resumed.
        If it cannot be carried out, a new sweep is removed again, and an existing record is restored."""
        try:
            self._died = signs.has_died(self.folder)  # a driver before, while it computed rows
            current = shared_stages.placed(record, self.options.store)
            notes: list[str] = []
            user_files.remember_analyses(record.sweep_id, self.analyses)
            if self.function:
                user_files.remember(record.sweep_id, self.function)
                if self.space.declaration.measures_anything:
                    self._state = self._read()
                    notes = self._state.notes  # first rows may replace those that it is about
                    if self._rule:
                        self._rule.learn(self._state.earlier())
                    job = self._new_job(record)
                    to_ray = self.options.executor == "ray" or self.options.workers is not None
                    apart = self._is_deadly() or (to_ray and not ray_tune.is_connected())
                    self.space = first_rows.learn(self._sweep.name, self._state, job, self._say, apart)
            if not self.part:
                current = records.remember(self.folder, current, self.space, self._uri)
                self._sweep = Sweep(self.folder, current)
            self._sweep.cells = self.cells
            self._state = self._read()
            sweep_record.clear_leftovers(self.folder)
            local_ray.clear_leftovers()
            strays = [self._state.strays] if self._state.strays and not self.part else []
            self._say_each(dict.fromkeys([*notes, *self._state.notes, *strays]))
            self._stages = SharedStages(current, self._state, self.options.on_code_change, self._say)
            self._stages.add_metrics()
            self._pending = self._stages.claim(self._state.missing())
            if self._pending.rows and self._state.workload.function and not self.function:
                raise InputError("workload", f"rows of {self.space.workload} are missing and its code is not at hand")
            seconds = self._pending.seconds
            if self.space.precision and self._pending.rows:  # further rounds too
                seconds = max(outlook.outlook(self._state, self._pending).likely.seconds, seconds)
            self._placement = place(self.options, self._pending, self.cells, seconds)
            if self.function and self._placement.executor == "ray":
                shipping.check(self.function.call, self.space.workload)
            self._put_handlers_back()  # Ray has replaced them by its own
            if self._uri:
                self._session = Session(self._uri, self.folder, current, self.space, self.cells, self._state)
        except Exception:
            if self.record is None:
                begun = shared_stages.placed(record, self.options.store)
                records.withdraw(self.folder, begun, self.function, self._new_storage)
            elif sweep_record.load(self.folder) != record:
                sweep_record.update(self.folder, record)
            raise
        self._begun = True

    def _is_deadly(self) -> bool:
        """Whether a row may kill its process: rows of this sweep did, or a driver died while it computed some."""
        return self._died or self._state.has_killed

    def _read(self) -> State:
        return State(self.space, self.cells, self.folder, self.options.on_code_change, self.retry_failed)

    def _remember_learned(self) -> None:
        """If the first rows were computed with all others, record at the end what they tell."""
        space = None if self.part else first_rows.learned_at_the_end(self.space, self._state, self._say)
        if space is not None:
            self.space = space
            self._sweep = Sweep(self.folder, records.remember(self.folder, self._sweep.record, space, self._uri))
            self._sweep.cells = self.cells

    def compute(self) -> None:
        """Compute the missing rows, round by round. Raises TimeIsUp if no time was left for some packs."""
        self._tidy()
        if not self._pending.rows:
            self._say(f"{self._sweep.name}: {rows_are(len(self._state.rows), 'all ')} there; nothing to compute")
            self._say_what_is_reached()
            return
        for path in self._state.damaged:
            segments.set_aside(path)
        if isinstance(self.folder, Path):  # a copy of a sweep may lack folders that were empty
            for inner in (sweep_record.LEDGER, sweep_record.LOGS):
                (self.folder / inner).mkdir(exist_ok=True)
        run = uuid.uuid4().hex if self._placement.executor == "ray" else ""
        self._job = job = self._new_job(self._sweep.record, run, self._stages.url, self._stages.expired)
        self._page = LivePage(lambda reload: self._sweep.report(state=self._state, reload=reload))
        queue = PackQueue(self._propose, self._in_time, self._stages.is_busy)
        with Progress(self._stages.progress) as self._progress:
            if self._placement.executor == "ray":
                scratch = local_ray.folder() / "tune"  # not on the rows' disk, which may be full
                ray_tune.run(queue, job, self._on_done, workers=self._placement.trials, scratch=scratch)
            else:
                if apart := self._is_deadly():
                    how = "they are computed in child processes, and a row that kills two of them has failed"
                    self._say(f"{self._sweep.name}: a process died while it computed rows; {how}")
                with signs.computing(self.folder):
                    inline.run(queue, job, self._on_done, apart)
            if queue.held_back:
                raise self._limit.over()
        self._say_what_is_reached()
        self._tidy()

    def _new_job(
        self, record: Record, run: str = "", store: str = "", expired: Mapping[str, bytes] | None = None
    ) -> Job:
        """What all trials of the sweep share. run: as in `Function`. store, expired: as in `Job`."""
        space, cells, description = self._state.space, self.cells, self._state.workload.function
        return Job(
            space.workload,
            cells.columns,
            cells.ids,
            paths.absolute(self.folder / sweep_record.LEDGER),
            paths.absolute(self.folder / sweep_record.LOGS),
            store,
            stage_store.user(record),
            self._state.attempt,
            code_version(self._state.workload),
            space.resources["cpus_per_trial"],
            keep=tuple(space.keep),
            expired={} if expired is None else expired,  # it grows
            function=Function(description, self.function.call, run) if description and self.function else None,
            asked=cells.asked,
            rule=self._rule,
        )

    def _say_each(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._say(line)

    def _say_what_is_reached(self) -> None:
        if self.space.precision:
            self._say_each(verdict.lines(self._state))
            self._state.leave_steps()

    def _say_if_nothing_was_logged(self) -> None:
        curves = (curve for row in self._state.rows.values() for curve in (row.get("curves") or {}).values())
        if self._rule and not any(self._rule.metric in curve for curve in curves):
            self._say(f"early_stopping: no row logged {self._rule.metric} while it ran, so that none could be stopped")

    def _propose(self) -> list[Pack]:
        """The packs of the next round. The search chooses their cells from all rows so far."""
        workload, pending = self._state.workload, self._stages.claim(self._state.missing())
        if not pending.rows:
            return []
        if self._rule:
            self._rule.learn(self._state.earlier())
        if self.options.report and self._state.rows:
            self._page.after_round()
        if self.space.precision:
            line = outlook.line(self._state, pending)
            self._state.leave_steps()
            self._say(line)
        packing = self._placement.packing()
        if workload.function:  # only what its first rows cost is known, and others may cost much more
            packing = replace(packing, ceiling=FUNCTION_CEILING)
        packs = make_packs(workload, self.cells, pending.indices, packing, self.space.keep, self._stages.there)
        estimated = [pack.seconds for pack in packs]
        self._progress.expect(pending.rows, sum(estimated), max(estimated))
        guessed = not workload.has_costs or (workload.gpu_guess and any(pack.needs.gpus for pack in packs))
        line = self._placement.line(packs, pending.rows, total_seconds(packs, pending, self._state.stored))
        self._say(line + (" (a guess)" if guessed else ""))
        return packs

    def _in_time(self, pack: Pack) -> bool:
        """Whether to begin a pack. If its stages are stored, any time left is enough: they can be continued."""
        return self._limit.left() > 0 if self._state.stored else self._limit.fits(pack.seconds)

    def _on_done(self, pack: Pack, ended: Ended) -> Pack | None:
        """Enter the rows of a finished pack, log cells that are complete now, and return what is left of the pack."""
        if pack.stages:
            self._progress.advance(0, pack.seconds, ended.seconds)
            self._limit.learn(ended.seconds, pack.seconds)
            return None
        path = self._job.segment(pack.id)
        try:
            rows = segments.read_segment(path)
        except (Damaged, FileNotFoundError) as error:
            why = f"{path.name} was written there and cannot be read back whole ({error})"
            raise Halted(str(path.parent), why) from None
        for cell in self._state.add(rows):
            self._still_ours()
            if self._session:
                self._session.complete(cell)
        rest = rest_of(pack, self.cells.ids, len(rows))
        estimated = pack.seconds - (rest.seconds if rest else 0.0)
        self._progress.advance(len(rows), estimated, ended.seconds)
        self._limit.learn(sum(row["seconds"] for row in rows), estimated)
        return rest

    def report(self) -> None:
        """Write the report, unless the options say no. If that fails, the rows are still logged to MLflow."""
        self._every = "all "
        if not self.options.report:
            return
        steps = [(0, 0)]  # the number of steps is known once the rows are read
        try:
            with Phase(self.folder, "report", lambda: steps[-1]):
                written = self._sweep.report(
                    # the answer is printed before the page is written: nobody waits for figures and for MLflow
                    on_step=lambda done, total: steps.append((done, total)),
                    state=self._state,
                    on_answer=self._say_each,
                )
        except Exception:
            self._go_on = "report"
            self.close()
            raise
        self._say(f"report: {phrases.place(written.directory / 'report.html')}")

    def close(self) -> None:
        """Write to MLflow what it lacks, end the sweep's run there, and say where to see the runs."""
        if self._session:
            lacks = log_the_rest(self._session, self._sweep, self._state, self._say)
            self._say_each([lacks] if lacks else server.runs_page(self.folder, self._sweep.record.tracking_uri))

    def _stop(self, status: Literal["KILLED", "FAILED"], why: str = "") -> None:
        """End the sweep's run in MLflow early, and say how to continue. why: the reason for the user, "" for none."""
        if self._session and not self._session.closed and (warning := self._session.stop(status)):
            self._say(warning)
        if why:
            self._say(f"{why}: {self._kept()}")

    def _kept(self) -> str:
        entered = len(self._state.rows) if self._begun else 0
        rows = entered if entered > COUNT_AGAIN_UP_TO else len(self._sweep.rows())
        again = self._sweep.go_on(self._go_on)
        return f"{rows_are(rows, self._every)} kept; go on with: {'the same command' if self.part else again}"

    def _tidy(self) -> None:
        """Merge the ledger's segments if there are many. If that fails, the ledger stays as it was."""
        try:
            compaction.compact(self.folder / sweep_record.LEDGER, self._still_ours)
        except (OSError, Damaged) as error:
            self._say(f"the segments of the ledger are left as they are: {error}")


def log_the_rest(logging: Session, sweep: Sweep, state: State, say: Callable[[str], None]) -> str | None:
    """Log the rest of a sweep to MLflow, with progress. Returns a line about what MLflow still lacks, or None."""
    results, shown = results_table.dump(sweep.results(state), "csv"), Phase(sweep.folder, "mirror", logging.counts)
    return logging.close(results, state.statuses(), "KILLED" if state.missing_rows else "FINISHED", shown, say)
