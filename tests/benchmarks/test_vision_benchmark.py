"""The two loops of the benchmark of nets on images do the same work."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import vision


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
