"""Rows of the workload `checkpoints` on the tiny hub, and the fixtures of its tests."""

import json

import pytest

from raysweep.trial import chain
from raysweep.workloads.checkpoints import WORKLOAD
from tests.support import tiny_hub
from tests.support.workload_rows import table_of

QUICK = {
    "model": tiny_hub.MODEL,
    "revision": "step1",
    "source": "python-docs:0.1",
    "target": "python-docs:0.1",
    "context": 32,
    "finetune_steps": 5,
    "finetune_batch": 8,
    "finetune_warmup": 1,
    "finetune_lr": 1e-3,
    "evaluation_tokens": 512,
}


def table(*rows):
    """A table of rows that take a fraction of a second each."""
    return table_of("checkpoints", *(QUICK | dict(row) for row in rows))


def compute(columns, seeds, store=None, keep=()):
    """The metrics and the status of rows, through all stages."""
    result = chain.Walk(WORKLOAD, columns, seeds, store, keep).through()
    return result.metrics, result.status


@pytest.fixture(scope="session")
def tiny_cache(tmp_path_factory):
    cache = tmp_path_factory.mktemp("hub")
    tiny_hub.fill(cache)
    return cache


@pytest.fixture
def hub_cache(tiny_cache, monkeypatch, tmp_path_factory):
    """The tiny hub is that of this process, which has no network."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tiny_cache))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("RAYSWEEP_CACHE", str(tmp_path_factory.getbasetemp() / "tokens"))
    return tiny_cache


@pytest.fixture
def chats(tmp_path):
    """A target of 80 short conversations."""
    path = tmp_path / "chats.jsonl"
    lines = [{"prompt": f"{n}+1?", "response": f"it is {n + 1}"} for n in range(80)]
    path.write_text("\n".join(map(json.dumps, lines)))
    return f"chat:{path}"


@pytest.fixture
def texts(tmp_path):
    """A text of 200 documents."""
    path = tmp_path / "texts.jsonl"
    lines = [{"text": f"document number {n} of many, {n * n} in all. " * 4} for n in range(200)]
    path.write_text("\n".join(map(json.dumps, lines)))
    return f"file:{path}"
