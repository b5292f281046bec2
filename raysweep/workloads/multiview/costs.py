"""What stages cost, on one core; importable without torch.

Measured on one core of a 2-core x86 machine (float32, one thread). Expect an error of a factor 2.
"""

from raysweep.workloads.declaration import Columns, Cost
from raysweep.workloads.multiview import TEACHER_STUDENT, tasks

_BASE_BYTES = 3e8
_FLOPS = 1e11  # a second, of a step's products
_DRAW = 2.5e-8  # seconds for a number of a sample
_PATCH = {"classifier": 4e-8, "teacher_student": 3e-8, "autoencoder": 1.3e-7}  # seconds of a step for a patch
_VALUE = {"classifier": 3.2e-9, "teacher_student": 4e-9, "autoencoder": 2.3e-9}  # and for a kernel on it
_PRODUCTS = {"classifier": 2, "teacher_student": 2, "autoencoder": 5}  # of inputs and kernels, in a step


def scratch(columns: Columns) -> Cost:
    samples = float(columns["target_samples"][0])
    return _cost(columns, "classifier", samples, float(columns["finetune_steps"][0]), 2 * tasks.TEST)


def pretrain(columns: Columns, before: float, point: float) -> Cost:
    """Cost of pretraining from one stop to the next."""
    kind = "teacher_student" if columns["framework"][0] == TEACHER_STUDENT else "autoencoder"
    return _cost(columns, kind, float(columns["samples"][0]), point - before)


def finetune(columns: Columns) -> Cost:
    return _cost(columns, "classifier", float(columns["target_samples"][0]), float(columns["finetune_steps"][0]))


def evaluate(columns: Columns) -> Cost:
    return _cost(columns, "classifier", float(columns["target_samples"][0]), 0, 2 * tasks.TEST)


def _cost(columns: Columns, kind: str, samples: float, steps: float, looked_at: float = 0) -> Cost:
    """looked_at: further samples, which are encoded once."""
    patches, dim = float(columns["patches"][0]), float(columns["dim"][0])
    kernels = float(columns["kernels"][0]) * float(columns["classes"][0])
    value = _VALUE[kind] + 2 * _PRODUCTS[kind] * dim / _FLOPS
    drawn = (samples + looked_at) * patches * dim
    seconds = 0.02 + _DRAW * drawn + (samples * steps + looked_at) * patches * (_PATCH[kind] + kernels * value)
    return Cost(seconds, _BASE_BYTES + 24 * drawn)
