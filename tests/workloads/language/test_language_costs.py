"""What the dry run says a GPU will take: the formula against what was measured on one, and the packaged spaces."""

from __future__ import annotations

import numpy as np
import pytest

from raysweep import workloads
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.cost import estimate
from raysweep.space import space_files
from raysweep.workloads.declaration import column
from raysweep.workloads.language import WORKLOAD, costs
from raysweep.workloads.language.model_config import PRESETS

DECODER = PRESETS["3m"]  # width 256, 4 layers, context 256: the model that was measured on an H200


def test_gpu_formula_gives_the_measured_tokens_a_second():
    assert 65_536 / costs.gpu_step(DECODER, 256) == pytest.approx(10.1e6, rel=0.1)


@pytest.mark.parametrize(("models", "tokens", "measured"), [(8, 16_384, 3.0), (27, 4_096, 9.7)])
def test_gpu_formula_gives_the_measured_gain_of_models_side_by_side(models, tokens, measured):
    batch = tokens // DECODER.context
    gain = models * costs.gpu_step(DECODER, batch) / costs.gpu_step(DECODER, batch, models)
    assert gain == pytest.approx(measured, rel=0.15)


def rows(count: int, **values: object) -> dict[str, np.ndarray]:
    return {p.name: column(p, [values.get(p.name, p.default)] * count) for p in WORKLOAD.parameters}


def after_pretraining(columns):
    return costs.finetune(columns) + costs.evaluate(columns)


def test_rates_of_one_checkpoint_share_a_gpu_and_not_a_core():
    values = {"preset": "3m", "pretrain_length": 65536.0, "finetune_steps": 10_000, "pretrain_batch": 256}
    one, nine = after_pretraining(rows(1, **values)), after_pretraining(rows(9, **values))
    assert nine.seconds == pytest.approx(9 * one.seconds, rel=0.01)
    assert nine.gpu_seconds < 4 * one.gpu_seconds
    different = rows(9, **values)
    different["finetune_batch"] = np.arange(8, 17)  # not the same batches: one after the other
    assert after_pretraining(different).gpu_seconds > 8 * one.gpu_seconds


def test_pretraining_in_parts_costs_what_it_costs_whole():
    parameters = {p.name: p.default for p in WORKLOAD.parameters}
    whole, half = costs.pretraining(parameters, 2.0**20), costs.pretraining(parameters, 2.0**19)
    assert whole.seconds == pytest.approx(2 * half.seconds)
    assert whole.gpu_seconds == pytest.approx(2 * half.gpu_seconds)


def test_the_space_for_one_gpu_fits_into_half_an_hour_on_it():
    def seconds(gpus: int) -> float:
        asked = space_files.read("overtraining_language", {"resources.gpus_per_trial": gpus})
        cells = enumerate_cells(asked)
        pending = {seed: np.arange(len(cells)) for seed in asked.seeds}
        return estimate(workloads.get(asked.workload), cells, pending)[0]

    assert 60 < seconds(1) < 1800 / 2  # half of it is for reading the text and starting up
    assert seconds(0) > 100 * seconds(1)
