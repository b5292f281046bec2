"""Tasks and actors of Ray that a row starts itself. Its trial has no resources for them, unless they ask for none."""

from __future__ import annotations

from typing import Any


class _Nothing(set[Any]):
    def add(self, element: Any) -> None: ...


def refuse() -> None:
    """Let Tune refuse every task and actor in this trial for which the trial has no resources. Tune itself refuses only
    the first of its kind in a process; the second one would wait for ever."""
    from ray.train._internal import session

    session._checked_resources = _Nothing()
