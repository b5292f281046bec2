"""Models of `language`, exported as a local hub, are asked by `checkpoints` what `language` was asked."""

from __future__ import annotations

import time

import pytest

import raysweep
from raysweep.training import draws
from raysweep.workloads.language.grammar import Grammar

LENGTHS = [128.0 * steps for steps in (4, 8, 16, 32, 64, 128, 256, 512)]
RATES = [1e-4, 2e-4]
FINETUNING = {"finetune_steps": 5, "finetune_batch": 8, "context": 32, "evaluation_tokens": 4096}
TURNING = {"metric": "finetune_loss", "x": "pretrain_length", "by": ["finetune_lr"]}


def text(path, distance, tokens):
    """A file with a document of a grammar in each line."""
    path.write_bytes(Grammar(distance).text(draws.generator(0, path.name), tokens).tobytes())
    return f"file:{path}"


def run(name, storage, **space):
    settings = {"tracking_uri": "none", "executor": "inline", "report": False, "say": lambda line: None}
    return raysweep.run({"name": name, **space}, storage=storage, **settings)


@pytest.mark.long
def test_a_turning_point_is_found_again_in_exported_models(call, tmp_path, storage, monkeypatch):
    """A short text, gone over many times, turns the loss. At width 256 a rate of muP is that of every weight."""
    monkeypatch.setenv("RAYSWEEP_CACHE", str(tmp_path / "tokens"))
    texts = {"source": text(tmp_path / "a40000.txt", 0.0, 40_000), "target": text(tmp_path / "b.txt", 0.5, 100_000)}
    own = run(
        "made",
        storage,
        workload="language",
        axes={"pretrain_length": LENGTHS, "finetune_lr": RATES},
        fixed={"preset": "3m", "depth": 1, "pretrain_batch": 4, **FINETUNING, **texts},
        seeds=4,
    )
    assert call("export", "made", "--stage", "pretrain", "--to", f"hub:{tmp_path}/hub", "--storage", storage).code == 0
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    started = time.process_time()
    revisions = [f"pretrain_length-{length:.0f}-seed-0" for length in LENGTHS]
    again = run(
        "asked",
        storage,
        workload="checkpoints",
        axes={"revision": revisions, "pretrain_length": LENGTHS, "finetune_lr": RATES},
        zip=[["revision", "pretrain_length"]],
        fixed={"model": "raysweep/made", "finetune_warmup": 0, **FINETUNING, **texts},
        seeds=2,
    )
    assert time.process_time() - started < 120
    before, after = (
        sweep.results().query("seed == 0").set_index(["finetune_lr", "pretrain_length"]) for sweep in (own, again)
    )
    for loss in ("pretrain_loss", "finetune_loss_before"):
        assert after[loss].to_dict() == pytest.approx(before[loss].to_dict(), rel=1e-5)
    expected, found = (sweep.fit(inflection=TURNING).table.set_index("finetune_lr") for sweep in (own, again))
    for table in (expected, found):
        print(table[["status", "estimate", "low", "high"]].to_string())
        assert set(table["status"]) == {"located"}
    for rate in RATES:
        assert expected.low[rate] <= found.estimate[rate] <= expected.high[rate]
