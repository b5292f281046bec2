"""Dropout whose masks depend on (seed, step, place, sequence, position, coordinate) and on nothing else.

So a mask does not depend on which worker holds a sequence, on how a batch is cut into pieces, or on whether training
was interrupted. Models that train side by side share their masks. The keys of a place come from draws.py. From the
keys, a few integer operations on the device make the mask: row and column numbers are hashed separately (with the
32-bit finalizer `lowbias32` of C. Wellons), combined, and mixed once more.

Masks serve compiled code too: there the numbers that change from step to step are tensors, so that it is compiled once.

The places are those of O Table 3: the embedding, the probabilities of attention, and the outputs that attention and
the MLP add to the residual stream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from raysweep.training import draws

EMBEDDING = 0
IN_LAYER = ATTENTION, ATTENTION_OUT, MLP_OUT = 1, 2, 3
_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B  # the multipliers of lowbias32


class Masks(NamedTuple):
    """Of what the masks of one place are made: numbers, or tensors of one number each.

    first: number of the first row, int64.
    row_key, column_key: the words of the place, int64.
    least: the least word that is kept, int32.
    up: by what kept values are multiplied, float64.
    """

    first: int | Tensor
    row_key: int | Tensor
    column_key: int | Tensor
    least: int | Tensor
    up: float | Tensor

    def on(self, device: torch.device) -> Masks:
        """As tensors on a device."""
        types = torch.int64, torch.int64, torch.int64, torch.int32, torch.float64
        return Masks(*(torch.full((), each, dtype=kind, device=device) for each, kind in zip(self, types, strict=True)))


@dataclass(frozen=True)
class Dropout:
    """The masks of one step.

    rate: share of the values that is dropped.
    keys: two 32-bit words for each place.
    first: number, within the batch, of the first sequence that the masks are for.
    """

    rate: float
    keys: tuple[tuple[int, int], ...]
    first: int = 0

    @classmethod
    def of_step(cls, rate: float, seed: int, role: str, step: int, depth: int) -> Dropout:
        """The masks of one step of the training that (seed, role) name, for a model with `depth` layers."""
        stream = draws.generator(seed, f"{role}/{step}")
        keys = stream.integers(0, 2**32, (1 + len(IN_LAYER) * depth, 2)).tolist()
        return cls(rate, tuple((int(row), int(column)) for row, column in keys))

    def at(self, sequence: int) -> Dropout:
        """The same masks, for sequences that start at this number of the batch."""
        return replace(self, first=sequence)

    def applied(self, values: Tensor, layer: int, place: int, rows_each: int) -> Tensor:
        """Set a share of the values to zero and scale the others up.

        values: (models, rows, columns) or (models, …, rows, columns); `rows_each` consecutive rows belong to one
            sequence.
        """
        rows = values[0].numel() // values.shape[-1]
        kept = self.kept(layer, place, self.first * rows_each, rows, values.shape[-1], values.device)
        return torch.where(kept.view(values.shape[1:]), values * (1 / (1 - self.rate)), values.new_zeros(()))

    def kept(self, layer: int, place: int, first: int, rows: int, columns: int, device: torch.device) -> Tensor:
        """Which entries of the rows first … first + rows - 1 are kept, boolean (rows, columns)."""
        return kept(self.masks(layer, place, first), rows, columns, device)

    def masks(self, layer: int, place: int, first: int) -> Masks:
        """The masks of a place, from this row on."""
        row_key, column_key = self.keys[place + len(IN_LAYER) * layer if place else EMBEDDING]
        return Masks(first, row_key, column_key, round(self.rate * 2**32) - 2**31, 1 / (1 - self.rate))


def kept(masks: Masks, rows: int, columns: int, device: torch.device) -> Tensor:
    """Which entries are kept, boolean (rows, columns)."""
    row, column = words(masks, rows, columns, device)
    word = row.unsqueeze(1) ^ column
    word.mul_(_FIRST)  # 32-bit words wrap around
    word ^= word >> 15
    word.mul_(_SECOND - 2**32)
    return word >= masks.least


def words(masks: Masks, rows: int, columns: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The 32-bit words of rows and columns, (rows,) and (columns,)."""
    row = _hashed(torch.arange(rows, device=device) + masks.first, masks.row_key)
    return row, _hashed(torch.arange(columns, device=device), masks.column_key)


def stays(row: Tensor, column: Tensor, least: int | Tensor) -> Tensor:
    """Whether entries are kept, by the words of their rows and columns; overwrites nothing, as compilers want it."""
    word = (row ^ column) * _FIRST
    return (word ^ (word >> 15)) * (_SECOND - 2**32) >= least


def _hashed(numbers: Tensor, key: int | Tensor) -> Tensor:
    """Hash int64 numbers to well-mixed 32-bit words."""
    mask = 2**32 - 1
    word = (numbers ^ key) & mask
    word = ((word ^ (word >> 16)) * _FIRST) & mask
    word = ((word ^ (word >> 15)) * _SECOND) & mask  # an overflow leaves the lower 32 bits right
    word = word ^ (word >> 16)
    return (word - ((word >> 31) << 32)).to(torch.int32)
