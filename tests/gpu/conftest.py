"""The GPU of these tests: one that is pretended, and a real one where there is one. One body says both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from pretend_cuda import pretended_gpu

EITHER = ["pretended", pytest.param("real", marks=pytest.mark.gpu)]


@pytest.fixture(params=EITHER)
def a_gpu(request: pytest.FixtureRequest) -> Callable[[], AbstractContextManager[Any]]:
    """Makes a block in which there is a GPU."""
    return pretended_gpu if request.param == "pretended" else contextlib.nullcontext


@pytest.fixture
def gpu(a_gpu: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """There is a GPU."""
    with a_gpu():
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a device where there is none."""
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
