"""What a step gives a GPU to do, counted operation by operation, against what its cost is computed from."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from benchmarks import joined, language
from benchmarks.cuda_types import cuda_types
from benchmarks.joined import Described
from benchmarks.roofline import Counter, step
from raysweep.workloads.language import costs
from raysweep.workloads.language.costs import Work
from raysweep.workloads.language.model_config import PRESETS

of_this_torch = pytest.mark.skipif(
    not torch.__version__.startswith("2.15."), reason="kernels are planned by internals of torch 2.15"
)
SHAPES = {**PRESETS, "tiny, many words": replace(PRESETS["tiny"], vocabulary=50_304)}


def test_the_counter_agrees_with_a_count_by_hand() -> None:
    table, factor = torch.ones(100, 8), torch.ones(8, 4)
    words = torch.zeros(6, dtype=torch.int64)
    with Counter() as counter:
        found = torch.nn.functional.embedding(words, table)
        assert counter.work == Work(0, 2 * 4 * 48 + 8 * 6, 1)  # of the table, only what is looked up
        found.view(2, 24).t().unsqueeze(0).detach()
        torch.empty(1000)
        assert counter.work.launches == 1
        product = found @ factor
        assert counter.work == Work(2 * 6 * 8 * 4, 432 + 4 * (48 + 32 + 24), 2)
        product.add_(torch.ones(()).expand(6, 4))  # a fill of one number, which is read once
        assert counter.work == Work(384, 848 + 4 + 4 * (24 + 1 + 24), 4)
        torch.mul(product, 2, out=product)
        product.zero_()
    assert counter.work == Work(384, 1048 + 4 * (24 + 24 + 24), 6)


@of_this_torch
def test_kernels_of_the_compiler_agree_with_a_count_by_hand() -> None:
    rows, narrow = Described((64, 1000), (1000, 1), torch.float32, True), Described((1000,), (1,), torch.float32, False)

    def joined_into_one(rows: Tensor, factors: Tensor) -> Tensor:
        return rows.sin() * factors + 1

    forward, backward = joined.planned(joined_into_one, (rows, narrow))
    assert forward == Work(0, 4 * (64_000 + 1000 + 64_000), 1)
    assert backward == Work(0, 4 * (64_000 + 1000 + 64_000 + 64_000), 1)  # the incoming gradient too

    def product(rows: Tensor, matrix: Tensor) -> Tensor:
        return (rows * 2) @ matrix

    matrix = Described((1000, 8), (8, 1), torch.bfloat16, False)
    forward, _ = joined.planned(product, (rows._replace(differentiated=False), matrix))
    assert forward == Work(0, (4 + 2) * 64_000 + 2 * (64_000 + 8000 + 64 * 8), 2)  # doubled and rounded; multiplied


@of_this_torch
@pytest.mark.parametrize(
    ("which", "batch", "models", "dropout"),
    [
        ("tiny, many words", 64, 8, 0.0),  # logits in chunks
        ("3m-688", 64, 8, 0.0),  # in two pieces
        ("15m", 4, 1, 0.1),
        ("90m", 1, 1, 0.0),
    ],
)
def test_a_step_costs_what_its_kernels_do(which: str, batch: int, models: int, dropout: float) -> None:
    config = SHAPES[which]
    counted = joined.step(config, batch, models, dropout)
    said = costs.gpu_work(config, batch, models, dropout > 0)
    assert said.flops == pytest.approx(counted.flops, rel=1e-9)
    assert said.bytes == pytest.approx(counted.bytes, rel=0.1)
    assert said.launches == pytest.approx(counted.launches, rel=0.05)


def test_a_fine_tuning_step_of_16384_tokens_starts_few_kernels_without_a_compiler() -> None:
    with cuda_types():
        # 390 as of now; one more operation in each layer's forward and backward passes is 8 more
        assert step(PRESETS["3m-688"], 64).launches <= 394


@of_this_torch
def test_a_compiler_makes_it_a_third_fewer_kernels_and_half_the_bytes() -> None:
    config = PRESETS["3m-688"]
    with cuda_types():
        alone = step(config, 64)
    together = joined.step(config, 64)
    assert together.launches <= 254  # 251 as of now
    assert together.bytes < 0.58 * alone.bytes


@pytest.mark.gpu
def test_a_gpu_takes_what_is_estimated_within_a_factor_of_5() -> None:
    config, batch = PRESETS["3m-688"], 64
    measured = min(language.seconds_a_step(config, batch, 1) for _ in range(3))
    assert 1 / 5 < measured / costs.gpu_step(config, batch) < 5
