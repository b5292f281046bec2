"""torchvision is imported in one place, which says in one line what to install where it does not fit to torch."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
import torch

import raysweep
from raysweep.errors import InputError
from raysweep.workloads.image_data.vision_library import torchvision

FAILURES = (  # as reported of builds that do not belong together
    "raise RuntimeError('operator torchvision::nms does not exist')",
    "raise RuntimeError('Detected that PyTorch and torchvision were compiled with different CUDA major versions.\\n"
    "PyTorch has CUDA Version=12.8 and torchvision has CUDA Version=11.8.')",
    "raise ImportError('_C.so: undefined symbol: _ZN3c1017RegisterOperators')",
    "raise OSError('libcudart.so.12: cannot open shared object file')",
    "import torchvision; torchvision.extension",  # AttributeError: partially initialized module
)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No torchvision is imported yet; what was imported before comes back in the end."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("failure", FAILURES)
def test_a_torchvision_for_another_torch_is_one_line_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    (tmp_path / "torchvision.py").write_text(failure)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(torch, "__version__", "2.15.0+cpu")
    with pytest.raises(InputError) as caught:
        torchvision()
    message = str(caught.value)
    assert message.startswith("torchvision: cannot be imported beside torch 2.15.0+cpu (")
    assert "install both for cpu: pip install --force-reinstall torch torchvision" in message
    assert "\n" not in message


@pytest.mark.usefixtures("alone")
def test_a_torchvision_that_is_not_there_is_one_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(InputError, match="torchvision: cannot be imported beside torch"):
        torchvision()


@pytest.mark.long
def test_it_is_imported_nowhere_else() -> None:
    root = Path(raysweep.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.partition(".")[0] == "torchvision" for name in names), path
