"""The record of a sweep is read as it was written, or named as damaged; rows that it does not explain are counted."""

import errno
import json
from pathlib import Path

import pytest
from conftest import QUIET, ok, refused
from functions import quietly
from spaces import small_space

from raysweep.errors import InputError
from raysweep.ledger import sweep_record
from raysweep.storage.sealed import seal, unseal


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
