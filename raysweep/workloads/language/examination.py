"""What models are evaluated on: held-out text, or examples to classify by length-normalized likelihood (O App. C)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from raysweep.training import trainer
from raysweep.workloads.language import model
from raysweep.workloads.language.model_config import ModelConfig
from raysweep.workloads.language.tasks import Task
from raysweep.workloads.language.texts import Corpus, Mixture

Examination = Callable[[nn.Module], tuple[float, float]]
"""Maps a model to its loss and accuracy; accuracy is NaN for text."""


def examination(target: Mixture | Corpus, split: str, count: int, config: ModelConfig) -> Examination:
    """The evaluation on up to `count` held-out sequences of a text, or examples of a task."""
    corpus = target.target if isinstance(target, Mixture) else target
    if isinstance(corpus, Task):
        asked, truth = corpus.questions(split, count, config.context)
        return lambda module: classify(module, asked, truth)
    sequences = target.held_out(split, count, config.context)
    return lambda module: (trainer.mean_loss(module, model.losses, sequences), float("nan"))


def classify(module: nn.Module, asked: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """(loss, accuracy) of a model that classifies: the mean -log of the probability of the right class, which is the
    logarithm of O's perplexity over classes, and the share of examples whose most likely class is right.

    asked: examples with every possible label, (examples, classes, length + 1).
    truth: the right classes, (examples,).
    """
    rows = asked.reshape(-1, asked.shape[-1])
    likelihood = -trainer.sequence_losses(module, model.losses, rows) / (rows[:, 1:] >= 0).sum(1)
    each = torch.from_numpy(likelihood.reshape(asked.shape[:2]))  # (examples, classes)
    right = torch.from_numpy(truth)
    loss = -each.log_softmax(1)[torch.arange(len(right)), right].mean()
    return float(loss), float((each.argmax(1) == right).double().mean())
