"""Artifacts: what a stage leaves for the stage after it, in memory or in the store."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from raysweep.stages import trees

T = TypeVar("T")


@dataclass(eq=False)
class Artifact:
    """What one row has after a stage.

    tensors: returns its tensors, in the form in which the stage gave them. They must not be changed in place: arrays of
        NumPy in memory, where other rows start from them too, are read-only. Those of a stored artifact are read again
        by every call but the first; see `once`.
    curve: what it logged: {"step": [...], NAME: [...]}.
    parent: the artifact that it continued; None if there was none.
    place: (result, number): it is that entry of a result in memory; None if it stands alone.
    """

    tensors: Callable[[], Any]
    metrics: dict[str, float]
    status: str
    curve: dict[str, list[float]]
    parent: Artifact | None
    place: tuple[Any, int] | None = None
    _results: dict[Hashable, Any] = field(default_factory=dict)

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of `compute`, which is kept under `key` as long as this artifact is in memory: for what all rows
        that start from it need, for example its loss before anything is changed."""
        if key not in self._results:
            self._results[key] = compute()
        result: T = self._results[key]
        return result


class Stacked:
    """The artifacts of the rows of one call as one: each tensor has one entry per row. What is no tensor stays as it is
    where it is equal in all of them; otherwise it is a list with one entry per row. parent: their common parent, or
    their parents stacked in turn; None if they have none."""

    def __init__(self, artifacts: Sequence[Artifact]) -> None:
        self._artifacts = list(artifacts)

    def __len__(self) -> int:
        return len(self._artifacts)

    def __getitem__(self, index: int) -> Artifact:
        return self._artifacts[index]

    def tensors(self) -> Any:
        """Their tensors, stacked along a new first axis."""
        places = [artifact.place for artifact in self._artifacts]
        if places[0] is not None and len(places) == len(places[0][0]):
            whole = places[0][0]
            if all(place is not None and place == (whole, i) for i, place in enumerate(places)):
                return whole.tensors  # they lie side by side already
        return trees.stack([artifact.tensors() for artifact in self._artifacts])

    @property
    def parent(self) -> Artifact | Stacked | None:
        parents = [artifact.parent for artifact in self._artifacts]
        first = parents[0]
        if first is None or all(parent is first for parent in parents):
            return first
        return Stacked([parent for parent in parents if parent is not None])

    def common_parent(self) -> Artifact:
        """The one artifact that they all continued. ValueError if they continued different ones, or none."""
        parent = self.parent
        if not isinstance(parent, Artifact):
            raise ValueError("the rows of this call have no common parent")
        return parent
