"""A stage as the stage store keeps it, for tests."""

import json
from pathlib import Path

import numpy as np

STAGE = "0123456789abcdef"
DESCRIBE = {"workload": "language", "parameters": {"depth": 2, "pretrain_length": float("inf")}, "seed": 0}


def weights(seed=0, count=64):
    generator = np.random.default_rng(seed)
    return {
        "layers.0": generator.standard_normal((count, 5)),
        "step": np.asarray(7),
        "empty": np.zeros((0, 3)),
        "optimizer": generator.standard_normal(count).astype(np.float32),
        "mask": np.asarray([True, False]),
    }


def assert_equal(result, expected):
    assert result.keys() == expected.keys()
    for name, array in expected.items():
        assert result[name].dtype == array.dtype
        assert result[name].shape == array.shape
        assert np.array_equal(result[name], array)


def once(store, stage=STAGE, seed=0):
    return store.once(stage, lambda progress: (weights(seed), {"loss": 1.5}), describe=DESCRIBE)


def published(store):
    """Record and weights of STAGE in a local store."""
    record = Path(store.url) / "entries" / f"{STAGE}.json"
    return record, record.parent / json.loads(record.read_bytes())["weights"].rpartition("/")[2]
