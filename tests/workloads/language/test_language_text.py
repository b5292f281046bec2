"""Text for the language workload: what is read, how it is split and sampled, and what is refused."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from language_rows import entropy

from raysweep.workloads.language import corpus, files, texts
from raysweep.workloads.language.corpus import Mixture
from raysweep.workloads.language.texts import SPLITS, Grammar, of_bytes, split


def documents(count, size=300):
    stream = np.random.default_rng(0)
    return [
        f"{number:05d} ".encode() + stream.integers(97, 123, size).astype(np.uint8).tobytes() for number in range(count)
    ]


def text_of(documents):
    return of_bytes(split(documents, "here"))


def test_no_document_is_in_two_splits_and_none_is_lost():
    made = documents(200)
    text = text_of([*made, *made[:50]])
    result = {split: set(tokens.tobytes().split(b"\0")) - {b""} for split, tokens in text.splits.items()}
    assert set.union(*result.values()) == set(made)
    assert sum(map(len, result.values())) == len(made)
    assert len(result["validation"]) == len(result["test"]) == 10


def test_digest_pins_the_text_and_not_the_order_it_was_found_in():
    made = documents(20)
    assert text_of(made).digest == text_of(made[::-1]).digest
    assert text_of(made).digest != text_of([*made[:-1], made[-1] + b"!"]).digest


def test_an_epoch_shows_every_window_once_and_the_next_one_in_another_order():
    text, length = text_of(documents(40)), 50
    each = (text.train_tokens - 1) // length
    first, second = (text.sequences("train", 0, "pretrain", epoch * each, each, length) for epoch in (0, 1))
    joined = text.splits["train"].tobytes()
    starts = sorted(joined.index(window.tobytes()) for window in first)
    assert set(np.diff(starts)) == {length}
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, text.sequences("train", 1, "pretrain", 0, each, length))


@pytest.mark.parametrize("make", [lambda: text_of(documents(40)), lambda: Grammar(0.3)])
def test_a_stream_can_be_entered_anywhere(make):
    text = make()
    whole = text.sequences("train", 3, "pretrain", 0, 2500, 64)
    np.testing.assert_array_equal(text.sequences("train", 3, "pretrain", 1000, 1500, 64), whole[1000:])
    assert whole.shape == (2500, 65)


def test_overlap_takes_that_share_from_the_source_and_more_of_it_keeps_what_was_taken():
    target, source = Grammar(1.0), Grammar(0.0)
    count = 2000
    reference = target.sequences("train", 0, "finetune", 0, count, 32)
    kept = {}
    for overlap in (0.0, 0.25, 0.75, 1.0):
        mixed = Mixture(target, source, overlap).sequences(0, 0, count, 32)
        kept[overlap] = (mixed == reference).all(1)
        assert abs((~kept[overlap]).mean() - overlap) < 5 * np.sqrt(overlap * (1 - overlap) / count) + 1e-12
    assert (kept[0.75] <= kept[0.25]).all()
    np.testing.assert_array_equal(
        Mixture(target, source, 1.0).sequences(0, 0, 9, 32), source.sequences("train", 0, "overlap", 0, 9, 32)
    )


def test_grammar_entropy_is_that_of_its_text():
    """The likelihood of sampled text under the chain, by Monte Carlo: agreement within four standard errors."""
    grammar = Grammar(0.4)
    text = grammar.text(np.random.default_rng(7), 600_000).tobytes().decode()
    words = {bytes(row[row > 0]).decode(): index for index, row in enumerate(grammar.spelling)}
    per_class = grammar.within.shape[1]
    costs, sizes = [], []
    for line in text.split("\n")[:-1]:
        numbers = [words[word + " "] for word in line.split()]
        for last, now in itertools.pairwise(numbers):
            costs.append(
                -np.log(
                    grammar.transition[last // per_class, now // per_class]
                    * grammar.within[now // per_class, now % per_class]
                )
            )
            sizes.append(grammar.length[now])
    ratio = np.sum(costs) / np.sum(sizes)
    residual = np.array(costs) - ratio * np.array(sizes)
    assert abs(ratio - entropy(grammar)) < 4 * residual.std() / np.sqrt(len(costs)) / np.mean(sizes)


def test_grammars_move_apart_with_distance():
    near, base = Grammar(0.25), Grammar(0.0)
    changed = [(Grammar(distance).spelling != base.spelling).any(1) for distance in (0.25, 0.5, 1.0)]
    assert [mask.mean() for mask in changed] == [0.25, 0.5, pytest.approx(1, abs=0.01)]
    assert (changed[0] <= changed[1]).all()
    assert (near.transition != base.transition).any(1).mean() == 0.25
    np.testing.assert_allclose(near.transition.sum(1), 1)


def test_held_out_text_is_the_same_for_every_seed_and_trained_on_by_none():
    grammar = Grammar(0.0)
    held = {window.tobytes() for window in grammar.held_out("test", 100, 64)}
    trained = {window.tobytes() for seed in range(3) for window in grammar.sequences("train", seed, "x", 0, 500, 64)}
    assert not held & trained
    assert len(held) == 100


@pytest.mark.long
def test_source_and_documentation_of_this_installation():
    source, docs = corpus.load("python-source:0.5"), corpus.load("python-docs:0.2")
    assert 0.8 * 0.5e6 < source.train_tokens < 2e6
    assert b"import" in source.splits["train"].tobytes()
    assert source.digest != docs.digest
    assert "at least 1,000,001" in str(corpus.complaint("python-docs:0.2", 10**6))  # before anything is computed
    assert files.documentation(Path("x.py"), '"""Hello."""\n\ndef f():\n    r"""There\n    now."""\n') == (
        "Hello.\n\nThere\n    now."
    )


def test_a_user_s_own_files(tmp_path):
    (tmp_path / "one.txt").write_text("\n\n".join(f"paragraph {number} " + "x" * 80 for number in range(100)))
    assert len(files.documents(str(tmp_path / "one.txt"))) >= 10
    (tmp_path / "lines.jsonl").write_text("\n".join(json.dumps({"text": f"line {n}", "id": n}) for n in range(30)))
    assert files.documents(str(tmp_path / "lines.jsonl"))[3] == b"line 3"
    assert len(files.documents(str(tmp_path))) == 31
    assert corpus.complaint(f"file:{tmp_path}/*.txt", 64) is None
    before = corpus.load(f"file:{tmp_path}/one.txt").digest
    (tmp_path / "one.txt").write_text("\n\n".join(f"paragraph {number} " + "y" * 90 for number in range(100)))
    assert corpus.load(f"file:{tmp_path}/one.txt").digest != before


def lines_of(count):
    stream = np.random.default_rng(1)
    return [" ".join(f"w{word}" for word in stream.integers(0, 999, 12)) for _ in range(count)]


@pytest.mark.parametrize("between", ["\n\n", "\r\n\r\n", "\n", "\r\n", " ", "\0"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_single_file_is_cut_whatever_ends_its_lines(tmp_path, between, mark):
    """Blank lines, lines, or one gigantic line; from Windows too, and with the mark its editors put in front."""
    path = tmp_path / "text.txt"
    path.write_bytes(mark + between.join(lines_of(600)).encode())
    result = files.documents(str(path))
    assert 15 <= len(result) <= 40
    assert max(map(len, result)) < 3 * min(map(len, result[:-1]))
    assert b"".join(result).split() == between.join(lines_of(600)).encode().split()  # nothing lost, nothing added
    assert corpus.complaint(f"file:{path}", 256) is None


def test_two_text_files_are_enough(tmp_path):
    for name in ("one.txt", "two[1].txt"):
        (tmp_path / name).write_text("\n".join(lines_of(300)))
    assert corpus.complaint(f"file:{tmp_path}", 64) is None
    assert corpus.complaint(f"file:{tmp_path / 'two[1].txt'}", 64) is None
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    assert corpus.complaint(f"file:{tmp_path}", 64) is None


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x0c", "\x1c"])
def test_only_a_newline_ends_a_line_of_jsonl(tmp_path, mark, end, inside):
    path = tmp_path / "lines.jsonl"
    texts = [f"line {number}{inside}goes on" for number in range(30)]
    inner = [json.dumps({"text": text, "label": "a"}, ensure_ascii=False) for text in texts]
    path.write_bytes(mark + end.join(inner).encode())
    if inside < " ":  # JSON itself says no to control characters that stand for themselves
        inner = [json.dumps({"text": text, "label": "a"}) for text in texts]
        path.write_bytes(mark + end.join(inner).encode())
    assert [document.decode() for document in files.documents(str(path))] == texts
    assert [entry["text"] for _, entry in files.entries(str(path))] == texts


@pytest.mark.parametrize("name", ["packed.npy", "packed.bin"])
def test_tokens_on_disk_are_mapped_and_split_between_documents(tmp_path, name):
    stream = np.random.default_rng(0)
    made = [stream.integers(1, 500, stream.integers(50, 150)).astype("<u2") for _ in range(400)]
    joined = np.concatenate([np.append(document, np.uint16(500)) for document in made])
    path = tmp_path / name
    if name.endswith("npy"):
        np.save(path, joined)
    else:
        joined.tofile(path)
    text = corpus.load(f"tokens:501:500:{path}")
    np.testing.assert_array_equal(np.concatenate([text.splits[split] for split in SPLITS]), joined)
    assert all(tokens[-1] == 500 for tokens in text.splits.values())
    assert text.sequences("train", 0, "x", 0, 5, 32).dtype == np.uint16


def test_what_is_held_out_is_not_nearly_the_same_as_what_is_trained_on():
    """Copies with a changed line, as packages that bring others along have them, land in training altogether."""
    stream = np.random.default_rng(1)

    def code(number):
        return [f"def function_{number}_{line}(argument={stream.integers(10**9)}):".encode() for line in range(30)]

    originals = [code(number) for number in range(200)]
    copies = [[*lines[:12], b"import something_else_altogether", *lines[13:]] for lines in originals[:100]]
    made = [b"\n".join(lines) for lines in [*originals, *copies]]
    result = texts.split(made, "here")
    assert sorted(itertools.chain(*result.splits.values())) == sorted(made)
    train = {line for document in result.splits["train"] for line in document.split(b"\n")}
    for part in ("validation", "test"):
        assert len(result.splits[part]) >= 3
        for document in result.splits[part]:
            reference = document.split(b"\n")
            assert sum(line in train for line in reference) <= len(reference) / 2
    shifted = 2 * round(texts.HELD_OUT * len(made)) - sum(len(result.splits[part]) for part in ("validation", "test"))
    assert shifted > 3


def test_a_text_of_one_mould_is_split_all_the_same():
    text = "the first line of every document\nand the second one of them\nand then a third\n"
    same = [f"{text}{number}".encode() for number in range(40)]
    assert [len(part) for part in texts.split(same, "here").splits.values()] == [36, 2, 2]
