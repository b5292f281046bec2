"""raysweep measures how the result of fine-tuning depends on pretraining, learning rate, depth and task overlap.

import raysweep
sweep = raysweep.run("quickstart")     # later: raysweep.open("quickstart")
table = sweep.results()                # a tidy DataFrame
fit = sweep.fit(boundary={"metric": "transferability_finetune", "x": "overlap_angle"})
fit.table, fit.plot()                  # its zeros with intervals, and their figure
sweep.report()                         # figures, report.md and report.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raysweep.errors import InputError
    from raysweep.query.analyse import analyse
    from raysweep.sweep import Sweep, open, resume, run
    from raysweep.workloads.declaration import Cost, Metric, Parameter, Stage, Workload
    from raysweep.workloads.rows import Result

__version__ = "0.1.0"
__all__ = [
    "Cost",
    "InputError",
    "Metric",
    "Parameter",
    "Result",
    "Stage",
    "Sweep",
    "Workload",
    "__version__",
    "analyse",
    "open",
    "resume",
    "run",
]
_HOMES = {
    "InputError": "raysweep.errors",
    "Result": "raysweep.workloads.rows",
    "analyse": "raysweep.query.analyse",
    **dict.fromkeys(("Cost", "Metric", "Parameter", "Stage", "Workload"), "raysweep.workloads.declaration"),
}
"""The modules of the names that are not in raysweep.sweep."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(_HOMES.get(name, "raysweep.sweep")), name)
    raise AttributeError(f"module 'raysweep' has no attribute {name!r}")
