"""Many small segments of a ledger become few, and no row is lost, doubled or out of sight meanwhile."""

import signal

import pytest
from auditing import just_before
from conftest import QUIET, assert_same_rows, files_of, ok
from spaces import small_space, written
from test_ledger import row, table

from raysweep.ledger import compaction
from raysweep.ledger import segments as ledger

MANY = compaction.MORE_THAN + 20  # segments


def filled(folder, segments=MANY, rows=4):
    """A ledger of small segments, every fifth of which is a second attempt at the rows of the one before; its rows."""
    for number in range(segments):
        again = number % 5 == 4
        cell, attempt = f"{number - again:04x}", 2 if again else 1
        ledger.write_segment(
            ledger.segment_path(folder, f"{number:016x}", attempt),
            [row(cell, seed, attempt, y=number + seed / 7) for seed in range(rows)],
        )
    return ledger.read(folder).rows


def test_merging_keeps_every_row_once(tmp_path):
    before = filled(tmp_path, rows=compaction.ROWS // 100)
    assert compaction.compact(tmp_path) == MANY
    assert len(list(tmp_path.iterdir())) == 2
    contents = ledger.read(tmp_path)
    assert contents.rows == before
    assert contents.damaged == []
    assert contents.repeated == 0  # what was replaced is gone
    assert compaction.compact(tmp_path) == 0
    ledger.write_segment(ledger.segment_path(tmp_path, "new", 3), [row("0000", 0, 3, y=-1.0)])
    assert ledger.read(tmp_path).rows == {**before, ("0000", 0): row("0000", 0, 3, y=-1.0)}


def test_few_segments_are_left_as_they_are(tmp_path):
    filled(tmp_path, compaction.MORE_THAN)
    recorded = files_of(tmp_path)
    assert compaction.compact(tmp_path) == 0
    assert files_of(tmp_path) == recorded


def test_a_damaged_segment_is_not_merged(tmp_path):
    before = filled(tmp_path)
    path = tmp_path / f"{7:016x}-1.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    compaction.compact(tmp_path)
    contents = ledger.read(tmp_path)
    assert contents.damaged == [path]
    assert contents.rows == {key: value for key, value in before.items() if key[0] != "0007"}


@pytest.mark.parametrize(
    ("rows", "steps"),
    [(4, 0), (4, 1), (4, 2), (4, 60), (4, MANY), (compaction.ROWS // 100, 101), (compaction.ROWS // 100, 110)],
)
def test_merging_cut_short_anywhere_loses_and_doubles_no_row(rows, steps, tmp_path):
    """Ctrl-C after so many files were published or removed; the next driver finishes the job."""
    before = filled(tmp_path, rows=rows)
    with (
        pytest.raises(KeyboardInterrupt),
        just_before(
            "os.link", "os.remove", ending=".jsonl", do=lambda: signal.raise_signal(signal.SIGINT), number=steps + 1
        ),
    ):
        compaction.compact(tmp_path)
    assert len(files_of(tmp_path)) > 1
    assert ledger.read(tmp_path).rows == before
    compaction.compact(tmp_path)
    assert ledger.read(tmp_path).rows == before


def test_nothing_is_removed_by_a_driver_that_lost_its_sweep(tmp_path):
    before = filled(tmp_path)
    recorded = files_of(tmp_path)

    def lost():
        raise PermissionError("somebody else's")

    with pytest.raises(PermissionError):
        compaction.compact(tmp_path, lost)
    assert recorded.items() <= files_of(tmp_path).items()
    assert ledger.read(tmp_path).rows == before


def test_whoever_listed_the_ledger_before_a_merger_reads_every_row(tmp_path):
    before = filled(tmp_path)
    with just_before("open", ending=".jsonl", do=lambda: compaction.compact(tmp_path)):
        assert ledger.read(tmp_path).rows == before
    assert len(files_of(tmp_path)) == 1


def test_a_listing_in_which_a_merger_hid_both_old_and_new_is_repeated(tmp_path, monkeypatch):
    """A folder is listed piece by piece: what is removed before its turn and published after it is in no piece."""
    before = filled(tmp_path)
    compaction.compact(tmp_path)
    segments, listings = ledger.segments, []

    def torn(folder):
        listings.append(segments(folder))
        return listings[-1][1:] if len(listings) == 1 else listings[-1]

    monkeypatch.setattr(ledger, "segments", torn)
    assert ledger.read(tmp_path).rows == before


def test_a_run_merges_its_segments_at_its_end(call, apart, tmp_path, storage):
    seeds = ("--set", f"seeds={compaction.MORE_THAN + 1}")
    ok(call("run", apart, *seeds, "--storage", storage, *QUIET, "--executor", "inline"))
    assert [path.name[:7] for path in (storage / "small" / "ledger").iterdir()] == ["merged-"]
    written(tmp_path, small_space())
    ok(call("run", apart, *seeds, "--storage", storage / "other", *QUIET))
    kept = [{**entry, "cell": ""} for entry in table(call, storage)]  # of another workload by name
    assert_same_rows(kept, [{**entry, "cell": ""} for entry in table(call, storage / "other")])
    recorded = files_of(storage / "small" / "ledger")
    assert "nothing to compute" in call("resume", "small", "--storage", storage, *QUIET).err
    assert files_of(storage / "small" / "ledger") == recorded
