"""A stage as the stage store keeps it, for tests."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from raysweep.stages.store import Store

STAGE = "0123456789abcdef"
DESCRIBE = {"workload": "language", "parameters": {"depth": 2, "pretrain_length": float("inf")}, "seed": 0}


def weights(seed: int = 0, count: int = 64) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        "layers.0": generator.standard_normal((count, 5)),
        "step": np.asarray(7),
        "empty": np.zeros((0, 3)),
        "optimizer": generator.standard_normal(count).astype(np.float32),
        "mask": np.asarray([True, False]),
    }


def assert_equal(result: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert result.keys() == expected.keys()
    for name, array in expected.items():
        assert result[name].dtype == array.dtype
        assert result[name].shape == array.shape
        assert np.array_equal(result[name], array)


def once(store: Store, stage: str = STAGE, seed: int = 0) -> Any:
    return store.once(stage, lambda progress: (weights(seed), {"loss": 1.5}), describe=DESCRIBE)


def published(store: Store) -> tuple[Path, Path]:
    """Record and weights of STAGE in a local store."""
    record = Path(store.url) / "entries" / f"{STAGE}.json"
    return record, record.parent / json.loads(record.read_bytes())["weights"].rpartition("/")[2]
