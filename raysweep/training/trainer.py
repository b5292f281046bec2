"""Trains a causal language model: fused AdamW with clipping and a schedule, in one process or by a gang (FSDP2).

A model is any module together with a function (module, tokens) -> loss at each token, (sequences, length), 0 where
nothing is predicted. Tokens are integers, (sequences, length + 1). A negative token -1 - t stands for a given t: it is
read and not predicted.

In a gang every worker calls the functions here with the same arguments and takes its share of each batch. Weights,
gradients and moments are spread over the workers. Rows are those of one process, but for the order of additions.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from raysweep.training import devices, draws, gpu, parallel, sizes

if TYPE_CHECKING:
    from raysweep.trial.context import Context

BETAS, CLIP = (0.9, 0.95), 1.0  # O Table 3
MOMENTS = ("exp_avg", "exp_avg_sq")  # as AdamW calls them
DROPOUT_SEQUENCES = 16
"""Sequences of a batch whose dropout masks are drawn at a time. So masks do not depend on the size of a gang, nor on
the memory that was free, unless it is too little for so many."""
UNRECORDED = 3  # steps in which kernels are compiled and chosen
LOOK = 64  # steps between two looks at whether the loss is finite; each makes a GPU wait

Batches = Callable[[int], np.ndarray]  # maps a step to its tokens
Losses = Callable[[nn.Module, Tensor], Tensor]  # maps a module and tokens to the loss at each token


@dataclass(frozen=True)
class Recipe:
    """How to train.

    lr: peak rate. schedule: maps a step to a multiple of it.
    weight_decay: decoupled, of all tensors but vectors, by the stated rate: by muP's, narrow models would decay faster.
    lr_factors: rate of each tensor relative to the stated one, by name; 1 where none is given.
    sample_bytes: memory that a sequence takes in a forward and backward pass; 0 if it does not limit a micro-batch.
    dropout: whether the module draws random numbers. They are named by (seed, role, step, sequence).
    records: whether a GPU may record a step's kernels once (gpu.py): the same for all tokens, no gang, no dropout.
    """

    lr: float
    schedule: Callable[[int], float]
    weight_decay: float = 0.0
    lr_factors: Mapping[str, float] = field(default_factory=dict)
    sample_bytes: float = 0.0
    dropout: bool = False
    seed: int = 0
    role: str = ""
    records: bool = False


def spread(module: nn.Module, where: torch.device) -> None:
    """Spread the weights of a module over the workers of a gang, if there is one: of each of its layers by itself."""
    if parallel.workers() > 1:
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard

        mesh = DeviceMesh.from_group(torch.distributed.group.WORLD, where.type)
        layers = [layer for each in module.modules() if isinstance(each, nn.ModuleList) for layer in each]
        for part in (*reversed(layers), module):  # a list within a layer before the layer
            fully_shard(part, mesh=mesh, reshard_after_forward=True)


@functools.lru_cache(maxsize=1)
def compiler() -> bool:
    """Whether torch.compile works on the GPU: a small function and its gradient are compiled."""
    if os.environ.get("TORCH_COMPILE_DISABLE") == "1" or not devices.usable():
        return False
    try:
        start = torch.ones(8, device="cuda", requires_grad=True)
        torch.compile(lambda values: values.sin() * 2)(start).sum().backward()
    except Exception:  # of many kinds: no compiler for C, no Triton, too old a GPU
        return False
    return True


@torch.no_grad()
def load(module: nn.Module, weights: Mapping[str, Any]) -> None:
    """Overwrite weights of a module, by name."""
    parameters = dict(module.named_parameters())
    for name, values in weights.items():
        parameters[name].copy_(_spread(values, parameters[name]))


def _spread(values: Any, like: Tensor) -> Tensor:
    """Values as a tensor like another one; of a tensor that is spread, this worker's share."""
    tensor = torch.as_tensor(values).to(like.device, like.dtype)
    if not hasattr(like, "full_tensor"):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor, like.device_mesh, like.placements, src_data_rank=None)


def weights_of(module: nn.Module, everywhere: bool = True) -> dict[str, Tensor]:
    """The whole weights of a module that are trained, by name, in the host's memory. everywhere: on all workers, or on
    the first only."""
    return _whole(_trained(module).items(), everywhere)


def _trained(module: nn.Module) -> dict[str, nn.Parameter]:
    return {name: weight for name, weight in module.named_parameters() if weight.requires_grad}


def _whole(tensors: Iterable[tuple[str, Tensor]], everywhere: bool) -> dict[str, Tensor]:
    each = ((name, whole_of(tensor.detach())) for name, tensor in tensors)  # by all workers, whoever keeps them
    return {name: whole.to("cpu", copy=True) for name, whole in each if everywhere or parallel.rank() == 0}


def whole_of(tensor: Tensor) -> Tensor:
    """A tensor that may be spread over workers, as a whole."""
    return cast(Tensor, tensor.full_tensor()) if hasattr(tensor, "full_tensor") else tensor


class Trainer:
    """A module in training. step: number of steps taken. A model that is not `alive` cannot recover: training stops."""

    def __init__(self, module: nn.Module, losses: Losses, recipe: Recipe) -> None:
        self.module, self.losses, self.recipe = module, losses, recipe
        self.step = 0
        self._named = _trained(module)
        groups: dict[tuple[float, bool], dict[str, Any]] = {}
        for name, weight in self._named.items():
            factor, decays = recipe.lr_factors.get(name, 1.0), weight.ndim > 1
            group = {"params": [], "factor": factor, "weight_decay": decays * recipe.weight_decay / factor}
            groups.setdefault((factor, decays), group)["params"].append(weight)
        self.optimizer = torch.optim.AdamW(list(groups.values()), betas=BETAS, fused=True)
        named = self._named.items()
        self._moments = {kind: {name: torch.zeros_like(each.detach()) for name, each in named} for kind in MOMENTS}
        for name, weight in named:  # as AdamW itself does at its first step
            count = torch.zeros((), dtype=torch.float32, device=weight.device)
            self.optimizer.state[weight] = {"step": count} | {kind: self._moments[kind][name] for kind in MOMENTS}
        self._where = next(iter(self._named.values())).device
        self._alive = torch.ones((), dtype=torch.bool, device=self._where)
        self._records = recipe.records and self._where.type == "cuda" and not recipe.dropout and parallel.workers() == 1
        self._steps_here, self._recorded = 0, dict[torch.Size, Callable[..., Tensor]]()

    @property
    def alive(self) -> bool:
        """Whether every loss and gradient was finite so far."""
        return bool(self._alive)

    def state(self, everywhere: bool = False) -> dict[str, Any]:
        """The weights and both moments by name, the step, and whether a number was not finite; for a checkpoint.

        The data of a step follow from its number. everywhere: on all workers of a gang, or on the first only.
        """
        moments = {kind: _whole(each.items(), everywhere) for kind, each in self._moments.items()}
        return {"weights": weights_of(self.module, everywhere), **moments, "step": self.step, "frozen": not self.alive}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        load(self.module, state["weights"])
        for kind, moments in self._moments.items():
            for name, values in moments.items():
                values.copy_(_spread(state[kind][name], values))
        for kept in self.optimizer.state.values():
            kept["step"].fill_(state["step"])
        self.step = int(state["step"])
        self._alive.fill_(not state["frozen"])

    def train_stage(self, batches: Batches, until: int, context: Context) -> None:
        """Take the steps of a stage, up to this one. Losses are logged, and a stage that was cut off goes on."""
        if (state := context.restored()) is not None:
            self.restore(state)

        def after_step(trained: Trainer, loss: Tensor) -> None:
            context.log(trained.step, training_loss=loss)
            if trained.step < until:
                context.checkpoint(trained.state)

        self.train(batches, until, after_step)

    def train(self, batches: Batches, until: int, after_step: Callable[[Trainer, Tensor], None] | None = None) -> None:
        """Take steps up to this one. After each, call after_step(trainer, mean loss of the step)."""

        def prepared(step: int) -> tuple[int, Tensor, int, int]:
            batch = batches(step)
            group = min(DROPOUT_SEQUENCES, len(batch)) if self.recipe.dropout else 1
            share, first = parallel.share(batch, group)
            return predictions(batch), on_host(share, self._where), first, group

        begun = self.step
        self.module.train()
        with contextlib.closing(gpu.in_turn(prepared, range(self.step, until), self._where)) as following:
            for batch in following:
                if self.step % LOOK == 0 and not self.alive:
                    break
                if self.step == begun:  # the first batch may have to be made of gigabytes of text
                    parallel.meet()
                loss = self._step(*batch)
                if after_step is not None:
                    after_step(self, loss)
        self.module.eval()

    def _step(self, count: int, share: Tensor, first: int, group: int) -> Tensor:
        """One step on this worker's part of a batch with so many tokens to predict. Gives the mean loss."""
        recipe, loss = self.recipe, torch.zeros((), device=self._where)
        size = sizes.samples(len(share), recipe.sample_bytes)
        while group > size:
            group //= 2
        pieces = to_device(share, self._where).split(group if recipe.dropout else size)
        for number, tokens in enumerate(pieces):
            if recipe.dropout:  # name the random numbers of the module from this sequence of the batch on
                role = f"{recipe.role}/dropout/{self.step}/{first}"
                torch.manual_seed(int(draws.generator(recipe.seed, role).integers(2**62)))
            if parallel.workers() > 1:  # gradients are exchanged once a step
                self.module.set_requires_gradient_sync(number == len(pieces) - 1)
            loss += self._add_gradient(tokens, count)
            first += len(tokens)
        loss = parallel.add_up(loss)
        norm = whole_of(nn.utils.clip_grad_norm_(self._named.values(), CLIP))
        self._alive &= torch.isfinite(loss) & torch.isfinite(norm)
        rate = recipe.lr * recipe.schedule(self.step)
        for each in self.optimizer.param_groups:
            each["lr"] = rate * each["factor"]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=not self._records)
        self.step += 1
        self._steps_here += 1
        return loss

    def _add_gradient(self, tokens: Tensor, count: int) -> Tensor:
        """Add the gradient of the loss at these tokens, a part of the mean over `count`. Gives that part."""
        if not self._records or self._steps_here < UNRECORDED:
            return self._gradient(tokens, count)
        total = torch.full((), count, dtype=torch.float32, device=self._where)
        if tokens.shape not in self._recorded:
            self._recorded[tokens.shape] = gpu.recorded(self._gradient, tokens, total)
        return self._recorded[tokens.shape](tokens, total)

    def _gradient(self, tokens: Tensor, count: int | Tensor) -> Tensor:
        with mixed_precision(self._where):
            part = self.losses(self.module, tokens).sum() / count
        (part * parallel.workers()).backward()  # FSDP takes the mean over workers
        return part.detach()


def predictions(tokens: np.ndarray) -> int:
    """Number of tokens to predict."""
    return int((tokens[:, 1:] >= 0).sum())


@torch.no_grad()
def mean_loss(module: nn.Module, losses: Losses, batches: Sequence[np.ndarray], at_once: int = 64) -> float:
    """Mean loss over the tokens to predict. at_once: sequences computed at a time. The workers of a gang share them."""
    where, total = next(module.parameters()).device, 0.0
    for tokens in batches:
        parallel.meet()  # a worker may have made its tokens of gigabytes of text
        share, first = parallel.share(tokens)
        pieces = on_host(share, where).split(sizes.samples(min(at_once, len(share))))
        with mixed_precision(where):
            sums = torch.cat([losses(module, to_device(piece, where)).double().sum(1) for piece in pieces])
        whole = torch.zeros(len(tokens), dtype=torch.float64, device=where)  # so that a gang adds as one process does
        whole[first : first + len(share)] = sums[: max(0, len(tokens) - first)]
        total += float(parallel.add_up(whole).cpu().numpy().sum())
    return total / sum(map(predictions, batches))


def on_host(tokens: np.ndarray, where: torch.device) -> Tensor:
    """Tokens as a tensor of the host in their type; in pinned memory, if they go to a GPU."""
    narrow = tokens.astype(np.int32) if tokens.dtype.kind == "u" and tokens.itemsize > 1 else tokens
    tensor = torch.from_numpy(np.ascontiguousarray(narrow))
    return tensor.pin_memory() if where.type == "cuda" else tensor


def to_device(tokens: Tensor, where: torch.device) -> Tensor:
    """Tokens of `on_host` as int64 on a device. A GPU does not wait for them."""
    return tokens.to(where, non_blocking=True).long()


def mixed_precision(where: torch.device) -> torch.autocast:
    """Products in bfloat16 on a GPU; on a CPU everything as it is."""
    return torch.autocast(where.type, dtype=torch.bfloat16, enabled=where.type == "cuda")
