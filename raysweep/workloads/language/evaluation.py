"""The stage evaluate: losses before and after, accuracy, distances and curvature."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from raysweep.errors import InputError
from raysweep.training import hessian, sharding, sizes
from raysweep.training.params import named
from raysweep.workloads.declaration import DIVERGED, OK
from raysweep.workloads.language import model, texts
from raysweep.workloads.language.examination import Examination, examination
from raysweep.workloads.language.finetuning import flat_of, mixture_of, start_of
from raysweep.workloads.language.model_config import ModelConfig, config_of
from raysweep.workloads.language.tasks import Task
from raysweep.workloads.rows import Result, Rows

if TYPE_CHECKING:
    from raysweep.stages.artifacts import Stacked
    from raysweep.trial.context import Context

CURVATURE_SEQUENCES = 64
"""Number of held-out sequences in the mean loss whose curvature is measured."""


CURVATURE = ("sharpness", "hessian_trace", "quadratic_sensitivity", "sensitivity_beyond_quadratic", "trace_sensitivity")
"""The metrics that are measured only if `sharpness_iterations` is above 0."""


@dataclass(frozen=True)
class Before:
    """What rows share that start from one pretraining and are measured alike.

    source, validation, test: the held-out text of the source, and the documents of the target.
    metrics: what is measured before perturbation and fine-tuning.
    quadratic: the quadratic model of the source loss; None if curvature is not measured.
    """

    source: Examination
    validation: Examination
    test: Examination
    metrics: dict[str, float]
    quadratic: hessian.Quadratic | None


def evaluate(rows: Rows, parent: Stacked, context: Context) -> Result:
    """Measure fine-tuned models of one pretraining. A row is diverged if a metric is not finite."""
    parameters, pretraining = rows.row(), parent.common_parent()
    config = config_of(parameters)
    start, flat = start_of(pretraining, config), flat_of(parent.tensors(), config)
    share = torch.as_tensor(rows["interpolation"].astype(np.float64), dtype=flat.dtype, device=flat.device).unsqueeze(1)
    if bool((share != 1).any()):  # at 1 a sum would round
        flat = torch.where(share == 1, flat, start + share * (flat - start))
    own = ("noise", "interpolation")
    alike = tuple(value for name, value in parameters.items() if not name.startswith("finetune_") and name not in own)
    before = pretraining.once(("before", *alike), lambda: _before(parameters, start, config))
    loss, accuracy = before.test(flat)
    found = {
        "pretrain_loss_after": before.source(flat)[0],
        "finetune_loss": loss,
        "finetune_loss_validation": before.validation(flat)[0],
        "distance_moved": sharding.norm((flat - start).double(), config).cpu().numpy(),
    }
    found |= {name: np.full(len(rows), value) for name, value in before.metrics.items()}
    found["finetune_epochs"] = np.full(len(rows), _epochs(parameters, config))
    found["sensitivity"] = found["pretrain_loss_after"] - found["pretrain_loss"]
    finite = np.all([np.isfinite(values) for values in found.values()], axis=0)
    if before.quadratic is not None:
        found |= _curved(before.quadratic, flat - start)
        strengths = rows["interpolation"].astype(np.float64) * rows["noise"].astype(np.float64)
        found["trace_sensitivity"] = 0.5 * strengths**2 * found["hessian_trace"]
    else:
        found |= dict.fromkeys(CURVATURE, np.full(len(rows), np.nan))
    for name, size in pretraining.once(("bytes", *alike), lambda: _bytes_per_token(parameters, config)).items():
        found[f"{name}_per_byte"] = found[name] / size
    return Result(
        metrics={**found, **_perplexities(found), "finetune_accuracy": accuracy}, status=np.where(finite, OK, DIVERGED)
    )


def _before(parameters: Mapping[str, Any], start: Tensor, config: ModelConfig) -> Before:
    mixture = mixture_of(parameters)
    count = max(1, int(parameters["evaluation_tokens"]) // config.context)
    source = examination(mixture.source, "test", count, config)
    test = examination(mixture, "test", count, config)
    metrics = {"pretrain_loss": float(source(start)[0][0]), "finetune_loss_before": float(test(start)[0][0])}
    quadratic = None
    if iterations := int(parameters["sharpness_iterations"]):
        if sharding.is_share(start, config):
            raise InputError(
                "sharpness_iterations",
                "curvature is measured of models that fit one GPU, and this one is spread over several: set it to 0",
            )
        held_out = mixture.source.held_out("test", count, config.context)
        quadratic = quadratic_of(start, held_out[:CURVATURE_SEQUENCES], config)
        metrics |= hessian.summary(quadratic, config, iterations, int(parameters["seed"]))
    return Before(source, examination(mixture, "validation", count, config), test, metrics, quadratic)


def _curved(quadratic: hessian.Quadratic, moves: Tensor) -> dict[str, np.ndarray]:
    """The quadratic model of each move (models, weights), and what the loss really changes beyond it."""
    change, real = (np.array([of(move) for move in moves]) for of in (quadratic.change, quadratic.real_change))
    return {"quadratic_sensitivity": change, "sensitivity_beyond_quadratic": real - change}


def quadratic_of(flat: Tensor, sequences: np.ndarray, config: ModelConfig) -> hessian.Quadratic:
    """The mean loss on sequences, with its gradient and Hessian at one model (1, weights).

    It is the sum of parts of a few sequences each, because differentiating twice takes many times the memory of a
    training step. How many parts there are changes only the order in which float32 numbers are added.
    """
    tokens = torch.from_numpy(sequences.astype(np.int64)).to(flat.device)
    predictions = (tokens[:, 1:] >= 0).sum()

    def loss(leaf: Tensor, some: Tensor) -> Tensor:
        return (model.token_losses(named(leaf, config), some, config).sum((1, 2)) / predictions)[0]

    parts = tokens.split(sizes.samples(len(tokens), config.curvature_bytes()))
    return hessian.Quadratic(flat, [functools.partial(loss, some=some) for some in parts])


def _epochs(parameters: Mapping[str, Any], config: ModelConfig) -> float:
    """How often fine-tuning goes through the target's training text; 0 for an endless text."""
    mixture = mixture_of(parameters)
    sequences = int(parameters["finetune_steps"]) * int(parameters["finetune_batch"]) * (1 - mixture.overlap)
    if isinstance(mixture.target, Task):
        return sequences / mixture.target.size if mixture.target.size else 0.0
    return sequences * config.context / mixture.target.train_tokens if mixture.target.train_tokens else 0.0


def _perplexities(metrics: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The perplexities that paper O plots; infinite if the loss is so large (about 710 nats) that float64 overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        before, after, own = (
            np.exp(metrics[name]) for name in ("pretrain_loss", "pretrain_loss_after", "finetune_loss")
        )
        return {
            "pretrain_perplexity": before,
            "pretrain_perplexity_after": after,
            "sensitivity_perplexity": after - before,
            "finetune_perplexity": own,
        }


def _bytes_per_token(parameters: Mapping[str, Any], config: ModelConfig) -> dict[str, float]:
    """Bytes per token of the text on which each of two losses is measured."""
    mixture = mixture_of(parameters)
    count = max(1, int(parameters["evaluation_tokens"]) // config.context)
    return {
        "pretrain_loss_after": texts.bytes_per_token(mixture.source, "test", count, config.context),
        "finetune_loss": texts.bytes_per_token(mixture, "test", count, config.context),
    }
