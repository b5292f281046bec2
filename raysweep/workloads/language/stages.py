"""The stages: a model is pretrained (trunk, pretrain), perturbed, fine-tuned and measured.

cosine and constant: every length is trained by itself, and there is no trunk. wsd: lengths share a trunk at constant
rate, kept at steps on a fixed geometric grid, so that any two sweeps share it, whatever their lengths. The pretraining
of a length goes on from the last trunk before its branching point, and then anneals.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from raysweep.training import devices, draws, hessian, schedules, sizes, trainer
from raysweep.training.schedules import Factor
from raysweep.training.trainer import Recipe, Trainer
from raysweep.workloads.declaration import DIVERGED, OK
from raysweep.workloads.language import CURVATURE, corpus, model
from raysweep.workloads.language.model_config import ModelConfig, config_of, steps_of
from raysweep.workloads.rows import Artifact, Context, Result, Rows

Row = Mapping[str, Any]
Weights = dict[str, Tensor]  # by name, in the host's memory
COMPILED_STEPS = 500  # from these on, a compiler gains more time than it takes
LossOf = Callable[[str, str], float]  # of source or target, and of its validation or test part
CURVATURE_SEQUENCES = 64  # held-out ones, in the mean loss whose curvature is measured


def trunk(rows: Rows, parent: Artifact | None, context: Context) -> Result:
    """Train at constant rate up to the step `context.point`."""
    row = rows.row()
    constant = schedules.schedule("constant_warmup", 0, int(row["pretrain_warmup"]) or schedules.TRUNK_WARMUP)
    trained = _pretrained(row, parent, context, constant, int(context.point or 0))
    return Result(trained.state(not context.kept), status=OK if trained.alive else DIVERGED)


def pretrain(rows: Rows, parent: Artifact | None, context: Context) -> Result:
    """Train to the end of the row's pretraining. Diverged: a loss or gradient was not finite."""
    row = rows.row()
    steps, kind = steps_of(row), str(row["pretrain_schedule"])
    kind = "constant_warmup" if kind == "constant" else kind
    factor = schedules.schedule(kind, steps, int(row["pretrain_warmup"]))
    trained = _pretrained(row, parent, context, factor, steps)
    size = corpus.load(str(row["source"])).train_tokens
    epochs = steps * int(row["pretrain_batch"]) * config_of(row).context / size if size else 0.0
    left = {"weights": trainer.weights_of(trained.module, not context.kept)}
    return Result(left, {"epochs": epochs}, OK if trained.alive else DIVERGED)


def _pretrained(row: Row, parent: Artifact | None, context: Context, factor: Factor, until: int) -> Trainer:
    """A model trained up to a step: from its parent, else from initialization."""
    config, text, batch = config_of(row), corpus.load(str(row["source"])), int(row["pretrain_batch"])
    trained = trainer_of("pretrain", row, config.initial(row["seed"]), factor, until)
    if parent is not None:
        trained.restore(parent.tensors())

    def batches(step: int) -> np.ndarray:
        return text.sequences("train", row["seed"], "pretrain", step * batch, batch, config.context)

    trained.train_stage(batches, until, context)
    return trained


def finetune(rows: Rows, parent: Artifact, context: Context) -> Result:
    """Perturb and fine-tune one pretraining. A row is diverged if a loss or gradient up to the weights that are kept
    was not finite; with early stopping these are older than the last."""
    row = rows.row()
    start, config, mixture, strength = start_of(parent), config_of(row), corpus.mixture_of(row), float(row["noise"])
    steps, batch, looks = (int(row[name]) for name in ("finetune_steps", "finetune_batch", "early_stopping"))
    if strength:
        noise = parent.once("noise", lambda: {part.name: part.noise(int(row["seed"])) for part in config.parts()})
        start = {name: weight + torch.as_tensor(strength * noise[name]).to(weight) for name, weight in start.items()}
    if not steps:
        return Result({"weights": start})
    trained = trainer_of("finetune", row, start, schedules.schedule(str(row["finetune_schedule"]), steps), steps)

    def batches(step: int) -> np.ndarray:
        return mixture.sequences(row["seed"], step * batch, batch, config.context)

    def log(trained: Trainer, loss: Tensor) -> None:
        context.log(trained.step, training_loss=loss)

    kept, lowest, finite = start, np.inf, False
    for look in sorted({round(steps * (i + 1) / looks) for i in range(looks)} - {0}):
        trained.train(batches, look, log)
        loss = trainer.mean_loss(trained.module, model.losses, [corpus.held_out(row, parent)["target", "validation"]])
        if loss < lowest and trained.alive:
            kept, lowest, finite = trainer.weights_of(trained.module), loss, True
    if not looks:
        trained.train(batches, steps, log)
        kept, finite = trainer.weights_of(trained.module, not context.kept), trained.alive
    return Result({"weights": kept}, status=OK if finite else DIVERGED)


def start_of(pretraining: Artifact) -> Weights:
    """The weights that a pretraining left."""
    read = pretraining.tensors
    return pretraining.once("start", lambda: {name: torch.as_tensor(each) for name, each in read()["weights"].items()})


def trainer_of(kind: str, row: Row, weights: Mapping[str, Any], factor: Factor, steps: int) -> Trainer:
    """What trains a row's model from these weights, by name. kind: pretrain or finetune, as its parameters begin."""
    config = config_of(row)
    lr, decay, dropout = (float(row[f"{kind}_{name}"]) for name in ("lr", "weight_decay", "dropout"))
    seed, compiled = int(row["seed"]), steps >= COMPILED_STEPS and trainer.compiler()
    size = 0.0 if config.recomputes() else config.sample_bytes(dropout=dropout > 0, compiled=compiled)
    recipe = Recipe(lr, factor, decay, config.lr_factors(), size, dropout > 0, seed, f"language/{kind}", records=True)
    return Trainer(model.decoder(config, weights, dropout, compiled), model.losses, recipe)


def evaluate(rows: Rows, parent: Artifact, context: Context) -> Result:
    """Measure a fine-tuned model. A row is diverged if a metric is not finite."""
    row, pretraining = rows.row(), parent.parent
    assert pretraining is not None
    config, start, iterations = config_of(row), start_of(pretraining), int(row["sharpness_iterations"])
    held_out, share = corpus.held_out(row, pretraining), float(row["interpolation"])

    def loss_of(module: nn.Module) -> LossOf:
        return lambda *text: trainer.mean_loss(module, model.losses, [held_out[text]])

    def measured() -> tuple[dict[str, float], hessian.Quadratic | None]:
        losses = losses_before(loss_of(model.decoder(config, start)))
        if not iterations:
            return losses, None
        quadratic = quadratic_of(start, held_out["source", "test"][:CURVATURE_SEQUENCES], config)
        return losses | curvature(quadratic, config, iterations, int(row["seed"])), quadratic

    alike = (iterations, *(row[name] for name in corpus.MEASURED))
    before, quadratic = pretraining.once(("before", *alike), measured)
    weights = {name: torch.as_tensor(values) for name, values in parent.tensors()["weights"].items()}
    if share != 1:  # at 1 a sum would round
        weights = {name: start[name] + share * (weight - start[name]) for name, weight in weights.items()}
    metrics = before | losses_after(loss_of(model.decoder(config, weights)), before)
    metrics["distance_moved"] = distance(weights[name] - start[name] for name in start)
    sequences, text = int(row["finetune_steps"]) * int(row["finetune_batch"]), corpus.mixture_of(row)
    tokens, size = sequences * (1 - text.overlap) * config.context, text.target.train_tokens
    metrics["finetune_epochs"] = tokens / size if size else 0.0
    status = OK if finite(metrics) else DIVERGED
    if quadratic is not None:
        move = _flat(weights, config) - _flat(start, config)
        change = quadratic.change(move)
        metrics["quadratic_sensitivity"] = change
        metrics["sensitivity_beyond_quadratic"] = quadratic.real_change(move) - change
        metrics["trace_sensitivity"] = 0.5 * (share * float(row["noise"])) ** 2 * metrics["hessian_trace"]
    return Result(metrics=dict.fromkeys((each.name for each in CURVATURE), np.nan) | metrics, status=status)


def losses_before(loss_of: LossOf) -> dict[str, float]:
    """The losses of a model before it is perturbed and fine-tuned."""
    return {"pretrain_loss": loss_of("source", "test"), "finetune_loss_before": loss_of("target", "test")}


def losses_after(loss_of: LossOf, before: Mapping[str, float]) -> dict[str, float]:
    """The losses of the model that it became, what the source lost, and the perplexities that paper O plots; infinite
    if the loss is so large (about 710 nats) that float64 overflows."""
    source, start = loss_of("source", "test"), before["pretrain_loss"]
    after = {
        "pretrain_loss_after": source,
        "finetune_loss": loss_of("target", "test"),
        "finetune_loss_validation": loss_of("target", "validation"),
        "sensitivity": source - start,
    }
    with np.errstate(over="ignore", invalid="ignore"):
        perplexities = {
            "pretrain_perplexity": float(np.exp(start)),
            "pretrain_perplexity_after": float(np.exp(source)),
            "sensitivity_perplexity": float(np.exp(source) - np.exp(start)),
            "finetune_perplexity": float(np.exp(after["finetune_loss"])),
        }
    return after | perplexities


def finite(metrics: Mapping[str, float]) -> bool:
    """Whether all metrics are finite, of perplexities the losses."""
    return bool(np.isfinite([value for name, value in metrics.items() if "perplexity" not in name]).all())


def distance(moves: Iterable[Tensor]) -> float:
    """Length of a change of all weights."""
    return float(torch.stack([move.double().norm() for move in moves]).norm())


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
    """The largest eigenvalue of the Hessian, and its trace in units of initialization."""
    like, parts = quadratic.gradient, config.parts()
    deviations = torch.cat([torch.full((int(np.prod(part.shape)),), part.deviation) for part in parts]).to(like)
    start = torch.as_tensor(draws.normal(seed, "language/lanczos", len(like))).to(like)
    probed = hessian.probed(quadratic.product, deviations, iterations, draws.generator(seed, "language/probes"))
    return {
        "sharpness": hessian.largest_eigenvalue(quadratic.product, start, iterations),
        # twice the quadratic model's sensitivity to noise of strength 1 (O Prop. D.1)
        "hessian_trace": float(sum(each / iterations for each in probed)),
    }
