"""docs/notebook.ipynb: its cells run as plain Python, and what stands below them is what they give."""

import ast
import json
import re

import matplotlib
from documented import DOCS

CELLS = json.loads((DOCS / "notebook.ipynb").read_text())["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]


def outputs(cell, kind):
    return [output for output in cell["outputs"] if output["output_type"] == kind]


def without_time(text):
    return re.sub(r"last run: .*", "last run", text)


def test_every_cell_was_executed_in_order_without_an_error():
    assert [cell["execution_count"] for cell in CODE] == [*range(1, len(CODE) + 1)]
    assert not [cell["source"] for cell in CODE if outputs(cell, "error")]
    assert sum("image/png" in shown["data"] for cell in CODE for shown in outputs(cell, "display_data")) == 2


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
        for cell in CODE:
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
