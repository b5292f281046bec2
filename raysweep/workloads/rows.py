"""What a stage's function gets and gives back: rows, what the stage before left, a context; and a result."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.workloads.declaration import OK, Columns

if TYPE_CHECKING:
    from raysweep.stages.artifacts import Artifact as Artifact
    from raysweep.stages.artifacts import Stacked as Stacked
    from raysweep.trial.context import Context as Context
else:  # a workload imports nothing of what computes it
    Artifact = Stacked = Context = Any


class Rows:
    """The rows of one call of a stage: parameters and seeds.

    It holds only the parameters of this stage and of the stages before, because a stage must not depend on any other.

    columns: maps each parameter to its values, shape (rows,).
    seeds: the seed of each row, shape (rows,).
    stage: the name of the stage, for errors.
    """

    def __init__(self, columns: Columns, seeds: np.ndarray, stage: str = "") -> None:
        self.columns, self.seeds, self._stage = _Named(columns, stage), seeds, stage

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, name: str) -> np.ndarray:
        """The values of one parameter, shape (rows,)."""
        return self.columns[name]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.row, range(len(self)))

    def row(self, index: int = 0) -> dict[str, Any]:
        """One row as {parameter: plain value}, with its seed under `seed`."""
        row = ((name, column[index]) for name, column in self.columns.items())
        values = {name: value.item() if isinstance(value, np.generic) else value for name, value in row}
        return _Named({**values, "seed": int(self.seeds[index])}, self._stage)

    @property
    def seed(self) -> int:
        """The seed, in which the rows of a call agree (unless the stage takes any rows together)."""
        return int(self.seeds[0])


class _Named(dict[str, Any]):
    """Values by parameter, which says why one is not there."""

    def __init__(self, values: Mapping[str, Any], stage: str) -> None:
        super().__init__(values)
        self._stage = stage

    def __missing__(self, name: str) -> Any:
        names = ", ".join(each for each in self if each != "seed") or "none"
        raise KeyError(f"{name} is no parameter that the stage {self._stage} may depend on (these are {names})")


@dataclass(frozen=True)
class Result:
    """What a stage gives back for the rows of one call.

    tensors: the artifact: names -> arrays (NumPy or torch), or a nested mapping such as a state_dict. If the stage
        takes rows together, every array has one entry per row, in their order. What is no array (numbers, words, lists
        of them) belongs to all rows of the call. Mappings have words or whole numbers as keys; arrays are dense, of
        real numbers (also bfloat16) or complex64.
    metrics: one number per row for each metric that this stage measures; a plain number for a single row.
    status: how the rows ended, one word for all or one per row.
    """

    tensors: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    status: Any = OK
