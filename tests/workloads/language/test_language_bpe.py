"""Text in tokens learned from it: what they can say, on what they are trained, and what pins them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from language_rows import columns_of, compute, identity

from raysweep.stages.store import Store
from raysweep.workloads import cache
from raysweep.workloads.language import PARAMETERS, bpe, corpus, texts

WORDS = ("learning", "rates", "fall", "while", "models", "grow", "and", "losses", "do", "not", "always", "follow")


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv(cache.VARIABLE, str(folder))
    return folder


def documents(count: int = 60, seed: int = 0) -> list[bytes]:
    stream = np.random.default_rng(seed)
    return [" ".join(stream.choice(WORDS, 80)).encode() for _ in range(count)]


@pytest.fixture
def lines(tmp_path) -> Path:
    path = tmp_path / "lines.jsonl"
    path.write_text("\n".join(json.dumps({"text": document.decode()}) for document in documents()))
    return path


@pytest.fixture
def words() -> bpe.Vocabulary:
    return bpe.vocabulary(300, texts.split(documents()), "bpe:300:here")


def spelled(words: bpe.Vocabulary, tokens) -> str:
    return words.tokenizer.decode([int(token) for token in tokens if token != words.separator])


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\0",
        "learning rates\r\n\tfall",
        "Grüße, 世界 🎉 \u200d é",
        "<|endoftext|>",
        "a" * 5000,
        "\ufeff\ufffd",
        "".join(map(chr, [*range(0xD800), *range(0xE000, 0x2FFFF, 7), 0x10FFFF])),
    ],
)
def test_any_text_is_said_and_read_back(words, text):
    tokens = words.encode(text.encode())
    assert spelled(words, tokens) == text
    assert words.separator not in tokens
    assert words.token_bytes()[tokens].sum() == len(text.encode())


def test_learned_tokens_are_fewer_than_bytes_and_documents_end_with_the_last_one(words):
    made = documents()
    joined = words.join(made)
    assert len(joined) < sum(map(len, made)) / 2
    assert joined.dtype == np.uint16
    assert (joined == words.separator).sum() == len(made)
    parts = np.split(joined, np.flatnonzero(joined == words.separator) + 1)[:-1]
    assert [spelled(words, part).encode() for part in parts] == made


def test_tokens_are_learned_on_the_training_documents_of_the_source_alone(lines):
    before = corpus.load(f"bpe:300:file:{lines}")
    reference = corpus.documents(f"file:{lines}")
    held = reference.splits["test"][0]
    changed = texts.Documents(
        "other",
        {**reference.splits, "test": [held + b" zebras quagga xylophones"] * 9, "validation": [b"zebras " * 99]},
    )
    assert bpe.vocabulary(300, changed, "x").digest == bpe.vocabulary(300, reference, "x").digest
    target = lines.with_name("target.txt")
    target.write_text("\n\n".join(f"zebras {n} quagga xylophones" * 20 for n in range(40)))
    for name in (f"file:{target}", "file:" + str(lines)):
        read = corpus.load(name, f"bpe:300:file:{lines}")
        assert len(read.token_bytes) == 300
        np.testing.assert_array_equal(read.token_bytes, before.token_bytes)
    pieces = corpus.load(f"file:{target}", f"bpe:300:file:{lines}").splits["train"]
    own_words = bpe.vocabulary(300, reference, "own")
    assert spelled(own_words, pieces[:40]).startswith("zebras ")


def test_another_process_learns_the_same_tokens(lines, tmp_path):
    code = (
        "import sys; from raysweep.workloads.language import corpus; "
        "text = corpus.load(sys.argv[1]); print(text.digest, *text.splits['test'][:50])"
    )
    messages = [
        subprocess.run(
            [sys.executable, "-c", code, f"bpe:300:file:{lines}"],
            capture_output=True,
            text=True,
            check=True,
            env={
                **os.environ,
                cache.VARIABLE: str(tmp_path / f"cache{threads}"),
                "RAYON_NUM_THREADS": threads,
                "PYTHONHASHSEED": threads,
            },
        ).stdout
        for threads in ("1", "2")
    ]
    reference = corpus.load(f"bpe:300:file:{lines}")
    assert messages[0] == messages[1] == " ".join(map(str, [reference.digest, *reference.splits["test"][:50]])) + "\n"


def test_stages_know_text_and_vocabulary(lines):
    base = {p.name: p.default for p in PARAMETERS}
    names = [f"file:{lines}", f"bpe:300:file:{lines}", f"bpe:310:file:{lines}"]
    first = [identity({**base, "source": name}, 0) for name in names]
    assert len(set(first)) == 3
    lines.write_text(lines.read_text() + "\n" + json.dumps({"text": "one more document that differs from the others"}))
    assert not set(first) & {identity({**base, "source": name}, 0) for name in names}


def test_what_is_kept_is_read_again_as_json_and_learned_again_where_it_is_damaged(lines, private_cache, monkeypatch):
    name = f"bpe:300:file:{lines}"
    first = {part: np.array(corpus.load(name).splits[part]) for part in texts.SPLITS}
    kept = sorted(path for path in private_cache.iterdir())
    assert [path.suffix for path in kept] == [".json", *[".npy", ".sha256"] * 3]
    assert json.loads(json.loads(kept[0].read_text())["content"])["model"]["merges"]

    def same() -> bool:
        touched(lines)
        return all(np.array_equal(corpus.load(name).splits[part], tokens) for part, tokens in first.items())

    whole = {path: path.read_bytes() for path in kept}
    assert same()
    another_vocabulary(lines, private_cache)
    assert not same()  # what is kept is believed
    for path, content in whole.items():
        damaged = bytearray(content)
        damaged[len(content) // 2] ^= 1
        path.write_bytes(damaged)
    assert same()
    assert kept[0].read_bytes() == whole[kept[0]]
    monkeypatch.setenv(cache.VARIABLE, "/proc/nowhere")
    assert same()


def test_losses_are_given_per_byte_so_that_vocabularies_compare(lines, tmp_path):
    """The same nats for the whole text, over its bytes instead of its tokens, both counted here."""
    common = {
        "width": 16,
        "depth": 1,
        "context": 16,
        "pretrain_batch": 8,
        "pretrain_length": 128.0,
        "finetune_steps": 0,
        "evaluation_tokens": 10**6,
        "target": f"file:{lines}",
    }
    for source in (f"file:{lines}", f"bpe:300:file:{lines}"):
        columns = columns_of({**common, "source": source})
        metrics, status = compute(columns, np.zeros(1, int), Store(tmp_path / "store"))
        assert status[0] == "ok"
        reference = corpus.documents(f"file:{lines}").splits["test"]
        text_bytes = sum(len(document) + 1 for document in reference)
        tokens = len(corpus.load(source).splits["test"])
        for name in ("pretrain_loss_after", "finetune_loss"):
            assert metrics[f"{name}_per_byte"][0] == pytest.approx(metrics[name][0] * tokens / text_bytes, rel=0.02)


def test_a_task_is_asked_in_the_source_s_tokens(lines, tmp_path):
    path = tmp_path / "task.jsonl"
    path.write_text(
        "\n".join(json.dumps({"text": f"do models grow {n}", "label": ("always", "not")[n % 2]}) for n in range(40))
    )
    task = corpus.load(f"task:{path}", f"bpe:300:file:{lines}")
    asked, truth = task.questions("test", 4, 24)
    words = bpe.vocabulary(300, corpus.documents(f"file:{lines}"), "own")
    for example, right in zip(asked, truth, strict=True):
        answers = {spelled(words, row[row >= 0]) for row in example}
        assert answers == {"always", "not"}
        assert spelled(words, example[right][example[right] >= 0]) == ("always", "not")[right]
        assert spelled(words, -1 - example[0][example[0] < 0]).startswith("do models grow ")


@pytest.mark.parametrize(
    ("source", "target", "key", "says"),
    [
        ("bpe:100:file:{lines}", "file:{lines}", "fixed.source", "vocabulary of 258 to 65,536"),
        ("bpe:many:file:{lines}", "file:{lines}", "fixed.source", "bpe:VOCABULARY:TEXT"),
        ("bpe:300:", "file:{lines}", "fixed.source", "bpe:VOCABULARY:TEXT"),
        ("bpe:300:grammar:0", "file:{lines}", "fixed.source", "documents to learn tokens from"),
        ("bpe:300:wikipedia", "file:{lines}", "fixed.source", "documents to learn tokens from"),
        ("bpe:300:file:{lines}x", "file:{lines}", "fixed.source", "no such file"),
        ("bpe:9000:file:{lines}", "file:{lines}", "fixed.source", "at most"),
        ("bpe:300:file:{lines}", "grammar:0.5", "fixed.target", "read in them"),
        ("bpe:300:file:{lines}", "bpe:300:file:{lines}", "fixed.target", "before the source only"),
        ("bpe:300:file:{lines}", "tokens:300:1:/x.npy", "fixed.target", "source's tokens"),
        ("grammar:0", "bpe:300:file:{lines}", "fixed.target", "before the source only"),
    ],
)
def test_tokens_that_cannot_be_learned_are_refused_in_one_line(
    call, storage, tmp_path, lines, source, target, key, says
):
    outcome = call(
        "run",
        space(tmp_path, source=source.format(lines=lines), target=target.format(lines=lines)),
        "--storage",
        storage,
        "--executor",
        "inline",
        "--tracking-uri",
        "none",
        "--no-report",
    )
    assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome.err
    assert outcome.err.startswith(f"{key}:")
    assert says in outcome.err
    assert not storage.exists()


def test_without_the_package_one_line_says_what_to_install(call, storage, tmp_path, lines, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)  # as Python knows a package that is not there
    for source in (f"bpe:300:file:{lines}", "bpe:300:python-source"):
        outcome = call(
            "run",
            space(tmp_path, source=source, target=f"file:{lines}"),
            "--storage",
            storage,
            "--executor",
            "inline",
            "--tracking-uri",
            "none",
            "--no-report",
        )
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert outcome.err.startswith("fixed.source: ")
        assert "pip install 'raysweep[bpe]'" in outcome.err
        assert not storage.exists()


def test_a_sweep_over_vocabularies_runs_and_says_nats_a_byte(call, storage, tmp_path, lines):
    path = space(
        tmp_path,
        axes={"source": [f"file:{lines}", f"bpe:300:file:{lines}"]},
        target=f"file:{lines}",
        width=16,
        depth=1,
        context=16,
        pretrain_batch=8,
        pretrain_length=1280,
        finetune_steps=3,
        evaluation_tokens=512,
    )
    outcome = call("run", path, "--storage", storage, "--executor", "inline", "--tracking-uri", "none", "--no-report")
    assert outcome.code == 0, outcome.err
    shown = call("results", "words", "--storage", storage, "--format", "json")
    rows = json.loads(shown.out)
    assert [row["finetune_loss_per_byte"] == row["finetune_loss"] for row in rows] == [True, False]
    assert rows[1]["finetune_loss_per_byte"] < rows[1]["finetune_loss"] / 2


def space(folder: Path, axes: dict[str, Any] | None = None, **fixed: Any) -> Path:
    path = folder / "space.yaml"
    path.write_text(
        yaml.safe_dump(
            {"name": "words", "workload": "language", "axes": axes or {"finetune_lr": [1e-3]}, "fixed": fixed}
        )
    )
    return path


def test_the_declaration_imports_no_tokenizers():
    code = (
        "import sys; from raysweep.workloads.language import WORKLOAD; "
        "assert WORKLOAD.check({each.name: each.default for each in WORKLOAD.parameters}) is None; "
        "print('tokenizers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def touched(path: Path) -> None:
    """Let a file be read again, not from memory."""
    moment = path.stat().st_mtime_ns + 10**9
    os.utime(path, ns=(moment, moment))


def another_vocabulary(lines: Path, private_cache: Path) -> None:
    """Where the tokens of `lines` are kept, as many others: as another release of what trains them might give."""
    (reference,) = private_cache.glob("bpe-*.json")
    other = lines.with_name("other.jsonl")
    other.write_text("\n".join(json.dumps({"text": document.decode()[::-1]}) for document in documents()))
    corpus.load(f"bpe:300:file:{other}")
    (result,) = set(private_cache.glob("bpe-*.json")) - {reference}
    reference.write_bytes(result.read_bytes())


def test_stages_know_other_tokens_of_the_same_text_and_number(lines, private_cache):
    base = {p.name: p.default for p in PARAMETERS} | {"source": f"bpe:300:file:{lines}"}
    first = identity(base, 0)
    touched(lines)
    assert identity(base, 0) == first
    another_vocabulary(lines, private_cache)
    touched(lines)
    assert identity(base, 0) != first
