"""The gallery of reports agrees with the claims, with the committed tables and with the spaces."""

import json
import re
import runpy
from typing import NamedTuple

import pytest
from conftest import TESTS
from documented import DOCS

from raysweep.commands.listing import first_comment
from raysweep.space import packaged
from raysweep.theory.papers import PAPERS, cited

REPORTS = TESTS.parent / "reports"
GALLERY, CLAIMS = ((REPORTS / name).read_text() for name in ("README.md", "CLAIMS.md"))
MANIFEST = json.loads((REPORTS / "manifest.json").read_text())
DIGEST = runpy.run_path(str(REPORTS / "make.py"))["space_digest"]
NUMBER = re.compile(r"(?<![\w.,_])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?![\w.])")


class Shown(NamedTuple):
    space: str
    folder: str
    said: str
    time: str


def rows():
    found = []
    for line in GALLERY.splitlines():
        if line.startswith("| <a"):
            picture, answer, papers, made = line.strip("| ").split(" | ")
            time, space = re.fullmatch(r"(.*)<br>\[(\w+)\]\(../search_spaces/\w+\.yaml\)", made).groups()
            folder = re.match(r'<a href="pictures/(\w+)\.png">', picture)[1]
            found.append(Shown(space, folder, f"{answer.split('** ')[1]} {papers}", time))
    return found


def numbers(text):
    """The numbers of a text, without the sign: a fall of 0.9 is a change of -0.9."""
    return {abs(float(each.replace(",", ""))) for each in NUMBER.findall(text)}


@pytest.mark.parametrize("shown", rows(), ids=lambda shown: shown.folder)
def test_every_number_of_a_row_stands_among_the_claims_or_in_a_table_and_its_time_in_the_space(shown):
    claims = [line for line in CLAIMS.splitlines() if line.startswith("| ") and f"`{shown.space}" in line]
    assert claims
    tables = [path.read_text() for path in sorted((REPORTS / "tables" / shown.folder).glob("*.csv"))]
    space = packaged.spaces()[shown.space]
    assert numbers(shown.said) - numbers("\n".join([*claims, *tables, space.read_text()])) == set()
    assert re.search(rf"\b{re.escape(shown.time)}\b", first_comment(space))


def test_every_report_of_the_manifest_is_shown_or_is_a_variant_of_one_that_is():
    shown = {row.space for row in rows()}
    assert len(shown) == len(rows()) > 25
    without = {name for name, entry in MANIFEST.items() if entry["space"] not in shown}
    assert without == {"dataset_distance", "engine_check", "transfer_phase_diagram_noiseless"} | {
        "depth_scale",
        "frozen_layers",
        "norm_scale",
        "ridge_transfer",
    }


def test_committed_files_are_those_of_the_manifest():
    tables = {f"{name}/{table}" for name, entry in MANIFEST.items() for table in entry["tables"]}
    assert {f"{path.parent.name}/{path.stem}" for path in REPORTS.glob("tables/*/*.csv")} == tables
    pictures = {name for name, entry in MANIFEST.items() if entry["picture"]}
    assert {path.stem for path in REPORTS.glob("pictures/*.png")} == {*pictures, "mlflow"}
    assert sum(path.stat().st_size for path in REPORTS.rglob("*") if path.is_file()) < 6e6


@pytest.mark.parametrize("name", sorted(MANIFEST))
def test_a_table_was_made_of_the_space_as_it_is(name):
    """One that was made of an older space would answer what nobody asks any more."""
    assert MANIFEST[name]["space_digest"] == DIGEST(MANIFEST[name])


def test_the_letters_of_papers_are_spelled_out_before_they_are_used():
    pages = {name: (DOCS / f"{name}.md").read_text() for name in ("questions", "analyses")}
    for name, page in {"gallery": GALLERY, "claims": CLAIMS, **pages}.items():
        words = " ".join(page.split())
        for letter, title in PAPERS.items():
            if name == "analyses" and letter not in cited(page):
                continue
            assert f"*{title}*" in words
            first = re.search(rf"(?<!\w){letter}(?:'s\b|: | Fig| Thm| Table| §)", words.replace(f"**{letter}**", ""))
            assert first is None or words.index(f"*{title}*") < first.start() or f"**{letter}**" in words
