"""What the language benchmark must measure on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from language_rows import columns_of, finetuned

from benchmarks import language
from raysweep.training import params
from raysweep.workloads.language.model_config import config_of


@pytest.mark.gpu
@pytest.mark.parametrize(("what", "shape", "batch", "count", "bound"), language.ON_GPU)
def test_side_by_side_is_as_much_faster_as_asked(what, shape, batch, count, bound):
    side_by_side, chosen, size = language.compared(shape, batch, count)
    assert side_by_side >= bound
    assert chosen >= 0.95 * side_by_side
    assert size > 1


@pytest.mark.gpu
def test_training_comes_near_the_roofline():
    _, flops, bandwidth = language.card() or pytest.skip("no data sheet of this GPU")
    speed = 64 * language.OLMO.context / min(language.seconds_a_step(language.OLMO, 64, 1) for _ in range(3))
    assert speed >= min(
        0.4 * flops / language.OLMO.flops_per_token(), 0.8 / language.roofline_seconds(language.OLMO, flops, bandwidth)
    )


@pytest.mark.gpu
def test_rows_side_by_side_on_a_gpu_are_those_in_turn():
    """Stated tolerance, bfloat16 products: 1e-2 nats after 10 steps."""
    rows = [{"finetune_lr": rate, "finetune_steps": 10} for rate in (3e-4, 1e-3, 3e-3)]
    config = config_of({name: values[0] for name, values in columns_of(*rows).items()})
    base = params.named(torch.from_numpy(params.initial(config, 0)[None]), config)
    start = {name: values[0].numpy() for name, values in base.items()}
    fused = finetuned(columns_of(*rows), start)
    alone = [finetuned(columns_of(row), start) for row in rows]
    for index, (losses, status) in enumerate(alone):
        assert status[0] == fused[1][index]
        assert np.isclose(losses[0], fused[0][index], atol=1e-2)
