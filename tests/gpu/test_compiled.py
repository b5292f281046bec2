"""What a compiler makes faster on a GPU, on a pretended one: used where it works, given up in silence where not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from pretend_cuda import pretended_gpu
from torch import Tensor

from raysweep.training import compiled


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With a compiler."""
    monkeypatch.setattr(compiled, "available", lambda: True)
    monkeypatch.setattr(compiled, "watched", lambda: None)
    with pretended_gpu():
        yield


def compiler(monkeypatch: pytest.MonkeyPatch, makes: Callable[[Any], Any]) -> list[Any]:
    """A compiler that makes this of a function; the functions that it got."""
    got: list[Any] = []

    def compile(function: Any) -> Any:
        got.append(function)
        return makes(function)

    monkeypatch.setattr(torch, "compile", compile)
    return got


def twice(values: Tensor) -> Tensor:
    return 2 * values


def raising(error: Exception) -> Callable[..., Any]:
    def call(*inputs: Any) -> Any:
        raise error

    return call


@pytest.mark.usefixtures("gpu")
def test_a_function_is_compiled_once_and_runs_compiled_on_a_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    got = compiler(monkeypatch, lambda function: lambda values: function(values) + 1)
    fast = compiled.where_possible(twice)
    assert fast(torch.ones(2)).tolist() == [2, 2]
    assert not got
    assert [fast(torch.ones(2, device="cuda")).tolist() for _ in range(2)] == [[3, 3], [3, 3]]
    assert got == [twice]


@pytest.mark.usefixtures("gpu")
def test_a_compiler_that_fails_is_asked_once_and_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    got = compiler(monkeypatch, lambda function: raising(RuntimeError("no C compiler")))
    fast = compiled.where_possible(twice)
    assert [fast(torch.ones(2, device="cuda")).tolist() for _ in range(2)] == [[2, 2], [2, 2]]
    assert got == [twice]
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("gpu")
def test_what_a_gpu_has_no_memory_for_is_said_and_does_not_end_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    full = [True]

    def made(function: Any) -> Any:
        return lambda values: raising(torch.cuda.OutOfMemoryError())() if full[0] else function(values) + 1

    compiler(monkeypatch, made)
    fast = compiled.where_possible(twice)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        fast(torch.ones(2, device="cuda"))
    full[0] = False
    assert fast(torch.ones(2, device="cuda")).tolist() == [3, 3]


def test_without_a_gpu_there_is_no_compiler() -> None:
    if torch.cuda.is_available():
        pytest.skip("a GPU is here")
    assert not compiled.available()
