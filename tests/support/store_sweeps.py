"""Sweeps over a small language model and their store: their rows, where nothing goes wrong too."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import run


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], list[dict[str, Any]]]:
    """The rows of a space where nothing goes wrong, each space run once."""
    reference: dict[str, list[dict[str, Any]]] = {}

    def rows_of(space: Path) -> list[dict[str, Any]]:
        text = space.read_text()
        if text not in reference:
            storage = tmp_path_factory.mktemp("sound")
            run(storage, space)
            reference[text] = rows(storage)
        return reference[text]

    return rows_of


def rows(storage: Path, name: str = "small") -> list[dict[str, Any]]:
    """The rows of a sweep of a storage, whatever its name is."""
    import raysweep

    return raysweep.open(name, storage).results().drop(columns="sweep").to_dict("records")
