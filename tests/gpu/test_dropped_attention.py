"""Dropout of the probabilities of attention without tensors of size length²: as in plain operations, and compiled once.

Without a GPU, torch's own plain operations for FlexAttention stand in for its kernels, forward and backward.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import flex_attention

from raysweep.training import compiled, dropout
from raysweep.training.dropout import Dropout, Masks
from raysweep.workloads.language import dropped_attention, layer

CPU = torch.device("cpu")
Form = Callable[..., Tensor]


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """FlexAttention computes gradients on the CPU too, which torch refuses to users."""
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *tensors: None)
    torch._dynamo.reset()


def masks_of(rate: float, step: int = 0, sequence: int = 0, rows_each: int = 0, device: torch.device = CPU) -> Masks:
    return Dropout.of_step(rate, 0, "a", step, 2).masks(1, dropout.ATTENTION, sequence * rows_each).on(device)


def parts(batch: int, heads: int, length: int, width: int, seed: int = 0) -> list[Tensor]:
    """Queries, keys and values, and the gradient of what is heard, float64."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, heads, length, width, generator=generator, dtype=torch.float64) for _ in range(4)]


def computed(form: Form, of: list[Tensor], *rest: Any, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """What is heard, and its gradients in queries, keys and values."""
    *inputs, above = (each.to(dtype) for each in of)
    for each in inputs:
        each.requires_grad_()
    with torch.autocast(above.device.type, torch.bfloat16, enabled=dtype == torch.bfloat16):
        found = form(*inputs, *rest)
    return [found, *torch.autograd.grad(found, inputs, above)]


def shown(form: Form, masks: Masks, models: int, batch: int, heads: int, length: int) -> Tensor:
    """Which probabilities a form keeps, boolean (models, batch · heads · length, length)."""
    device = masks.up.device
    alike = torch.zeros(models * batch, heads, length, 32, device=device)
    keys = torch.eye(length, device=device).split(64, 1)  # values that show what is heard of 64 keys at a time
    heard = [form(alike, alike, each.expand(*alike.shape[:2], -1, -1), 1.0, masks, models) for each in keys]
    return (torch.cat(heard, -1) > 0).view(models, -1, length)


def test_masks_are_those_of_the_hash_to_the_last_bit(on_cpu: None) -> None:
    sequence, heads, length = 5, 3, 64
    masks = masks_of(0.3, 7, sequence, heads * length)
    found = shown(torch.compile(dropped_attention.by_blocks, backend="eager"), masks, 2, 4, heads, length)
    rows = 4 * heads * length
    asked = Dropout.of_step(0.3, 0, "a", 7, 2).kept(1, dropout.ATTENTION, sequence * heads * length, rows, length, CPU)
    past = torch.ones(length, length, dtype=torch.bool).tril().repeat(4 * heads, 1)
    assert torch.equal(found, (asked & past).expand(2, -1, -1))
    assert 0.6 < float(found[0][past].double().mean()) < 0.8


@pytest.mark.parametrize(("length", "rate"), [(32, 0.9), (200, 0.4)])  # less than a block, and more
def test_blocks_are_pairs_to_rounding_with_their_gradients(rate: float, length: int, on_cpu: None) -> None:
    heads, masks = 2, masks_of(rate)
    of = parts(4, heads, length, 16)
    deaf = ~shown(dropped_attention.by_pairs, masks, 1, 2, heads, length).view(2, heads, length, length).any(-1)
    assert deaf.any()  # queries all of whose keys are dropped
    found = computed(torch.compile(dropped_attention.by_blocks, backend="eager"), of, 0.4, masks, 2)
    for each, plain in zip(found, computed(dropped_attention.by_pairs, of, 0.4, masks, 2), strict=True):
        torch.testing.assert_close(each, plain, rtol=1e-11, atol=1e-12)
    assert not found[0].unflatten(0, (2, 2))[:, deaf].any()


def test_products_in_bfloat16_are_no_further_from_the_truth_than_those_of_pairs(on_cpu: None) -> None:
    of = [2 * each for each in parts(2, 2, 256, 32)]
    of = [each.bfloat16().double() for each in of]
    nearer(torch.compile(dropped_attention.by_blocks, backend="eager"), of, masks_of(0.1), torch.bfloat16)


def nearer(form: Form, of: list[Tensor], masks: Masks, dtype: torch.dtype) -> None:
    rest = (layer.score_scale(of[0].shape[-1]), masks, 1)
    truth = computed(dropped_attention.by_pairs, of, *rest)
    errors = [
        [
            float((each.double() - true).detach().norm())
            for each, true in zip(computed(which, of, *rest, dtype=dtype), truth, strict=True)
        ]
        for which in (form, dropped_attention.by_pairs)
    ]
    for found, plain in zip(*errors, strict=True):
        assert found <= 1.25 * plain


def layer_inputs(models: int, batch: int, length: int, heads: int, width: int) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(models + batch)
    shapes = (models, batch * length, width), (models, width), (models, width, 3 * width), (models, width, width)
    tensors = [torch.randn(shape, generator=generator).div(width**0.25).requires_grad_() for shape in shapes]
    return *tensors, length, heads, layer.rotation(length, width // heads, tensors[0])


@pytest.mark.long
def test_the_kernels_that_the_compiler_writes_for_a_gpu_compute_it(tmp_path: Path) -> None:
    """In float32, run by Triton's interpreter in a process of its own."""
    script = Path(__file__).with_name("interpreted.py")
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([sys.executable, script, tmp_path], env=here, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert max(said["errors"]) < 3e-6  # of what attention adds to the stream, and of four gradients
    assert len(said["errors"]) == 5
    attending = [name for name in said["kernels"] if "flex_attention" in name and name.startswith("triton_tem")]
    assert len(attending) == 4  # all keys and those that are kept, forward and backward


def test_a_step_s_keys_a_rate_and_a_number_of_models_compile_nothing_again(on_cpu: None) -> None:
    compilations = []

    def backend(graph: Any, inputs: Any) -> Any:
        compilations.append(graph)
        return graph.forward

    form = torch.compile(layer.attention_with_dropout, backend=backend, fullgraph=True)

    def compare(models: int, batch: int, step: int, rate: float, sequence: int, width: int = 32) -> int:
        inputs = layer_inputs(models, batch, 64, 2, width)
        masks = masks_of(rate, step, sequence, 2 * 64)
        torch.testing.assert_close(form(*inputs, masks), layer.attention(*inputs, masks), rtol=1e-3, atol=1e-4)
        return len(compilations)

    assert compare(2, 4, 0, 0.1, 0) == 1
    assert compare(2, 4, 1, 0.1, 0) == 1  # another step
    assert compare(2, 4, 1, 0.1, 4) == 1  # another piece of its batch
    assert compare(2, 4, 2, 0.3, 0) == 1  # another rate
    assert compare(3, 6, 0, 0.1, 0) == 2  # numbers change: once for all other ones
    assert compare(5, 7, 3, 0.2, 7) == 2
    assert compare(3, 6, 0, 0.1, 0, 64) == 3  # another model
    for graph in compilations:  # the kernels are written for one width of a head
        scales = [node.args[5] for node in graph.graph.nodes if "flex_attention" in str(node.target)]
        assert [type(scale) for scale in scales] == [float, float]


def test_where_the_compiler_has_no_kernel_for_it_the_layer_runs_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refused(graph: Any, inputs: Any) -> Any:
        asked.append(graph)
        raise NotImplementedError("NYI: embedding dimension must be at least 16")

    monkeypatch.setattr(compiled, "available", lambda: True)
    monkeypatch.setattr(compiled, "made", {})
    monkeypatch.setattr(Tensor, "is_cuda", property(lambda tensor: True))
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=refused))
    inputs, masks = layer_inputs(1, 4, 64, 2, 32), masks_of(0.1)
    fast = compiled.where_possible(layer.attention_with_dropout)
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(fast(*inputs, masks), layer.attention(*inputs, masks))
    assert len(asked) == 1


@pytest.mark.gpu
@pytest.mark.parametrize(("length", "heads", "width"), [(64, 2, 16), (200, 2, 32), (256, 4, 64), (1024, 6, 64)])
def test_on_a_gpu_the_kernels_compute_it(length: int, heads: int, width: int) -> None:
    torch._dynamo.reset()
    here = torch.device("cuda")
    form = torch.compile(dropped_attention.by_blocks, fullgraph=True, dynamic=False)
    of = [each.bfloat16().double().to(here) for each in parts(4, heads, length, width)]
    nearer(form, of, masks_of(0.1, device=here), torch.bfloat16)
    rest = (layer.score_scale(width), masks_of(0.1, device=here), 1)
    found = computed(form, of, *rest, dtype=torch.float32)
    for each, true in zip(found, computed(dropped_attention.by_pairs, of, *rest), strict=True):
        assert float((each.double() - true).detach().norm()) < 2e-5 * float(true.detach().norm())
    if length % 64 == 0:
        masks = masks_of(0.3, 3, 2, heads * length, here)
        plain = shown(dropped_attention.by_pairs, masks, 2, 2, heads, length)
        assert torch.equal(shown(form, masks, 2, 2, heads, length), plain)


@pytest.mark.gpu
def test_on_a_gpu_the_layer_is_compiled_for_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    monkeypatch.setattr(compiled, "made", {})
    here = torch.device("cuda")
    fast = compiled.where_possible(layer.attention_with_dropout)
    for models, batch, heads, width in ((1, 4, 2, 64), (1, 3, 2, 64), (3, 4, 2, 64), (2, 5, 4, 256), (1, 2, 2, 64)):
        inputs = layer_inputs(models, batch, 256, heads, width)
        tensors = [each.detach().to(here).requires_grad_() for each in inputs[:4]]
        rest = (256, heads, layer.rotation(256, width // heads, tensors[0]), masks_of(0.1, batch, device=here))
        (found, *gradients), (plain, *right) = (
            [heard, *torch.autograd.grad(heard.square().sum(), tensors)]
            for heard in (fast(*tensors, *rest), layer.attention(*tensors, *rest))
        )
        for each, true in zip([found, *gradients], [plain, *right], strict=True):
            assert float((each - true).detach().norm()) < 1e-4 * float(true.detach().norm())
        assert compiled.made[layer.attention_with_dropout] is not layer.attention_with_dropout  # it was not given up


@pytest.mark.gpu
def test_on_a_gpu_attention_with_dropout_takes_no_memory_for_pairs() -> None:
    torch._dynamo.reset()
    here, length, heads = torch.device("cuda"), 1024, 6
    of = [each.bfloat16().to(here) for each in parts(16, heads, length, 64)]
    form = torch.compile(dropped_attention.by_blocks, fullgraph=True, dynamic=False)
    most = []
    for which in (form, dropped_attention.by_pairs):
        computed(which, of, 0.125, masks_of(0.1, device=here), 1, dtype=torch.bfloat16)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        computed(which, of, 0.125, masks_of(0.1, device=here), 1, dtype=torch.bfloat16)
        most.append(torch.cuda.max_memory_allocated() - before)
    pairs = 16 * heads * length * length
    assert most[0] < pairs < most[1]
