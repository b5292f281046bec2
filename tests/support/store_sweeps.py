"""Sweeps over a small language model and their store: their rows, where nothing goes wrong too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], list[dict[str, Any]]]:
    """The rows of a space where nothing goes wrong, each space run once."""
    from raysweep import sweep

    reference: dict[str, list[dict[str, Any]]] = {}

    def rows_of(space: Path) -> list[dict[str, Any]]:
        text = space.read_text()
        if text not in reference:
            storage = tmp_path_factory.mktemp("sound")
            sweep.run(
                space, storage=storage, report=False, tracking_uri="none", executor="inline", say=lambda line: None
            )
            reference[text] = rows(storage)
        return reference[text]

    return rows_of


def rows(storage: Path) -> list[dict[str, Any]]:
    """The rows of the sweep `small` of a storage."""
    import raysweep

    return raysweep.open("small", storage).results().drop(columns=["sweep"]).to_dict("records")
