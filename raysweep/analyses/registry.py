"""The kinds of analysis: every file of `raysweep/analyses/kinds/` declares one as `ANALYSIS`."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from raysweep.analyses import kinds
from raysweep.space.analyses import along_training
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    from raysweep.analyses.question import Analysis


def names() -> list[str]:
    """The names of all kinds, sorted. No kind is imported."""
    return sorted(module.name for module in pkgutil.iter_modules(kinds.__path__))


def get(kind: str) -> Analysis:
    """The analysis of a kind. Its file is imported when it is first asked for, and with it the fits that it needs."""
    analysis: Analysis = import_module(f"{kinds.__name__}.{kind}").ANALYSIS
    return analysis


def chosen(kind: str, options: Mapping[str, Any], workload: Workload) -> Analysis:
    """The analysis that makes an entry of this kind with these options."""
    return get("learning_curves" if along_training(kind, options, workload) else kind)
