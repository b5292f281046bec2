"""What a stage's function may ask for while it runs: a log for learning curves, checkpoints, its device, its gang."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.errors import InputError
from raysweep.stages import trees
from raysweep.training import devices
from raysweep.trial import log
from raysweep.trial.early_stopping import Rule, Watch
from raysweep.workloads.function_description import check_metric

if TYPE_CHECKING:
    import torch

    from raysweep.stages.store import Progress

CHECKPOINT_SECONDS = 60.0
"""Seconds between two intermediate checkpoints of a stage."""
CURVE_POINTS = 512
"""Points of a learning curve that are kept; of a longer one every second, fourth, ... logged point, and the last."""


class Curve:
    """What a stage logs: steps, and the value of each metric at each step, for all rows of the call."""

    def __init__(self, stage: str, rows: int) -> None:
        self._stage, self._rows = stage, rows
        self._names: set[str] = set()
        self._stride, self._count = 1, 0
        self._points: list[tuple[float, dict[str, Any]]] = []
        self._last: tuple[float, dict[str, Any]] | None = None
        self._read: tuple[int, list[float], dict[str, np.ndarray]] | None = None

    def __bool__(self) -> bool:
        return bool(self._points)

    def add(self, step: float, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Log one point. Returns the values as they are kept: one number for all rows, or one per row. InputError if
        the step is not finite, if a metric is neither, or if none can have its name (BadName)."""
        if not math.isfinite(step):
            raise InputError(f"{self._stage}.log", f"expected a finite number as the step, got {float(step)}")
        values = {}
        for name, value in metrics.items():
            if name not in self._names:
                check_metric(name, f"{self._stage}.log")
                self._names.add(name)
            # a tensor stays on its device until the curve is read, because reading would make a GPU wait
            kept = value.detach().clone() if hasattr(value, "detach") else np.array(value, dtype=np.float64)
            kept = kept.reshape(()) if math.prod(kept.shape) == 1 else kept
            if tuple(kept.shape) not in ((), (self._rows,)):
                expected = f"expected one number of {name} for all rows or one for each of {self._rows}"
                raise InputError(f"{self._stage}.log", f"{expected}, got the shape {tuple(kept.shape)}")
            values[name] = kept
        self._last = (float(step), values)
        if self._count % self._stride == 0:
            self._points.append(self._last)
        self._count += 1
        if len(self._points) > CURVE_POINTS:
            self._points, self._stride = self._points[::2], 2 * self._stride
        return values

    def tell(self) -> None:
        """Say in the log of the trial if more was logged than is kept."""
        if self._stride > 1:
            kept = f"its curve keeps {len(self._table()[0])}: one of {self._stride:,}, and the last"
            log.LOGGER.info("%s logged %s points; %s", self._stage, f"{self._count:,}", kept)

    def of_row(self, index: int) -> dict[str, list[float]]:
        """The curve of one row: {"step": [...], NAME: [...]}; a metric that was not logged at a step is NaN there."""
        steps, values = self._table()
        return {"step": steps, **{name: table[:, index].tolist() for name, table in values.items()}} if steps else {}

    def _table(self) -> tuple[list[float], dict[str, np.ndarray]]:
        """The steps, and for each metric its values, shape (steps, rows)."""
        if self._read is not None and self._read[0] == self._count:
            return self._read[1:]
        points = list(self._points)
        if self._last is not None and points[-1] is not self._last:
            points.append(self._last)
        names = list(dict.fromkeys(name for _, metrics in points for name in metrics))
        values = {name: np.full((len(points), self._rows), np.nan) for name in names}
        for i, (_, metrics) in enumerate(points):
            for name, value in metrics.items():
                values[name][i] = value.cpu().double().numpy() if hasattr(value, "cpu") else value
        self._read = (self._count, [step for step, _ in points], values)
        return self._read[1:]

    def reached(self) -> dict[str, int]:
        return {"step": int(self._last[0])} if self._last is not None else {}

    def state(self) -> dict[str, Any]:
        steps, values = self._table()
        kept = {name: table[: len(self._points)] for name, table in values.items()}
        points = {"steps": np.asarray(steps, dtype=np.float64)[: len(self._points)], "values": kept}
        return {"stride": self._stride, "count": self._count, **points}

    def go_on(self, state: Mapping[str, Any]) -> None:
        self._stride, self._count = state["stride"], state["count"]
        logged = [{name: values[i] for name, values in state["values"].items()} for i in range(len(state["steps"]))]
        self._points = list(zip(map(float, state["steps"]), logged, strict=True))
        self._last = self._points[-1] if self._points else None


class Context:
    """Given to a stage's function as its third argument.

    stage: the name of the stage.
    point, before: where it stops and where the point before was, for a stage with points; otherwise None and 0.
    stopped: whether each row was told to stop, shape (rows,).
    """

    def __init__(
        self,
        stage: str,
        rows: int,
        point: float | None = None,
        before: float = 0.0,
        progress: Progress | None = None,
        together: bool = False,
        rule: Rule | None = None,
    ) -> None:
        self.stage, self.point, self.before = stage, point, before
        self.curve = Curve(stage, rows)
        self.stopped = np.zeros(rows, dtype=bool)
        self._together = together
        # what is kept belongs to other sweeps too, so it is never stopped
        self._watch = Watch(rule, stage, rows) if rule is not None and progress is None else None
        self._progress, self._saved = progress, time.monotonic()

    def log(self, step: float, **metrics: Any) -> None:
        """Add a point to the learning curve: numbers for all rows, or arrays with one number per row. A curve keeps
        CURVE_POINTS points, evenly spaced over what was logged, and the last."""
        kept = self.curve.add(step, metrics)
        if self._watch is not None:
            self._watch.add(step, kept)

    def stop(self) -> Any:
        """Whether to end now, by the space's `early_stopping` and what was logged so far: true or false, or one of them
        per row in a stage that takes rows together. A row that was told so has the status stopped, also if it goes on.
        """
        if self._watch is not None:
            self.stopped = self.stopped | [_agreed(each) for each in self._watch.stopped.tolist()]
        return self.stopped.copy() if self._together else bool(self.stopped.all())

    def checkpoint(self, state: Mapping[str, Any] | Callable[[], Mapping[str, Any]]) -> None:
        """Save the state of an unfinished stage, so that it goes on from here if the process dies. May be called at
        every step: it saves at most every CHECKPOINT_SECONDS, and only in a stage that is kept.

        state: a nested mapping of arrays, numbers and words, or a function that returns it and is called only if it is
            time. All workers of a gang call `checkpoint` at the same steps, and so this function; the first one saves.
        """
        if self._progress is None or not _agreed(time.monotonic() - self._saved > CHECKPOINT_SECONDS):
            return
        tree = state() if callable(state) else state
        arrays, described = trees.flatten({"state": tree, "curve": self.curve.state()})
        self._progress.save(arrays, {"state": described, **self.curve.reached()})
        self._saved = time.monotonic()

    def restored(self) -> Any | None:
        """The state of the last checkpoint of this stage, in the form in which it was given; None if there is none."""
        checkpoint = self._progress.load() if self._progress is not None else None
        if checkpoint is None or "state" not in checkpoint.meta:
            return None
        tree = trees.unflatten(checkpoint.tensors(), checkpoint.meta["state"])
        self.curve.go_on(tree["curve"])
        return tree["state"]

    def meet(self) -> None:
        """Wait until all workers of the gang are here, for half an hour if need be: elsewhere they wait ten minutes for
        each other. All of them call it before they exchange anything where one may be later."""
        if self.workers > 1:
            from raysweep.training import parallel

            parallel.meet()

    @property
    def kept(self) -> bool:
        """Whether the artifact goes to the store. If not, it stays in memory as it is, for the next stage."""
        return self._progress is not None

    @property
    def device(self) -> torch.device:
        """Where to compute: the CPU, or the GPU that the trial was granted."""
        return devices.device()

    @property
    def rank(self) -> int:
        return _gang()[0]

    @property
    def workers(self) -> int:
        """How many workers compute these rows together; 1 outside a gang."""
        return _gang()[1]


class Log:
    """What a plain function gets as `log`: `log(step, loss=...)` adds a point to its learning curve, and `log.stop()`
    says whether to end now (see `Context.stop`)."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __call__(self, step: float, **metrics: Any) -> None:
        self._context.log(step, **metrics)

    def stop(self) -> Any:
        return self._context.stop()


def _gang() -> tuple[int, int]:
    if "torch" not in sys.modules:
        return 0, 1
    from raysweep.training import parallel

    return parallel.rank(), parallel.workers()


def _agreed(due: bool) -> bool:
    if _gang()[1] == 1:
        return due
    from raysweep.training import parallel

    return bool(parallel.of_first(due))
