"""What docs/staged_workloads.md shows is what the example has, and does what it says."""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import QUIET, SUPPORT, TESTS, Outcome, assert_same_rows, driving, installed, process, run, until
from test_digits import DIGITS, arguments, edition, rows, said_of_stages

DOCUMENT = (TESTS.parent / "docs" / "staged_workloads.md").read_text()
SOURCE = "\n".join(path.read_text() for path in (TESTS.parent / "raysweep").rglob("*.py"))
Call = Callable[..., Outcome]


def blocks(language: str = "python") -> list[str]:
    """The blocks of that language, those in lists too."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for _, text in found]


def block(having: str) -> str:
    """The one block that has this text."""
    (found,) = [text for text in blocks() if having in text]
    return found


def code(text: str) -> list[str]:
    """The statements of some Python as one line each, without docstrings and comments."""
    return [
        ast.unparse(node) for node in ast.parse(text).body if not isinstance(getattr(node, "value", 0), ast.Constant)
    ]


def test_the_example_is_shown_as_it_is() -> None:
    (toml,) = blocks("toml")
    assert tomllib.loads(toml) == tomllib.loads((DIGITS / "pyproject.toml").read_text())
    (space,) = blocks("yaml")
    assert space == (DIGITS / "digits.yaml").read_text()
    assert code(block("WORKLOAD = Workload(")) == code((DIGITS / "digits" / "__init__.py").read_text())
    functions = code((DIGITS / "digits" / "net.py").read_text())
    assert all(function in functions for function in code(block("right = network(")))


@pytest.fixture
def halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The documented functions of ridge regression, in the package of which they speak."""
    site = tmp_path / "site"
    site.mkdir()
    shown = [block("finetune_penalty"), block("np.stack([teacher(row)")]
    (site / "halves_workload.py").write_text("\n\n".join([(SUPPORT / "halves_workload.py").read_text(), *shown]))
    installed(site, halves="halves_workload:WORKLOAD")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(__import__("sys").modules, "halves_workload", raising=False)


def test_rows_that_are_computed_together_are_those_of_each_alone_and_of_the_closed_form(
    halves: None, storage: Path
) -> None:
    import halves_workload as own

    axes = {"pretrain_penalty": [0, 0.3, 1.0], "finetune_penalty": [0.01, 0.1, 1.0, 10.0]}
    table = run(storage, {"name": "halves", "workload": "halves", "axes": axes, "seeds": 100}).results()
    assert set(table["status"]) == {"ok"}
    for row in table.to_dict("records"):
        x, y = own.half(row, 2)
        w = own.ridge(*own.half(row, 1), row["pretrain_penalty"])
        w = w + own.ridge(x, y - x @ w, row["finetune_penalty"])
        assert row["risk"] == pytest.approx(((w - own.teacher(row)) ** 2).sum(), rel=1e-9)
    means = table.groupby(["pretrain_penalty", "finetune_penalty"])
    z = (means["risk"].mean() - means["risk_theory"].mean()) / means["risk"].sem()
    assert np.abs(z).max() < 4
    assert np.ptp(means["risk_theory"].mean()) > 0.1


def test_a_long_stage_goes_on_from_its_checkpoint_with_the_state_of_its_optimizer(
    call: Call, sandbox: Path, storage: Path, tmp_path: Path
) -> None:
    """The documented form without points ends in the rows of the example, killed after two epochs or not."""
    declaration = (DIGITS / "digits" / "__init__.py").read_text()
    points = re.search(r" +points=.*\n +until=.*\n +cost=.*\n", declaration).group(0)  # type: ignore[union-attr]
    net = (DIGITS / "digits" / "net.py").read_text()
    old = net[net.index("def pretrain(") : net.index("def finetune(")]
    long = edition(tmp_path / "long", __init__=(points, ""), net=(old, block("context.restored()") + "\n\n"))
    assert call(*arguments(storage / "example")).code == 0
    mark = tmp_path / "reached"
    often = "import raysweep.trial.context as c\nc.CHECKPOINT_SECONDS = -1.0\n"
    stops = (
        f"{often}import digits.net as net, threading, pathlib\nreal = net.train\n"
        "def train(*a, first=0):\n"
        "    if first == 24:\n"
        f"        pathlib.Path({str(mark)!r}).touch()\n"
        "        threading.Event().wait()\n"
        "    real(*a, first=first)\n"
        "net.train = train\n"
    )
    with pytest.MonkeyPatch.context() as path:
        path.setenv("PYTHONPATH", long["PYTHONPATH"])
        with driving(*arguments(storage / "long"), first=stops) as driver:
            until(mark.exists, driver)
        begun = process(*arguments(storage / "long", "--dry-run"))
        assert "1 of them from an intermediate checkpoint on" in begun.out
        counts = f"{often}import digits.net as net\nreal = net.train\n"
        counts += "net.train = lambda *a, **k: (print(k), real(*a, **k))\n"
        resumed = process("resume", "digits", "--storage", storage / "long", *QUIET, first=counts)
    assert said_of_stages(resumed).startswith("12 distinct, ")
    assert_same_rows(
        [{**row, "cell": "", "code_version": ""} for row in rows(storage / "long")],
        [{**row, "cell": "", "code_version": ""} for row in rows(storage / "example")],
    )
    epochs = [int(first) for first in re.findall(r"'first': (\d+)", resumed.out)]
    assert epochs[0] == 24, "the epochs before the kill are not repeated"
    curves = __import__("raysweep").open_sweep("digits", storage / "long").curves()
    lengths = curves[curves["stage"] == "pretrain"].groupby(["cell", "seed"])["step"].agg(list)
    assert {tuple(steps) for steps in lengths} == {tuple(range(1, 13)), tuple(range(1, 37))}


def test_kept_weights_are_read_as_shown(
    call: Call, sandbox: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*arguments(tmp_path / "sweeps")).code == 0
    names: dict[str, object] = {}
    exec(block("sweep.tensors("), names)
    weights = names["weights"]
    assert isinstance(weights, dict)
    assert [name for name, tensor in weights.items() if isinstance(tensor, torch.Tensor)] == [
        *("0.weight", "0.bias", "2.weight", "2.bias")
    ]


def test_every_error_that_is_explained_can_be_found_in_the_source() -> None:
    """By its longest run of fixed words; names and numbers in it differ."""
    lines = [
        line for line in re.findall(r"^\| `(.+?)` \|", DOCUMENT, re.MULTILINE) if re.search(r"\w: |KeyError", line)
    ]
    assert len(lines) > 15
    varied = r"digits|pretrain|finetune|evaluate|x|loss|accuracy|optimizer|net|None|SGD|top"
    source = " ".join(SOURCE.split()).replace('" f"', "").replace('" "', "")
    for line in lines:
        if not line.startswith(("AttributeError", "workload: unknown")) and ".cost: …" not in line:
            fixed = max(re.split(rf"[^A-Za-z ]+|\b(?:{varied})\b", line), key=len).strip()
            assert len(fixed.split()) > 1, line
            assert fixed in source, (line, fixed)
