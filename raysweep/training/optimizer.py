"""Training one model, or many side by side: AdamW with clipping and a schedule; each model has its own rate.

Parameters, gradient and both moments are flat rows (models, weights). So a step of the optimizer takes a handful of
operations, however many tensors and models there are. A model whose loss or gradient is not finite is frozen at its
last finite weights. The models that train beside it are not affected.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from raysweep.training import adamw, devices, parallel, prefetch, sharding, sizes
from raysweep.training.dropout import Dropout
from raysweep.training.params import Model

CLIP = 1.0  # O Table 3

# Views of many models' flat rows are strided. torch warns once about that; it is not an error.
warnings.filterwarnings("ignore", message="grad and param do not obey the gradient layout contract")

LAST_BATCHES = 10  # start and end of a training are compared on these

Batches = Callable[[int], np.ndarray]
"""Maps a step number to the samples of that step."""


@dataclass
class State:
    """Models in training.

    params, exp_avg, exp_avg_sq: (models, weights), or this worker's share of them (sharding.py).
    alive: (models,), whether every loss and gradient was finite so far.
    step: number of steps taken.
    """

    params: Tensor
    exp_avg: Tensor
    exp_avg_sq: Tensor
    alive: Tensor
    step: int = 0

    @classmethod
    def fresh(cls, rows: np.ndarray | Tensor, where: torch.device | None = None) -> State:
        """Models at the given weights (models, weights), with both moments zero."""
        params = torch.as_tensor(rows, device=where or devices.device()).clone()
        alive = torch.ones(len(params), dtype=torch.bool, device=params.device)
        return cls(params, torch.zeros_like(params), torch.zeros_like(params), alive)


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    lr: the peak rate of each model, (models,).
    schedule: maps a step to a multiple of the peak rate.
    weight_decay: the decoupled weight decay of AdamW.
    clip: the largest norm of a model's gradient.
    dropout: the share of values that is dropped, by masks that (seed, role) name.
    """

    model: Model
    lr: np.ndarray
    schedule: Callable[[int], float]
    weight_decay: float = 0.0
    clip: float = CLIP
    dropout: float = 0.0
    seed: int = 0
    role: str = ""

    def dropout_of(self, step: int) -> Dropout | None:
        """The dropout masks of a step; None without dropout."""
        if not self.dropout:
            return None
        role = f"{self.model.name}/dropout/{self.role}"
        return Dropout.of_step(self.dropout, self.seed, role, step, self.model.depth)


def train(
    state: State,
    config: TrainConfig,
    batches: Batches,
    until: int,
    after_step: Callable[[State, Tensor], None] | None = None,
) -> None:
    """Take steps until state.step == until, in place. After each step, call after_step(state, losses of that step).

    In a gang every worker calls this with the same arguments. Each worker takes its share of each batch, and gradients
    and losses are summed over the workers once a step, so the states stay equal to the last bit. The result is the same
    as with one worker, except for the order in which float32 numbers are added.
    """
    where = state.params.device

    def prepared(step: int) -> tuple[int, Tensor, int]:
        batch = batches(step)
        own, first = parallel.share(batch)
        return config.model.predictions(batch), on_host(own, where), first

    with prefetch.in_turn(prepared, range(state.step, until), where) as following:
        _take_steps(state, config, following, until, after_step)


def _take_steps(
    state: State,
    config: TrainConfig,
    following: Callable[[], tuple[int, Tensor, int]],
    until: int,
    after_step: Callable[[State, Tensor], None] | None,
) -> None:
    """following: gives for the next step the predictions of all workers, this worker's samples, and the number of the
    first of them."""
    model, where = config.model, state.params.device
    # gradient and losses lie side by side, so that workers need only one sum a step
    both = state.params.new_zeros(state.params.numel() + len(state.params))
    gradient, losses = both[: state.params.numel()].view_as(state.params), both[state.params.numel() :]
    spread = sharding.is_share(state.params, model)
    params = sharding.params(state.params, model, gradient)
    lr = torch.as_tensor(config.lr, dtype=state.params.dtype, device=where).unsqueeze(1)
    lr_factors, decays = (
        torch.as_tensor(sharding.row(of, model, spread), device=where)
        for of in (lambda part: np.full(part.size, part.lr_factor), lambda part: np.full(part.size, float(part.decays)))
    )
    models, wide = len(state.params), not in_bfloat16(where)
    each = model.sample_bytes(models, spread=spread, dropout=config.dropout > 0, wide=wide)
    begun = state.step
    while state.step < until:
        predictions, own, first = following()
        if state.step == begun:  # the first batch may have to be made of gigabytes of text
            parallel.meet()
        dropout = config.dropout_of(state.step)
        both.zero_()
        # a spread model's layers are gathered meanwhile, so its workers cannot agree in the middle
        with contextlib.nullcontext() if spread else parallel.out_of_memory_together(where):
            for samples in moved(own, where).split(sizes.samples(len(own), models * each)):
                with mixed_precision(where):
                    part = model.loss_sums(params, samples, dropout and dropout.at(first)) / predictions
                part.sum().backward()
                losses += part.detach()
                first += len(samples)
        parallel.add_up(losses if spread else both)  # a spread model's gradient is summed as it is computed
        adamw.step(state, gradient, losses, lr * config.schedule(state.step), lr_factors, decays, config)
        if after_step is not None:
            after_step(state, losses)


def on_device(samples: np.ndarray, where: torch.device) -> Tensor:
    """Samples as int64 on a device. They are copied to a GPU in their own type and without waiting."""
    return moved(on_host(samples, where), where)


def on_host(samples: np.ndarray, where: torch.device) -> Tensor:
    """Samples as a tensor of the host in their own type; in pinned memory, if they go to a GPU."""
    narrow = samples.astype(np.int32) if samples.dtype.kind == "u" and samples.itemsize > 1 else samples
    tensor = torch.from_numpy(np.ascontiguousarray(narrow))
    return tensor.pin_memory() if where.type == "cuda" else tensor


def moved(samples: Tensor, where: torch.device) -> Tensor:
    """Samples of `on_host` as int64 on a device."""
    return samples.to(where, non_blocking=True).long()


def mixed_precision(where: torch.device) -> torch.autocast:
    """Compute products in bfloat16 on a GPU; change nothing on a CPU."""
    return torch.autocast(where.type, dtype=torch.bfloat16, enabled=in_bfloat16(where))


def in_bfloat16(where: torch.device) -> bool:
    """Whether products are in bfloat16 on a device."""
    return where.type == "cuda"


@torch.no_grad()
def evaluate(flat: Tensor, samples: np.ndarray, model: Model, batch: int = 64) -> np.ndarray:
    """Mean loss of each model, float64 (models,), on samples (count, …).

    The samples are shared among the workers as in training, and the losses are summed in float64.
    """
    parallel.meet()  # for each worker, its samples may have been made of gigabytes of text
    params = sharding.params(flat, model)
    own, _ = parallel.share(samples)
    total = torch.zeros(len(flat), dtype=torch.float64, device=flat.device)
    batch = sizes.samples(min(batch, len(own)))
    for start in range(0, len(own), batch):
        with mixed_precision(flat.device):
            total += model.loss_sums(params, on_device(own[start : start + batch], flat.device)).double()
    return parallel.add_up(total).cpu().numpy() / float(model.predictions(samples))


def last_losses(flat: Tensor, batches: Batches, until: int, model: Model) -> np.ndarray:
    """Loss of each model on the last of `until` batches, without dropout, float64 (batches, models).

    Two sets of weights are compared on the same batches, so that the difficulty of a batch cancels.
    """
    return np.stack([evaluate(flat, batches(step), model) for step in range(max(0, until - LAST_BATCHES), until)])


def mean_rise(begun: np.ndarray, ended: np.ndarray) -> np.ndarray:
    """Rise of each model's loss from the start to the end of its training, float64 (models,).

    begun, ended: losses from `last_losses`, (batches, models); the result is the mean difference. NaN if a loss is not
    finite.
    """
    with np.errstate(invalid="ignore"):  # inf - inf
        return np.asarray((ended - begun).mean(0))
