"""What the stages cost, on one core and on one GPU; importable without torch.

A core: measured on one of a 2-core x86 machine (float32, one thread), at the nets and batches of the packaged spaces;
expect an error of a factor 2. Images of a folder are decoded whenever they are used: 4 ms of a core for a JPEG of
512 x 512 pixels.

A GPU: a guess within a factor of 3 either way, measured on none. It is made so that ResNet-50 trains on 600 images of
224 x 224 pixels a second. NVIDIA reports 938 of one A100 80GB in TF32, torch's default for convolutions, with batches
of 256 and images decoded on the GPU (NVIDIA/DeepLearningExamples, PyTorch/Classification/ConvNets/resnet50v1.5, 2021),
and 367 of a V100 in FP32. Decoding takes its turn with training, on 8 cores.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.workloads import image_data
from raysweep.workloads.declaration import Columns, Cost
from raysweep.workloads.image_data.image_folder import ImageFiles
from raysweep.workloads.rows import Rows
from raysweep.workloads.vision import shapes, tasks


@dataclass(frozen=True)
class _Machine:
    """products, wide: how many a second, in nets of few channels and in all others; activations: how many of these.
    step, layer: further seconds of a step, for itself and for each layer. image: seconds to decode one."""

    products: float
    wide: float
    activations: float
    step: float
    layer: float
    image: float


_CORE = _Machine(products=1.5e10, wide=7e10, activations=1.5e9, step=4e-4, layer=0.0, image=4e-3)
_GPU = _Machine(products=1.5e13, wide=1.5e13, activations=1.2e11, step=4e-4, layer=1e-4, image=4e-3 / 8)
_SEED = np.zeros(1, int)  # that of the only row; the cost of no other is asked for
_NARROW = shapes.SMALL_CNN, shapes.LENET
_LIVE = 0.08  # of all activations of a residual net, those that are there at one time when nothing is trained
_BASE_BYTES = 4e8
# products with the Hessian: for eigenvalues at all and for each (fewer where they lie apart: for 20 of lenet 70 to 150,
# of small_cnn 110 to 160; many more where some are equal), and for the trace
_LANCZOS, _EIGENVALUE, _PROBES = 20, 5, 30
_DOUBLY = 12  # what a product in float64 costs, in forward passes in float32
_GRADIENTS = 25  # forward passes of variation and sizes of gradients
_ONCE = 3e-4  # seconds of any of these for each layer, whatever the images
_HEAT_MAP = 3e-4  # seconds of one, and of its peaks


def pretrain(columns: Columns, before: float, point: float) -> Cost:
    row = Rows(columns, _SEED).row()
    images = row["source_samples"] or tasks.count(row, "source")

    def seconds(machine: _Machine) -> float:
        training = _training(row, "source", images / row["batch_size"], row["batch_size"], machine)
        return (point - before) * (training + _examining(row, "source", machine))

    return _cost(row, seconds)


def finetune(columns: Columns) -> Cost:
    row = Rows(columns, _SEED).row()
    return _cost(row, lambda machine: _finetuning(row, machine))


def evaluate(columns: Columns) -> Cost:
    """Cost of measuring one row, with a fourth of a training from scratch, which several rows share."""
    row = Rows(columns, _SEED).row()

    def seconds(machine: _Machine) -> float:
        target = 0.25 * _finetuning(row, machine) + 2.25 * _examining(row, "target", machine)
        labelled = tasks.trained(row) and row["pretrain"] == tasks.SUPERVISED
        return target + labelled * _examining(row, "source", machine)

    return _cost(row, seconds)


def examine(columns: Columns) -> Cost:
    """Cost of heat maps, and of what examination.py measures of one row, before and after fine-tuning."""
    row = Rows(columns, _SEED).row()
    size = _size(row)
    images, layers, maps = row["examined_images"], shapes.layers(row["model"], row["depth"]), row["eigen_cam_images"]
    if not (images or maps):
        return Cost(1e-3, _BASE_BYTES, 1e-3)
    lanczos = (_LANCZOS + _EIGENVALUE * row["eigenvalues"]) * (row["eigenvalues"] > 0)
    products = lanczos + _PROBES * (row["eigenvalues"] > 0)
    surfaces = (2 + layers) * row["landscape_points"] ** 2

    def seconds(machine: _Machine) -> float:
        forward, once = images * _forward(row, machine), _ONCE * layers
        curvature = 2 * products * (_DOUBLY * forward + once)
        examined = (curvature + (surfaces + 2 * _GRADIENTS) * (forward + once)) * (images > 0)
        return float(examined + maps * (_forward(row, machine) + _decoding(row, "target", machine) + _HEAT_MAP))

    held = 8 * (lanczos + row["eigenvalues"]) * size.weights
    return _cost(row, seconds, float(held + 60 * min(images, 256) * size.activations))


def _cost(row: dict[str, Any], seconds: Callable[[_Machine], float], more: float = 0.0) -> Cost:
    """more: bytes on top of those of training."""
    return Cost(float(seconds(_CORE)), _memory(row) + more, float(seconds(_GPU)))


def _finetuning(row: dict[str, Any], machine: _Machine) -> float:
    return _training(row, "target", row["finetune_steps"], min(row["batch_size"], row["target_samples"]), machine)


def _training(row: dict[str, Any], role: str, steps: float, batch: float, machine: _Machine) -> float:
    """Seconds of some steps of training."""
    size, layers = _size(row), shapes.layers(row["model"], row["depth"])
    each = 3 * _forward(row, machine) + _decoding(row, role, machine)
    once = machine.step + machine.layer * layers + 5 * size.weights / machine.activations
    return float(steps * (once + batch * each))


def _examining(row: dict[str, Any], role: str, machine: _Machine) -> float:
    """Seconds of one look at the test images; reconstruction of a source looks at some of them."""
    classes = tasks.target_classes(row) if role == "target" else tasks.source_classes(row)
    images = tasks.counts(row[role], role, "test")[classes].sum()
    if role == "source" and row["pretrain"] == tasks.MASKED:
        images = min(images, tasks.HELD_OUT)
    return float(images * (_forward(row, machine) + _decoding(row, role, machine)))


def _forward(row: dict[str, Any], machine: _Machine) -> float:
    """Seconds of one image in a net."""
    size, speed = _size(row), machine.products if row["model"] in _NARROW else machine.wide
    return size.products / speed + size.activations / machine.activations


def _decoding(row: dict[str, Any], role: str, machine: _Machine) -> float:
    """Seconds to decode one image; those of published sets are in memory."""
    return machine.image if image_data.kind_of(row[role]) == image_data.FOLDER else 0.0


def _memory(row: dict[str, Any]) -> float:
    """Bytes at the peak: images of both tasks, several copies of the weights, and what a step keeps of its batch."""
    size, (colours, side) = _size(row), tasks.form(row)
    sets = [image_data.planned(row[role], role) for role in ("source", "target")]
    parts = [part for data in sets for part in (data.train, data.test) if not isinstance(part.pixels, ImageFiles)]
    images = sum(len(part.labels) for part in parts) * colours * side**2
    examined = 4 * 500 * (_LIVE if row["model"] in shapes.RESNETS else 2)
    step = max(examined, 8 * row["batch_size"]) * size.activations
    return float(_BASE_BYTES + 3 * images + 24 * size.weights + step)


def _size(row: dict[str, Any]) -> shapes.Size:
    colours, side = tasks.form(row)
    return shapes.size(row["model"], row["depth"], side, colours, len(tasks.target_classes(row)))
