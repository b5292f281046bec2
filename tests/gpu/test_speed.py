"""What the language benchmark must measure on a GPU; that what is compiled there trains as what is not; and that trials
on Ray see the GPUs that they were granted and no other, which tests/trial/test_devices.py says of pretended ones."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import language
from raysweep.training import trainer
from raysweep.training.trainer import Recipe, Trainer
from raysweep.workloads.language import model
from raysweep.workloads.language.model_config import PRESETS

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("preset", "batch", "least", "share"), language.ON_GPU)
def test_training_is_as_fast_as_asked(preset, batch, least, share):
    _, flops, _ = language.card() or pytest.skip("no data sheet of this GPU")
    speed = language.tokens_a_second(PRESETS[preset], batch, True)
    assert speed >= least
    assert language.utilization(PRESETS[preset], speed, flops) >= share


def test_a_compiled_model_trains_as_one_that_is_not():
    """Stated tolerance, bfloat16 products: 1e-2 nats in each of 20 steps."""
    if not trainer.compiler():
        pytest.skip("no compiler for this GPU")
    shape, found = PRESETS["tiny"], []
    text = np.random.default_rng(0).integers(97, 105, (20, 16, shape.context + 1)).astype(np.uint8)
    for compiles in (False, True):
        losses = []
        recipe = Recipe(1e-3, lambda step: 1.0, lr_factors=shape.lr_factors(), records=compiles)
        own = Trainer(model.decoder(shape, shape.initial(0), compiles=compiles), model.losses, recipe)
        own.train(lambda step: text[step], 20, lambda _, loss, losses=losses: losses.append(float(loss)))
        found.append(losses)
    np.testing.assert_allclose(found[1], found[0], atol=1e-2)


# Trials on Ray

SPACE = """
name: seen
workload: look.py:look
axes: {gpus: [0, 1]}
seeds: 2
resources: {where: [{gpus: 1, gpus_per_trial: 1}]}
"""
LOOK = """
import os
from raysweep.training import devices

def look(gpus: float, seed: int) -> dict:
    import torch
    where = devices.device()
    assert (where.type == "cuda") == (gpus == 1), where
    assert float(torch.ones(3, device=where).sum()) == 3
    seen = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "all").split(",") if name]
    return {"seen": float(len(seen) if seen != ["all"] else -1), "there": float(torch.cuda.device_count())}
"""
SWEEP = """
import json, sys
import ray
import raysweep
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
found = raysweep.run(sys.argv[1], storage=sys.argv[2], executor="ray", tracking_uri="none", report=False)
print(json.dumps(found.results()[["gpus", "status", "seen", "there"]].to_dict("records")))
"""


def test_trials_see_the_gpus_they_were_granted_and_compute_there(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed here")
    (tmp_path / "look.py").write_text(LOOK)
    (tmp_path / "seen.yaml").write_text(SPACE)
    done = subprocess.run(
        [sys.executable, "-c", SWEEP, str(tmp_path / "seen.yaml"), str(tmp_path / "sweeps")],
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
        stdin=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"},
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])
    assert [row["status"] for row in rows] == ["ok"] * 4, rows
    assert [(row["gpus"], row["seen"]) for row in rows] == [(0, 0), (0, 0), (1, 1), (1, 1)]
