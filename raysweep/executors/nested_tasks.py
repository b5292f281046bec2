"""Tasks and actors of Ray that a row starts itself. Its trial has no resources for them, unless they ask for none."""

from __future__ import annotations

from typing import Any


class _Nothing(set[Any]):
    """A set that stays empty."""

    def add(self, element: Any) -> None:
        """Do not add it."""


def refuse() -> None:
    """Let Tune refuse every task and actor in this trial for which the trial has no resources.

    Tune itself refuses only the first of its kind in a process. The second one, of the row's second attempt or of the
    next row, would wait for ever.
    """
    from ray.train._internal import session

    session._checked_resources = _Nothing()
