"""Small versions of the packaged spaces, and the rows that they gave before the rooms were rebuilt.

A golden holds the content hash of every cell, every resolved parameter, every status and every metric in full
precision. It says that nothing changed, not that it was right: the closed forms and the other methods in the tests of
the workloads say that.

Nets train in float64 here. In float32, the order in which a processor adds numbers changes the seventh digit, and some
fifty steps at a large learning rate make some per cent of that: such rows say which processor computed them.
"""

import contextlib
from pathlib import Path
from unittest import mock

import torch

import raysweep
from raysweep.workloads.multiview import stages as multiview
from raysweep.workloads.vision import eigen_cam, examination, masked, models, pixels

_LINEAR = {"fixed.dim": 60, "seeds": 2}
_TINY = {
    "fixed.evaluation_tokens": 512,
    "fixed.preset": "tiny",
    "fixed.source": "grammar:0",
    "fixed.target": "grammar:0.5",
    "fixed.width": 16,
    "fixed.context": 32,
    "fixed.pretrain_batch": 8,
    "fixed.finetune_batch": 8,
    "seeds": 2,
    "resources": None,
    "axes.pretrain_length": [1024, 1536, 4096],
}

_COVARIANCE = {**_LINEAR, "fixed.spectrum": "1.5:3,0.3", "axes.gamma": [0.05, 0.5, 0.9]}

_RELU = {
    "fixed.dim": 8,
    "fixed.width": 24,
    "fixed.teacher_width": 10,
    "fixed.steps": 30,
    "fixed.learning_rate": 1,
    "fixed.datasets": 2,
    "axes.ablation": [0.1, 0.6],
    "axes.target_samples": [50, 100],
    "seeds": 2,
    "resources": None,
}

_KERNEL = {"fixed.source_samples": 15, "seeds": 2, "axes.overlap_angle": [0, 60]}

_MULTIVIEW = {
    "fixed.classes": 3,
    "fixed.dim": 8,
    "fixed.patches": 6,
    "fixed.samples": 60,
    "fixed.target_samples": 40,
    "fixed.init_scale": 0.1,
    "seeds": 2,
}

_FEW = {"fixed.image_size": 14, "fixed.source_samples": 60, "fixed.target_samples": 30, "seeds": 2}
_DIGITS = {"fixed.source": "digits", "fixed.target": "digits"}
_EPOCHS = {"axes.pretrain_length": [1, 3], "axes.finetune_lr": [0.001, 0.01], "fixed.finetune_steps": 5, "seeds": 2}
_FULL = {
    **_FEW,
    **_DIGITS,
    "fixed.model": "lenet",
    "fixed.finetune_steps": 5,
    "axes.finetune_lr": [0.01, 0.03],
    "axes.pretrain_length": [1, 3],
    "resources": None,
}

SPACES = {
    "covariance": _COVARIANCE,
    "covariance_boundary": {**_COVARIANCE, "axes.shift_norm": [0.5, 1, 2]},
    "dataset_distance": {**_LINEAR, "axes.overlap_angle": [9, 90, 180], "fixed.distance_samples": 40},
    "depth_noise_boundary": {**_LINEAR, "axes.overlap_angle": [3, 48, 90], "axes.noise": [0, 0.5]},
    "depth_scale": _LINEAR,
    "deviation": {
        **_FEW,
        "axes.target": ["digits", "digits"],
        "axes.target_classes": ["0-2", "5-7"],
        "fixed.source": "digits",
        "fixed.pretrain_length": 1,
        "fixed.finetune_steps": 5,
    },
    "digits_transfer": _EPOCHS,
    "engine_check": {"fixed.dim": 12, "fixed.init_scale": 0.01, "seeds": 1, "axes.finetune_lr": [0.04, 0.08]},
    "feature_capture": {**_MULTIVIEW, "axes.kernels": [1, 3], "axes.pretrain_length": [5, 20]},
    "finetuning_ablation": {
        **_TINY,
        "fixed.finetune_batch": None,
        "axes.finetune_batch": [8, 4, 8, 8],
        "axes.finetune_steps": [4, 8, 4, 4],
        "axes.finetune_schedule": ["cosine", "cosine", "constant", "cosine"],
        "axes.finetune_dropout": [0, 0, 0, 0.1],
        "axes.finetune_lr": [0.0012, 0.0048],
    },
    "four_axes": {
        "fixed.dim": 20,
        "seeds": 2,
        "axes.overlap_angle": [30, 75],
        "axes.finetune_lr": [0.0005, 0.016, 8],
        "axes.pretrain_length": {"geomspace": [0.5, 8, 3]},
    },
    "four_axes_vision": {**_EPOCHS, "axes.depth": [2, 4], "axes.overlap_angle": [0, 90]},
    "four_axes_language": {
        **_TINY,
        "fixed.finetune_steps": 5,
        "axes.depth": [1, 2],
        "axes.overlap_angle": [30, 90],
        "axes.finetune_lr": [1e-3, 1e-2],
    },
    "frozen_layers": {**_LINEAR, "axes.gamma": [0.1, 0.9, 1.9]},
    "image_regression": {"axes.pair": ["6-9:0-2", "1-6:5-4"], "fixed.repeats": 2, "seeds": 2},
    "image_regression_length": {
        "axes.pair": ["6-9:0-2", "1-6:5-4"],
        "axes.pretrain_length": [30, 100000, float("inf")],
        "fixed.repeats": 2,
        "seeds": 2,
    },
    "label_and_input_similarity": {
        "axes.source": ["digits"] * 4,
        "axes.flip": ["none", "none", "upside_down", "none"],
        "axes.label": ["class", "class", "class", "brightness"],
        "axes.pretrain": ["none", "supervised", "supervised", "supervised"],
        "axes.target_samples": [20],
        "fixed.source_samples": 60,
        "fixed.image_size": 14,
        "fixed.pretrain_length": 2,
        "fixed.finetune_steps": 5,
        "analysis": None,
        "seeds": 2,
    },
    "masked_images": {
        **_DIGITS,
        "axes.target_samples": [20],
        "fixed.source_samples": 60,
        "fixed.pretrain_length": 2,
        "fixed.finetune_steps": 5,
        "fixed.eigen_cam_images": 10,
        "seeds": 2,
    },
    "multiview_boundary": {
        **_MULTIVIEW,
        "fixed.finetune_steps": 20,
        "axes.kernels": [1, 3],
        "axes.pretrain_length": [5, 20],
    },
    "landscapes": {
        "axes.pretrain_length": [0, 1],
        "axes.finetune_steps": [0, 5],
        "axes.eigenvalues": [0, 3],
        **_FEW,
        **_DIGITS,
        "axes.landscape_points": [0, 3],
        "fixed.examined_images": 20,
        "keep": None,
        "analysis": None,
    },
    "norm_scale": {**_LINEAR, "axes.source_norm": [1, 3], "axes.target_norm": [1, 8]},
    "overtraining_language": {
        **_TINY,
        "axes.finetune_lr": [1e-3, 4e-3, 1e-3],
        "axes.finetune_steps": [5, 5, 0],
        "axes.noise": [0, 0, 0.5],
    },
    "overtraining_language_tiny": {**_TINY, "fixed.finetune_steps": 5, "axes.finetune_lr": [0.0012, 0.0192]},
    "overtraining_linear": {"seeds": 2, "axes.pretrain_length": {"geomspace": [1, 100, 4]}},
    "overtraining_linear_ordered": {"seeds": 1, "axes.pretrain_length": [49.63, 229, 1760], "axes.penalty": [0, 2]},
    "overtraining_noise": {**_TINY, "axes.noise": [0.25, 3]},
    "overtraining_olmo30m": {
        **_TINY,
        "fixed.finetune_batch": None,
        "fixed.pretrain_dropout": 0.1,
        "fixed.finetune_steps": None,
        "axes.finetune_steps": [6, 6],
        "axes.finetune_batch": [4, 8],
        "axes.finetune_lr": [1e-4, 1e-2],
    },
    "pretrain_inflection": {**_LINEAR, "axes.pretrain_length": [0.2, 4, 40], "axes.overlap_angle": [30, 75]},
    "pretraining_epochs": {**_EPOCHS, **_FEW, "axes.source": ["digits"], "axes.target": ["digits"]},
    "label_similarity_full": {
        **_FULL,
        "axes.label": ["class", "brightness"],
        "axes.pretrain_length": None,
        "fixed.pretrain_length": 2,
    },
    "masked_images_full": {**_FULL, "axes.pretrain_length": None, "fixed.pretrain_length": 2, "fixed.batch_size": 32},
    "pretraining_epochs_full": {**_FULL, "axes.finetune_lr": [0.003, 0.01]},
    "quickstart": {**_LINEAR, "axes.overlap_angle": [9, 45, 90], "axes.gamma": [0.2, 0.8, 1.5]},
    "relu_features": _RELU,
    "relu_features_full": _RELU,
    "relu_kernel": {**_KERNEL, "axes.width": [64, 256, float("inf")], "fixed.dim": 5, "fixed.target_samples": 10},
    "relu_kernel_digits": {**_KERNEL, "axes.width": [64, float("inf")], "fixed.target_samples": 10},
    "relu_kernel_risk": {
        **_KERNEL,
        "axes.target_samples": [5, 10],
        "axes.width": [256, float("inf")],
        "analysis": None,
    },
    "ridge_transfer": {**_LINEAR, "axes.ridge": [0, 0.1, 0.6]},
    "sharpness": {
        **_TINY,
        "axes.finetune_lr": [0.0012, 0.0048, 0.0048, 0.0012],
        "axes.finetune_steps": [5, 5, 5, 0],
        "axes.interpolation": [1, 1, 0.2, 1],
        "axes.noise": [0, 0, 0, 1],
        "fixed.sharpness_iterations": 3,
        "analysis": None,
    },
    "single_view_error": {
        **_MULTIVIEW,
        "fixed.init_scale": None,
        "fixed.finetune_steps": 20,
        "fixed.pretrain_length": 20,
        "axes.single_view_fraction": [0, 0.4],
    },
    "transfer_phase_diagram": {**_LINEAR, "axes.overlap_angle": [4.5, 45, 90], "axes.gamma": [0.1, 0.9, 1.0, 2.0]},
    "transfer_phase_diagram_noiseless": {**_LINEAR, "axes.overlap_angle": [4.5, 60, 90], "axes.gamma": [0.1, 1.2]},
}
"""What makes each packaged space small: its name to what `--set` would say. Those for a GPU get a model for a CPU."""

OLD_STORAGE = Path(__file__).parent / "storage"
"""A storage as version 0.1.0 left it when it was stopped half-way: two sweeps, and the store of their stages."""


def path_of(name):
    return Path(__file__).parent / f"{name}.csv"


@contextlib.contextmanager
def float64():
    """Nets of vision, language and multiview, and what they take, are in float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    with contextlib.ExitStack() as stack:
        stack.callback(torch.set_default_dtype, before)
        for module in (eigen_cam, examination, masked, models):
            stack.enter_context(mock.patch.object(module, "scaled", lambda some: pixels.scaled(some).double()))
        stack.enter_context(mock.patch.object(multiview, "_sent", _wide_sent))
        yield


def _wide_sent(values, context):
    return torch.as_tensor(values, dtype=torch.float64).to(context.device)


def rows_of(name, storage):
    """The rows that the small version of a space gives today, computed in this process."""
    with float64():
        sweep = raysweep.run(
            name,
            set=SPACES[name],
            storage=storage,
            tracking_uri="none",
            executor="inline",
            report=False,
            say=lambda line: None,
        )
    return sweep.results().drop(columns=["sweep", "code_version", "seconds"])
