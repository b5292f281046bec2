"""The four axes of one language model, the deeper ones trained by gangs: on a cluster what a dry run says, and here a
tiny version from end to end on two cores."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import Outcome, process

import raysweep
from raysweep.ledger import segments
from tests.goldens import SPACES

pytestmark = pytest.mark.long
NAME = "four_axes_language"
GANGS = {1: 1, 2: 2, 3: 4}  # workers by depth
TINY: dict[str, Any] = {
    **SPACES[NAME],
    "seeds": 1,
    "axes.depth": [*GANGS],
    "axes.overlap_angle": [30],
    "resources": {"where": [{"depth": depth, "gang": gang} for depth, gang in GANGS.items()]},
}


def test_a_dry_run_says_which_gangs_there_are_and_what_they_cost(call: Callable[..., Outcome]) -> None:
    output = call("run", NAME, "--dry-run").out
    for gpus in ("1 GPU and 1 core each", "2 GPUs and 2 cores, a gang of 2", "4 GPUs and 4 cores, a gang of 4"):
        assert f"packs on {gpus}" in output, output
    assert re.search(r"together [\d.]+ GPU-(minutes|hours); a plain grid, .* GPU-hours: [\d.]+ times as much", output)


def test_a_tiny_version_on_gangs_of_one_two_and_four_gives_the_rows_of_one_process(
    storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stated tolerance, float32, as in tests/training/test_parallel.py: 2e-3 nats."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    changes = [
        part
        for key, value in TINY.items()
        for part in ("--set", f"{key}={yaml.safe_dump(value, default_flow_style=True)}")
    ]
    asked = ("--executor", "ray", "--workers", "4", "--tracking-uri", "none")
    done = process("run", NAME, "--storage", storage, *asked, *changes)
    assert done.code == 0, done.err
    alone = raysweep.run(
        NAME,
        set={**TINY, "resources": None},
        storage=tmp_path / "alone",
        tracking_uri="none",
        executor="inline",
        report=False,
        say=lambda line: None,
    ).results()
    sweep = raysweep.open(NAME, storage=storage)
    table = sweep.results()
    assert table["status"].tolist() == alone["status"].tolist()
    assert "ok" in set(table["status"])
    for name in ("pretrain_loss", "pretrain_loss_after", "finetune_loss", "sensitivity"):
        np.testing.assert_allclose(table[name], alone[name], atol=2e-3, err_msg=name)
        assert table[name].nunique() > len(table) / 4
    depths = dict(zip(table["cell"], table["depth"], strict=True))
    for path in (sweep.folder / "ledger").glob("*.jsonl"):
        rows = segments.read_segment(path)
        logs = list((sweep.folder / "logs").glob(f"{rows[0]['pack']}-*.log.worker*"))
        assert {GANGS[depths[row["cell"]]] for row in rows} == {len(logs) or 1}
    assert (sweep.folder / "report" / "report.html").exists()
