"""What a compiler makes faster on a GPU, on a pretended one: used where it works, given up in silence where not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from functorch.compile import make_boxed_func
from pretend_cuda import pretended_gpu
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd

from raysweep.training import adamw, compiled, optimizer
from raysweep.training.optimizer import State, TrainConfig
from raysweep.training.params import initial
from raysweep.workloads.language.model_config import PRESETS, ModelConfig


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With a compiler."""
    monkeypatch.setattr(compiled, "available", lambda: True)
    monkeypatch.setattr(compiled, "made", {})
    monkeypatch.setattr(compiled, "watched", lambda: None)
    with pretended_gpu():
        yield


def compiler(monkeypatch: pytest.MonkeyPatch, makes: Callable[[Any], Any]) -> list[Any]:
    """A compiler that makes this of a function; the functions that it got."""
    got: list[Any] = []

    def compile(function: Any) -> Any:
        got.append(function)
        return makes(function)

    monkeypatch.setattr(torch, "compile", compile)
    return got


def twice(values: Tensor) -> Tensor:
    return 2 * values


def raising(error: Exception) -> Callable[..., Any]:
    def call(*inputs: Any) -> Any:
        raise error

    return call


@pytest.mark.usefixtures("gpu")
def test_a_function_is_compiled_once_and_runs_compiled_on_a_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    got = compiler(monkeypatch, lambda function: lambda values: function(values) + 1)
    fast = compiled.where_possible(twice)
    assert fast(torch.ones(2)).tolist() == [2, 2]
    assert not got
    assert [fast(torch.ones(2, device="cuda")).tolist() for _ in range(2)] == [[3, 3], [3, 3]]
    assert got == [twice]


@pytest.mark.usefixtures("gpu")
def test_a_compiler_that_fails_is_asked_once_and_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    got = compiler(monkeypatch, lambda function: raising(RuntimeError("no C compiler")))
    fast = compiled.where_possible(twice)
    assert [fast(torch.ones(2, device="cuda")).tolist() for _ in range(2)] == [[2, 2], [2, 2]]
    assert got == [twice]
    assert capfd.readouterr() == ("", "")


def test_a_gradient_that_the_compiler_fails_on_is_found_out_before_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def refused(graph: Any, inputs: Any) -> Any:
        asked.append(graph)
        raise RuntimeError("too little shared memory")

    backend = aot_autograd(fw_compiler=lambda graph, inputs: make_boxed_func(graph.forward), bw_compiler=refused)
    monkeypatch.setattr(compiled, "available", lambda: True)
    monkeypatch.setattr(compiled, "made", {})
    monkeypatch.setattr(Tensor, "is_cuda", property(lambda tensor: True))
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    fast, start = compiled.where_possible(twice), torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert fast(start).tolist() == [2, 2]
    for _ in range(2):
        (gradient,) = torch.autograd.grad(fast(start).sum(), start)
        assert gradient.tolist() == [2, 2]
    assert len(asked) == 1


@pytest.mark.usefixtures("gpu")
def test_what_a_gpu_has_no_memory_for_is_said_and_does_not_end_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    full = [True]

    def made(function: Any) -> Any:
        return lambda values: raising(torch.cuda.OutOfMemoryError())() if full[0] else function(values) + 1

    compiler(monkeypatch, made)
    fast = compiled.where_possible(twice)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        fast(torch.ones(2, device="cuda"))
    full[0] = False
    assert fast(torch.ones(2, device="cuda")).tolist() == [3, 3]


def test_without_a_gpu_there_is_no_compiler() -> None:
    if torch.cuda.is_available():
        pytest.skip("a GPU is here")
    assert not compiled.available()


# Training, compiled on tensors of the CPU that say they are on a GPU


def trained(models: int, steps: int, config: ModelConfig) -> State:
    """So many steps of models at their own rates; the second one, if there is one, ends at once."""
    start = np.repeat(initial(config, 0)[None], models, 0)
    start[1:2] = np.inf
    recipe = TrainConfig(config, 1e-3 * np.arange(1, models + 1), lambda step: 1 / (1 + step), weight_decay=0.1)
    state = State.fresh(start, torch.device("cpu"))
    optimizer.train(state, recipe, lambda step: config.example(2), steps)
    return state


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that the compiler got; they run operation by operation."""
    got: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        got.append(graph)
        return graph.forward

    real = torch.compile
    torch._dynamo.reset()
    monkeypatch.setattr(torch, "compile", lambda function: real(function, backend=backend))
    monkeypatch.setattr(compiled, "available", lambda: True)
    monkeypatch.setattr(compiled, "made", {})
    monkeypatch.setattr(Tensor, "is_cuda", property(lambda tensor: True))
    monkeypatch.setattr(optimizer, "in_bfloat16", lambda where: False)
    return got


@pytest.mark.parametrize("models", [1, 3])
def test_nothing_is_compiled_again_from_step_to_step(models: int, graphs: list[Any]) -> None:
    config = replace(PRESETS["tiny"], depth=1)
    alive = trained(models, 2, config).alive
    assert alive.tolist() == [True, False, True][:models]
    first = len(graphs)
    assert first == 4  # attention, MLP, head and optimizer, each in one graph
    trained(models, 6, config)
    assert len(graphs) == first


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("decay", [False, True])
def test_the_optimizer_takes_the_same_step_compiled_or_not_and_whether_it_looks_or_masks(
    frozen: bool, decay: bool
) -> None:
    torch._dynamo.reset()
    draws = np.random.default_rng(0)

    def drawn(*shape: int) -> Tensor:
        return torch.from_numpy(draws.normal(size=shape).astype(np.float32))

    params, gradient, first, second = (drawn(3, 50) for _ in range(4))
    gradient[1, 7] = torch.nan if frozen else 1.0
    inputs = (
        gradient, params, first, second.square(), torch.ones(3, dtype=torch.bool), drawn(3), gradient.norm(dim=1),
        torch.tensor(1.0), drawn(3, 1), torch.tensor(1e-8), drawn(50), drawn(3, 1) if decay else None, drawn(50),
    )  # fmt: skip

    def after(step: Callable[..., None], look: bool) -> list[Tensor]:
        own = [each if each is None else each.clone() for each in inputs]
        with torch.no_grad():
            step(*own, look)
        return own[1:5]

    written = after(adamw.updated, True)
    assert written[3].tolist() == [True, not frozen, True]
    assert torch.equal(written[0][1], params[1]) is frozen
    for found in (
        after(adamw.updated, False),
        after(torch.compile(adamw.updated, backend="aot_eager", fullgraph=True), False),
    ):
        torch.testing.assert_close(found, written, rtol=1e-6, atol=1e-7)
