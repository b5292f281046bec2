"""Lines that a checksum seals and that are no rows: their segment is damaged, in one line, and nothing else happens."""

import hashlib
import json

import pytest
from conftest import QUIET, ok

from raysweep.ledger import segments
from raysweep.storage.sealed import Damaged

ROW = {
    "cell": "0123456789abcdef",
    "seed": 0,
    "status": "ok",
    "attempt": 1,
    "seconds": 0.5,
    "code_version": "1",
    "metrics": {"y": 1.0, "z": "NaN"},
    "pack": "p",
    "host": "h",
    "finished": 1.7e9,
    "stages": {"pretrain": ["a", "b"]},
    "other_code": ["0"],
    "identity": "a",
    "version": 2,
    "asked": {"number": 3, "values": {"lr": 0.1, "name": "adam", "on": True}},
    "curves": {"finetune": {"step": [0, 1], "loss": [1.0, "Infinity"]}},
    "shared_curves": {"a": {"step": [0], "loss": [2.5]}},
    "error": "Traceback \U0001f4a5",
}
HUGE = 10**400
VALUES = {
    "cell": [None, 3, ["a"], {}],
    "seed": [None, "0", [0], {}, 0.0, True, -1, HUGE, 2**63],
    "status": [None, 3, ["ok"], {}, "fine", ""],
    "attempt": [None, "1", 1.0, [1], HUGE],
    "seconds": [None, "1", [1], {}, -1.0, HUGE, float("nan"), float("inf")],
    "code_version": [None, 1, []],
    "metrics": [None, [], "y", 3]
    + [{"y": value} for value in (None, [1.0], {}, {"float": "NaN"}, "1.0", "nan", HUGE, [])],
    "pack": [None, 3, []],
    "host": [None, 3],
    "finished": [None, "now", HUGE, [], float("nan")],
    "stages": [None, [], "a", {"pretrain": "a"}, {"pretrain": None}, {"pretrain": [3]}],
    "other_code": [None, "0", [0], {}],
    "identity": [None, 3],
    "version": [None, "2", 2.0, []],
    "asked": [None, [], {}, {"number": "3", "values": {}}, {"number": 3}, {"number": 3, "values": []}]
    + [{"number": 3, "values": {"lr": value}} for value in (None, [0.1], {}, HUGE, float("nan"))],
    "curves": [None, [], "a", {"s": None}, {"s": []}, {"s": {}}, {"s": {"loss": [1.0]}}, {"s": {"step": 3}}]
    + [{"s": {"step": [0], "loss": value}} for value in (None, 1.0, [], {}, [1, 2], [None], ["x"], [[1]], [HUGE])],
    "error": [None, 3, ["a"], "\ud800", "whole \U0001f4a5 and half \udcff"],
}
VALUES["shared_curves"] = VALUES["curves"]
MALFORMED = {
    **{f"no-{key}": {k: v for k, v in ROW.items() if k != key} for key in list(ROW)[:7]},
    **{f"{key}-{number}": {**ROW, key: value} for key, values in VALUES.items() for number, value in enumerate(values)},
    **{f"line-{number}": line for number, line in enumerate((None, 3, "row", [], [ROW], {}))},
    "name-0": {**ROW, "metrics": {"\ud800": 1.0}},
}


def sealed(*lines):
    """A segment with these lines, whatever they are, and the checksum that belongs to them."""
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    trailer = {"rows": len(lines), "sha256": hashlib.sha256(content).hexdigest()}
    return content + json.dumps(trailer).encode() + b"\n"


def test_a_row_with_every_key_is_a_row(tmp_path):
    (tmp_path / "p-1.jsonl").write_bytes(sealed(ROW))
    assert segments.read_segment(tmp_path / "p-1.jsonl")[0]["error"] == ROW["error"]


@pytest.mark.parametrize("kind", MALFORMED)
def test_what_is_no_row_is_damage(kind, tmp_path):
    (tmp_path / "p-1.jsonl").write_bytes(sealed(ROW, MALFORMED[kind]))
    with pytest.raises(Damaged):
        segments.read_segment(tmp_path / "p-1.jsonl")


def test_malformed_segments_are_a_line_each_wherever_the_ledger_is_read(call, small):
    before = call("results", "small", "--storage", small.parent).out
    for kind, line in MALFORMED.items():
        (small / "ledger" / f"row-{kind}.jsonl").write_bytes(sealed(line))
    for words in (["results"], ["status"], ["report"], ["resume", *QUIET]):
        outcome = ok(call(*words, "small", "--storage", small.parent))
        message = {"results": outcome.err, "status": outcome.out, "resume": outcome.err}.get(words[0])
        message = message or (small / "report" / "report.md").read_text()
        assert {kind: message.count(f"row-{kind}.jsonl") for kind in MALFORMED} == dict.fromkeys(MALFORMED, 1), words
    assert call("results", "small", "--storage", small.parent).out == before


def test_an_error_that_quotes_a_name_that_is_no_utf8_is_kept(tmp_path):
    path = tmp_path / "p-1.jsonl"
    path.write_bytes(sealed(ROW))
    (row,) = segments.read_segment(path)
    path.unlink()
    segments.write_segment(path, [{**row, "status": "failed", "error": "no file 'a\udcff' \U0001f4a5"}])
    assert segments.read_segment(path)[0]["error"] == "no file 'a\\udcff' \U0001f4a5"
