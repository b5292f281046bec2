"""Calls a plain Python function for rows, and checks what it returns."""

from __future__ import annotations

import contextlib
import functools
import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.errors import RaysweepError, shown
from raysweep.storage import processes
from raysweep.trial.context import Context, Log
from raysweep.trial.early_stopping import Rule
from raysweep.trial.results import Checked, Computation, number
from raysweep.workloads import functions
from raysweep.workloads.declaration import DIVERGED, OK, STOPPED, Columns, Workload
from raysweep.workloads.function_description import BadName, Description, check_metric
from raysweep.workloads.functions import LOG, VALUE

_OF_RUN: dict[str, Callable[..., Any]] = {}  # of this process


class Unusable(TypeError):
    """A function returned or logged what cannot be the metrics of its rows."""


@dataclass(frozen=True)
class Function:
    """A Python function as a trial gets it: what the sweep knows of it, and the code, which Ray makes anew for every
    trial. run: unique for each run of the sweep. The first function of a run in a process is used for all its trials
    there, so that what it keeps in globals (a data set) is there for the next pack."""

    description: Description
    code: Callable[..., Any]
    run: str = ""

    @property
    def vectorized(self) -> bool:
        return self.description.vectorized

    @functools.cached_property
    def declaration(self) -> Workload:
        return functions.declared(self.description)

    def compute(self, columns: Columns, seeds: np.ndarray, rule: Rule | None = None) -> Computation:
        """Call the function for these rows: once for each, or once for all if it is vectorized. Raises whatever it
        raises, and Unusable if it returns anything but its metrics. A row with a number that is not finite is diverged.
        A metric that a stopped row lacks, or that is None, is NaN.

        columns, seeds: one entry per row.
        rule: how rows are stopped early; None if none is.
        """
        call = _OF_RUN.setdefault(self.run, self.code) if self.run else self.code
        seed, logs = _asks(call, self.vectorized)
        calls = [np.arange(len(seeds))] if self.vectorized else [np.asarray([i]) for i in range(len(seeds))]
        computation = Computation.empty(self.description.returned or (), len(seeds))
        for rows in calls:
            name = functions.stage_name(self.description.name)
            context = Context(name, len(rows), together=self.vectorized, rule=rule)
            row = rows if self.vectorized else rows[0]
            given = {name: _plain(values[row]) for name, values in columns.items()}
            given[seed] = _plain(seeds[row])
            if logs:
                given[LOG] = Log(context)
            returned = self._called(call, given)
            context.curve.tell()
            metrics = self._metrics(returned, len(rows), bool(context.stopped.all()))
            status = np.where(context.stopped, STOPPED, OK).astype(object)
            for metric, values in metrics.items():
                if not (isinstance(returned, Mapping) and returned[metric] is None):
                    status[~np.isfinite(values)] = DIVERGED
            computation.enter(context.stage, rows[:, None], Checked(None, metrics, status), context.curve)
        return computation

    def _called(self, call: Callable[..., Any], given: Mapping[str, Any]) -> Any:
        """What a call returns. What would end the whole sweep is an error of its row."""
        try:
            with processes.children_end(), contextlib.chdir("."):
                return call(**given)
        except (KeyboardInterrupt, Exception) as error:
            if isinstance(error, RaysweepError):
                raise (Unusable if isinstance(error, BadName) else RuntimeError)(str(error)) from error
            raise
        except BaseException as error:
            frame = list(traceback.walk_tb(error.__traceback__))[-1][0]
            if frame.f_globals.get("__name__", "").partition(".")[0] in ("ray", "raysweep"):
                raise  # a worker that is told to end
            name = self.description.name
            if isinstance(error, SystemExit):
                raise RuntimeError(f"{name} called sys.exit({shown(error.code)})") from error
            raise RuntimeError(f"{name} raised {type(error).__name__}: {error}") from error

    def _metrics(self, returned: Any, count: int, stopped: bool) -> dict[str, np.ndarray]:
        """What a call returned, as arrays of shape (count,). stopped: whether its rows were, which may lack metrics."""
        name, declared = self.description.name, self.description.returned
        if stopped and declared is not None and returned is None:
            return {}
        if not isinstance(returned, Mapping):
            returned = {VALUE: returned}
            if returned[VALUE] is None:
                raise Unusable(f"{name} returned None; expected a number, or a mapping from names to numbers (or None)")
        metrics = {metric: self._numbers(metric, values, count) for metric, values in returned.items()}
        for metric in metrics:
            try:
                check_metric(metric, name)
            except BadName as error:
                raise Unusable(str(error)) from None
            if metric in self.declaration.by_name:
                raise Unusable(f"{name} returned {metric}, which is one of its arguments; expected another name")
        if stopped and declared is not None and set(metrics) <= set(declared):
            return metrics
        if not metrics or (declared is not None and set(declared) != set(metrics)):
            expected = ", ".join(declared) + ", as the first row did" if declared else "at least one"
            raise Unusable(f"{name} returned {', '.join(metrics) or 'no metric'}; expected {expected}")
        return metrics

    def _numbers(self, metric: Any, values: Any, count: int) -> np.ndarray:
        if values is None:  # no value here: missing, and not diverged
            return np.full(count, np.nan)
        with contextlib.suppress(ValueError, TypeError):  # lists of unequal lengths, for example
            if not self.vectorized:
                return np.asarray([number(values)])
            array = np.asarray(values.detach().cpu().double() if hasattr(values, "detach") else values)
            if array.dtype.kind in "fiub" and array.shape == (count,):
                return array.astype(np.float64)
        named = "" if metric == VALUE else f" as {shown(metric)}"
        expected = f"{count:,} numbers, one for each row" if self.vectorized else "one number"
        raise Unusable(f"{self.description.name} returned {shown(values)}{named}; expected {expected}")


@functools.lru_cache(maxsize=64)
def _asks(call: Callable[..., Any], vectorized: bool) -> tuple[str, bool]:
    seeds = vectorized and "seeds" in inspect.signature(call).parameters
    return "seeds" if seeds else "seed", functions.takes_log(call)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
