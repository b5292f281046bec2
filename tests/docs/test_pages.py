"""README, docs and the gallery of reports: links lead somewhere, commands and spaces that stand there are taken."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import click
import pandas as pd
import pytest
import yaml
from conftest import QUIET, TESTS, ok, run
from documented import DOCS, blocks

import raysweep
from raysweep import workloads
from raysweep.main import cli
from raysweep.space import space_files
from raysweep.space.analyses import check_analysis
from raysweep.space.checks import Context

HOME = TESTS.parent
PAGES = [HOME / "README.md", *sorted(DOCS.glob("*.md")), *sorted((HOME / "reports").glob("*.md"))]
LINKED = [*PAGES, HOME / "clusters" / "README.md"]
GUIDES = [page for page in PAGES if page.parent != HOME / "reports"]
PLACEHOLDERS = {"SPACE", "SWEEP", "CELL", "SEED", "NAME", "A", "B", "$sweep"}


def named(pages):
    """The pages as paths in the repository, which name the tests."""
    return [str(page.relative_to(HOME)) for page in pages]


def commands(text):
    """The words after `raysweep` of every command line in the blocks of a page, without comments and redirections."""
    fenced = "\n".join(re.findall(r"^ *```(?:sh|bash)?\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL))
    indented = "\n".join(re.findall(r"^ {4}(?:\$ )?(.*)$", text, re.MULTILINE))
    for line in re.findall(r"(?:^|; do |&& )raysweep ([^;|>\n]*)", f"{fenced}\n{indented}", re.MULTILINE):
        yield shlex.split(line, comments=True)


def anchors(page):
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=named(LINKED))
def test_every_relative_link_and_image_leads_to_a_file_of_the_repository_and_every_block_is_closed(page):
    whole = page.read_text()
    fences = re.findall(r"^ *(```\w*) *$", whole, re.MULTILINE)
    assert set(fences[1::2]) <= {"```"}
    assert len(fences) % 2 == 0
    text = re.sub(r"```.*?```|`[^`\n]*`", "", whole, flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"(?:src|href)=\"([^\"]+)\"", text)
    for target in targets:
        if not target.startswith(("https:", "http:")):
            path, _, anchor = target.partition("#")
            found = page.parent / path if path else page
            assert found.exists(), target
            assert not anchor or anchor in anchors(found), target


@pytest.mark.parametrize("page", GUIDES, ids=named(GUIDES))
def test_what_python_on_a_page_imports_and_calls_exists(page):
    text = page.read_text()
    for module, names in re.findall(r"^ *from (raysweep[\w.]*) import ([\w, ]+)", text, re.MULTILINE):
        for name in names.split(","):
            assert hasattr(import_module(module), name.split(" as ")[0].strip()), (module, name)
    called = {"raysweep": raysweep, "sweep": raysweep.Sweep}
    for owner, name in re.findall(r"(?<![\w./])(raysweep|sweep)\.(\w+)\(", text):
        assert hasattr(called[owner], name), (owner, name)


def test_every_page_of_docs_stands_in_the_index_and_every_packaged_space_among_the_questions():
    index, questions = ((DOCS / name).read_text() for name in ("README.md", "questions.md"))
    assert [page.name for page in DOCS.glob("*.md") if f"({page.name})" not in index] == ["README.md"]
    assert [name for name in space_files.packaged() if f"`{name}`" not in questions] == []


def test_no_command_is_overlooked():
    """The README's own, by which what `commands` finds is counted once by hand."""
    found = [words[:2] for words in commands((HOME / "README.md").read_text())]
    assert ["run", "quickstart"] in found
    assert ["run", "my-question.yaml"] in found
    assert ["results", "my-question"] in found
    precise = ["run", "quickstart", "--set", "precision.boundary=2", "--set", "seeds=400"]
    assert precise in list(commands((HOME / "README.md").read_text()))


@pytest.mark.parametrize("page", PAGES, ids=named(PAGES))
def test_every_command_option_and_packaged_space_of_a_page_exists(page):
    for words in commands(page.read_text()):
        name, *arguments = words
        if name == "run" and words[1] not in PLACEHOLDERS and not words[1].endswith(".yaml"):
            assert words[1] in space_files.packaged()
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, words
        if isinstance(command, click.Group):
            command, arguments = command.get_command(click.Context(command), arguments[0]), arguments[1:]
            assert command is not None, words
        command.make_context(name, arguments, resilient_parsing=False)


@pytest.mark.long
@pytest.mark.parametrize("page", GUIDES, ids=named(GUIDES))
def test_every_run_of_a_packaged_space_can_be_planned(page, call, storage):
    for words in commands(page.read_text()):
        if words[0] == "run" and words[1] in space_files.packaged():
            kept = [word for word in words if word not in ("--dry-run", "--download")]
            if not any("cifar10" in word for word in words):  # the set is not there, and nothing is fetched here
                ok(call(*kept, "--dry-run", "--storage", storage, *QUIET))


def test_the_analyses_that_are_shown_with_words_are_taken():
    shown = [
        entry
        for block in blocks("yml", (DOCS / "analyses.md").read_text())
        for entry in yaml.safe_load(block)["analysis"]
    ]
    entries = [(entry, options) for entry in shown for options in entry.values() if "words" in options]
    assert len(entries) == 3
    for entry, options in entries:
        metrics = {options["metric"], options.get("beside", options["metric"])}
        known = [
            workload
            for workload in map(workloads.get, workloads.BUILT_IN)
            if metrics <= {metric.name for metric in workload.metrics}
        ]
        assert known, metrics
        check_analysis(entry, "here", Context(known[0], {options["x"]: []}))


def test_the_space_of_the_reference_can_be_planned_and_its_table_has_every_key(call, storage, tmp_path):
    from raysweep.space.schema import KEYS
    from raysweep.space.search_options import SEARCHES

    text = (DOCS / "spaces.md").read_text()
    (space,) = blocks("yaml", text)
    (tmp_path / "my-space.yaml").write_text(space)
    told = ok(call("run", tmp_path / "my-space.yaml", "--storage", storage, *QUIET, "--dry-run"))
    assert yaml.safe_load(space)["name"] in told.out
    within_axes = {"ranges", "when"}  # resolved from `axes`
    assert [key for key in KEYS if f"| `{key}`" not in text and f", `{key}` |" not in text] == sorted(within_axes)
    assert [name for name in SEARCHES if f"| `{name}`" not in text and f"| `{{{name}: …}}`" not in text] == []


def test_every_kind_of_analysis_stands_in_its_table_with_its_options():
    from raysweep.analyses import registry

    lines = re.findall(r"^\| `(\w+)` \| ([^|]*) \| [^|]+ \|$", (DOCS / "analyses.md").read_text(), re.MULTILINE)
    shown = {kind: set(options.split(", ")) for kind, options in lines}
    kinds = {kind: registry.get(kind) for kind in registry.names()}
    assert shown == {
        kind: {*analysis.required, *(f"{option}?" for option in analysis.optional)} for kind, analysis in kinds.items()
    }


def test_rows_of_several_sweeps_can_be_asked_in_three_lines(storage, tmp_path, monkeypatch, call):
    """The recipe for DuckDB, which raysweep does not install: its query runs where DuckDB is, its files everywhere."""
    (recipe,) = blocks("python", (DOCS / "running.md").read_text())
    assert len([line for line in recipe.splitlines() if line]) == 3
    space = {"workload": "linear_transfer", "axes": {"overlap_angle": [10, 80]}, "fixed": {"dim": 20}, "seeds": 3}
    for name in ("one", "other"):
        run(storage, {**space, "name": name})
    (tmp_path / "rows").mkdir()
    monkeypatch.chdir(tmp_path)
    told = call("list", "--storage", storage)
    names = [line.split(" ")[0] for line in told.out.splitlines()]  # as the documented `cut` does
    assert names == ["one", "other"]
    for name in names:
        ok(call("results", name, "--format", "parquet", "-o", f"rows/{name}.parquet", "--storage", storage))
    tables = [pd.read_parquet(path) for path in sorted(Path("rows").glob("*.parquet"))]
    assert [len(table) for table in tables] == [6, 6]
    for column in ("sweep", "cell", "status", *re.findall(r"(?:avg|stddev)\((\w+)\)", recipe)):
        assert all(column in table for table in tables), column
    pytest.importorskip("duckdb", reason="DuckDB is not installed; the files of the recipe were checked")
    exec(recipe, {})
