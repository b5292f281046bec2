"""raysweep measures how the result of fine-tuning depends on pretraining, learning rate, depth and task overlap.

import raysweep
sweep = raysweep.run("quickstart")
table = sweep.results()          # a tidy DataFrame
sweep.report()                   # figures, report.md and report.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raysweep.errors import InputError
    from raysweep.sweep import Sweep, open_sweep, resume, run

__version__ = "0.1.0"
__all__ = ["InputError", "Sweep", "__version__", "open_sweep", "resume", "run"]


def __getattr__(name: str) -> Any:
    if name == "InputError":
        from raysweep.errors import InputError

        return InputError
    if name in __all__:
        from raysweep import sweep

        return getattr(sweep, name)
    raise AttributeError(f"module 'raysweep' has no attribute {name!r}")
