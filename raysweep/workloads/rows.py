"""What a stage's function gets and gives back: rows, and a result."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raysweep.workloads.declaration import OK, Columns


class Rows:
    """The rows of one call of a stage: parameters and seeds.

    It holds only the parameters of this stage and of the stages before, because a stage must not depend on any other.

    columns: maps each parameter to its values, shape (rows,).
    seeds: the seed of each row, shape (rows,).
    stage: the name of the stage, for errors.
    """

    def __init__(self, columns: Columns, seeds: np.ndarray, stage: str = "") -> None:
        self.columns, self.seeds, self._stage = columns, seeds, stage

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, name: str) -> np.ndarray:
        """The values of one parameter, shape (rows,)."""
        if name not in self.columns:
            raise self._missing(name)
        return self.columns[name]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Each row as {parameter: plain value}, with its seed under `seed`."""
        for index in range(len(self)):
            yield self.row(index)

    def row(self, index: int = 0) -> dict[str, Any]:
        """One row as {parameter: plain value}, with its seed under `seed`."""
        values = {name: _plain(column[index]) for name, column in self.columns.items()}
        return _Row({**values, "seed": int(self.seeds[index])}, self._missing)

    def _missing(self, name: str) -> KeyError:
        names = ", ".join(self.columns) or "none"
        return KeyError(f"{name} is no parameter that the stage {self._stage} may depend on (these are {names})")

    def same(self, name: str) -> Any:
        """The value of a parameter in which these rows agree, as a plain value."""
        return _plain(self[name][0])

    @property
    def seed(self) -> int:
        """The seed, in which the rows of a call agree (unless the stage takes any rows together)."""
        return int(self.seeds[0])


class _Row(dict[str, Any]):
    """One row, which says why a parameter is not there."""

    def __init__(self, values: dict[str, Any], missing: Callable[[str], KeyError]) -> None:
        super().__init__(values)
        self._complaint = missing

    def __missing__(self, name: str) -> Any:
        raise self._complaint(name)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


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
