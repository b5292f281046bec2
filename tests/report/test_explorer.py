"""The page of a report in a headless Chromium: what a reader can move, sort and save, and without JavaScript."""

import base64
import csv
import hashlib
import html
import io
import re
from pathlib import Path

import numpy as np
import pytest

from raysweep.report.page import TEMPLATES
from raysweep.report.report import Written, write_report

from .conftest import absent, rows, space

AXE = Path(__file__).parents[2] / "data" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
LARGEST_SCRIPT = 25_000  # bytes
AXES = {
    # A logarithm and back changes some of these.
    "pretrain_length": [float(f"{length:.4g}") for length in np.geomspace(0.2, 20, 9)],
    "overlap_angle": [9.0, 45.0, 60.0, 75.0],
    "depth": [1, 2],
}
FIXED = {"gamma": 0.5, "dim": 200, "init_scale": 0.01}
METRIC = {"metric": "transferability_finetune"}
ANALYSIS = [
    {"inflection": METRIC | {"x": "pretrain_length", "by": ["overlap_angle", "depth"]}},
    {"boundary": METRIC | {"x": "overlap_angle", "y": "pretrain_length", "by": ["depth"]}},
    {"curves": METRIC | {"x": "depth", "by": ["overlap_angle"]}},
    {"trend": METRIC | {"x": "pretrain_length"}},
]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The folder of a report with places, curves and a table."""
    home = tmp_path_factory.mktemp("report")
    frame = rows(AXES, 8).assign(**FIXED)
    write_report(frame, [space(*ANALYSIS, axes=AXES, fixed=FIXED)], home, Written("small"))
    return home


@pytest.fixture
def page(opened, report):
    return opened(report / "report.html")


def test_the_script_is_small_and_the_page_runs_no_other(report):
    text = html.unescape((report / "report.html").read_text(encoding="utf-8"))
    script = (TEMPLATES / "report.js").read_bytes()
    assert len(script) <= LARGEST_SCRIPT
    assert re.findall(r"<script>(.*?)</script>", text, re.DOTALL) == [script.decode()]
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    assert f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text
    assert "http://" not in text
    assert "https://" not in text


def test_the_page_is_complete_without_javascript(browser, report):
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(report / "report.html")
        shown = browser.run("document.body.innerText")
        drawn = browser.run("[...document.images].map((image) => image.naturalWidth)")
        added = browser.run("document.querySelectorAll('button, select, .explore').length")
        summaries = browser.run("[...document.querySelectorAll('summary')].map((part) => part.offsetHeight)")
        browser.run("document.querySelectorAll('summary').forEach((part) => { part.click(); })")  # as a reader would
        tables = browser.run("[...document.querySelectorAll('table')].map((part) => part.offsetHeight)")
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
    text = (report / "report.md").read_text(encoding="utf-8")
    assert len(drawn) == text.count("![") > 3
    assert min(drawn) > 100
    assert added == 0
    assert len(summaries) >= text.count("<details>")
    assert min(summaries) > 10
    assert len(tables) == len(re.findall(r"^\| --- ", text, re.MULTILINE))
    assert min(tables) > 30
    assert "Does it tip over?" in shown
    assert "explored" not in shown


def test_every_control_changes_what_is_seen(page):
    assert page.run("document.querySelectorAll('.explore').length") == len(ANALYSIS)
    shifted = page.run("""(() => {
        const seen = (box) => box.querySelector('.charts').innerHTML + box.querySelector('.panel').innerText;
        const visible = (box) => [...box.querySelectorAll('.charts svg *')].filter(
            (one) => getComputedStyle(one).display !== 'none').length;
        return [...document.querySelectorAll('.explore')].flatMap((box) =>
            [...box.querySelectorAll('select, input')].map((control) => {
                const [before, drawn] = [seen(box), visible(box)];
                const name = control.parentNode.innerText;
                if (control.type === 'checkbox') { control.click(); return visible(box) < drawn ? '' : name; }
                const other = [...control.options].find((option) => !option.selected);
                control.value = other.value;
                control.dispatchEvent(new Event('change'));
                const kept = control.value === other.value;
                return kept && seen(box) !== before ? '' : name;
            }));
    })()""")
    assert len(shifted) >= 15
    assert [name for name in shifted if name] == []


def test_a_drop_down_draws_the_slice_that_it_names(page):
    seen = page.run("""(() => {
        const box = document.querySelector('.explore');
        return [...box.querySelector('select').options].map((option) => {
            const select = box.querySelector('select');
            select.value = option.value;
            select.dispatchEvent(new Event('change'));
            return [box.querySelector('.panel strong').innerText.trim(), box.querySelectorAll('.charts .seed').length];
        });
    })()""")
    assert [message for message, _ in seen] == [f"θ = {angle:g}°, L = 1." for angle in AXES["overlap_angle"]]
    assert {seeds for _, seeds in seen} == {8}


def test_a_fitted_point_shows_its_curve_and_numbers_to_pointer_and_keyboard(page):
    panel = "document.querySelector('.explore .panel').innerText"
    points = page.run("[...document.querySelectorAll('.explore .target')].map((one) => one.getAttribute('aria-label'))")
    page.point_at(".explore .target:nth-last-of-type(2)")
    pointed = page.run(panel)
    page.run("document.querySelector('.explore .target[tabindex=\"0\"]').focus()")
    page.press("ArrowLeft")
    stepped = page.run(panel)
    assert pointed != stepped
    for text in (pointed, stepped):
        assert any(label.split(".")[0] in text for label in points)
        assert "raysweep debug small c" in text
    curve = page.run("document.querySelector('.explore .charts > div:last-child svg').getAttribute('aria-label')")
    assert stepped.split(". ")[0] in curve


def test_every_control_is_reached_by_keyboard_and_shows_it(page):
    page.run("document.activeElement.blur(), document.querySelector('h1').scrollIntoView()")
    order = []
    for _ in range(40):
        page.press("Tab")
        order.append(
            page.run("""(() => {
            const [one, all] = [document.activeElement, [...document.querySelectorAll('*')]];
            const mark = one.matches('.target') ? one.querySelector('circle') : one;
            const look = () => {
                const style = getComputedStyle(mark);
                return [style.outlineStyle, style.outlineWidth, style.stroke, style.strokeWidth].join();
            };
            const focused = look();
            one.blur();
            const left = look();
            one.focus();
            return [all.indexOf(one), focused !== left, one.tagName];
        })()""")
        )
    assert all(visible for _, visible, _ in order)
    places = [place for place, _, _ in order]
    assert places == sorted(set(places))
    assert {"BUTTON", "SUMMARY", "SELECT", "INPUT", "g"} <= {tag for *_, tag in order}


FULL = "document.querySelector('details > div > .scroll table')"


def test_tables_sort_by_number_and_say_so(page):
    names = page.run(f"[...{FULL}.tHead.rows[0].cells].map((head) => head.innerText.trim())")
    place = next(k for k, name in enumerate(names) if "[" in name)
    cells = f"[...{FULL}.tBodies[0].rows].map((row) => row.cells[{place}].innerText)"
    before, head = page.run(cells), f"{FULL}.tHead.rows[0].cells[{place}]"
    for direction, sign in (("ascending", 1), ("descending", -1)):
        page.run(f"{head}.querySelector('button').click()")
        assert page.run(f"{head}.ariaSort") == direction
        numbers = [float(number[0]) for text in page.run(cells) if (number := re.search(r"\d[\d.]*", text))]
        assert numbers == sorted(numbers, key=lambda value: sign * value)
        assert len(set(numbers)) >= 4
        assert sorted(page.run(cells)) == sorted(before)


def test_a_downloaded_table_is_the_table_that_is_shown(page):
    name, text = page.downloaded("button.csv")
    shown = page.run(f"[...{FULL}.rows].map((row) => [...row.cells].map((cell) => cell.innerText.trim()))")
    assert name == "part-0-full.csv"
    assert list(csv.reader(io.StringIO(text))) == [[cell.replace("\u00a0", " ") for cell in row] for row in shown]
    assert len(shown) == 1 + len(AXES["overlap_angle"]) * len(AXES["depth"])


def test_the_page_has_a_dark_and_a_printed_form(page):
    look = "(() => { const look = getComputedStyle(document.body); return [look.color, look.backgroundColor]; })()"
    light = page.run(look)
    try:
        page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        assert page.run(look) == ["rgb(230, 232, 235)", "rgb(22, 24, 28)"]
        page.send("Emulation.setEmulatedMedia", media="print", features=[])
        page.run("document.querySelectorAll('details').forEach((part) => { part.open = false; })")
        page.run("dispatchEvent(new Event('beforeprint'))")
        assert page.run("[...document.querySelectorAll('details')].every((part) => part.open)")
        gone = "every((one) => getComputedStyle(one).display === 'none')"
        assert page.run(f"[...document.querySelectorAll('.controls, .explore')].{gone}")
    finally:
        page.send("Emulation.setEmulatedMedia", media="", features=[])
    assert page.run(look) == light != ["rgb(230, 232, 235)", "rgb(22, 24, 28)"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(page, scheme):
    if not AXE.is_file():
        absent("axe-core is not here: make data")
    page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    try:
        page.run(AXE.read_text(encoding="utf-8") + "; 0")
        violations = page.run("""axe.run().then((result) => result.violations
            .filter((one) => ['serious', 'critical'].includes(one.impact))
            .map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 90)).slice(0, 3).join(' | ')}`))""")
    finally:
        page.send("Emulation.setEmulatedMedia", features=[])
    assert violations == []


def test_figures_say_in_words_what_they_show(page):
    texts = page.run("[...document.images].map((image) => image.alt)")
    assert all(len(text.split()) > 5 for text in texts)
