"""What docs/staged_workloads.md shows is what the example has, and does what it says."""

import ast
import re
import tomllib

import numpy as np
import pytest
import torch
from conftest import QUIET, SUPPORT, TESTS, driving, ok, run, until
from documented import DOCUMENT, block, blocks
from spaces import written
from test_digits import DIGITS, arguments, said_of_stages

import raysweep

SOURCE = "\n".join(path.read_text() for path in (TESTS.parent / "raysweep").rglob("*.py"))


def code(text):
    """The statements of some Python as one line each, without docstrings and comments."""
    return [
        ast.unparse(node) for node in ast.parse(text).body if not isinstance(getattr(node, "value", 0), ast.Constant)
    ]


def test_the_example_is_shown_as_it_is():
    (toml,) = blocks("toml")
    assert tomllib.loads(toml) == tomllib.loads((DIGITS / "pyproject.toml").read_text())
    (space,) = blocks("yaml")
    assert space == (DIGITS / "digits.yaml").read_text()
    assert code(block("WORKLOAD = Workload(")) == code((DIGITS / "digits" / "__init__.py").read_text())
    functions = code((DIGITS / "digits" / "net.py").read_text())
    assert all(function in functions for function in code(block("right = network(")))


@pytest.fixture
def halves(bring, monkeypatch):
    """The documented functions of ridge regression, in the package of which they speak."""
    site = bring(halves="halves_workload:WORKLOAD")
    shown = [block("finetune_penalty"), block("np.stack([teacher(row)")]
    (site / "halves_workload.py").write_text("\n\n".join([(SUPPORT / "halves_workload.py").read_text(), *shown]))
    monkeypatch.delitem(__import__("sys").modules, "halves_workload", raising=False)


@pytest.mark.long
def test_rows_that_are_computed_together_are_those_of_each_alone(halves, storage):
    import halves_workload as own

    axes = {"pretrain_penalty": [0, 0.3, 1.0], "finetune_penalty": [0.01, 0.1, 1.0, 10.0]}
    table = run(storage, {"name": "halves", "workload": "halves", "axes": axes, "seeds": 9}).results()
    assert set(table["status"]) == {"ok"}
    for row in table.to_dict("records"):
        x, y = own.half(row, 2)
        w = own.ridge(*own.half(row, 1), row["pretrain_penalty"])
        w = w + own.ridge(x, y - x @ w, row["finetune_penalty"])
        assert row["risk"] == pytest.approx(((w - own.teacher(row)) ** 2).sum(), rel=1e-9)


@pytest.mark.long
def test_a_gang_that_trains_the_net_together_is_killed_and_ends_in_the_rows_of_one_worker(
    ray_cluster, call, sandbox, storage, tmp_path, monkeypatch
):
    """By the documented training of gangs and the documented form of long stages. The driver is killed in the third
    epoch. Sums of float32 in another order; stated tolerance: 5e-5 nats of every loss on the
    way (measured: 5e-6)."""
    space = {"workload": "digits_together", "name": "together", "keep": ["finetune"], "seeds": 1}
    space |= {"axes": {"pretrain_length": [4], "finetune_lr": [0.05, 0.5]}, "resources": {"gang": 2}}
    one = run(storage / "one", space)
    assert one.results()["accuracy"].nunique() == 2
    package = sandbox / "digits_together"
    epochs = package / "epochs"
    epochs.unlink()
    (package / "stop").touch()
    monkeypatch.setenv("RAY_ADDRESS", ray_cluster)
    two = ("--storage", storage / "two", *QUIET, "--executor", "ray")
    with driving("run", written(tmp_path, space), *two) as driver:
        until((package / "reached").exists, driver)
    (package / "stop").unlink()
    shown = call("run", tmp_path / "space.yaml", *two, "--dry-run")
    assert "1 of them from an intermediate checkpoint on" in shown.out
    assert said_of_stages(call("resume", "together", *two)).startswith("3 distinct, 3 computed, 0 reused, ")
    assert epochs.read_text().split() == ["1", "2", "3", "3", "4"]  # the third one was not finished
    found = raysweep.open("together", storage / "two")
    assert {path.suffix for path in (found.folder / "logs").iterdir()} == {".log", ".worker0", ".worker1"}
    lines, expected = (sweep.curves().sort_values(["cell", "stage", "step"]) for sweep in (found, one))
    assert lines["step"].tolist() == expected["step"].tolist()
    np.testing.assert_allclose(lines["loss"], expected["loss"], rtol=0, atol=5e-5)
    assert found.results()["accuracy"].tolist() == pytest.approx(one.results()["accuracy"].tolist(), abs=0.01)


def test_kept_weights_are_read_as_shown(call, sandbox, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ok(call(*arguments(tmp_path / "sweeps")))
    names = {}
    exec(block("sweep.tensors("), names)
    weights = names["weights"]
    assert isinstance(weights, dict)
    assert [name for name, tensor in weights.items() if isinstance(tensor, torch.Tensor)] == [
        *("0.weight", "0.bias", "2.weight", "2.bias")
    ]


def test_every_error_that_is_explained_can_be_found_in_the_source():
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
