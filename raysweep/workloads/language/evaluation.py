"""The stage evaluate: losses before and after, accuracy, distances and curvature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from raysweep.training import devices, draws, hessian, sizes, trainer
from raysweep.workloads.declaration import DIVERGED, OK
from raysweep.workloads.language import model
from raysweep.workloads.language.corpus import Corpus, Mixture, mixture_of
from raysweep.workloads.language.model_config import ModelConfig, config_of
from raysweep.workloads.language.pretraining import Row, Weights, start_of
from raysweep.workloads.language.tasks import Task
from raysweep.workloads.rows import Result, Rows

if TYPE_CHECKING:
    from raysweep.stages.artifacts import Artifact
    from raysweep.trial.context import Context

Examination = Callable[[nn.Module], tuple[float, float]]
"""Maps a model to its loss and accuracy on what is held out; accuracy is NaN for text."""
CURVATURE_SEQUENCES = 64
"""Number of held-out sequences in the mean loss whose curvature is measured."""
CURVATURE = ("sharpness", "hessian_trace", "quadratic_sensitivity", "sensitivity_beyond_quadratic", "trace_sensitivity")
"""The metrics that are measured only if `sharpness_iterations` is above 0."""


class Before(NamedTuple):
    """What rows share that start from one pretraining and are measured alike."""

    source: Examination  # on held-out text
    validation: Examination  # on documents of the target
    test: Examination
    metrics: dict[str, float]  # before perturbation and fine-tuning
    quadratic: hessian.Quadratic | None  # the quadratic model of the source loss, if curvature is measured
    bytes: dict[str, float]  # mean number of bytes that a token stands for, of the text of each of two losses


def evaluate(rows: Rows, parent: Artifact, context: Context) -> Result:
    """Measure a fine-tuned model. A row is diverged if a metric is not finite."""
    parameters, pretraining = rows.row(), parent.parent
    assert pretraining is not None
    config, start = config_of(parameters), start_of(pretraining)
    weights = {name: torch.as_tensor(values) for name, values in parent.tensors()["weights"].items()}
    share = float(parameters["interpolation"])
    if share != 1:  # at 1 a sum would round
        weights = {name: start[name] + share * (weight - start[name]) for name, weight in weights.items()}
    later = ("noise", "interpolation")
    alike = tuple(value for name, value in parameters.items() if not name.startswith("finetune_") and name not in later)
    before = pretraining.once(("before", *alike), lambda: _before(parameters, start, config))
    module = model.decoder(config, weights)
    metrics = before.metrics | {
        "pretrain_loss_after": before.source(module)[0],
        "finetune_loss": (tested := before.test(module))[0],
        "finetune_loss_validation": before.validation(module)[0],
        "distance_moved": distance(weights[name] - start[name] for name in start),
        "finetune_epochs": _epochs(parameters, config),
    }
    metrics["sensitivity"] = metrics["pretrain_loss_after"] - metrics["pretrain_loss"]
    status = OK if np.isfinite(list(metrics.values())).all() else DIVERGED
    if before.quadratic is not None:
        move = _flat(weights, config) - _flat(start, config)
        change = before.quadratic.change(move)
        metrics["quadratic_sensitivity"] = change
        metrics["sensitivity_beyond_quadratic"] = before.quadratic.real_change(move) - change
        metrics["trace_sensitivity"] = 0.5 * (share * float(parameters["noise"])) ** 2 * metrics["hessian_trace"]
    else:
        metrics |= dict.fromkeys(CURVATURE, np.nan)
    metrics |= {f"{name}_per_byte": metrics[name] / size for name, size in before.bytes.items()}
    return Result(metrics={**metrics, **perplexities(metrics), "finetune_accuracy": tested[1]}, status=status)


def examination(target: Mixture | Corpus, split: str, parameters: Row) -> Examination:
    """The evaluation on held-out sequences of a text, or on examples to classify of a task."""
    count, length = _count(parameters), config_of(parameters).context
    text = target.target if isinstance(target, Mixture) else target
    if isinstance(text, Task):
        asked, truth = text.questions(split, count, length)
        return lambda module: classify(module, asked, truth)
    sequences = target.held_out(split, count, length)
    return lambda module: (trainer.mean_loss(module, model.losses, sequences), float("nan"))


def classify(module: nn.Module, asked: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """(loss, accuracy) of a model that classifies by length-normalized likelihood (O App. C): the mean -log of the
    probability of the right class, which is the logarithm of O's perplexity over classes, and the share of examples
    whose most likely class is right.

    asked: examples with every possible label, (examples, classes, length + 1). truth: the right classes, (examples,).
    """
    rows = asked.reshape(-1, asked.shape[-1])
    likelihood = -trainer.sequence_losses(module, model.losses, rows) / (rows[:, 1:] >= 0).sum(1)
    each = torch.from_numpy(likelihood.reshape(asked.shape[:2]))  # (examples, classes)
    right = torch.from_numpy(truth)
    loss = -each.log_softmax(1)[torch.arange(len(right)), right].mean()
    return float(loss), float((each.argmax(1) == right).double().mean())


def _count(parameters: Row) -> int:
    return max(1, int(parameters["evaluation_tokens"]) // config_of(parameters).context)


def distance(moves: Iterable[Tensor]) -> float:
    """Length of a change of all weights."""
    return float(torch.stack([move.double().norm() for move in moves]).norm())


def perplexities(metrics: Mapping[str, float]) -> dict[str, float]:
    """The perplexities that paper O plots; infinite if the loss is so large (about 710 nats) that float64 overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = {
            f"{name}_perplexity{after}": float(np.exp(metrics[f"{name}_loss{after}"]))
            for name, after in (("pretrain", ""), ("pretrain", "_after"), ("finetune", ""))
        }
        return values | {"sensitivity_perplexity": values["pretrain_perplexity_after"] - values["pretrain_perplexity"]}


def _before(parameters: Mapping[str, Any], start: Weights, config: ModelConfig) -> Before:
    mixture, count = mixture_of(parameters), _count(parameters)
    source, test = (examination(text, "test", parameters) for text in (mixture.source, mixture))
    module = model.decoder(config, start)
    metrics = {"pretrain_loss": source(module)[0], "finetune_loss_before": test(module)[0]}
    quadratic = None
    if iterations := int(parameters["sharpness_iterations"]):
        held_out = mixture.source.held_out("test", count, config.context)
        quadratic = quadratic_of(start, held_out[:CURVATURE_SEQUENCES], config)
        metrics |= curvature(quadratic, config, iterations, int(parameters["seed"]))
    token_bytes = partial(bytes_per_token, part="test", count=count, length=config.context)
    each = {"pretrain_loss_after": token_bytes(mixture.source), "finetune_loss": token_bytes(mixture)}
    return Before(source, examination(mixture, "validation", parameters), test, metrics, quadratic, each)


def bytes_per_token(text: Corpus | Mixture, part: str, count: int, length: int) -> float:
    """Mean number of bytes that a token of held-out sequences stands for; NaN if unknown."""
    if text.token_bytes is None:
        return float("nan")
    if (text.token_bytes == 1).all():
        return 1.0
    return float(text.token_bytes[text.held_out(part, count, length)[:, 1:]].mean())


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
    predictions = trainer.predictions(sequences)

    def loss(row: Tensor, some: Tensor) -> Tensor:
        weights = hessian.named(row, module)
        return model.losses(lambda *inputs: functional_call(module, weights, inputs), some).sum() / predictions

    parts = tokens.split(sizes.samples(len(tokens), config.curvature_bytes()))
    return hessian.Quadratic(flat, [partial(loss, some=some) for some in parts])


def curvature(quadratic: hessian.Quadratic, config: ModelConfig, iterations: int, seed: int) -> dict[str, float]:
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
