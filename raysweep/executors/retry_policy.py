"""Whether a pack is tried again after the worker that computed it was lost."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise

from raysweep.plan.pack import Pack, halves

WORKER_RETRIES = 3
"""How often a single row is tried again after its worker died. A larger pack is tried again once, then in halves. The
rows may not be the cause of the death. A row that raises is tried again elsewhere: trial/pack.py, compute_rows."""
NODE_RETRIES = 20
"""How often a pack is tried again, undivided, after its machine died. Rows do not cause the death of a machine."""


class RetryPolicy:
    """Decides whether a pack whose worker was lost is tried again, by the number and the causes of its losses. A loss
    counts as caused by a machine if one was found dead before the pack's next start, because the loss of a worker is
    often noticed seconds before that of its machine. The argument `dead` is the set of ids of all machines that are
    known to be dead."""

    def __init__(self) -> None:
        self._starts: dict[str, list[Set[str]]] = {}  # by pack: the machines known to be dead at each start

    def begin(self, pack: str, dead: Set[str]) -> None:
        self._starts.setdefault(pack, []).append(dead)

    def take_back(self, pack: str) -> None:
        """Forget the last start of a pack: it ended because somebody else computes what it needs."""
        self._starts[pack].pop()

    def count(self, pack: str, dead: Set[str]) -> tuple[int, int]:
        """How often a pack that is just lost may have been lost because of its rows, and because of a machine."""
        seen = [*self._starts[pack], dead]
        by_machines = sum(bool(later - earlier) for earlier, later in pairwise(seen))
        return len(seen) - 1 - by_machines, by_machines

    def is_suspect(self, pack: str, dead: Set[str]) -> bool:
        """Whether a pack was lost before, perhaps because of its rows."""
        return pack in self._starts and self.count(pack, dead)[0] > 0

    def by_machine(self, pack: str, dead: Set[str]) -> bool:
        """Whether the machine of a pack that is just lost was lost too, as far as is known by now."""
        return bool(dead - self._starts[pack][-1])

    def again(self, pack: Pack, cell_ids: Sequence[str], dead: Set[str]) -> list[Pack]:
        """The packs to try after a pack is lost: itself, or its halves because one of its rows may have killed the
        worker. Empty if it was lost too often."""
        by_rows, by_machines = self.count(pack.id, dead)
        parts = halves(pack, cell_ids) if by_rows > 1 else [pack]
        if by_machines > NODE_RETRIES or (by_rows > WORKER_RETRIES and len(parts) == 1):
            return []
        for part in parts:
            if part is not pack:  # the last loss counts for both halves too
                self._starts[part.id] = self._starts[pack.id][-1:]
        return parts

    def losses(self, pack: str) -> int:
        return len(self._starts[pack])
