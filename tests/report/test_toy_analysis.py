"""An analysis is one file: there it is in the checks of spaces, the report, the JSON, Python and a notebook."""

import json
import sys
from pathlib import Path

import jsonschema
import pytest
from spaces import small_space

import raysweep
from raysweep.analyses import kinds, registry
from raysweep.errors import InputError
from raysweep.report.answers import Tabled
from raysweep.space.schema import validate

from .test_page import SCHEMA

TOY = """
from raysweep.analyses.question import Analysis
from raysweep.analyses.finding import Finding, Outcome, as_table
from raysweep.space import checks


def run(question):
    x, metric = question.x, question.metric
    rows = [
        {x: at, "outcome": Outcome.MEASURED, "estimate": part[metric].max() - part[metric].min()}
        for at, part in question.rows.groupby(x)
    ]
    table = as_table(rows, [x])
    return Finding("spread", question.name, table, metric, x, [x], tables={question.name: table})


ANALYSIS = Analysis(
    "spread", "How far do draws of {metric} spread over {x}?", run, {"metric": checks.metric, "x": checks.axis}
)
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The file of the toy among those of the kinds."""
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys" / "spread.py").write_text(TOY)
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(tmp_path / "toys")])
    yield
    sys.modules.pop("raysweep.analyses.kinds.spread", None)


@pytest.mark.usefixtures("toy")
def test_a_toy_is_everywhere(storage):
    assert "spread" in registry.names()
    asked = {"spread": {"metric": "risk_finetune", "x": "gamma"}}
    with pytest.raises(InputError, match=r"analysis\[0\].spread.x: missing"):
        validate(small_space(analysis=[{"spread": {"metric": "risk_finetune"}}]))
    sweep = raysweep.run(
        small_space(analysis=[asked], description=""), storage=storage, tracking_uri="none", say=lambda line: None
    )
    home = Path(str(sweep.folder)) / "report"
    report = json.loads((home / "report.json").read_text())
    jsonschema.validate(report, SCHEMA)
    ((finding,), (analysed,)) = report["findings"], sweep.findings()
    assert finding["kind"] == "spread"
    assert [one["estimate"] for one in finding["settings"]] == pytest.approx(analysed.table["estimate"].tolist())
    rows = sweep.results().groupby("gamma")["risk_finetune"]
    assert analysed.table["estimate"].to_numpy() == pytest.approx((rows.max() - rows.min()).to_numpy())
    page = (home / "report.html").read_text()
    assert "How far do draws of risk after fine-tuning spread over target samples per dimension?" in page
    assert '<a href="tables/spread.csv">' in page
    shown = Tabled(None, analysed, sweep.workload)._repr_html_()
    assert shown.count("<tr>") == 1 + len(analysed.table)
