"""The stages: a checkpoint is read, fine-tuned and measured.

One module serves all fine-tunings of a checkpoint in a process: each begins by overwriting its weights.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

from raysweep.errors import InputError
from raysweep.training import devices, draws, schedules, sizes, trainer
from raysweep.training.trainer import Recipe, Trainer
from raysweep.workloads.checkpoints import data, harness, hub
from raysweep.workloads.checkpoints.data import Chats
from raysweep.workloads.declaration import DIVERGED, OK
from raysweep.workloads.language.stages import Row, Weights, distance, finite, losses_after, losses_before
from raysweep.workloads.language.texts import Text
from raysweep.workloads.rows import Artifact, Context, Result, Rows

LOGIT_BYTES = 16  # a value of the logits, its softmax and its gradient
LAYER_BYTES = 68  # a coordinate of the residual stream leaves so much in one layer, in float32
AT_ONCE = 64  # sequences evaluated at a time, or fewer

transformers.utils.logging.disable_progress_bar()  # it would fill the logs of trials


def fetch(rows: Rows, parent: None, context: Context) -> Result:
    """Read a checkpoint: its weights by name."""
    return Result({"weights": {name: weight.detach() for name, weight in pretrained(rows.row()).named_parameters()}})


def finetune(rows: Rows, parent: Artifact, context: Context) -> Result:
    """Perturb and fine-tune a checkpoint. Its artifact has the weights that training changed: all of them, adapters, or
    none without steps; and the identity of the checkpoint. Diverged: a loss or gradient was not finite."""
    row = rows.row()
    batch, length, seed = (int(row[name]) for name in ("finetune_batch", "context", "seed"))
    text, packs = _text(row, "target"), bool(row["packing"])
    origin = np.frombuffer(hub.identity(folder_of(row)).encode(), np.uint8)
    if not (steps := data.steps(row, data.size(text, length))):
        return Result({"weights": {}, "checkpoint": origin})
    module = _module(parent, row)
    if packs and getattr(module, "_is_stateful", False):
        raise InputError("packing", f"expected false: what {row['model']} keeps of a conversation would reach the next")
    put(module, _adapters(module, seed) | perturbed(_start(parent), row))
    factor = schedules.schedule(str(row["finetune_schedule"]), steps, int(row["finetune_warmup"]))
    rate, decay = float(row["finetune_lr"]), float(row["finetune_weight_decay"])
    recipe = Recipe(rate, factor, decay, sample_bytes=_sample_bytes(row))
    trained = Trainer(module, partial(losses, packs=packs), recipe)

    def batches(step: int) -> np.ndarray:
        if isinstance(text, Text):
            return text.sequences("train", seed, "finetune", step * batch, batch, length)
        return text.batch(seed, step * batch, batch, length, packs)

    trained.train_stage(batches, steps, context)
    left = {"weights": trainer.weights_of(module), "checkpoint": origin}
    return Result(left, status=OK if trained.alive else DIVERGED)


def evaluate(rows: Rows, parent: Artifact, context: Context) -> Result:
    """Measure a fine-tuned checkpoint, and the checkpoint itself once. Diverged: a metric is not finite."""
    row, fetched = rows.row(), parent.parent
    assert fetched is not None
    module, size = _module(fetched, row), data.size(_text(row, "target"), int(row["context"]))
    steps, loss_of = data.steps(row, size), partial(mean_loss, module, row)
    alike = tuple(row[name] for name in ("source", "target", "template", "context", "evaluation_tokens", "tasks"))

    def measured() -> tuple[dict[str, float], float]:
        put(module, _adapters(module, 0) | _start(fetched))
        return losses_before(loss_of), _accuracy(module, row)[0]

    before, accuracy_before = fetched.once(("before", *alike), measured)
    put(module, _adapters(module, 0) | perturbed(_start(fetched), row) | parent.tensors()["weights"])
    metrics = before | losses_after(loss_of, before)
    with torch.no_grad():
        now = merged(module)
        moves = (trainer.whole_of(now[name]) - start.to(now[name].device) for name, start in _start(fetched).items())
        metrics["distance_moved"] = distance(moves)
    metrics["steps_taken"] = float(steps)
    metrics["finetune_epochs"] = steps * int(row["finetune_batch"]) / size
    accuracy, error = _accuracy(module, row)
    tasks = {"task_accuracy": accuracy, "task_accuracy_error": error, "task_accuracy_before": accuracy_before}
    status = OK if finite(metrics | (tasks if row["tasks"] else {})) else DIVERGED
    return Result(metrics=metrics | tasks, status=status)


def _accuracy(module: nn.Module, row: Row) -> tuple[float, float]:
    """Accuracy on the row's tasks, and its standard error; NaN without tasks."""
    if not row["tasks"]:
        return float("nan"), float("nan")
    with trainer.mixed_precision(devices.device()):
        return harness.accuracy(module, data.tokenizer(folder_of(row)), str(row["tasks"]), _at_once(row))


def losses(module: nn.Module, tokens: Tensor, packs: bool = False) -> Tensor:
    """Loss in nats at each token, (sequences, length), of tokens (sequences, length + 1); see training/trainer.py.

    packs: whether conversations begin within rows (data.packed). transformers sees from the positions where they do.
    """
    more = {}
    if packs:
        begins, places = tokens < data.BEGIN, torch.arange(tokens.shape[1], device=tokens.device)
        positions = places - (places * begins).cummax(1).values
        tokens, more = torch.where(begins, tokens - data.BEGIN, tokens), {"position_ids": positions[:, :-1]}
    read = torch.where(tokens < 0, -1 - tokens, tokens)[:, :-1]
    logits = module(input_ids=read, use_cache=False, **more).logits.float()
    targets = tokens[:, 1:].clamp(min=-1)
    each = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="none")
    return each.view(targets.shape)


def mean_loss(module: nn.Module, row: Row, which: str, part: str) -> float:
    """Mean loss over the predicted tokens of a held-out part (validation or test) of the row's source or target."""
    length, at_once = int(row["context"]), _at_once(row)
    count = max(1, int(row["evaluation_tokens"]) // length)
    return trainer.mean_loss(module, losses, data.held_out(_text(row, which), part, count, at_once, length), at_once)


def pretrained(row: Row) -> nn.Module:
    """The module of a row's checkpoint, as transformers reads it."""
    dtype = torch.bfloat16 if row["precision"] == "bfloat16" else torch.get_default_dtype()
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder_of(row), dtype=dtype, local_files_only=True, use_safetensors=True, trust_remote_code=False
    )


def adapt(module: nn.Module, row: Row) -> None:
    if row["finetune_method"] == "lora":
        import peft

        settings = peft.LoraConfig(r=int(row["lora_rank"]), lora_alpha=row["lora_alpha"], target_modules="all-linear")
        peft.inject_adapter_in_model(settings, module)


def put(module: nn.Module, weights: Mapping[str, Any]) -> None:
    """Overwrite the weights of a module that are named here. An adapted layer keeps the name that it had."""
    named = {name: name.replace(".base_layer.", ".") for name, _ in module.named_parameters()}
    trainer.load(module, {name: weights[short] for name, short in named.items() if short in weights})


def perturbed(start: Weights, row: Row) -> Weights:
    """The weights of a checkpoint with the row's noise (O eq. 1): a matrix is moved by `noise` times the deviation of
    its initialization as the model's configuration states it (initializer_range), a vector not at all."""
    strength = float(row["noise"])
    if not strength:
        return start
    deviation, noisy = strength * float(hub.config(folder_of(row)).initializer_range), dict(start)
    for name, weight in start.items():
        if weight.ndim > 1:
            noise = draws.normal(int(row["seed"]), f"checkpoints/noise/{name}", *weight.shape)
            noisy[name] = weight + torch.as_tensor(deviation * noise).to(weight)
    return noisy


def folder_of(row: Row) -> Path:
    """Where the checkpoint of a row lies on this machine."""
    folder = hub.place(str(row["model"]), str(row["revision"]))
    if folder is None:
        raise InputError("revision", f"{row['model']} {row['revision']} is not on this machine (HF_HOME says where)")
    return folder


def _text(row: Row, which: str) -> Text | Chats:
    return data.load(str(row[which]), str(row["template"]), folder_of(row))


def _start(fetched: Artifact) -> Weights:
    return cast(Weights, fetched.tensors()["weights"])


def _module(fetched: Artifact, row: Row) -> nn.Module:
    """The module of a checkpoint where this process computes; with adapters of the row's rank for LoRA."""

    def made() -> nn.Module:
        settings = hub.config(folder_of(row))
        weights = {name: weight.clone() for name, weight in _start(fetched).items()}  # training must not change them
        kind: Any = transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(settings)]
        dtype = next(iter(weights.values())).dtype
        module: nn.Module = kind.from_pretrained(None, config=settings, state_dict=weights, dtype=dtype)
        adapt(module, row)
        trainer.spread(module, devices.device())
        return module.to(devices.device()).eval()

    adapted = (int(row["lora_rank"]), row["lora_alpha"]) if row["finetune_method"] == "lora" else ()
    return fetched.once(("module", *adapted), made)


def _adapters(module: nn.Module, seed: int) -> Weights:
    """What adapters begin with: A as peft draws it, but by the seed alone, and B = 0."""
    weights = {}
    for name, weight in module.named_parameters():
        if ".lora_B." in name:
            weights[name] = torch.zeros(weight.shape)
        elif ".lora_A." in name:
            drawn = draws.generator(seed, f"checkpoints/lora/{name}").uniform(-1, 1, weight.shape)
            weights[name] = torch.as_tensor(drawn / np.sqrt(weight.shape[1]))
    return weights


def merged(module: nn.Module) -> Weights:
    """All weights by the names that they have without adapters, which are added to them."""
    named = ((name.replace(".base_layer.", "."), weight) for name, weight in module.named_parameters())
    weights: Weights = {name: weight for name, weight in named if ".lora_" not in name}
    for name, layer in module.named_modules():
        if hasattr(layer, "get_delta_weight"):
            weights[f"{name}.weight"] = weights[f"{name}.weight"] + layer.get_delta_weight("default")
    return weights


def _at_once(row: Row) -> int:
    return max(1, min(AT_ONCE, int(sizes.PIECE_BYTES / _sample_bytes(row))))


def _sample_bytes(row: Row) -> float:
    """Memory that a sequence takes in a forward and backward pass."""
    size = hub.shape(row)
    return float(row["context"]) * (LOGIT_BYTES * size.vocabulary + LAYER_BYTES * size.layers * size.width)
