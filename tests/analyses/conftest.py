"""Every finding of these tests is one that report.json may hold."""

import json

import jsonschema
import pytest
from documented import DOCS

from raysweep.analyses.finding import Finding
from raysweep.report.as_json import as_json

SCHEMA = json.loads((DOCS / "report.schema.json").read_text())


@pytest.fixture(autouse=True)
def _every_finding_follows_the_schema(monkeypatch):
    made, initialize = [], Finding.__init__

    def remember(self, *values, **named):
        initialize(self, *values, **named)
        made.append(self)

    monkeypatch.setattr(Finding, "__init__", remember)
    yield
    monkeypatch.undo()
    listed = [{**as_json(one), "answer": "as the report says"} for one in made]
    jsonschema.validate({"version": 1, "sweeps": ["s"], "findings": listed}, SCHEMA)
