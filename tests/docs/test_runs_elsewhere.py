"""docs/runs_elsewhere.md, docs/real_runs.ipynb, whose 30 lines answer tables like those of Step Law and Pythia, and
docs/notebook.ipynb: what stands below is what they give."""

import ast
import json
import re

import matplotlib
import numpy as np
import pandas as pd
import pytest
from documented import DOCS, blocks

from raysweep.main import cli
from raysweep.query import sources

PAGE = (DOCS / "runs_elsewhere.md").read_text()


def test_the_example_finds_both_best_rates_and_prints_what_stands_below_it(capsys):
    (code,), (printed,) = blocks("python", PAGE), blocks("text", PAGE)
    names = {}
    exec(code, names)
    assert capsys.readouterr().out == printed
    table = names["found"].table.set_index("width")
    assert all(table.loc[width, "low"] < 0.1 / width < table.loc[width, "high"] for width in (64, 256))


def test_every_source_and_option_of_the_import_stands_on_the_page():
    assert [suffix for suffix in sources.FILES if f"`runs{suffix}`" not in PAGE] == []
    assert [tool for tool in sources.TOOLS if f"| `{tool}:" not in PAGE] == []
    explained = set(re.findall(r"--[a-z-]+", PAGE))
    options = {name for one in cli.commands["import"].params for name in one.opts if name.startswith("--")}
    assert options - explained == {"--storage"}


REAL = DOCS.parents[1] / "shared" / "data"
CODE = [cell for cell in json.loads((DOCS / "real_runs.ipynb").read_text())["cells"] if cell["cell_type"] == "code"]
SOURCE = "\n".join("".join(cell["source"]) for cell in CODE)


def answered(folder):
    """The names of the notebook after it has run with the tables of this folder, and its values as `shown`."""
    names = {}
    shown = []
    with matplotlib.rc_context({"backend": "agg"}):
        for node in ast.parse(SOURCE).body:
            if isinstance(node, ast.Expr):
                shown.append(eval(compile(ast.Expression(node.value), "cell", "eval"), names))
                continue
            exec(compile(ast.Module([node], []), "cell", "exec"), names)
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DATA":
                names["DATA"] = str(folder)
    return {**names, "shown": shown}


def write_tables(folder):
    """Small tables with the columns of the real ones: exponents -0.7 and 0.3, and one curve of eight that turns."""
    rng = np.random.default_rng(1)
    sizes = [(n, d * n) for n in (1e8, 2e8, 4e8, 8e8) for d in (10, 80)]
    runs = [(lr, bs, n, d) for n, d in sizes for lr in np.geomspace(2e-4, 2e-2, 8) for bs in (64, 128, 256)]
    lr, bs, n, d = np.array(runs).T
    ratio = np.log(lr / (1.79 * n**-0.7 * d**0.3))
    loss = 2.5 + 0.03 * ratio**2 + 0.01 * np.log(bs / 128) ** 2 + 0.002 * rng.standard_normal(len(lr))
    (folder / "steplaw").mkdir()
    steplaw = pd.DataFrame({"lr": lr, "bs": bs.astype(int), "N": n, "D": d, "loss": loss + 0.01, "smooth loss": loss})
    steplaw.to_csv(folder / "steplaw" / "dense.csv", index=False)
    steps = np.array([0, *range(3000, 144000, 10000)])
    rising, rows = 0.25 + 0.3 * (1 - np.exp(-steps / 25000)), []
    for model in ("small", "large"):
        for shots in ("zero-shot", "five-shot", "baseline"):
            for task in ("sciq", "arc_easy"):
                turns = (model, shots, task) == ("small", "zero-shot", "sciq")
                level = rising - turns * 0.15 * np.clip((steps - 63000) / 80000, 0, 1)
                acc = level + 0.01 * rng.standard_normal(len(steps))
                columns = {"model": model, "shots": shots, "step": steps, "task": task, "acc": acc, "acc_stderr": 0.01}
                rows.append(pd.DataFrame(columns))
    (folder / "pythia").mkdir()
    pd.concat(rows).to_csv(folder / "pythia" / "evals.csv", index=False)


def test_both_are_answered_in_thirty_lines():
    assert len([line for line in SOURCE.splitlines() if line.strip()]) <= 30
    shown = [output for cell in CODE for output in cell["outputs"]]
    assert sum("image/png" in output.get("data", {}) for output in shown) == 3


@pytest.mark.long
def test_tables_of_the_same_columns_are_answered(tmp_path):
    write_tables(tmp_path)
    names = answered(tmp_path)
    low, high = names["found"].table["low"], names["found"].table["high"]
    assert (low < [-0.7, 0.3]).all()
    assert (high > [-0.7, 0.3]).all()
    assert names["best"]["regret, law"].max() < 0.02
    assert names["ahead"]["outside"].tolist() == pytest.approx([8, 2])  # D = 8e9 was computed at N = 1e8 alone
    truth = 1.79 * names["large"]["N"] ** -0.7 * names["large"]["D"] ** 0.3
    assert (names["ahead"]["low"] < truth.array).all()
    assert (names["ahead"]["high"] > truth.array).all()
    located = names["turns"].table.query("outcome == 'located'")
    assert located[["model", "shots", "task"]].to_numpy().tolist() == [["small", "zero-shot", "sciq"]]


@pytest.mark.long
@pytest.mark.skipif(not REAL.is_dir(), reason="the tables of Step Law and Pythia are not here")
def test_the_real_tables_give_what_stands_on_the_page():
    names = answered(REAL)
    (text,) = ["".join(o["data"]["text/plain"]) for o in CODE[1]["outputs"] if o["output_type"] == "execute_result"]
    assert repr(names["found"]) == text
    turns = names["turns"].table.query("outcome == 'located'")
    assert len(turns) == 11
    assert set(turns["model"].str.removesuffix("-deduped")) == {"pythia-70m", "pythia-160m"}
    assert turns["estimate"].between(23000, 93000).all()


CELLS = json.loads((DOCS / "notebook.ipynb").read_text())["cells"]
NOTEBOOK = [cell for cell in CELLS if cell["cell_type"] == "code"]


def outputs(cell, kind):
    return [output for output in cell["outputs"] if output["output_type"] == kind]


def without_time(text):
    return re.sub(r"last run: .*", "last run", text)


def test_every_cell_was_executed_in_order_and_none_gave_an_error():
    for cells in (CODE, NOTEBOOK):
        assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    assert not [cell["source"] for cell in NOTEBOOK if outputs(cell, "error")]
    assert sum("image/png" in shown["data"] for cell in NOTEBOOK for shown in outputs(cell, "display_data")) == 2


def test_links_lead_to_pages():
    text = "".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown")
    linked = re.findall(r"\]\(([^)]+)\)", text)
    assert linked
    assert [page for page in linked if not (DOCS / page).is_file()] == []


def test_what_stands_below_the_cells_is_what_they_give(tmp_path, monkeypatch, capsys):
    from matplotlib import pyplot

    pyplot.close("all")  # those of other tests
    monkeypatch.chdir(tmp_path)
    names = {}
    with matplotlib.rc_context({"backend": "agg"}):
        for cell in NOTEBOOK:
            body = ast.parse("".join(cell["source"])).body
            last = body.pop() if isinstance(body[-1], ast.Expr) else None
            capsys.readouterr()
            exec(compile(ast.Module(body, []), "cell", "exec"), names)
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
            printed = capsys.readouterr().out
            told = ["".join(output["text"]) for output in outputs(cell, "stream") if output["name"] == "stdout"]
            assert printed == "".join(told)
            shown = ["".join(output["data"]["text/plain"]) for output in outputs(cell, "execute_result")]
            assert [without_time(text) for text in shown] == [without_time(repr(value))] * (value is not None)
        assert len(pyplot.get_fignums()) == 2
        pyplot.close("all")
