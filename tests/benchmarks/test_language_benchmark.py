"""The arithmetic of the language benchmark, by hand; what it says without a GPU; and what it must measure on one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks import language
from raysweep.training import devices, model_batch, params
from raysweep.workloads.language import finetuning
from raysweep.workloads.language.model_config import PRESETS, ModelConfig, config_of

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: what it measures is of a GPU")
SMALL = ModelConfig(depth=2, width=8, heads=2, mlp=16, context=32, vocabulary=100)


def test_flops_a_token_are_those_counted_by_hand():
    layer = 4 * 8 * 8 + 3 * 8 * 16 + 2 * 8  # attention, the MLP's three, two gains
    assert SMALL.flops_per_token() == 6 * (100 * 8 + 2 * layer) + 12 * 2 * 8 * 32
    assert language.utilization(SMALL, 1000, 1e9) == pytest.approx(SMALL.flops_per_token() * 1e-6)


@pytest.mark.parametrize(("bandwidth", "head"), [(1e12, 6 * 8 * 100 / 1e9), (1e6, 30 * 100 / 1e6)])
def test_roofline_takes_the_longer_of_the_head_s_flops_and_its_logits(bandwidth, head):
    layers = (SMALL.flops_per_token() - 6 * 8 * 100) / 1e9
    assert language.roofline_seconds(SMALL, 1e9, bandwidth) == pytest.approx(layers + head)


def test_a_h200_is_bound_by_memory_in_the_head_of_fifty_thousand_words():
    flops, bandwidth = language.CARDS["H200"]
    seconds = language.roofline_seconds(language.OLMO, flops, bandwidth)
    assert 30 * 50_304 / bandwidth < seconds < 2 * 30 * 50_304 / bandwidth
    assert 0.3 < language.utilization(language.OLMO, 1 / seconds, flops) < 0.6


def test_without_a_gpu_the_table_says_so_and_models_take_turns(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(language, "ON_CPU", (("a small step", SMALL, 2, 3),))
    found = language.rows()
    assert [measured for _, measured, _ in found[1:]] == [language.NOTHING] * 3
    assert "chosen (1 at a time) 1.00 x" in found[0][1]


def test_on_a_gpu_what_is_fastest_is_chosen_and_one_at_a_time_where_nothing_gains(monkeypatch):
    """The choice by invented timings: seconds a model when so many train side by side."""
    monkeypatch.setattr(devices, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (80e9, 80e9))
    for timings, chosen in (
        (lambda n: 1 / n, 27),
        (lambda n: abs(n - 8) + 1, 8),
        (lambda n: 1 - 0.001 * n, 1),
        (lambda n: 1 if n == 1 else float("inf"), 1),
    ):
        model_batch._seconds_per_model.cache_clear()
        monkeypatch.setattr(model_batch, "_timed", lambda shape, batch, models, timings=timings: timings(models))
        assert model_batch.side_by_side(PRESETS["3m"], 16, 27) == chosen
    model_batch._seconds_per_model.cache_clear()
    most = 0.6 * 2e9 / PRESETS["3m"].training_bytes(16)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2e9, 80e9))
    monkeypatch.setattr(model_batch, "_timed", lambda shape, batch, models: 1 / models)
    assert model_batch.side_by_side(PRESETS["3m"], 16, 27) == int(most) < 27
    model_batch._seconds_per_model.cache_clear()


def test_what_does_not_fit_is_not_chosen(monkeypatch):
    def full(shape, batch, models):
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(model_batch, "_timed", full)
    model_batch._seconds_per_model.cache_clear()
    assert model_batch._seconds_per_model(SMALL, 1, 2) == float("inf")
    model_batch._seconds_per_model.cache_clear()


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize(("what", "shape", "batch", "count", "bound"), language.ON_GPU)
def test_side_by_side_is_as_much_faster_as_asked(what, shape, batch, count, bound):
    side_by_side, chosen, size = language.compared(shape, batch, count)
    assert side_by_side >= bound
    assert chosen >= 0.95 * side_by_side
    assert size > 1


@pytest.mark.gpu
@needs_gpu
def test_training_comes_near_the_roofline():
    _, flops, bandwidth = language.card() or pytest.skip("no data sheet of this GPU")
    speed = 64 * language.OLMO.context / min(language.seconds_a_step(language.OLMO, 64, 1) for _ in range(3))
    assert speed >= min(
        0.4 * flops / language.OLMO.flops_per_token(), 0.8 / language.roofline_seconds(language.OLMO, flops, bandwidth)
    )


@pytest.mark.gpu
@needs_gpu
def test_rows_side_by_side_on_a_gpu_are_those_in_turn():
    """Stated tolerance, bfloat16 products: 1e-2 nats after 10 steps."""
    from raysweep.workloads.language import PARAMETERS

    parameters = {p.name: p.default for p in PARAMETERS}
    rows = [{**parameters, "finetune_lr": rate, "finetune_steps": 10} for rate in (3e-4, 1e-3, 3e-3)]
    base = params.initial(config_of(rows[0]), 0)[None]
    fused, alone = (finetuning.run(base, rows, 0, size=size) for size in (3, 1))
    for one, other in zip(fused, alone, strict=True):
        assert one[1] == other[1]
        assert np.isclose(one[0]["finetune_loss"], other[0]["finetune_loss"], atol=1e-2)
