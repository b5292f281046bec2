"""The page of a search that asks nothing: its table, its pictures, and parallel coordinates that can be brushed."""

import re
from pathlib import Path

import pytest
from searched_rows import rows_of, space_of

from raysweep.report.page import TEMPLATES
from raysweep.report.report import Written, write_report


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return write_report(rows_of(), [space_of()], tmp_path_factory.mktemp("report"), Written("search"))


def test_a_search_that_asks_nothing_has_pictures_and_a_table(report):
    assert [finding.kind for finding in report.findings] == ["search"]
    names = {path.name for path in report.files}
    assert {"search_importance.png", "search_history.png", "search_slices.png", "search_cells.csv"} <= names
    text = (Path(report.directory) / "report.md").read_text(encoding="utf-8")
    head = next(line for line in text.splitlines() if line.startswith("| lr |"))
    assert {"depth", "momentum", "val loss", "test acc"} <= {cell.strip() for cell in head.split("|")}
    assert "lr = 0.0001 to 1 (log)" in text
    assert len(re.findall(r"^\| 0\.0", text, re.MULTILINE)) == 16  # eight rows on the first screen, eight below
    assert len(report.answer[0].split()) <= 25


def test_a_brush_keeps_the_configurations_that_pass_it(report, opened):
    assert len((TEMPLATES / "parallel.js").read_text().splitlines()) <= 120
    kept = opened(Path(report.directory) / "report.html").run("""(() => {
        const [box, reach] = [document.querySelector('.parallel'), document.querySelector('.parallel .reach')];
        reach.setPointerCapture = () => {};
        const { left, top, height } = reach.getBoundingClientRect();
        const drag = (...places) => ['pointerdown', 'pointermove', 'pointerup'].forEach((name, k) => reach.
            dispatchEvent(new PointerEvent(name, { clientX: left + 9, clientY: top + places[k] * height })));
        const seen = () => box.querySelectorAll('.run:not(.out)').length;
        const found = [seen()];
        drag(0.4, 0.6, 0.6);
        found.push(seen(), box.querySelectorAll('tbody tr').length);
        drag(0.5, 0.5, 0.5);
        return [...found, seen()];
    })()""")
    assert (kept[0], kept[2], kept[3]) == (200, 8, 200)
    assert 10 < kept[1] < 100
