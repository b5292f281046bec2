"""What the dry run says that rows will take."""

import numpy as np
import pytest
from workload_rows import columns_of

from raysweep import workloads
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.cost import estimate
from raysweep.space import space_files
from raysweep.workloads.language import costs
from raysweep.workloads.language.model_config import PRESETS

SHAPE = PRESETS["3m"]


def test_a_step_of_a_gpu_takes_the_longer_of_its_launches_and_its_work():
    assert costs.gpu_step(SHAPE, 1) == costs.gpu_step(SHAPE, 2) == 220 * costs.GPU_LAUNCH
    work = [costs.gpu_step(SHAPE, batch) for batch in (256, 512)]
    flops = 256 * SHAPE.context * SHAPE.flops_per_token() / costs.GPU_FLOPS
    assert flops < work[0] < 1.5 * flops
    assert work[1] - work[0] == pytest.approx(work[0], rel=0.1)


def test_the_validation_loss_is_looked_at_once_a_step_at_most():
    rows = (columns_of("language", finetune_steps=10, early_stopping=count) for count in (5, 10, 1000))
    looks = [costs.finetune(row).seconds for row in rows]
    assert looks[0] < looks[1] == looks[2]


def test_the_space_for_one_gpu_fits_into_half_an_hour_on_it():
    def seconds(gpus):
        asked = space_files.read("overtraining_language", {"resources.gpus_per_trial": gpus})
        cells = enumerate_cells(asked)
        pending = {seed: np.arange(len(cells)) for seed in asked.seeds}
        return estimate(workloads.get(asked.workload), cells, pending)[0]

    assert 60 < seconds(1) < 1800 / 2  # half of it is for reading the text and starting up
    assert seconds(0) > 100 * seconds(1)
