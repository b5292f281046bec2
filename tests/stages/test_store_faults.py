"""A sweep whose stages are damaged, lost or of another version loses no rows and gets the same ones."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import QUIET, Call, assert_same_rows, halted
from spaces import language_space, written
from store_sweeps import rows

from raysweep.stages.store import Store
from raysweep.storage.sealed import seal, unseal


@pytest.fixture
def space(tmp_path: Path) -> Path:
    """Two pretrainings of a small model, three rates each."""
    return written(tmp_path, language_space())


def damage_flip(record: Path, weights: Path) -> None:
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 4
    weights.write_bytes(content)


def damage_lost_record(record: Path, weights: Path) -> None:
    """What a crash leaves between the weights and their record."""
    record.unlink()


@pytest.mark.parametrize("damage", [damage_flip, damage_lost_record])
def test_a_damaged_stage_is_set_aside_and_computed_again_to_the_same_rows(
    call: Call, space: Path, storage: Path, damage: Callable[[Path, Path], None], expected: Callable[..., Any]
) -> None:
    assert call("run", space, "--set", "axes.finetune_lr=[1e-3]", "--storage", storage, *QUIET).code == 0
    store = Store(storage / "store")
    first = store.stages()[0]
    record = storage / "store" / "entries" / f"{first}.json"
    damage(record, record.parent / json.loads(record.read_bytes())["weights"].rpartition("/")[2])
    done = call("run", space, "--storage", storage, *QUIET)
    assert done.code == 0, done.err
    assert "2 distinct, 1 computed, 1 reused, 0 begun again" in done.err
    assert_same_rows(rows(storage), expected(space))
    if damage is not damage_lost_record:
        assert "1 set aside as damaged" in call("store", "list", "--storage", storage).out
    assert call("store", "verify", "--storage", storage).code == 0


def test_an_entry_of_another_version_ends_the_sweep_and_stays(
    call: Call, space: Path, storage: Path, expected: Callable[..., Any]
) -> None:
    assert call("run", space, "--set", "axes.finetune_lr=[1e-3]", "--storage", storage, *QUIET).code == 0
    entry = storage / "store" / "entries" / f"{Store(storage / 'store').stages()[0]}.json"
    sound = entry.read_bytes()
    entry.write_bytes(seal({**unseal(sound), "format": 99}))
    outcome = call("run", space, "--storage", storage, *QUIET)
    halted(outcome, "", "format 99")
    assert entry.exists()
    assert len(rows(storage)) == 2
    entry.write_bytes(sound)
    assert call("run", space, "--storage", storage, *QUIET).code == 0
    assert_same_rows(rows(storage), expected(space))


def test_a_store_that_is_gone_is_made_anew(
    call: Call, space: Path, storage: Path, expected: Callable[..., Any]
) -> None:
    assert call("run", space, "--set", "axes.finetune_lr=[1e-3]", "--storage", storage, *QUIET).code == 0
    shutil.rmtree(storage / "store")
    assert "0 computed" in call("status", "small", "--storage", storage, "--tracking-uri", "none").out
    done = call("run", space, "--storage", storage, *QUIET)
    assert "2 distinct, 2 computed, 0 reused" in done.err
    assert_same_rows(rows(storage), expected(space))
    assert os.listdir(storage / "store")
