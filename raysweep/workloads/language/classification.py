"""How well a model classifies: the length-normalized likelihood of each class, as in O App. C."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from raysweep.workloads.language import model, parallel, sharding
from raysweep.workloads.language.shapes import Shape
from raysweep.workloads.language.training import mixed_precision, on_device


@dataclass(frozen=True)
class Scored:
    """What models make of held-out examples, (models,) each: mean -log of the probability of the right class (the
    logarithm of O's perplexity over classes), and the share of examples whose likeliest class is the right one."""

    loss: np.ndarray
    accuracy: np.ndarray


@torch.no_grad()
def score(flat: Tensor, asked: np.ndarray, truth: np.ndarray, shape: Shape, batch: int = 64) -> Scored:
    """Models (models, weights) on examples with every possible label (examples, classes, length + 1), of which the
    classes truth (examples,) are right. Workers of a gang share them out."""
    weights = sharding.weights(flat, shape)
    rows = asked.reshape(-1, asked.shape[-1])
    own, first = parallel.share(rows)
    found = []
    for start in range(0, len(own), batch):
        part = on_device(own[start : start + batch], flat.device)
        with mixed_precision(flat.device):
            each = model.token_losses(weights, part, shape).double()
        found.append(-each.sum(2) / (part[:, 1:] >= 0).sum(1))
    each = torch.zeros(len(flat), len(rows), dtype=torch.float64, device=flat.device)
    each[:, first : first + len(own)] = torch.cat(found, 1)[:, : max(0, len(rows) - first)]
    likelihood = parallel.add_up(each).unflatten(1, asked.shape[:2]).cpu()  # (models, examples, classes)
    right = torch.from_numpy(truth)
    loss = -likelihood.log_softmax(2)[:, torch.arange(len(right)), right].mean(1)
    return Scored(loss.numpy(), (likelihood.argmax(2) == right).double().mean(1).numpy())
