"""The first screen of a report: few words, each said once, the same as in the terminal; everything else is folded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt
from test_report import TRANSFER, rows_of, space_of

import raysweep
from raysweep.main import cli
from raysweep.report.statuses import needed, others, outside, status_words, undecided
from raysweep.reporting.analyses.movement import movement_words
from raysweep.reporting.document.answer import ALL, WORD, clipped
from raysweep.reporting.report import Report, write_report

MOST_WORDS = 600
MORE = re.compile(r"\d+ more answers? in the report")
AXES: dict[str, list[Any]] = {
    "overlap_angle": np.linspace(9, 90, 5).tolist(),
    "gamma": [0.2, 0.8],
    "noise": [0.0, 0.1, 0.3],
    "depth": [1, 2],
    "dim": [100, 200],
}
METRICS = ["transferability_finetune", "transferability_linear", "risk_finetune", "risk_linear", "risk_scratch"]


def first_screen(text: str) -> str:
    """What a reader of report.md sees before a click."""
    return re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)


def words(text: str) -> int:
    """How many words are to be read; the address of a link or a picture is none."""
    return len(re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text).split())


def plain(text: str) -> str:
    """The text without Markdown: neither marks nor backslashes at the ends of lines."""
    return re.sub(r"[`*]", "", " ".join(re.sub(r"\\$", "", text, flags=re.MULTILINE).split()))


def as_one(text: str) -> str:
    """The text in small letters, with what is two sentences in one line and one sentence in another written alike."""
    return plain(text).lower().replace(". ", "; ")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, str, list[str]]:
    """The report of many long questions on a sweep of many axes, with many rows that are not ok."""
    frame = rows_of(TRANSFER, AXES, {}, 3, 0.05)
    frame.loc[frame.index[::7], "status"] = "not_converged"
    frame.loc[frame.index[::11], "status"] = "diverged"
    x = {"x": "overlap_angle"}
    analysis: list[Any] = [{"boundary": {"metric": metric, **x}} for metric in METRICS[:2]]
    analysis += [{"inflection": {"metric": metric, **x}} for metric in METRICS[:2]]
    analysis += [{"trend": {"metric": metric, **x}} for metric in METRICS]
    analysis += [{"curves": {"metrics": METRICS, **x}}, {"agreement": {}}]
    space = space_of("linear_transfer", AXES, {}, analysis)
    space["description"] = "Where does it tip over, and why does it tip over there and nowhere else? " * 40
    home = tmp_path_factory.mktemp("large")
    notes = [f"Note {k}: " + "this has to be known by whoever reads the report, " * 5 for k in range(9)]
    with pytest.MonkeyPatch.context() as patch:  # drawing takes most of the time
        patch.setattr("matplotlib.figure.Figure.savefig", lambda self, path, **options: Path(path).touch())
        report = write_report(frame, space, home, sweep="large", notes=notes, facts=["stages: 4 distinct"])
    return report, (home / "report.md").read_text(encoding="utf-8"), notes


def test_a_reader_of_the_largest_sweep_reads_few_words_before_a_click(large: tuple[Report, str, list[str]]) -> None:
    report, text, notes = large
    assert words(text) > 3 * MOST_WORDS  # or there would have been nothing to fold
    assert 150 < words(first_screen(text)) <= MOST_WORDS
    *found, sure, open_ones = (line for line in report.answer if not MORE.search(line))
    assert sum(len(WORD.findall(line)) for line in found) <= ALL == 290
    assert len(f"{sure} {open_ones}".split()) <= MOST_WORDS / 5
    whole = as_one(text)
    for needed_once in (*report.headline, *map(str.strip, notes), "stages: 4 distinct"):
        assert whole.count(as_one(needed_once)) == 1, needed_once


def test_the_answer_stands_above_everything_that_is_folded_and_nothing_is_folded_twice(
    large: tuple[Report, str, list[str]],
) -> None:
    report, text, _ = large
    page = (Path(str(report.directory)) / "report.html").read_text(encoding="utf-8")
    for source in (text, page):
        marks = re.findall(r"</?details>", source)
        assert marks == ["<details>", "</details>"] * (len(report.headline) + 2)
    begin = plain(first_screen(text))
    lines = [line for line in report.answer if not MORE.search(line)]
    assert len(lines) == len(report.answer) - 1
    assert not MORE.search(begin)  # which the list of contents says
    places = [begin.index(plain(line).removeprefix("How sure: ").removeprefix("Undecided: ")) for line in lines]
    assert places == sorted(places)
    assert begin.index("# large Where does it tip over") < text.index("![") < places[0]
    assert first_screen(text).count("![") == 1


def test_github_renders_what_is_folded(large: tuple[Report, str, list[str]]) -> None:
    """CommonMark ends raw HTML at a blank line, and then reads Markdown again."""
    _, text, _ = large
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert page.count("<details>\n<summary>") == text.count("<details>")
    assert len(re.findall(r"</summary>\n<p><a id=\"[\w-]+\"></a></p>\n<(?:p|table|ul)>", page)) == text.count(
        "<details>"
    )
    assert "| status |" not in page
    assert "**" not in re.sub(r"<pre>.*?</pre>", "", page, flags=re.DOTALL)


def test_every_link_of_the_contents_leads_into_a_folded_part(large: tuple[Report, str, list[str]]) -> None:
    report, text, _ = large
    page = (Path(str(report.directory)) / "report.html").read_text(encoding="utf-8")
    links = re.findall(r"\]\(#([\w-]+)\)", first_screen(text))
    assert len(links) > 4
    for name in links:
        assert text.count(f'<a id="{name}"></a>') == 1
        assert page.count(f'<div id="{name}">') == page.count(f'href="#{name}"') == 1


def test_the_terminal_says_the_sentences_of_the_report(storage: Path) -> None:
    def valley(rate: float, width: int, seed: int) -> float:
        return (np.log10(rate) + 2) ** 2 + 0.1 * width + 0.01 * seed * rate

    said: list[str] = []
    sweep = raysweep.run(
        valley,
        axes={"rate": [0.0001, 0.001, 0.01, 0.1, 1.0], "width": [1, 2]},
        seeds=3,
        analysis=[{"optimum": {"metric": "value", "x": "rate"}}, {"best": {"metric": "value"}}],
        storage=storage,
        tracking_uri="none",
        say=said.append,
    )
    report = sweep.report()
    assert said[said.index(report.answer[0]) :][: len(report.answer)] == report.answer
    assert len(report.answer) in (3, 4)
    begin = plain(first_screen((Path(str(report.directory)) / "report.md").read_text(encoding="utf-8")))
    for line in report.answer:
        label, known, rest = line.partition(": ")
        assert plain(f"{label}. {rest}" if known and label in ("How sure", "Undecided") else line) in begin
    asked = CliRunner().invoke(cli, ["report", sweep.name, "--storage", str(storage), "-o", str(storage / "again")])
    lines = [line for line in asked.output.splitlines() if line in report.answer]
    assert lines == report.answer


IF_THERE = ", if it is there at all"  # of a zero beyond the grid: signs inside do not promise that there is one


@pytest.mark.parametrize(
    ("status", "low", "high", "note", "said", "takes"),
    [
        ("censored_high", 0.1, np.inf, "positive below", "beyond the grid, above 0.1", f"larger rate{IF_THERE}"),
        (
            *("censored_high", 0.1, np.inf, "positive below, no clear sign at the upper edge"),
            *("only a bound is known, above 0.1", "more seeds"),
        ),
        ("censored_low", -np.inf, 0.2, "positive above", "beyond the grid, below 0.2", f"smaller rate{IF_THERE}"),
        (
            "censored_low",
            -np.inf,
            0.004,
            "the interval reaches the lower edge",
            "any rate up to 0.004 may be it",
            "more seeds",
        ),
        (
            "censored_high",
            0.3,
            np.inf,
            "best towards the upper edge, no clear turn inside",
            "at the grid's edge or beyond, above 0.3",
            "larger rate",
        ),
        (
            "censored_high",
            0.3,
            np.inf,
            "the mean is best inside the grid, but not clearly better than at the upper edge",
            "only a bound is known, above 0.3",
            "more seeds",
        ),
        (
            "censored_high",
            0.3,
            1.0,
            "the mean is best inside the grid, but it is not clear where",
            "any rate from 0.3 to 1 may be it",
            "more seeds",
        ),
        ("monotone", 0.1, np.inf, "improves throughout", "no turning point", ""),
        ("undetermined", np.nan, np.nan, "zero everywhere", "no effect anywhere", ""),
        ("undetermined", np.nan, np.nan, "flat", "no effect anywhere", ""),
        ("undetermined", np.nan, np.nan, "positive everywhere, towards neither edge", "no change of sign", ""),
        ("undetermined", np.nan, np.nan, "no clear fall or rise", "not decided", "more seeds"),
        (
            "undetermined",
            np.nan,
            np.nan,
            "too few points: 2, at least 3 are needed",
            "not decided",
            "more values of rate",
        ),
    ],
)
def test_what_a_fit_leaves_open_is_said_in_words_with_what_would_decide_it(
    status: str, low: float, high: float, note: str, said: str, takes: str
) -> None:
    row = {"status": status, "low": low, "high": high, "note": note}
    assert status_words(row, "rate") == said
    expected = f"best rate (deciding it takes {takes})" if takes else ""
    assert undecided(pd.DataFrame([row]), "best rate", "setting", "rate", 1) == expected
    if takes:
        assert needed(status, note, "rate") == takes
        known = needed(status, note, "rate", ("0.001", "1"), 4)
        told = {"larger rate": "rate above 1", "smaller rate": "rate below 0.001", "more seeds": "more than 4 seeds"}
        told |= {f"{key}{IF_THERE}": f"{value}{IF_THERE}" for key, value in told.items()}
        assert known == told.get(takes, takes)


def test_what_lies_outside_of_intervals_is_counted() -> None:
    assert outside([("theory", 1, 19, 0)], 0.95) == "theory lies outside 1 of 19 intervals (1 expected by chance)"
    assert outside([("Thm 3", 0, 1, 0), ("theory", 0, 0, 0)], 0.95) == "Thm 3 lies inside the 1 interval"
    assert (
        outside([("a", 2, 3, 0), ("theory", 0, 3, 0)], 0.95)
        == "a lies outside 2 of 3 intervals (0 expected by chance), theory inside all 3"
    )
    assert outside([("theory", 0, 19, 0)], 0.95) == "theory lies inside all 19 intervals"
    assert outside([], 0.95) == ""
    assert outside([("theory", 5, 19, 0)], 0.68) == "theory lies outside 5 of 19 intervals (6 expected by chance)"
    assert outside([("theory", 0, 2, 1)], 0.95) == "theory lies inside both intervals (1 of the 2 only a bound)"
    said = "theory lies outside 2 of 9 intervals (0 expected by chance; 3 of the 9 only bounds)"
    assert outside([("theory", 2, 9, 3)], 0.95) == said


def test_what_was_fitted_is_said_before_means_and_the_same_sentence_once(tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {"overlap_angle": np.linspace(9, 90, 10).tolist(), "gamma": [0.2, 0.8]}
    frame = rows_of(TRANSFER, axes, {}, 5, 0.01)
    risk = {"metric": "risk_finetune", "x": "overlap_angle"}
    asked = [
        {"curves": risk},
        {"curves": {**risk, "by": ["gamma"]}},
        {"boundary": {"metric": "transferability_finetune", "x": "overlap_angle"}},
    ]
    report = write_report(frame, space_of("linear_transfer", axes, {}, asked), tmp_path, sweep="means")
    assert report.answer[0].startswith("Transfer helps below overlap angle ")
    said = "Risk after fine-tuning at overlap angle 90° is 1.6"
    assert sum(said in line for line in report.answer) == 1
    text = plain((tmp_path / "report.md").read_text(encoding="utf-8"))
    assert text.lower().count(said.lower()) == 1


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("it turns at 3 in 9 of 12 curves; theory lies outside 2 of 9 intervals", "it turns at 3 in 9 of 12 curves …"),
        ("Points: fitted, as in F Fig. 34. Dashed: the closed form of it", "Points: fitted, as in F Fig. 34. …"),
        ("a; one two three four five six seven eight nine ten eleven", "a; one two three four five six seven eight …"),
        ("short; enough", "short; enough"),
    ],
)
def test_what_is_too_long_ends_with_a_whole_clause(text: str, short: str) -> None:
    assert clipped(text, 9 if text[0] != "P" else 10) == short


def test_curves_without_a_turning_point_say_which_way_they_go() -> None:
    notes = ["improves", "improves throughout", "degrades and levels off"]
    table = pd.DataFrame({"status": "monotone", "note": notes, "low": 1.0, "high": np.inf})
    assert others(table, "") == ["best at the largest value in 2, best at the smallest value in 1"]
    assert others(table[:2], "") == ["best at the largest value in 2"]
    assert others(table.assign(note=""), "") == ["no turning point in 3"]


def test_a_move_that_few_comparisons_show_is_no_move() -> None:
    place = np.array([1.0, 2.0, 1.0, 1.1, 1.0, 1.1])  # rises in one of three settings
    table = pd.DataFrame(
        {
            "gamma": np.repeat([0.1, 0.2, 0.3], 2),
            "depth": np.tile([1, 2], 3),
            "status": "located",
            "low": place - 0.2,
            "high": place + 0.2,
        }
    )
    moves, still = movement_words(table, ["gamma", "depth"], TRANSFER)
    assert still == "shows no clear move with depth (rises in 1 of 3 comparisons)"
    assert moves == "falls with gamma (1 of 2 comparisons)"
    assert movement_words(table[:4], ["gamma", "depth"], TRANSFER)[0].endswith("rises with depth (1 of 2)")
    assert movement_words(table, ["gamma", "depth"], TRANSFER, left_out=["depth"]) == (moves, "")
