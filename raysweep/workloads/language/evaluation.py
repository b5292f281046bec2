"""The stage evaluate: losses before and after, accuracy, distances and curvature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from raysweep.training import devices, draws, hessian, sizes
from raysweep.workloads.declaration import DIVERGED, OK
from raysweep.workloads.language import model, texts
from raysweep.workloads.language.examination import Examination, examination
from raysweep.workloads.language.finetuning import Weights, mixture_of, start_of
from raysweep.workloads.language.model_config import ModelConfig, config_of
from raysweep.workloads.language.tasks import Task
from raysweep.workloads.rows import Result, Rows

if TYPE_CHECKING:
    from raysweep.stages.artifacts import Artifact
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


def evaluate(rows: Rows, parent: Artifact, context: Context) -> Result:
    """Measure a fine-tuned model. A row is diverged if a metric is not finite."""
    parameters, pretraining = rows.row(), parent.parent
    assert pretraining is not None
    config, start = config_of(parameters), start_of(pretraining)
    weights = {name: torch.as_tensor(values) for name, values in parent.tensors()["weights"].items()}
    share = float(parameters["interpolation"])
    if share != 1:  # at 1 a sum would round
        weights = {name: start[name] + share * (weight - start[name]) for name, weight in weights.items()}
    own = ("noise", "interpolation")
    alike = tuple(value for name, value in parameters.items() if not name.startswith("finetune_") and name not in own)
    before = pretraining.once(("before", *alike), lambda: _before(parameters, start, config))
    module = model.decoder(config, weights)
    loss, accuracy = before.test(module)
    found = before.metrics | {
        "pretrain_loss_after": before.source(module)[0],
        "finetune_loss": loss,
        "finetune_loss_validation": before.validation(module)[0],
        "distance_moved": float(torch.stack([(weights[name] - start[name]).double().norm() for name in start]).norm()),
        "finetune_epochs": _epochs(parameters, config),
    }
    found["sensitivity"] = found["pretrain_loss_after"] - found["pretrain_loss"]
    finite = np.isfinite(list(found.values())).all()
    if before.quadratic is not None:
        move = _flat(weights, config) - _flat(start, config)
        change = before.quadratic.change(move)
        found["quadratic_sensitivity"] = change
        found["sensitivity_beyond_quadratic"] = before.quadratic.real_change(move) - change
        found["trace_sensitivity"] = 0.5 * (share * float(parameters["noise"])) ** 2 * found["hessian_trace"]
    else:
        found |= dict.fromkeys(CURVATURE, np.nan)
    for name, size in pretraining.once(("bytes", *alike), lambda: _bytes_per_token(parameters, config)).items():
        found[f"{name}_per_byte"] = found[name] / size
    return Result(
        metrics={**found, **_perplexities(found), "finetune_accuracy": accuracy}, status=OK if finite else DIVERGED
    )


def _before(parameters: Mapping[str, Any], start: Weights, config: ModelConfig) -> Before:
    mixture = mixture_of(parameters)
    count = max(1, int(parameters["evaluation_tokens"]) // config.context)
    source = examination(mixture.source, "test", count, config)
    test = examination(mixture, "test", count, config)
    module = model.decoder(config, start)
    metrics = {"pretrain_loss": source(module)[0], "finetune_loss_before": test(module)[0]}
    quadratic = None
    if iterations := int(parameters["sharpness_iterations"]):
        held_out = mixture.source.held_out("test", count, config.context)
        quadratic = quadratic_of(start, held_out[:CURVATURE_SEQUENCES], config)
        metrics |= curvature(quadratic, config, iterations, int(parameters["seed"]))
    return Before(source, examination(mixture, "validation", count, config), test, metrics, quadratic)


def _flat(weights: Mapping[str, Any], config: ModelConfig) -> Tensor:
    """Weights as one row (weights,), where this process computes."""
    rows = [torch.as_tensor(weights[part.name]).reshape(-1) for part in config.parts()]
    return torch.cat(rows).to(devices.device(), torch.get_default_dtype())


def quadratic_of(start: Mapping[str, Any], sequences: np.ndarray, config: ModelConfig) -> hessian.Quadratic:
    """The mean loss on sequences, with its gradient and Hessian at one model. Each worker of a gang has all of it.

    It is the sum of parts of a few sequences each, because differentiating twice takes many times the memory of a
    training step. How many parts there are changes only the order in which numbers are added.
    """
    flat = _flat(start, config)
    with torch.device("meta"):
        module = model.Decoder(config).eval()
    tokens = torch.from_numpy(sequences.astype(np.int64)).to(flat.device)
    predictions = int((tokens[:, 1:] >= 0).sum())

    def loss_of(some: Tensor) -> Callable[[Tensor], Tensor]:
        def called(row: Tensor) -> Callable[..., Tensor]:
            return lambda *inputs: functional_call(module, hessian.named(row, module), inputs)

        return lambda row: model.losses(called(row), some).sum() / predictions

    parts = tokens.split(sizes.samples(len(tokens), config.curvature_bytes()))
    return hessian.Quadratic(flat, [loss_of(some) for some in parts])


def curvature(quadratic: hessian.Quadratic, config: ModelConfig, iterations: int, seed: int) -> dict[str, float]:
    """The metrics sharpness and hessian_trace."""
    like, parts = quadratic.gradient, config.parts()
    deviations = torch.cat([torch.full((int(np.prod(part.shape)),), part.deviation) for part in parts]).to(like)
    start = torch.as_tensor(draws.normal(seed, "language/lanczos", len(like))).to(like)
    stream = draws.generator(seed, "language/probes")
    return {
        "sharpness": hessian.largest_eigenvalue(quadratic.product, start, iterations),
        "hessian_trace": hessian.scaled_trace(quadratic.product, deviations, iterations, stream),
    }


def _epochs(parameters: Mapping[str, Any], config: ModelConfig) -> float:
    """How often fine-tuning goes through the target's training text; 0 for an endless text."""
    mixture = mixture_of(parameters)
    sequences = int(parameters["finetune_steps"]) * int(parameters["finetune_batch"]) * (1 - mixture.overlap)
    if isinstance(mixture.target, Task):
        return sequences / mixture.target.size if mixture.target.size else 0.0
    return sequences * config.context / mixture.target.train_tokens if mixture.target.train_tokens else 0.0


def _perplexities(metrics: Mapping[str, float]) -> dict[str, float]:
    """The perplexities that paper O plots; infinite if the loss is so large (about 710 nats) that float64 overflows."""
    names = ("pretrain_loss", "pretrain_loss_after", "finetune_loss")
    with np.errstate(over="ignore", invalid="ignore"):
        before, after, own = (float(np.exp(metrics[name])) for name in names)
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
