"""The state of a sweep: its plan, the rows in its ledger, and therefore the rows that are missing."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from raysweep import search
from raysweep.fits.lost_draws import LOST, can_be_fitted, losses, most
from raysweep.ledger import curves, segments, sweep_record
from raysweep.phrases import counted, rows_are
from raysweep.plan.cells import Cells
from raysweep.plan.cost import estimate
from raysweep.plan.identity import ELSEWHERE, cell_id, code_version
from raysweep.query import changed_content
from raysweep.query.changed_content import code_note
from raysweep.search.step_cache import StepCache
from raysweep.space.schema import Space
from raysweep.storage import files, signs
from raysweep.storage.paths import AnyPath
from raysweep.trial.pack import DEADLY
from raysweep.workloads.declaration import FAILED, OK

if TYPE_CHECKING:
    from raysweep.search.precision import Plan
    from raysweep.search.slice_rows import Value
    from raysweep.search.verdicts import Verdict


@dataclass
class PendingRows:
    """Positions of cells by seed, and estimated seconds and peak bytes on one core, or on one GPU."""

    indices: dict[int, np.ndarray]
    seconds: float
    peak_bytes: float

    @property
    def rows(self) -> int:
        return sum(len(indices) for indices in self.indices.values())


class State:
    """The state of a sweep while it runs: its plan, every row in the ledger, and the rows to be replaced.
    on_code_change: as in `Options`; None if rows are only read."""

    def __init__(
        self, space: Space, cells: Cells, folder: AnyPath, on_code_change: str | None = None, retry_failed: bool = False
    ) -> None:
        self.space, self.cells, self.folder = space, cells, folder
        self.workload = space.declaration
        with files.reading(folder):
            contents = segments.read(folder / sweep_record.LEDGER) if folder.is_dir() else segments.Contents()
        if space.open:
            cells.restore(space, contents.rows.values())
        self.position = cells.position
        self._seeds = set(space.seeds)
        self.rows = {key: row for key, row in contents.rows.items() if self._planned(*key)}
        version = self.workload.identity_version if self.workload.function else 1
        others = (row for key, row in contents.rows.items() if not self._planned(*key))
        self._strays = sum(row.get("version", 1) == version for row in others)  # not those of an earlier function
        self.shared_curves = contents.shared_curves
        self.damaged = contents.damaged
        self.notes = [f"{path.name} is damaged; its rows are computed again" for path in contents.damaged]
        self._redo: set[tuple[str, int]] = set()
        if on_code_change is not None:
            changed, note = changed_content.find(self.workload, cells, self.rows)
            self.notes += [note] * bool(note)
            self._redo = changed | self._changed(on_code_change)
        if retry_failed:
            self._redo |= {key for key, row in self.rows.items() if row["status"] == FAILED}
        self.attempt = 1 + max((self.rows[key]["attempt"] for key in self._redo), default=0)
        self._have = Counter(cell for cell, seed in self.rows.keys() - self._redo)
        self._lacking: set[tuple[str, int]] = set()  # with a precision: the rows of the plan that are not there
        self._settled: set[int] = set()
        self.outdated = self._outdated([row for row in contents.rows.values() if row["cell"] not in self.position])
        self.notes += [self.outdated] * bool(self.outdated)

    @property
    def stored(self) -> bool:
        """Whether stages of the sweep are kept in the store."""
        return self.workload.stores(self.space.keep)

    def _planned(self, cell: str, seed: int) -> bool:
        return cell in self.position and seed in self._seeds

    def _outdated(self, rows: list[segments.Row]) -> str:
        """A sentence about rows that an earlier identity version of the workload computed; "" if there are none. rows:
        those whose cells are not in the plan. They count if they are cells of the plan as the earlier version
        identified them, and if the current version has not computed them yet."""
        others, current = {row["cell"] for row in rows}, self.workload.identity_version
        # the version of a function is any number that its user likes, and its rows tell it
        there = {row.get("version", 1) for row in rows} if self.workload.function else range(1, current)
        empty = [index for index, cell in enumerate(self.cells.ids) if not self._have[cell]] if others else []
        for version in sorted(there, reverse=True) if empty else ():
            stages = tuple(replace(stage, version=0) for stage in self.workload.stages)
            earlier = replace(self.workload, identity_version=version, stages=stages)
            if any(cell_id(earlier, self.cells.parameters(index)) in others for index in empty):
                fact = f"there are rows of version {version} of {self.workload.name}, which are kept and not used"
                return f"{fact}: version {current} computes other values"
        return ""

    @property
    def strays(self) -> str:
        """A sentence about rows in the ledger, as the whole sweep's, that are neither planned nor outdated, or ""."""
        if not self._strays or self.outdated:
            return ""
        return f"{rows_are(self._strays, of=' of the ledger')} of no cell or seed of this sweep, kept and not used"

    def _changed(self, on_code_change: str) -> set[tuple[str, int]]:
        """Rows that other code computed and that are to be computed again: those that failed always, because the code
        may have been mended. Raises InputError if they are refused."""
        current = code_version(self.workload)
        older = {key for key, row in self.rows.items() if row["code_version"] not in (current, ELSEWHERE)}
        failed = {key for key in older if self.rows[key]["status"] == FAILED}
        if failed and on_code_change == "reuse":
            fact = f"the code of {self.workload.name} changed since {counted(len(failed), 'row')} failed"
            self.notes.append(f"{fact}: computing them again")
            older -= failed
        if older:
            note = code_note(self.workload.name, f"{len(older):,} rows", on_code_change)
            version = f"; version {self.workload.identity_version + 1} of it would have rows of its own"
            self.notes.append(note + (version if self.workload.function else ""))
        inherited = {key for key, row in self.rows.items() if "other_code" in row} - older
        if inherited:
            what = f"the stages of {counted(len(inherited), 'row')}"
            self.notes.append(code_note(self.workload.name, what, on_code_change))
        return older | inherited if on_code_change == "recompute" else failed

    def done(self) -> set[tuple[str, int]]:
        """The rows, (cell, seed), that are there and are not to be replaced."""
        return self.rows.keys() - self._redo

    def replace(self, keys: set[tuple[str, int]]) -> None:
        """Have these rows, (cell, seed), computed again; the present ones count until then."""
        new = {key for key in keys if key in self.rows} - self._redo
        self._redo |= new
        self._have -= Counter(cell for cell, _ in new)
        self._forget_plan()
        self.attempt = max(self.attempt, 1 + max((self.rows[key]["attempt"] for key in new), default=0))

    @cached_property
    def step_cache(self) -> StepCache:
        """What was found of slices before, by this process or by a driver."""
        return StepCache(signs.read(self.folder, signs.STEPS))

    def leave_steps(self) -> None:
        """Leave what was found of slices to other processes."""
        if self.space.precision:
            signs.leave(self.folder, signs.STEPS, self.step_cache.as_plain())

    @cached_property
    def likely_plan(self) -> Plan:
        """`plan` if the rows that are to be replaced come out as they are now; for forecasts."""
        if not self._redo:
            return self.plan
        return self._plan(partial(self._value, replaced=True))

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """What all rows tell of each slice of a precision, with the reasons of a plan that wants nothing more."""
        from raysweep.search.verdicts import verdicts

        members = [(one, step.state if self.plan.over else "") for one, step in self.plan.slices]
        seeds = {seed for _, seed in self.rows}
        draws = max((draw + 1 for draw, seed in enumerate(self.space.seeds) if seed in seeds), default=0)
        value = partial(self._value, replaced=True)
        return verdicts(self.space, members, value, draws, self.step_cache)

    @cached_property
    def plan(self) -> Plan:
        """What the precision of the space wants, given the rows that are there. Only for a space with a precision."""
        plan = self._plan(self._value)
        done = self.done()
        keys = ((self.cells.ids[cell], seed) for cell, seed in itertools.chain.from_iterable(plan.rounds[-1:]))
        self._lacking = {key for key in keys if key not in done}
        return plan

    def _plan(self, value: Value) -> Plan:
        from raysweep.search import precision  # loads the fits, which takes as long as all else

        return precision.plan(self.space, self.cells, value, self.step_cache)

    def _forget_plan(self) -> None:
        for name in ("plan", "likely_plan", "verdicts"):
            self.__dict__.pop(name, None)

    def _value(self, cell: int, seed: int, metric: str, replaced: bool = False) -> float | None:
        """A metric of a row: None if it is not there or is replaced, infinite if it is lost, NaN if it has none."""
        row = self.rows.get(key := (self.cells.ids[cell], seed))
        if row is None or (key in self._redo and not replaced):
            return None
        if row["status"] in LOST:
            return np.inf
        return float(row["metrics"].get(metric, np.nan)) if row["status"] == OK else np.nan

    def wanted(self) -> list[int]:
        """The cells that the search wants in the ledger, given the rows that are there."""
        if self.space.precision:
            return np.flatnonzero(self.plan.counts).tolist()
        return search.wanted(self.space, self.cells, self.draws)

    def earlier(self) -> Iterator[segments.Row]:
        """The rows of earlier rounds of the search, without ok ones of cells most of whose draws are lost."""
        for cells in search.rounds(self.space, self.cells, self.draws)[:-1]:
            for cell in cells:
                if self.is_complete(cell):
                    rows = self.of_cell(cell)
                    few = most(np.asarray([row["status"] in LOST for row in rows]))
                    yield from (row for row in rows if not (few and row["status"] == OK))

    def draws(self, cell: int, metric: str) -> np.ndarray | None:
        """The finite values of a metric in the ok draws of a complete cell, none if most of its draws diverged or
        failed; None for an incomplete cell."""
        if not self.is_complete(cell):
            return None
        rows = self.of_cell(cell)
        values = np.asarray([row["metrics"].get(metric, np.nan) for row in rows], dtype=np.float64)
        status = np.asarray([row["status"] for row in rows], dtype=object)
        good = (status == OK) & can_be_fitted(values)
        return values[good & (not most(losses(values, status)))]

    def missing(self) -> PendingRows:
        """The rows that should be in the ledger and are not there, or are to be replaced, and what they cost."""
        pending = self._pending()
        return PendingRows(pending, *estimate(self.workload, self.cells, pending, self.space.keep))

    @property
    def missing_rows(self) -> int:
        """How many rows `missing` has. What they cost is not asked: it may need data that are no longer there."""
        return sum(map(len, self._pending().values()))

    def _pending(self) -> dict[int, np.ndarray]:
        """The cells whose rows are missing, by seed."""
        done = self.done()
        if self.space.precision:
            counts = self.plan.counts
            of_draw = [np.flatnonzero(counts > draw).tolist() for draw in range(int(counts.max(initial=0)))]
        else:
            cells = [cell for cell in self.wanted() if not self.is_complete(cell)]
            of_draw = [cells for _ in self.space.seeds]
        pending = {
            seed: np.asarray([i for i in members if (self.cells.ids[i], seed) not in done], dtype=np.int64)
            for seed, members in zip(self.space.seeds, of_draw, strict=False)  # a precision may want the first ones
        }
        return {seed: indices for seed, indices in pending.items() if len(indices)}

    def is_complete(self, cell: int) -> bool:
        """Whether a cell has every draw that it is to have. With a precision: whether it has draws and gets no more. If
        rows were computed elsewhere: whether it has one."""
        have = self._have[self.cells.ids[cell]]
        if self.space.precision:
            return have > 0 and cell not in self.plan.open_cells and have >= self.plan.counts[cell]
        if self.space.imported:
            return have > 0
        return have == len(self.space.seeds)

    def complete(self) -> Iterator[int]:
        return (index for index in range(len(self.cells)) if self.is_complete(index))

    def add(self, rows: list[segments.Row]) -> list[int]:
        """Enter rows. Returns their cells that are complete now; with a precision, those since the round is over."""
        segments.gather(self.shared_curves, rows)
        for row in rows:
            key = (row["cell"], row["seed"])
            if key not in self.rows or key in self._redo:
                self._redo.discard(key)
                self._have[row["cell"]] += 1
                self.rows[key] = row
        if self.space.precision:
            self._lacking -= {(row["cell"], row["seed"]) for row in rows}
            if self._lacking:
                return []
            self._forget_plan()
            new = [cell for cell in self.complete() if cell not in self._settled]
            self._settled.update(new)
            return new
        return list(filter(self.is_complete, dict.fromkeys(self.position[row["cell"]] for row in rows)))

    def of_cell(self, cell: int) -> list[segments.Row]:
        """All draws of a complete cell, by seed."""
        keys = ((self.cells.ids[cell], seed) for seed in self.space.seeds)
        return [self.rows[key] for key in keys if key in self.rows]

    def curves(self, row: segments.Row) -> dict[str, segments.Curve]:
        return curves.of_row(row, self.shared_curves)

    def statuses(self) -> Counter[str]:
        return Counter(row["status"] for row in self.rows.values())

    def progress(self, noun: str = "") -> str:
        """How many rows are there, of how many, and their statuses, in words."""
        statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(self.statuses().items()))
        done = len(self.rows)
        return f"{done:,} of {done + self.missing_rows:,}{noun}" + (f" ({statuses})" if statuses else "")

    @property
    def has_killed(self) -> bool:
        """Whether a row was lost with the process that computed it."""
        return any(row.get("error", "").startswith(DEADLY) for row in self.rows.values() if row["status"] == FAILED)

    def failures(self) -> list[segments.Row]:
        """Rows that failed, with their tracebacks, in the order of the cells and their seeds."""
        failed = [row for row in self.rows.values() if row["status"] == FAILED]
        return sorted(failed, key=lambda row: (self.position.get(row["cell"], len(self.position)), row["seed"]))
