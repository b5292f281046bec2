"""The arithmetic of the language benchmark, by hand; and what it says without a GPU."""

from __future__ import annotations

import time

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import language
from raysweep.training import devices, model_batch, optimizer
from raysweep.workloads.language.model_config import ModelConfig

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
    monkeypatch.setattr(language, "BARE", ((4, 3.0),))
    monkeypatch.setattr(language, "TURNS", 2)
    found = language.rows()
    assert [measured for _, measured, _ in found[-3:]] == [language.NOTHING] * 3
    assert "chosen (1 at a time) 1.00 x" in found[0][1]


def test_bare_products_are_the_flops_of_a_step_and_nothing_else():
    """As counted by torch; the tokens of a batch of 3, gains are no products."""
    products = language.bare_products(SMALL, 3)
    with FlopCounterMode(display=False) as count:
        products()
    gains = 6 * 2 * 2 * 8 * SMALL.depth / 2
    assert count.get_total_flops() == 3 * SMALL.context * (SMALL.flops_per_token() - gains)


@pytest.fixture
def pretended(monkeypatch):
    """A GPU of so much free memory, on which training takes as many seconds a model as `timings` says when so many
    train side by side; nothing is computed there. A function that says how many are chosen of 27."""
    clock = [0.0]
    monkeypatch.setattr(devices, "device", lambda: torch.device("meta"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def chosen(timings, batch, free=80e9):
        def train(state, *rest):
            models = len(state.params)
            clock[0] += models * timings(models)

        monkeypatch.setattr(optimizer, "train", train)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 80e9))
        return model_batch.side_by_side(SMALL, batch, 27)

    return chosen


def out_of_memory(models):
    if models > 4:
        raise torch.cuda.OutOfMemoryError
    return 1 / models


@pytest.mark.parametrize(
    ("timings", "batch", "chosen"),  # a batch of its own each: what was timed once is remembered
    [
        (lambda models: 1 / models, 1001, 27),
        (lambda models: abs(models - 8) + 1, 1002, 8),
        (lambda models: 1 - 0.001 * models, 1003, 1),
        (lambda models: 1 if models == 1 else float("inf"), 1004, 1),
        (out_of_memory, 1005, 4),
    ],
)
def test_on_a_gpu_what_is_fastest_is_chosen_of_what_fits_and_one_at_a_time_where_nothing_gains(
    pretended, timings, batch, chosen
):
    assert pretended(timings, batch) == chosen


def test_no_more_are_timed_than_memory_is_free_for(pretended):
    free = SMALL.training_bytes(1006, 6) / model_batch.MEMORY_SHARE + 1
    timed = []
    assert pretended(lambda models: timed.append(models) or 1 / models, 1006, free) == 6
    assert max(timed) == 6
