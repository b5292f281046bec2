"""No flipped bit, lost end or leftover in the stage store is ever read: it is set aside and computed again."""

from pathlib import Path

import numpy as np
import pytest
from stored_stage import STAGE, assert_equal, once, published, weights

from raysweep.commands import store as store_commands
from raysweep.errors import InputError
from raysweep.stages import checkpoints, references
from raysweep.stages.store import Store
from raysweep.stages.tensors import CHUNK, ROW
from raysweep.storage.sealed import Damaged, seal, unseal


def _variants(content):
    size = len(content)
    for place in sorted({*range(0, size, max(1, size // 40)), 0, 7, 8, 9, size // 2, size - 2, size - 1}):
        yield f"flipped {place}", content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    for length in (0, 1, size // 2, size - 1):
        yield f"cut to {length}", content[:length]
    yield "longer", content + b"\0"


@pytest.mark.parametrize("which", [0, 1], ids=["record", "weights"])
def test_a_flipped_byte_or_a_lost_end_anywhere_is_found_and_set_aside(local, which):
    once(local)
    path = published(local)[which]
    sound = {file: file.read_bytes() for file in published(local)}
    for what, content in _variants(sound[path]):
        path.write_bytes(content)
        assert local.fetch(STAGE) is None, what
        assert not path.exists(), what
        aside = Path(local.url) / "damaged"
        assert content in [file.read_bytes() for file in aside.iterdir()], what  # kept, as it was
        for file, kept in sound.items():
            file.write_bytes(kept)
    assert local.fetch(STAGE) is not None


def test_damage_of_many_bytes_is_found(local):
    local.publish(STAGE, {"w": np.random.default_rng(0).standard_normal(3 * CHUNK // 8)}, {})
    path = published(local)[1]
    sound = path.read_bytes()
    generator = np.random.default_rng(1)
    for _ in range(60):
        content = bytearray(sound)
        one, other = (int(at) for at in generator.integers(0, len(content) - 20_000, 2))
        length = int(generator.integers(1, 20_000))
        if generator.integers(2):  # a block of the disk
            one, other, length = one // ROW * ROW, other // ROW * ROW, ROW
        here, there = slice(one, one + length), slice(other, other + length)
        match generator.integers(4):
            case 0:  # a lost sector, or many
                content[here] = bytes(length)
            case 1:  # blocks that changed places
                content[here], content[there] = content[there], content[here]
            case 2:  # a block that landed on another
                content[here] = content[there]
            case 3:  # two flipped bits of equal weight
                content[one] ^= 128
                content[one + 8] ^= 128
        if content == sound or len(content) != len(sound):
            continue
        path.write_bytes(content)
        with pytest.raises(Damaged):
            checkpoints.read(local.files, f"entries/{STAGE}.json", STAGE)
    path.write_bytes(sound)
    assert local.fetch(STAGE) is not None


def test_lost_weights_and_a_record_of_another_stage_count_as_damage(local):
    once(local)
    record, tensors = published(local)
    (record.parent / "other.json").write_bytes(record.read_bytes())
    assert local.fetch("other") is None
    tensors.unlink()
    assert local.fetch(STAGE) is None
    assert local.stages() == []


@pytest.mark.parametrize("lost", ["meta", "weights", "bytes", "checksum"])
def test_a_record_that_lacks_a_part_counts_as_damage(local, lost):
    once(local)
    record = published(local)[0]
    record.write_bytes(seal({name: value for name, value in unseal(record.read_bytes()).items() if name != lost}))
    assert local.look(STAGE) is None
    assert any("damaged" in line for line in store_commands.overview(local))
    assert_equal(once(local, seed=3).tensors(), weights(3))


@pytest.mark.parametrize(
    "left",
    [None, b"", b'{"raysweep": "stage store", "for', b'{"raysweep": "stage store", "gormat": 1}\n', b"\xff{}"],
    ids=["missing", "empty", "cut", "flipped", "no text"],
)
def test_a_store_that_lost_its_marker_is_still_one_and_gets_it_back(local, left):
    once(local)
    marker = Path(local.url) / "store.json"
    sound = marker.read_bytes()
    marker.unlink()
    if left is not None:
        marker.write_bytes(left)
    assert_equal(once(Store(local.url), seed=3).tensors(), weights())  # what was published is still there
    assert store_commands.verify(Store(local.url))[1]
    assert (marker.read_bytes() if marker.exists() else None) == left  # so far it was only read
    references.refer(Store(local.url), "sweep", [STAGE])
    assert marker.read_bytes() == sound


def test_a_marker_of_another_format_or_beside_no_stage_is_refused(local):
    once(local)
    marker = Path(local.url) / "store.json"
    marker.write_bytes(b'{"raysweep": "stage store", "format": 2}')
    with pytest.raises(InputError, match="another version of raysweep"):
        Store(local.url)
    other = Path(local.url).parent / "other"
    other.mkdir()
    (other / "store.json").write_bytes(b"somebody's own")
    with pytest.raises(InputError, match=r"store\.json cannot be read; expected .* \(or no such file\)$"):
        Store(str(other))


def test_an_entry_damaged_after_it_was_read_is_not_handed_out(local):
    entry = once(local)
    entry.tensors()
    path = published(local)[1]
    path.write_bytes(path.read_bytes()[:-1] + b"\x99")
    with pytest.raises(Damaged, match="checksum"):
        entry.tensors()


def test_leftovers_of_a_crash_are_in_nobodys_way(local):
    local.check()
    entries = Path(local.url) / "entries"
    entries.mkdir()
    (entries / f"{STAGE}.feedfeedfeed.safetensors").write_bytes(b"half of something")
    (entries / f".{STAGE}.json.abc.part").write_bytes(b'{"meta":')
    assert local.fetch(STAGE) is None
    assert local.stages() == []
    assert_equal(once(local).tensors(), weights())
