"""Nets on images: images a second of LeNet in the stages of `vision` against a bare torch loop.

Run with: python -m benchmarks.vision.

The bare loop is written out with torch's own modules and torch.optim.SGD: batches of 32 by one random order an epoch,
pixels of bytes scaled batch by batch, momentum and weight decay, in the layout of memory that is faster here. Both take
turns in one run, on one thread; time is that of the process, and the least time of each counts, because other work on
the machine only adds to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from raysweep.workloads.vision import models

Row = tuple[str, str, str]

IMAGES, BATCH, RATE = 3_200, 32, 0.01
ROW = {"momentum": 0.9, "weight_decay": 5e-4}
TURNS = 10


def made_up() -> tuple[Tensor, Tensor]:
    """As many random images as a turn trains on, and labels."""
    drawn = np.random.default_rng(0)
    pixels = drawn.integers(0, 256, (IMAGES, 1, 28, 28), dtype=np.uint8)
    return torch.from_numpy(pixels), torch.from_numpy(drawn.integers(0, 10, IMAGES))


def staged(pixels: Tensor, labels: Tensor) -> Callable[[int], None]:
    """One epoch as the stage `pretrain` trains it."""
    net = models.build("lenet", 5, (1, 28), 10, 0)
    optimizer = models.optimizer(net, RATE, ROW)

    def epoch(number: int) -> None:
        batches = models.epoch_of(0, "source", number, len(labels), BATCH)
        total = torch.zeros((), dtype=torch.float64)
        for loss in models.descend(net, optimizer, pixels, labels, batches):
            total = total + loss

    return epoch


def bare(pixels: Tensor, labels: Tensor) -> Callable[[int], None]:
    """One epoch of a loop that does nothing else."""
    net = nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    ).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, **ROW)

    def epoch(number: int) -> None:
        for batch in torch.randperm(len(labels)).split(BATCH):
            given = pixels[batch].to(torch.float32, memory_format=torch.channels_last).mul_(2 / 255).sub_(1)
            loss = cross_entropy(net(given), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return epoch


def compared() -> tuple[float, float]:
    """Images a second in the stages, and what share of those of the bare loop."""
    pixels, labels = made_up()
    both = staged(pixels, labels), bare(pixels, labels)
    times: list[list[float]] = [[], []]
    for turn in range(1 + TURNS):
        for epoch, own in zip(both, times, strict=True):
            started = time.process_time()
            epoch(turn)
            own.append(time.process_time() - started)
    least, other = (min(own[1:]) for own in times)
    return IMAGES / least, other / least


def rows() -> list[Row]:
    """The lines of the table: what, measured, bound."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a trial has
    images, share = compared()
    torch.set_num_threads(threads)
    return [
        (
            "LeNet on 28 x 28 pixels on a CPU core, batches of 32: images/s in the stages of `vision` against a bare "
            "torch loop",
            f"{images:,.0f} images/s, {share:.2f} x",
            "0.95 x or more",
        )
    ]


if __name__ == "__main__":
    for row in rows():
        print(*row, sep=" | ")
