"""The ledger gives back what was put in, or says that it cannot: never a wrong row, never a lost one."""

import json
import math
import os
import subprocess
import sys
from unittest import mock

import pytest
from conftest import QUIET, assert_same_rows, files_of, ok

from raysweep.ledger import segments
from raysweep.storage import files
from raysweep.storage.sealed import Damaged
from tests.chaos.waiting import PATIENCE


def row(cell="c", seed=0, attempt=1, **metrics):
    return {
        "cell": cell,
        "seed": seed,
        "status": "ok",
        "attempt": attempt,
        "seconds": 0.1,
        "code_version": "1",
        "metrics": metrics,
    }


def same(one, other):
    """Equality for which NaN is NaN."""
    return repr(one) == repr(other)


ROWS = [
    row("a", 0, y=0.1 + 0.2),
    row("a", 1, y=math.inf, z=-math.inf),
    row("ä\u2028", 2, y=math.nan, z=5e-324),
    {**row("b", 3), "status": "failed", "error": 'Traceback\n  "x"\x00\n'},
]


def test_rows_come_back_exactly(tmp_path):
    path = segments.segment_path(tmp_path, "p", 1)
    for written in ([], ROWS):
        path.unlink(missing_ok=True)
        segments.write_segment(path, written)
        assert same(segments.read_segment(path), written)
    assert list(segments.read(tmp_path).rows) == [("a", 0), ("a", 1), ("ä\u2028", 2), ("b", 3)]
    for line in path.read_text().splitlines():
        json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def test_no_damage_goes_unseen(tmp_path):
    path = tmp_path / "p-1.jsonl"
    segments.write_segment(path, ROWS)
    whole = path.read_bytes()
    damaged = [whole[:length] for length in range(len(whole))]  # half-written
    for i, there in enumerate(whole):
        others = {there ^ 1 << i % 8, *b"\n \0}"} - {there}
        damaged += [whole[:i] + bytes([byte]) + whole[i + 1 :] for byte in others]
    damaged += [b"\n", b"{}\n", b"[]\n", b"null\n", b"3\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n"]
    damaged += [whole + b"\n", whole + whole, whole[1:], whole.replace(b'"a"', b'"b"', 1)]
    for content in damaged:
        path.write_bytes(content)
        try:
            rows = segments.read_segment(path)
        except Damaged:
            continue
        assert same(rows, ROWS), content  # a blank more in the trailer changes nothing that was recorded


def test_what_is_set_aside_is_kept_and_read_no_more(tmp_path):
    path = tmp_path / "p-1.jsonl"
    kept = []
    for content in (b"first", b"second"):
        path.write_bytes(content)
        kept.append(segments.set_aside(path))
    assert [entry.read_bytes() for entry in kept] == [b"first", b"second"]
    assert segments.read(tmp_path) == segments.Contents()
    segments.write_segment(path, ROWS)


def test_a_later_attempt_replaces_an_earlier_one(tmp_path):
    for pack, attempt in (("z", 1), ("a", 2), ("m", 10), ("b", 9)):
        segments.write_segment(segments.segment_path(tmp_path, pack, attempt), [row("c", 0, attempt, y=float(attempt))])
    contents = segments.read(tmp_path)
    assert contents.rows[("c", 0)]["metrics"] == {"y": 10.0}
    assert contents.repeated == 3


def test_of_one_attempt_one_publication_counts_whatever_the_order_of_reading(tmp_path):
    for pack in "ab":
        segments.write_segment(segments.segment_path(tmp_path, pack, 1), [row("c", 0, 1, y=float(ord(pack)))])
    assert [segments.read(tmp_path).rows[("c", 0)]["metrics"]["y"] for _ in range(3)] == [97.0] * 3


def test_a_published_segment_is_never_replaced(tmp_path):
    path = tmp_path / "p-1.jsonl"
    segments.write_segment(path, [row(y=1.0, z=math.nan)])
    segments.write_segment(path, [{**row(y=1.0, z=math.nan), "seconds": 0.2, "host": "other"}])  # lost and tried again
    for other in ([row(y=2.0, z=math.nan)], [row(y=1.0, z=math.nan), row(seed=1)], [{**row(), "status": "failed"}], []):
        with pytest.raises(FileExistsError):
            segments.write_segment(path, other)
    assert same(segments.read_segment(path), [row(y=1.0, z=math.nan)])
    assert [entry.name for entry in tmp_path.iterdir()] == ["p-1.jsonl"]


FILES = 20
PUBLISHER = """
import sys
from raysweep.storage import files, paths
print("ready", flush=True)
sys.stdin.readline()
content = sys.argv[2].encode() * int(sys.argv[3])
print(sum(files.create(paths.locate(sys.argv[1]) / f"file-{i}", content) for i in range(int(sys.argv[4]))))
"""


def test_of_many_processes_one_publishes(tmp_path):
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    program = [sys.executable, "-c", PUBLISHER, str(tmp_path)]
    publishers = [subprocess.Popen([*program, letter, "100000", str(FILES)], text=True, **pipes) for letter in "abcd"]
    for publisher in publishers:
        assert publisher.stdout.readline() == "ready\n"
    for publisher in publishers:
        publisher.stdin.write("go\n")
        publisher.stdin.flush()
    assert sum(int(publisher.communicate(timeout=PATIENCE)[0]) for publisher in publishers) == FILES
    contents = [path.read_text() for path in tmp_path.iterdir()]
    assert len(contents) == FILES
    assert all(text == text[0] * 100_000 for text in contents)


def test_a_file_is_whole_or_absent_without_hard_links_too_and_readable_to_whom_the_umask_allows(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="."):
        files.replace(tmp_path / "folder", b"content")
    with pytest.raises(TypeError):
        files.create(tmp_path / "file", "no bytes")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    files.create(tmp_path / "published", b"")
    (tmp_path / "usual").touch()
    assert (tmp_path / "published").stat().st_mode == (tmp_path / "usual").stat().st_mode

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert files.create(tmp_path / "file", b"first")
    assert not files.create(tmp_path / "file", b"second")
    assert (tmp_path / "file").read_bytes() == b"first"


@pytest.fixture
def sweep(call, apart, storage):
    """A finished sweep `small` of several segments; returns its ledger."""
    ok(call("run", apart, "--storage", storage, *QUIET, "--executor", "inline"))
    assert len(list((storage / "small" / "ledger").iterdir())) == 3
    return storage / "small" / "ledger"


def table(call, storage):
    outcome = ok(call("results", "small", "--format", "json", "--storage", storage))
    return [{key: value for key, value in entry.items() if key != "seconds"} for entry in json.loads(outcome.out)]


def test_a_damaged_segment_is_told_left_out_and_computed_again(call, sweep, storage):
    before = table(call, storage)
    path = sorted(sweep.iterdir())[1]
    whole = path.read_bytes()
    spoilt = whole[:200] + bytes([whole[200] ^ 4]) + whole[201:]
    lost = len(whole.splitlines()) - 1
    path.write_bytes(spoilt)

    output = ok(call("status", "small", "--storage", storage, "--tracking-uri", "none"))
    assert f"interrupted, {18 - lost} of 18 rows" in output.out
    assert path.name in output.out
    partial = table(call, storage)
    assert len(partial) == 18 - lost
    assert partial == [entry for entry in before if entry in partial]
    assert path.read_bytes() == spoilt  # looking changes nothing

    assert path.name in ok(call("resume", "small", "--storage", storage, *QUIET, "--executor", "inline")).err
    assert_same_rows(table(call, storage), before)
    assert [aside.read_bytes() for aside in sweep.glob("*.damaged-*")] == [spoilt]
    assert "damaged" not in call("status", "small", "--storage", storage, "--tracking-uri", "none").out


def test_what_a_dying_writer_leaves_is_no_row(call, sweep, storage):
    before = table(call, storage)
    (sweep / ".p-1.jsonl.abc.part").write_bytes(b'{"cell": ')
    (sweep.parent / ".sweep.json.abc.part").write_bytes(b"{")
    (sweep / "notes.txt").write_text("by hand")
    assert table(call, storage) == before
    recorded = files_of(sweep)
    ok(call("resume", "small", "--storage", storage, *QUIET))
    recorded.pop(".p-1.jsonl.abc.part")  # cleared away by the next driver; nothing else is touched
    assert files_of(sweep) == recorded
    assert not (sweep.parent / ".sweep.json.abc.part").exists()


@pytest.mark.parametrize("shifted", [False, True])
def test_a_write_that_is_interrupted_says_so_and_leaves_no_half_file(tmp_path, shifted):
    path, replace = tmp_path / "lease.json", os.replace
    path.write_bytes(b"before")

    def interrupted(source, target):
        if shifted:
            replace(source, target)
        raise KeyboardInterrupt

    with mock.patch.object(os, "replace", interrupted), pytest.raises(KeyboardInterrupt):
        files.replace(path, b"after")
    assert path.read_bytes() == (b"after" if shifted else b"before")
    assert os.listdir(tmp_path) == ["lease.json"]
