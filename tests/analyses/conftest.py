"""Every finding of these tests is one that report.json may hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from documented import DOCS

from raysweep.analyses.finding import Finding
from raysweep.report.as_json import as_json

SCHEMA = json.loads((DOCS / "report.schema.json").read_text())


@pytest.fixture(autouse=True)
def _every_finding_follows_the_schema(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made, initialize = list[Finding](), Finding.__init__

    def remember(self: Finding, *values: Any, **named: Any) -> None:
        initialize(self, *values, **named)
        made.append(self)

    monkeypatch.setattr(Finding, "__init__", remember)
    yield
    monkeypatch.undo()
    listed = [{**as_json(one), "answer": "as the report says"} for one in made]
    jsonschema.validate({"version": 1, "sweeps": ["s"], "findings": listed}, SCHEMA)
