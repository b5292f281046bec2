"""The example of docs/runs_elsewhere.md, and the sources and options that the page lists."""

import re

from documented import DOCS

from raysweep.main import cli
from raysweep.query import sources

PAGE = (DOCS / "runs_elsewhere.md").read_text()


def test_the_example_finds_both_best_rates_and_prints_what_stands_below_it(capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (printed,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    names = {}
    exec(code, names)
    assert capsys.readouterr().out == printed
    table = names["found"].table.set_index("width")
    for width in (64, 256):
        assert table.loc[width, "low"] < 0.1 / width < table.loc[width, "high"]


def test_every_source_and_option_of_the_import_stands_on_the_page():
    assert [suffix for suffix in sources.FILES if f"`runs{suffix}`" not in PAGE] == []
    assert [tool for tool in sources.TOOLS if f"| `{tool}:" not in PAGE] == []
    explained = set(re.findall(r"--[a-z-]+", PAGE))
    options = {name for one in cli.commands["import"].params for name in one.opts if name.startswith("--")}
    assert options - explained == {"--storage"}
