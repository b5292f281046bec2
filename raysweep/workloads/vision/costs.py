"""What the stages cost, on one core; importable without torch.

Measured on one core of a 2-core x86 machine (float32, one thread), at the nets and batches of the packaged spaces;
expect an error of a factor 2.
"""

from __future__ import annotations

from typing import Any

from raysweep.workloads import image_data
from raysweep.workloads.declaration import Columns, Cost
from raysweep.workloads.image_data import ImageFiles
from raysweep.workloads.vision import shapes, tasks

_PRODUCTS = 1.5e10  # a second
_ACTIVATIONS = 1.5e9  # a second
_STEP = 4e-4  # seconds of a step beside these
_BASE_BYTES = 4e8
_LANCZOS, _PROBES = 100, 30  # products with the Hessian for 20 eigenvalues (more where they lie close), and the trace
_DOUBLY = 10  # what a product in float64 costs, in forward passes in float32
_GRADIENTS = 25  # the same for variation and sizes of gradients


def pretrain(columns: Columns, before: float, point: float) -> Cost:
    """Cost of one row from one epoch to another."""
    row = _row(columns)
    images = row["source_samples"] or tasks.count(row, "source")
    seconds = _training(row, images / row["batch_size"], row["batch_size"]) + _examining(row, "source")
    return Cost((point - before) * seconds, _memory(row))


def finetune(columns: Columns) -> Cost:
    """Cost of fine-tuning one row."""
    row = _row(columns)
    return Cost(_finetuning(row), _memory(row))


def evaluate(columns: Columns) -> Cost:
    """Cost of measuring one row, with a fourth of a training from scratch, which several rows share."""
    row = _row(columns)
    seconds = 0.25 * _finetuning(row) + 2.25 * _examining(row, "target")
    return Cost(seconds + tasks.trained(row) * _examining(row, "source"), _memory(row))


def examine(columns: Columns) -> Cost:
    """Cost of what examination.py measures of one row, before and after fine-tuning."""
    row, size = _row(columns), _size(_row(columns))
    images, layers = row["examined_images"], shapes.layers(row["model"], row["depth"])
    if not images:
        return Cost(1e-3, _BASE_BYTES)
    forward = images * (size.products / _PRODUCTS + size.activations / _ACTIVATIONS) + 3e-4 * layers
    products = (_LANCZOS + _PROBES) * (row["eigenvalues"] > 0)
    surfaces = (2 + layers) * row["landscape_points"] ** 2
    seconds = forward * (2 * products * _DOUBLY + surfaces + 2 * _GRADIENTS)
    held = 8 * _LANCZOS * (row["eigenvalues"] > 0) * size.weights
    return Cost(float(seconds), float(_memory(row) + held + 60 * min(images, 256) * size.activations))


def _finetuning(row: dict[str, Any]) -> float:
    return _training(row, row["finetune_steps"], min(row["batch_size"], row["target_samples"]))


def _training(row: dict[str, Any], steps: float, batch: float) -> float:
    """Seconds of so many steps."""
    size = _size(row)
    each = 3 * (size.products / _PRODUCTS + size.activations / _ACTIVATIONS)
    return float(steps * (_STEP + batch * each + 5 * size.weights / _ACTIVATIONS))


def _examining(row: dict[str, Any], role: str) -> float:
    """Seconds of one look at the test images."""
    size = _size(row)
    classes = tasks.target_classes(row) if role == "target" else tasks.source_classes(row)
    images = tasks.counts(row[role], role, "test")[classes].sum()
    return float(images * (size.products / _PRODUCTS + size.activations / _ACTIVATIONS))


def _memory(row: dict[str, Any]) -> float:
    """Bytes at the peak: images of both tasks, several copies of the weights, and what a step keeps of its batch."""
    size, (colours, side) = _size(row), tasks.form(row)
    images = (
        sum(len(part.labels) for part in _parts(row) if not isinstance(part.pixels, ImageFiles)) * colours * side**2
    )
    return float(_BASE_BYTES + 3 * images + 24 * size.weights + 8 * max(500, row["batch_size"]) * size.activations)


def _parts(row: dict[str, Any]) -> list[image_data.Images]:
    sets = (image_data.planned(row[role], role) for role in ("source", "target"))
    return [part for data in sets for part in (data.train, data.test)]


def _size(row: dict[str, Any]) -> shapes.Size:
    colours, side = tasks.form(row)
    return shapes.size(row["model"], row["depth"], side, colours, len(tasks.target_classes(row)))


def _row(columns: Columns) -> dict[str, Any]:
    """The only row, as that of the seed 0."""
    plain = {name: values[0].item() if hasattr(values[0], "item") else values[0] for name, values in columns.items()}
    return {**plain, "seed": 0}
