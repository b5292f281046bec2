"""Fixtures of tests that train `language`: one thread of torch, a store for a module, rows of sweeps without faults."""

import pytest
from conftest import run


@pytest.fixture
def one_thread():
    """What torch computes has one thread, however many cores there are."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A folder for the stages of all tests of a module."""
    return tmp_path_factory.mktemp("store")


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
