"""Fixtures of tests that train the workload `language`: one thread of torch, and a store for a whole module."""

import pytest


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
