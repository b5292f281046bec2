"""Sweeps over a small language model and their store: their rows, where nothing goes wrong too."""

import pytest
from conftest import run


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The rows of a space where nothing goes wrong, each space run once."""
    reference = {}

    def rows_of(space):
        text = space.read_text()
        if text not in reference:
            storage = tmp_path_factory.mktemp("sound")
            run(storage, space)
            reference[text] = rows(storage)
        return reference[text]

    return rows_of


def rows(storage, name="small"):
    """The rows of a sweep of a storage, whatever its name is."""
    import raysweep

    return raysweep.open(name, storage).results().drop(columns="sweep").to_dict("records")
