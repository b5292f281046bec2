"""Devices, types and shapes of a GPU, by torch's own rules, on tensors without content: forward, optimizer, gathering.

Backward passes need a real device in torch; test_rows.py has them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor, distributed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore

from raysweep import workloads
from raysweep.training import devices, gathering, optimizer, parallel, sharding
from raysweep.training.dropout import Dropout
from raysweep.training.optimizer import State, TrainConfig
from raysweep.workloads.language import model
from raysweep.workloads.language.model_config import PRESETS, ModelConfig, config_of

WORKERS = 4


@pytest.fixture
def gpu() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))  # before CUDA is said to be there
        for name in ("is_available", "is_bf16_supported"):
            stack.enter_context(mock.patch.object(torch.cuda, name, return_value=True))
        stack.enter_context(mock.patch.object(torch.cuda, "current_device", return_value=0))
        stack.enter_context(mock.patch.object(Tensor, "pin_memory", lambda tensor: tensor))
        yield


@pytest.fixture
def gang(gpu: None) -> Iterator[None]:
    """This process is one of four workers, the others of which answer at once."""
    distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=WORKERS)
    yield
    distributed.destroy_process_group()


def config(**changes: Any) -> ModelConfig:
    row: Mapping[str, Any] = {p.name: p.default for p in workloads.get("language").parameters} | changes
    return config_of(row)


def flat(asked: ModelConfig, models: int) -> Tensor:
    return torch.empty(models, asked.weights(), device="cuda")


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_the_loss_of_every_preset_is_float32_on_the_gpu(preset: str, models: int, dropout: float) -> None:
    asked = config(preset=preset)
    assert devices.device().type == "cuda"
    tokens = optimizer.on_device(asked.example(4), devices.device())
    assert (tokens.device.type, tokens.dtype) == ("cuda", torch.int64)
    masks = Dropout.of_step(dropout, 0, "a", 0, asked.depth) if dropout else None
    with torch.no_grad(), optimizer.mixed_precision(tokens.device):
        params = sharding.params(flat(asked, models), asked)
        stream = model.hidden(params, tokens[:, :-1], asked, masks)
        loss = asked.loss_sums(params, tokens, masks)
    assert (tuple(loss.shape), loss.dtype, loss.device.type) == ((models,), torch.float32, "cuda")
    assert tuple(stream.shape) == (models, 4 * asked.context, asked.width)


@pytest.mark.usefixtures("gpu")
def test_a_large_vocabulary_is_taken_in_chunks_on_the_gpu() -> None:
    asked = ModelConfig(depth=1, width=64, heads=1, mlp=256, context=1024, vocabulary=50_304)
    tokens = optimizer.on_device(asked.example(8), devices.device())
    with torch.no_grad(), optimizer.mixed_precision(tokens.device):
        params = sharding.params(flat(asked, 2), asked)
        sums, each = asked.loss_sums(params, tokens), model.token_losses(params, tokens, asked)
    assert (tuple(sums.shape), sums.dtype, sums.device.type) == ((2,), torch.float32, "cuda")
    assert (tuple(each.shape), each.dtype, each.device.type) == ((2, 8, 1024), torch.float32, "cuda")


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_a_step_of_the_optimizer_stays_on_the_gpu(weight_decay: float) -> None:
    """But for the backward pass, which is left out here."""
    asked = config(preset="30m")
    state = State.fresh(flat(asked, 3))
    recipe = TrainConfig(asked, np.full(3, 1e-3), lambda step: 1.0, weight_decay)
    losses: list[Tensor] = []
    with mock.patch.object(Tensor, "backward", return_value=None):
        optimizer.train(state, recipe, lambda step: asked.example(4), 1, lambda state, of_step: losses.append(of_step))
    assert [(tuple(each.shape), each.dtype, each.device.type) for each in losses] == [((3,), torch.float32, "cuda")]
    for kept in (state.params, state.exp_avg, state.exp_avg_sq):
        assert (kept.device.type, kept.dtype) == ("cuda", torch.float32)
    assert (state.alive.device.type, state.alive.dtype) == ("cuda", torch.bool)


@pytest.mark.usefixtures("gang")
def test_a_spread_model_is_gathered_on_the_gpu_and_its_gradient_is_summed_there() -> None:
    asked = config(preset="30m")
    own = torch.empty(1, sum(bundle.each for bundle in sharding.bundles(asked)), device="cuda")
    assert sharding.is_share(own, asked)
    assert own.shape[1] * WORKERS < asked.weights() * 1.001
    tokens = optimizer.on_device(asked.example(4), devices.device())
    send = distributed.all_gather_into_tensor
    with (
        torch.no_grad(),
        optimizer.mixed_precision(tokens.device),
        mock.patch.object(distributed, "all_gather_into_tensor", side_effect=send) as sent,
    ):
        loss = asked.loss_sums(sharding.params(own, asked), tokens)
    kinds = [call.args[1].dtype for call in sent.call_args_list]  # of a layer, its gains and its matrices
    assert kinds == [torch.float32, *[torch.float32, torch.bfloat16] * asked.depth, torch.float32]
    assert (tuple(loss.shape), loss.dtype, loss.device.type) == ((1,), torch.float32, "cuda")
    norm = sharding.norm(own, asked)
    assert (tuple(norm.shape), norm.device.type) == ((1,), "cuda")
    each = sharding.bundles(asked)[1].each
    part = gathering.summed(torch.empty(each * WORKERS, device="cuda"))
    assert (tuple(part.shape), part.device.type) == ((each,), "cuda")


@pytest.mark.usefixtures("gang")
def test_workers_take_their_shares_of_a_batch() -> None:
    samples, first = parallel.share(config().example(6))
    assert (len(samples), first) == (2, 2)
    assert parallel.add_up(torch.empty(3, device="cuda")).device.type == "cuda"
