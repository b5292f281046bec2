"""What the README, docs/functions.md and docs/table_workloads.md show can be copied and does what it says."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from conftest import QUIET, installed, ok, process, python, run
from documented import blocks

import raysweep

HOME = Path(__file__).parents[1]
README = (HOME / "README.md").read_text()
TABLE = (HOME / "docs" / "table_workloads.md").read_text()
FUNCTIONS = (HOME / "docs" / "functions.md").read_text()
LARGEST_PAGE = 2_000_000  # bytes


def block(language, text=README):
    (result,) = blocks(language, text)
    return result


@pytest.fixture
def parabola(tmp_path, monkeypatch):
    """The workload of docs/table_workloads.md, installed as it says."""
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "parabola.py").write_text(block("python", TABLE))
    [(group, points)] = tomllib.loads(block("toml", TABLE))["project"]["entry-points"].items()
    installed(tmp_path, group, **points)
    for name in ("my_package", "my_package.parabola"):  # of another test's package of this name
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)


def test_the_readme_is_read_in_a_few_minutes():
    assert len(README.splitlines()) <= 150


def test_the_lines_for_a_notebook_give_a_fit_and_its_figure(tmp_path, monkeypatch):
    shown = README.split("## In a notebook\n")[1].split("\n## ")[0]
    monkeypatch.chdir(tmp_path)
    raysweep.run("quickstart", seeds=6, tracking_uri="none", report=False, say=lambda line: None)
    names = {"raysweep": raysweep}
    exec("\n".join(re.findall(r"^ {4}(.*)$", shown, re.MULTILINE)), names)
    assert list(names["found"].table["gamma"]) == names["sweep"].space.axes["gamma"]
    assert "quickstart" in repr(names["sweep"])


def test_the_demo_ends_with_the_quoted_answer(call, tmp_path, monkeypatch):
    """The command of `make demo`; its rows, and so the answer, are the same on Ray."""
    (demo,) = re.findall(r"^demo:.*\n\t(.*)$", (HOME / "Makefile").read_text(), re.MULTILINE)
    assert "run transfer_phase_diagram --storage" in demo
    monkeypatch.chdir(tmp_path)
    done = ok(call("run", "transfer_phase_diagram", "--tracking-uri", "none"))
    block = README.split("    make demo\n")[1].split("\n![")[0]
    quoted = " ".join(" ".join(re.findall(r"^ {4}(.*)$", block, re.MULTILINE)).split())
    assert "hurts above; zero effect for γ ≥ 1; theory agrees" in quoted
    for line in f"{done.out}\n{done.err}".splitlines():
        quoted = quoted.replace(" ".join(line.split()) or " ", " ")
    assert quoted.split() == []
    page = tmp_path / "sweeps" / "transfer_phase_diagram" / "report" / "report.html"
    assert page.stat().st_size <= LARGEST_PAGE


def test_the_staged_workload_of_the_readme_is_an_excerpt_of_the_example():
    shown = [line for line in block("python").splitlines() if line.strip() and line.strip() != "# ..."]
    example = HOME / "docs" / "digits" / "digits"
    lines = [line for name in ("__init__", "net") for line in (example / f"{name}.py").read_text().splitlines()]
    places = [lines.index(line) for line in shown if line.strip(" (),")]
    assert len(shown) <= 10
    assert "def finetune(rows, parent, context):" in shown
    assert places == sorted(places)


def test_the_workload_of_the_table_has_noise_of_its_own_in_every_row(parabola, storage):
    space = {"name": "dip", "workload": "parabola", "axes": {"x": {"linspace": [-1, 3, 41]}}, "seeds": 25}
    table = run(storage, space).results()
    assert set(table["status"]) == {"ok"}
    table["noise"] = (table["loss"] - (table["x"] - 1) ** 2) / 0.1
    noise = table.pivot(index="seed", columns="x", values="noise").to_numpy()
    assert len(np.unique(noise.round(9))) == noise.size == 25 * 41
    assert abs(noise.mean()) < 0.15
    assert abs(noise.std() - 1) < 0.1
    among_seeds, among_x = np.corrcoef(noise), np.corrcoef(noise.T)
    assert np.abs(among_seeds - np.eye(25)).max() < 0.7
    assert np.abs(among_x - np.eye(41)).max() < 0.8
    few = run(storage / "few", {**space, "axes": {"x": [3.0, 0.5]}}).results()
    both = few.merge(table, on=["cell", "seed"])
    assert len(both) == 50
    assert (both["loss_x"] == both["loss_y"]).all()


def test_the_question_of_the_readme_can_be_asked(call, storage, tmp_path):
    (tmp_path / "my-question.yaml").write_text(block("yaml"))
    result = ok(call("run", tmp_path / "my-question.yaml", "--storage", storage, *QUIET, "--dry-run"))
    assert "400 cells x 20 draws = 8,000 rows" in result.out


def test_the_function_of_the_readme_runs_as_a_script_and_from_its_space(tmp_path, own_notes):
    (tmp_path / "script.py").write_text(block("py") + "print(len(table), table['accuracy'].sum())\n")
    definition, _, _ = block("py").partition("if __name__")
    (tmp_path / "my_file.py").write_text(definition)
    (tmp_path / "my-space.yaml").write_text(block("yml", FUNCTIONS))
    script = ok(python(Path("script.py"), cwd=tmp_path))
    trained = raysweep.open("train", tmp_path / "sweeps")
    (finding,) = trained.findings()
    means = trained.results().groupby("cell")["accuracy"].mean()
    assert finding.table["estimate"][0] == pytest.approx(means.max())
    ok(process("run", "my-space.yaml", *QUIET, cwd=tmp_path))
    table = raysweep.open("my-space", tmp_path / "sweeps").results()
    assert script.out.split() == [str(len(table)), str(table["accuracy"].sum())]
    assert len(table) == 140


@pytest.mark.long
def test_the_lines_about_checkpoints_are_followed_word_by_word(tmp_path, monkeypatch):
    shown = README.split("## Is this checkpoint overtrained?\n")[1].split("\n## ")[0]
    lines = re.findall(r"^ {4}(.*)$", shown, re.MULTILINE)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "checkpoints.yaml").write_text((HOME / "docs" / "checkpoints.yaml").read_text())
    for name in ("HF_HUB_CACHE", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, "")  # as it was, when the test ends
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[0] == "export":
            for name, value in (word.split("=") for word in words[1:]):
                monkeypatch.setenv(name, value)
        else:
            done = ok(process(*words[1:], cwd=tmp_path))
    rows = raysweep.open("checkpoints", storage=tmp_path / "sweeps").results()
    assert (len(rows), set(rows.status)) == (216, {"ok"})
    (finding,) = raysweep.open("checkpoints", storage=tmp_path / "sweeps").findings()
    best = finding.table.set_index("axis")
    assert set(best["outcome"]) == {"located"}
    assert best["high"]["pretrain_length"] < max(rows["pretrain_length"])  # the longest one is overtrained
    shown = [float(number.replace(",", "")) for number in re.findall(r" is ([\d,.]+) \[", " ".join(shown.split()))]
    assert (best["low"] < shown).all()
    assert (shown < best["high"]).all()
    assert "Which revision is best, at which rate? The best pretraining length" in done.out + done.err
