"""The stages: epochs on the source, fine-tuning on the target, and what is measured of both.

The target's head is drawn anew, so before fine-tuning its outputs are those of a random head on pretrained features.
From scratch: the net that pretraining starts from, with the same head, images and batches, all layers trained. It does
not depend on the source, so one process computes it once for all rows that differ in pretraining.
"""

import copy
import itertools
import math
from typing import Any

import numpy as np
import torch

from raysweep.workloads import image_data
from raysweep.workloads.asked_once import one_look
from raysweep.workloads.declaration import DIVERGED, OK
from raysweep.workloads.rows import Artifact, Context, Result, Rows
from raysweep.workloads.vision import eigen_cam, examination, masked, models, pixels, tasks
from raysweep.workloads.vision.models import Net
from raysweep.workloads.vision.pixels import Task

Row = dict[str, Any]
_OF_SCRATCH = "model", "depth", "batch_size", "momentum", "weight_decay", "target", "target_classes", "target_samples"
_OF_SOURCE = "source_loss", "source_accuracy", "source_training_loss", "reconstruction_loss"
_from_scratch: dict[tuple[Any, ...], tuple[float, float]] = {}  # what else decides it is fixed: it cannot be outdated


@one_look()
def pretrain(rows: Rows, parent: Artifact | None, context: Context) -> Result:
    """One epoch on the source. The artifact: the net with the source's head, what reconstructs images if they are
    masked, and the state of the optimizer."""
    row = rows.row()
    task, epoch = pixels.source(row).to(context.device), int(context.point or 0)
    net = fresh(row, task.classes).to(context.device)
    hidden = masked.Reconstruction(net.spatial, tasks.form(row), row) if row["pretrain"] == tasks.MASKED else None
    optimizer = models.optimizer(net if hidden is None else hidden.to(context.device), row["pretrain_lr"], row)
    state = context.restored() or {"done": 0, "loss": 0.0, **(parent.tensors() if parent is not None else {})}
    if "net" in state:
        _load(net, state["net"])
        optimizer.load_state_dict(state["optimizer"])
        if hidden is not None:
            hidden.restore(state["decoder"])
    batches = models.epoch_of(row["seed"], "source", epoch, len(task.train_labels), row["batch_size"])
    done, total = int(state["done"]), torch.as_tensor(state["loss"], dtype=torch.float64, device=context.device)
    losses = (
        models.descend(net, optimizer, task.train_pixels, task.train_labels, batches[done:])
        if hidden is None
        else hidden.descend(optimizer, task.train_pixels, batches, epoch, done)
    )

    def so_far() -> dict[str, Any]:
        return {"done": done, "loss": float(total), **_state(net, optimizer, hidden)}

    for loss in losses:
        done, total = done + 1, total + loss
        context.checkpoint(so_far)
    mean = float(total) / len(batches)
    if hidden is None:
        metrics = {**_named("source", "", models.examined(net, *_test(task))), "source_training_loss": mean}
        context.log(epoch, **metrics)
    else:
        metrics = {"reconstruction_loss": hidden.held_out_loss(task.test_pixels)}
        context.log(epoch, **metrics, reconstruction_training_loss=mean)
    status = OK if np.isfinite([*metrics.values(), mean]).all() else DIVERGED
    return Result(_state(net, optimizer, hidden), {**dict.fromkeys(_OF_SOURCE, math.nan), **metrics}, status)


@one_look()
def finetune(rows: Rows, parent: Artifact | None, context: Context) -> Result:
    """Fine-tune on the target. The artifact: the net with the target's head."""
    row = rows.row()
    task = pixels.target(row).to(context.device)
    net = before(row, parent, task).to(context.device)
    loss = finetuned(net, task, row, int(row["frozen_layers"]), context)
    good = math.isfinite(loss) or not row["finetune_steps"]
    return Result({"net": net.state_dict()}, {"target_training_loss": loss}, OK if good else DIVERGED)


@one_look()
def evaluate(rows: Rows, parent: Artifact, context: Context) -> Result:
    """The net on both tasks after fine-tuning, against before and against training from scratch. D's deviation of each
    layer is logged, with the layer's place from 1 as the step."""
    row = rows.row()
    task = pixels.target(row).to(context.device)
    pretrained, end = parent.parent, parent.tensors()["net"]
    net = before(row, pretrained, task).to(context.device)

    def at_start() -> tuple[float, float]:
        return models.examined(net, *_test(task))

    same = "before", row["target"], row["target_classes"]
    metrics = _named("target", "_before", at_start() if pretrained is None else pretrained.once(same, at_start))
    weights = {name: torch.as_tensor(values).to(context.device) for name, values in end.items()}
    deviations = models.deviations(net.state_dict(), weights, len(task.train_labels))
    for layer, each in enumerate(deviations.values(), 1):
        context.log(layer, deviation_of_layer=each)
    metrics |= {"deviation": sum(deviations.values()), "deviation_head": deviations["head.weight"]}
    _load(net, end)
    metrics |= _named("target", "", models.examined(net, *_test(task)))
    _, metrics["target_training_accuracy"] = models.examined(net, task.train_pixels, task.train_labels)
    metrics["generalization_error"] = metrics["target_training_accuracy"] - metrics["target_accuracy"]
    metrics |= _named("target", "_scratch", from_scratch(row, task, context))
    metrics |= _named("source", "_after", (math.nan, math.nan))
    if row["pretrain"] == tasks.SUPERVISED and pretrained is not None:
        source, old = pixels.source(row).to(context.device), pretrained.tensors()["net"]
        models.renew_head(net, len(old["head.bias"]), 0, "source")
        net.head.load_state_dict({name: torch.as_tensor(old[f"head.{name}"]) for name in ("weight", "bias")})
        metrics |= _named("source", "_after", models.examined(net, *_test(source)))
    metrics["transferability"] = metrics["target_loss_scratch"] - metrics["target_loss"]
    metrics["transferability_accuracy"] = metrics["target_accuracy"] - metrics["target_accuracy_scratch"]
    return Result(metrics=metrics, status=OK if math.isfinite(metrics["target_loss"]) else DIVERGED)


@one_look()
def examine(rows: Rows, parent: Artifact, context: Context) -> Result:
    """What is only measured if it is asked for. parent.parent is what finetune left, parent.parent.parent the source's
    net, if there is one."""
    row = rows.row()
    tuned, tensors = parent.parent, dict[str, Any]()
    metrics = {"eigen_cam_peaks": math.nan, **examination.NOTHING}
    if not (row["eigen_cam_images"] or row["examined_images"]):
        return Result(metrics=metrics)
    assert tuned is not None  # evaluate always follows finetune
    task = pixels.target(row).to(context.device)
    start = before(row, tuned.parent, task).to(context.device)
    net = copy.deepcopy(start)
    _load(net, tuned.tensors()["net"])
    if row["eigen_cam_images"]:
        maps = eigen_cam.of_images(net, task.test_pixels[: row["eigen_cam_images"]].to(context.device))
        tensors["heat_maps"], metrics["eigen_cam_peaks"] = maps, float(eigen_cam.peaks(maps).mean())
    if row["examined_images"]:
        kept, examined = examination.measured(row, start, net, task, context.log)
        tensors, metrics = tensors | kept, metrics | examined
    return Result(tensors, metrics)


def fresh(row: Row, classes: int) -> Net:
    """The net that a draw starts from, with the source's head, on the CPU."""
    return models.build(row["model"], row["depth"], tasks.form(row), classes, row["seed"])


def before(row: Row, pretrained: Artifact | None, task: Task) -> Net:
    """The net that fine-tuning starts from, on the CPU: pretrained or not, with a new head for the target."""
    if pretrained is None:
        net = fresh(row, task.classes)
    else:
        weights = pretrained.tensors()["net"]
        net = fresh(row, len(weights["head.bias"]))
        _load(net, weights)
    models.renew_head(net, task.classes, row["seed"], "target")
    return net


def finetuned(net: Net, task: Task, row: Row, frozen: int, context: Context | None = None) -> float:
    """Train a net on the target, in place; its first `frozen` layers stay. Gives the mean loss of the last twentieth of
    the steps: NaN without steps, and not finite if the net diverged, which ends it."""
    steps = int(row["finetune_steps"])
    looks = {math.ceil(steps * share / models.LOOKS) for share in range(1, models.LOOKS + 1)}
    held = models.freeze(net, frozen)
    optimizer = models.optimizer(net, row["finetune_lr"], row)
    order = models.batches(row["seed"], "target", len(task.train_labels), row["batch_size"])
    batches = itertools.islice(order, steps)
    losses = models.descend(net, optimizer, task.train_pixels, task.train_labels, batches, held)
    total, since, mean = torch.zeros((), device=task.train_labels.device), 0, math.nan
    start = {name: values.clone() for name, values in net.state_dict().items()} if context is not None else {}
    for step, loss in enumerate(losses, 1):
        total, since = total + loss, since + 1
        if step in looks:
            mean, since = float(total) / since, 0
            total = torch.zeros_like(total)
            if context is not None:
                deviations = models.deviations(start, net.state_dict(), len(task.train_labels))
                context.log(step, target_training_loss=mean, deviation=sum(deviations.values()))
            if not math.isfinite(mean):
                break
    return mean


def from_scratch(row: Row, task: Task, context: Context) -> tuple[float, float]:
    """Loss and accuracy on the target's test images of the net that is trained on the target alone."""
    digest = image_data.digest_of(row["target"], "target")
    decides = (*(row[name] for name in (*_OF_SCRATCH, "finetune_lr", "finetune_steps", "seed")), digest)
    key = (*decides, tasks.form(row), tasks.one_set(row), context.device.type)
    if key not in _from_scratch:
        net = before(row, None, task).to(context.device)
        finetuned(net, task, row, 0)
        _from_scratch[key] = models.examined(net, *_test(task))
    return _from_scratch[key]


def _test(task: Task) -> tuple[torch.Tensor, torch.Tensor]:
    return task.test_pixels, task.test_labels


def _named(role: str, when: str, examined: tuple[float, float]) -> dict[str, float]:
    return {f"{role}_loss{when}": examined[0], f"{role}_accuracy{when}": examined[1]}


def _state(net: Net, optimizer: torch.optim.Optimizer, hidden: masked.Reconstruction | None) -> dict[str, Any]:
    decoder = {} if hidden is None else {"decoder": hidden.decoder()}
    return {"net": net.state_dict(), "optimizer": optimizer.state_dict(), **decoder}


def _load(net: Net, weights: dict[str, Any]) -> None:
    net.load_state_dict({name: torch.as_tensor(values) for name, values in weights.items()})
