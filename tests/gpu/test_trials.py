"""Trials on Ray with real GPUs: each sees those that it was granted and no other, and computes there.

tests/trial/test_devices.py says the same of GPUs that Ray is told of, and of more of them.
"""

import json
import os
import subprocess
import sys

import pytest

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


@pytest.mark.gpu
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
