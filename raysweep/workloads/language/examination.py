"""What models are evaluated on: held-out text, or examples to classify by length-normalized likelihood (O App. C)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from raysweep.training import optimizer, parallel, sharding, sizes
from raysweep.training.optimizer import mixed_precision, on_device
from raysweep.workloads.language import model
from raysweep.workloads.language.model_config import ModelConfig
from raysweep.workloads.language.tasks import Task
from raysweep.workloads.language.texts import Corpus, Mixture

Examination = Callable[[Tensor], tuple[np.ndarray, np.ndarray]]
"""Maps models (models, weights) to their loss and accuracy, (models,) each; accuracy is NaN for text."""


def examination(target: Mixture | Corpus, split: str, count: int, config: ModelConfig) -> Examination:
    """The evaluation on up to `count` held-out sequences of a text, or examples of a task."""
    own = target.target if isinstance(target, Mixture) else target
    if isinstance(own, Task):
        asked, truth = own.questions(split, count, config.context)
        return lambda flat: classify(flat, asked, truth, config)
    sequences = target.held_out(split, count, config.context)
    return lambda flat: (optimizer.evaluate(flat, sequences, config), np.full(len(flat), np.nan))


@torch.no_grad()
def classify(
    flat: Tensor, asked: np.ndarray, truth: np.ndarray, config: ModelConfig, batch: int = 64
) -> tuple[np.ndarray, np.ndarray]:
    """How well models (models, weights) classify: loss and accuracy, (models,) each.

    The loss is the mean -log of the probability of the right class, which is the logarithm of O's perplexity over
    classes. The accuracy is the share of examples whose most likely class is right. Workers of a gang share the
    examples.

    asked: examples with every possible label, (examples, classes, length + 1).
    truth: the right classes, (examples,).
    """
    parallel.meet()  # as in optimizer.evaluate
    params = sharding.params(flat, config)
    rows = asked.reshape(-1, asked.shape[-1])
    own, first = parallel.share(rows)
    found = []
    batch = sizes.samples(min(batch, len(own)))
    for start in range(0, len(own), batch):
        part = on_device(own[start : start + batch], flat.device)
        with mixed_precision(flat.device):
            each = model.token_losses(params, part, config).double()
        found.append(-each.sum(2) / (part[:, 1:] >= 0).sum(1))
    each = torch.zeros(len(flat), len(rows), dtype=torch.float64, device=flat.device)
    each[:, first : first + len(own)] = torch.cat(found, 1)[:, : max(0, len(rows) - first)]
    likelihood = parallel.add_up(each).unflatten(1, asked.shape[:2]).cpu()  # (models, examples, classes)
    right = torch.from_numpy(truth)
    loss = -likelihood.log_softmax(2)[:, torch.arange(len(right)), right].mean(1)
    return loss.numpy(), (likelihood.argmax(2) == right).double().mean(1).numpy()
