"""The benchmarks of training: both loops over images do the same work; and the language model's arithmetic, by hand."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import language, vision
from raysweep.workloads.language.model_config import PRESETS, ModelConfig

SMALL = ModelConfig(depth=2, width=8, heads=2, mlp=16, context=32, vocabulary=100)


def test_flops_a_token_are_those_counted_by_hand():
    layer = 4 * 8 * 8 + 3 * 8 * 16 + 2 * 8  # attention, the MLP's three, two gains
    assert SMALL.flops_per_token() == 6 * (100 * 8 + 2 * layer) + 12 * 2 * 8 * 32
    assert language.utilization(SMALL, 1000, 1e9) == pytest.approx(SMALL.flops_per_token() * 1e-6)


@pytest.mark.parametrize(("bandwidth", "head"), [(1e12, 6 * 8 * 100 / 1e9), (1e6, 30 * 100 / 1e6)])
def test_roofline_takes_the_longer_of_the_head_s_flops_and_its_logits(bandwidth, head):
    layers = (SMALL.flops_per_token() - 6 * 8 * 100) / 1e9
    assert language.roofline_seconds(SMALL, 1e9, bandwidth) == pytest.approx(layers + head)


@pytest.mark.long
def test_the_bare_loop_makes_the_same_steps():
    """Seconds differ by little, and weights by nothing: the same module, the same optimizer."""
    for run in (language.trained(SMALL, 4), language.bare(SMALL, 4)):
        assert 0 < language.seconds_a_step(run, 2) < 1


def test_without_a_gpu_the_table_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setitem(PRESETS, "small", SMALL)
    monkeypatch.setattr(language, "AGAINST_BARE", (("small", 2, 2),))
    found = language.rows()
    assert [measured for _, measured, _ in found[-2:]] == [language.NOTHING] * 2
    assert 0.2 < float(found[0][1].split()[-2]) < 5


def test_both_loops_do_the_same_arithmetic_and_the_line_says_which_is_faster(monkeypatch):
    monkeypatch.setattr(vision, "IMAGES", 96)
    monkeypatch.setattr(vision, "TURNS", 2)
    images = vision.made_up()
    assert images[0].shape == (96, 1, 28, 28)
    flops = []
    for loop in (vision.staged, vision.bare):
        epoch = loop(*images)
        with FlopCounterMode(display=False) as count:
            epoch(1)
        flops.append(count.get_total_flops())
    first, others = 25 * 6 * 28**2, 25 * 6 * 16 * 10**2 + 400 * 120 + 120 * 84 + 84 * 10
    assert flops == [96 * 2 * (2 * first + 3 * others)] * 2, "in one pass, and in two back but for the pixels"
    threads = torch.get_num_threads()
    ((what, measured, bound),) = vision.rows()
    assert "LeNet" in what
    assert "images/s, " in measured
    assert bound == "0.95 x or more"
    assert torch.get_num_threads() == threads
