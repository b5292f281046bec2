"""The record of a sweep and the segments of its rows are read as written, or named as damaged in one line."""

import errno
import hashlib
import json
from pathlib import Path

import pytest
from conftest import QUIET, ok, refused
from functions import quietly
from spaces import small_space

from raysweep.errors import InputError
from raysweep.ledger import segments, sweep_record
from raysweep.storage.sealed import Damaged, seal, unseal


def content(folder):
    """What the record of a sweep holds, without its seal."""
    return {key: value for key, value in json.loads((folder / "sweep.json").read_text()).items() if key != "sha256"}


def unsealed(folder, **changes):
    """Write the record as versions before the seal did."""
    (folder / "sweep.json").write_text(json.dumps({**content(folder), **changes, "format": 1}, indent=1) + "\n")


def test_no_bit_of_a_record_is_changed_unseen(small):
    file = small / "sweep.json"
    whole = file.read_bytes()
    damaged = [whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :] for i in range(len(whole))]
    damaged += [whole[:length] for length in range(0, len(whole), 3)]
    # the seal's name, and the format that says there is a seal, changed by hand
    damaged += [whole.replace(b'"sha256"', b'"sha255"'), whole.replace(b'"format":2', b'"format":1')]
    damaged.append(whole[: whole.rindex(b',"sha256"')].replace(b'"format":2', b'"format":1', 1) + b',"more":1}\n')
    for changed in damaged:
        file.write_bytes(changed)
        with pytest.raises(InputError, match="not the record of a sweep"):
            sweep_record.load(small)


def test_a_damaged_record_is_one_line_with_its_remedy(call, small):
    file, space = small / "sweep.json", small.parent.parent / "small.yaml"
    before = call("results", "small", "--storage", small.parent).out
    file.write_bytes(file.read_bytes().replace(b"0.3", b"0.2", 1))
    for words in (["results"], ["status"], ["report"], ["resume"]):
        refused(call(*words, "small", "--storage", small.parent), f"{file}: ", "checksum", "move this file away")
    file.unlink()
    ok(call("run", space, "--storage", small.parent, *QUIET))
    assert call("results", "small", "--storage", small.parent).out == before


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", "3", "null", "{}", '{"format": 2}', '{"format": 1}'),
        *({"sweep": "../small"}, {"sweep": None}, {"sweep_id": "x' or tags.`a` = 'b"}, {"sweep_id": 3}),
        *({"tracking_uri": [1]}, {"store": 3}, {"format": "!!python"}, {"space": []}, {"space": None}),
        *({"created": None, "more": 1}, {"space": small_space(workload="gone")}),
    ],
)
def test_a_record_that_cannot_be_understood_is_one_line_and_stays(content, call, small):
    """A text, or a sealed record with strange values."""
    file, space = small / "sweep.json", small.parent.parent / "small.yaml"
    sealed = content if isinstance(content, str) else seal({**unseal(file.read_bytes()), **content})
    file.write_bytes(sealed.encode() if isinstance(sealed, str) else sealed)
    before = file.read_bytes()
    for words in (["run", space], *([word, "small"] for word in ("resume", "status", "results"))):
        refused(call(*words, "--storage", small.parent), f"{file}: ")
    refused(call("delete", "small", "--yes", "--storage", small.parent), f"{file}: ")
    assert str(file) in ok(call("list", "--storage", small.parent)).out
    assert file.read_bytes() == before


def test_a_record_from_before_the_seal_is_read_and_sealed_at_its_next_write(call, small):
    before = call("results", "small", "--storage", small.parent).out
    unsealed(small)
    assert call("results", "small", "--storage", small.parent).out == before
    ok(call("run", small.parent.parent / "small.yaml", "--storage", small.parent, *QUIET, "--set", "seeds=4"))
    assert content(small)["format"] == 2
    (small / "sweep.json").write_bytes((small / "sweep.json").read_bytes().replace(b"0.3", b"0.2", 1))
    refused(call("results", "small", "--storage", small.parent), f"{small / 'sweep.json'}: ")


def test_rows_of_no_cell_are_counted(call, small):
    changed = content(small)["space"]
    changed["axes"]["gamma"][0] += 0.01
    unsealed(small, space=changed)
    for words in (["results"], ["status"], ["report"], ["resume", *QUIET]):
        outcome = ok(call(*words, "small", "--storage", small.parent))
        message = outcome.out + outcome.err
        if words == ["report"]:
            message = (small / "report" / "report.md").read_text()
        assert message.count("6 rows of the ledger are of no cell or seed of this sweep") == 1, message
    assert call("status", "small", "--storage", small.parent).out.startswith("small: finished, 18 of 18 rows")


def test_rows_of_an_earlier_version_of_a_function_are_not_counted(storage):
    def growing(x, seed):
        return float(x)

    messages = []
    for version in (1, 2):
        sweep = quietly(growing, storage, axes={"x": [1, 2]}, version=version, say=messages.append)
    assert len(sweep.results()) == 2
    assert sweep.state().strays == ""
    assert len(list((storage / "growing" / "ledger").iterdir())) > 1


def test_rows_outside_a_part_are_not_counted(call, small):
    part = ok(call("run", small.parent.parent / "small.yaml", "--storage", small.parent, *QUIET, "--set", "seeds=1"))
    assert "no cell" not in part.err


@pytest.mark.parametrize("name", ["sweep.json", "ledger"])
def test_a_file_that_the_disk_cannot_read_is_one_line(name, call, small, monkeypatch):
    broken = small / name if name == "sweep.json" else next((small / name).iterdir())
    usual = Path.read_bytes

    def read_bytes(path):
        if path == broken:
            raise OSError(errno.EIO, "Input/output error")  # read() names no file
        return usual(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    for words in (["results"], ["status"], ["report"], ["resume", *QUIET]):
        refused(call(*words, "small", "--storage", small.parent), f"{broken}: cannot be read (Input/output error)")
    listed = call("list", "--storage", small.parent)
    assert (listed.code, listed.out.count("\n")) == (0, 1)


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
