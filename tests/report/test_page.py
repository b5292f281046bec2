"""What stands on a page, and what does not harm it."""

import json
import re

import jsonschema
import numpy as np
import pandas as pd
import pytest
from documented import DOCS

from raysweep.analyses.findings import one_finding
from raysweep.report.first_tables import FIRST, first_rows
from raysweep.report.report import Written, write_report
from raysweep.theory import transfer

from .conftest import BOUNDARY, rows, space, written

SCHEMA = json.loads((DOCS / "report.schema.json").read_text())
EVIL = "<script>alert(1)</script> | [a](javascript:alert(1)) ![b](http://example.org/x.png)"


def test_the_first_screen_has_short_answers_and_short_tables(home):
    page = (home / "report.html").read_text()
    answers = re.findall(r'<p class="answer">(.*?)</p>', page)
    assert len(answers) == 3
    assert all(0 < len(answer.split()) <= 25 for answer in answers)
    articles = re.findall(r"<article>(.*?)</article>", page, re.DOTALL)
    counts = [article.count("<tr>") - 1 for article in articles]
    assert all(1 <= count <= FIRST for count in counts)
    assert "Does it tip over?" in page
    assert page.count('<figure id="figure"') == 1
    assert page.index('<figure id="figure"') < page.index("<details>")


def test_a_table_stands_once_and_what_nobody_asks_is_folded(tmp_path):
    predictors = ["risk_linear", "risk_scratch", "transferability_linear"]
    asked = (predictors, "Which?"), (predictors[1:], "Else?")
    both = [{"predictors": some, "question": text} for some, text in asked]
    entry = {"metric": "risk_finetune", "x": "gamma", "unit": "overlap_angle"}
    written(tmp_path, *({"r_squared": {**entry, **one}} for one in both), {"agreement": {}})
    page = (tmp_path / "report.html").read_text()
    first, again, unasked = re.findall(r"<article>(.*?)</article>", page, re.DOTALL)
    assert (first.count("<table"), again.count("<table"), unasked.strip()) == (1, 0, "")
    assert [f"<summary>{text}</summary>" in page for text in ("Which?", "Else?")] == [True, True]
    assert "Do theory and experiment agree?</summary>" in page


def test_nothing_is_cut_off(home):
    for name in ("report.html", "report.md"):
        text = re.sub(r"<script.*?</script>", "", (home / name).read_text(), flags=re.DOTALL)
        assert "…" not in text.replace("0 … 5", "")


def test_many_curves_are_explored_in_one_pass_and_each_is_as_by_itself(monkeypatch):
    entry = {"curves": {"metric": "risk_finetune", "x": "overlap_angle", "by": ["gamma"]}}
    frame = rows()
    frame.loc[(frame["gamma"] == 0.4) & (frame["seed"] == 5), "status"] = "diverged"
    frame = frame[(frame["gamma"] != 0.6) | (frame["overlap_angle"] != 45) | (frame["seed"] > 2)].sample(
        frac=1, random_state=1
    )
    asked, closed_form = [], transfer.closed_form
    monkeypatch.setattr(transfer, "closed_form", lambda columns: asked.append(columns) or closed_form(columns))

    def curves(part):
        (explored,) = one_finding(part, space(entry), entry, "demo").explored
        asked.clear()
        return [{**one, "values": [], "row": 0} for one in explored()["settings"]]

    together = curves(frame)
    assert len(asked) == 2  # whether there is one, and all lines at once
    assert [len(one["seeds"]) for one in together] == [6, 5, 6]
    for one, gamma in zip(together, (0.2, 0.4, 0.6), strict=True):
        assert curves(frame[frame["gamma"] == gamma]) == [one]
    (place,) = [k for k, x in enumerate(together[2]["x"]) if x == 45]
    assert [draw[place] is None for draw in together[2]["draws"]] == [True] * 3 + [False] * 3
    assert together[1]["mean"][0] == pytest.approx(np.mean([draw[0] for draw in together[1]["draws"]]), abs=1e-3)


def test_html_and_markdown_have_the_same_answers_tables_and_figures(home):
    page, text = ((home / name).read_text().replace("\u00a0", " ") for name in ("report.html", "report.md"))
    for answer in re.findall(r'<p class="answer">(.*?)</p>', page.replace("\u2060", "")):
        assert f"**{answer}**" in text.replace("\\", "")
    assert page.count("<img ") == text.count("](figures/") == len(list((home / "figures").glob("*.png")))
    assert page.count("<table") == len(re.findall(r"^\| ---|^\|( ---)", text, re.MULTILINE))


def test_links_lead_to_the_tables_that_were_written(home):
    linked = set(re.findall(r'href="(tables/[^"]+)"', (home / "report.html").read_text()))
    assert linked == {f"tables/{path.name}" for path in (home / "tables").iterdir()}


def test_the_json_report_follows_its_schema_and_has_the_numbers_of_the_tables(home):
    report = json.loads((home / "report.json").read_text())
    jsonschema.validate(report, SCHEMA)
    boundary = next(one for one in report["findings"] if one["kind"] == "boundary")
    table = pd.read_csv(home / "tables" / "boundary_zeros.csv")
    assert [one["estimate"] for one in boundary["settings"]] == pytest.approx(table["estimate"].tolist())
    assert [one["theory"] for one in boundary["settings"]] == pytest.approx(table["theory"].tolist())


def test_words_of_others_stay_words(tmp_path):
    frame = rows()
    asked = space({"best": {"metric": "risk_scratch", "question": "<b>Which</b>?"}}, description=EVIL)
    write_report(frame, [asked], tmp_path, Written(EVIL, warnings=[EVIL], facts=[EVIL]))
    page, text = ((tmp_path / name).read_text() for name in ("report.html", "report.md"))
    assert "<script>alert" not in page + text
    assert "<b>Which" not in page
    assert 'href="javascript' not in page
    assert not re.search(r"(?<!\\)\]\((javascript|http)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def test_figures_of_an_earlier_report_go_and_other_files_stay(tmp_path):
    written(tmp_path, BOUNDARY)
    before = {path.name for path in (tmp_path / "figures").iterdir()}
    (tmp_path / "figures" / "mine.png").write_bytes(b"mine")
    changed = tmp_path / "tables" / "boundary_zeros.csv"
    changed.write_text("mine")
    written(tmp_path, {"agreement": {}})
    after = {path.name for path in (tmp_path / "figures").iterdir()}
    assert "mine.png" in after
    assert not before & after
    assert changed.read_text() == "mine"


def test_a_sweep_without_an_ok_row_says_so(tmp_path):
    frame = rows().assign(status="failed", transferability_finetune=np.nan)
    (finding,) = written(tmp_path, BOUNDARY, frame=frame).findings
    assert finding.facts["nothing"] == "no_row_ok"
    both = pd.concat([frame, rows(sweep="again")], ignore_index=True)  # a row counts as ok where it is
    assert "nothing" not in write_report(both, [space(BOUNDARY)] * 2, tmp_path, Written("both")).findings[-1].facts
    jsonschema.validate(json.loads((tmp_path / "report.json").read_text()), SCHEMA)


def test_several_sweeps_are_compared_and_the_difference_comes_first(tmp_path):
    one = rows(sweep="one")
    other = rows(sweep="other").assign(noise=0.5, risk_scratch=lambda frame: frame["risk_scratch"] + 0.25)
    other["cell"] = "d" + other["cell"]
    spaces = [space({"best": {"metric": "risk_scratch"}}), space({"best": {"metric": "risk_scratch"}})]
    spaces[1]["fixed"] = {"dim": 200, "noise": 0.5}
    spaces[0]["fixed"] = {"dim": 200, "noise": float(one["noise"].iloc[0])}
    report = write_report(pd.concat([one, other], ignore_index=True), spaces, tmp_path, Written("one, other"))
    comparison = report.findings[0]
    (row,) = comparison.table.to_dict("records")
    assert (row["sweep"], row["metric"], row["outcome"], row["cells"]) == ("other", "risk_scratch", "higher", 30)
    assert row["estimate"] == pytest.approx(0.25)
    assert comparison.tables["comparison_risk_scratch"]["difference"].to_numpy() == pytest.approx(0.25)
    text = (tmp_path / "report.md").read_text()  # each question stands above its answer
    asked, said, further = comparison.question, *report.answer
    assert said.startswith(asked)
    places = [text.index(one) for one in (asked, said.removeprefix(asked).strip(), further)]
    assert places == sorted(places)
    assert text.index("\n**") == places[0] - 3


def test_the_rows_of_a_large_table_show_every_outcome(home, tmp_path):
    frame = rows({"overlap_angle": [9.0, 45.0, 60.0, 90.0], "gamma": [0.1 * step for step in range(1, 13)]})
    (finding,) = written(tmp_path, BOUNDARY, frame=frame).findings
    chosen = first_rows(finding)
    assert len(chosen) == FIRST < len(finding.table)
    assert set(finding.table["outcome"].iloc[chosen]) == set(finding.table["outcome"])
