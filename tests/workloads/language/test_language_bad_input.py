"""What the language workload refuses, through the command line: one line that begins with the key, exit 2, nothing
left behind."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

LINES = "\n".join(json.dumps({"text": f"document number {n} of many"}) for n in range(60))


def tokens(count: int = 60_000, largest: int = 499) -> np.ndarray:
    made = np.random.default_rng(0).integers(1, largest + 1, count).astype(np.uint16)
    made[99::100] = 0
    return made


CASES: dict[str, tuple[dict[str, Any], Callable[[Path], Any] | None, str, tuple[str, ...]]] = {
    # fixed parameters ({here} is the file), what writes it, what the line begins with, what else it says
    "an empty corpus": (
        {"source": "file:{here}.txt"},
        lambda p: p.write_text(" \n\n"),
        "fixed.source: {here}.txt: ",
        ("empty",),
    ),
    "an empty file among others": (
        {"source": "file:{here}/*.txt"},
        lambda p: [p.mkdir(), (p / "a.txt").write_text("a"), (p / "b.txt").write_text("")],
        "fixed.source: {here}/b.txt: ",
        ("empty",),
    ),
    "a corpus shorter than a context": (
        {"source": "file:{here}.txt"},
        lambda p: p.write_text("a b\n\nc d\n\ne f\n\ng"),
        "fixed.source: ",
        ("{here}.txt", "at least 65"),
    ),
    "a corpus of one short line": (
        {"source": "file:{here}.txt"},
        lambda p: p.write_text("all of it in one line"),
        "fixed.source: ",
        ("{here}.txt", "at least 65"),
    ),
    "too few documents": (
        {"source": "file:{here}.jsonl"},
        lambda p: p.write_text('{"text": "one"}\n{"text": "two"}'),
        "fixed.source: ",
        ("{here}.jsonl", "at least 3"),
    ),
    "a corpus that is not UTF-8": (
        {"source": "file:{here}.txt"},
        lambda p: p.write_bytes(b"na\xefve " * 900),
        "fixed.source: {here}.txt: ",
        ("UTF-8", "byte 2 "),
    ),
    "JSON lines that are not UTF-8": (
        {"source": "file:{here}.jsonl"},
        lambda p: p.write_bytes(LINES.encode() + b'\n{"text": "\xff"}'),
        "fixed.source: {here}.jsonl: ",
        ("UTF-8", f"byte {len(LINES) + 11:,} "),
    ),
    "JSON lines that break off": (
        {"source": "file:{here}.jsonl"},
        lambda p: p.write_text(LINES + '\n\n{"text": "a'),
        "fixed.source: {here}.jsonl line 62: ",
        ("JSON object",),
    ),
    "JSON lines without a text": (
        {"target": "file:{here}.jsonl"},
        lambda p: p.write_text(LINES + '\n{"body": "a"}'),
        "fixed.target: {here}.jsonl line 61: ",
        ("'text'",),
    ),
    "JSON lines whose text is none": (
        {"target": "file:{here}.jsonl"},
        lambda p: p.write_text(LINES + '\n{"text": 3}'),
        "fixed.target: {here}.jsonl line 61: ",
        ("'text'",),
    ),
    "a pattern that matches nothing": ({"source": "file:{here}/*.txt"}, None, "fixed.source: ", ("{here}/*.txt",)),
    "a folder without text": (
        {"source": "file:{here}"},
        lambda p: [p.mkdir(), (p / "x.bin").write_text("x")],
        "fixed.source: ",
        ("no such file", "{here}"),
    ),
    "no path": ({"source": "file:"}, None, "fixed.source: ", ("path",)),
    "an unknown text": ({"source": "wikipedia"}, None, "fixed.source: ", ("'wikipedia'", "python-source")),
    "a grammar that is too far": ({"target": "grammar:1.5"}, None, "fixed.target: ", ("0 to 1",)),
    "a length that is no whole number of steps": (
        {"pretrain_length": 10_000},
        None,
        "fixed.pretrain_length: ",
        ("1,024", "10,240"),
    ),
    "a length below one step": ({"pretrain_length": 10}, None, "fixed.pretrain_length: ", ("nearest: 1,024",)),
    "an endless length": ({"pretrain_length": float("inf")}, None, "fixed.pretrain_length: ", ("whole number",)),
    "a rate of zero": ({"pretrain_lr": 0}, None, "fixed.pretrain_lr: ", ("above 0",)),
    "a negative rate": ({"pretrain_lr": -1e-3}, None, "fixed.pretrain_lr: ", ("above 0",)),
    "a rate that is no number": ({"pretrain_lr": float("nan")}, None, "fixed.pretrain_lr: ", ("above 0",)),
    "examples with labels": (
        {"target": "task:{here}.jsonl"},
        None,
        "fixed.target: ",
        ("file:PATH", "'task:{here}.jsonl'"),
    ),
    "tokens to be learned": (
        {"source": "bpe:300:file:x"},
        None,
        "fixed.source: ",
        ("tokens:VOCABULARY", "'bpe:300:file:x'"),
    ),
    "tokens that are not there": (
        {"source": "tokens:500:0:{here}.npy", "target": "tokens:500:0:{here}.npy"},
        None,
        "fixed.source: ",
        ("no such file", "{here}.npy"),
    ),
    "tokens of another type": (
        {"source": "tokens:500:0:{here}.npy", "target": "tokens:500:0:{here}.npy"},
        lambda p: np.save(p, tokens().astype(float)),
        "fixed.source: {here}.npy: ",
        ("unsigned integers", "float64"),
    ),
    "tokens in a table": (
        {"source": "tokens:500:0:{here}.npy", "target": "tokens:500:0:{here}.npy"},
        lambda p: np.save(p, tokens().reshape(100, -1)),
        "fixed.source: {here}.npy: ",
        ("one-dimensional", "(100, 600)"),
    ),
    "tokens as objects, which would have to be unpickled": (
        {"source": "tokens:500:0:{here}.npy", "target": "tokens:500:0:{here}.npy"},
        lambda p: np.save(p, np.array([{}, 1], dtype=object), allow_pickle=True),
        "fixed.source: {here}.npy: ",
        (),
    ),
    "tokens cut within one": (
        {"source": "tokens:500:0:{here}.bin", "target": "tokens:500:0:{here}.bin"},
        lambda p: p.write_bytes(tokens().tobytes()[:-1]),
        "fixed.source: {here}.bin: ",
        (),
    ),
    "no tokens at all": (
        {"source": "tokens:500:0:{here}.bin", "target": "tokens:500:0:{here}.bin"},
        lambda p: p.write_bytes(b""),
        "fixed.source: {here}.bin: ",
        (),
    ),
    "tokens beyond the vocabulary": (
        {"source": "tokens:400:0:{here}.npy", "target": "tokens:400:0:{here}.npy"},
        lambda p: np.save(p, tokens()),
        "fixed.source: {here}.npy: ",
        ("vocabulary of 400", "499"),
    ),
    "one token beyond the vocabulary": (
        {"source": "tokens:500:0:{here}.npy", "target": "tokens:500:0:{here}.npy"},
        lambda p: np.save(
            p,
            np.concatenate([np.tile(tokens(10_000), 1000), np.array([777], np.uint16), np.tile(tokens(10_000), 1000)]),
        ),
        "fixed.source: {here}.npy: ",
        ("777",),
    ),
    "tokens without documents": (
        {"source": "tokens:600:599:{here}.npy", "target": "tokens:600:599:{here}.npy"},
        lambda p: np.save(p, tokens()),
        "fixed.source: {here}.npy: ",
        ("token 599",),
    ),
    "too few tokens to hold any out": (
        {"source": "tokens:500:0:{here}.npy", "target": "tokens:500:0:{here}.npy"},
        lambda p: np.save(p, tokens(150)),
        "fixed.source: {here}.npy: ",
        ("hold out",),
    ),
    "held-out tokens shorter than a context": (
        {"source": "tokens:500:0:{here}.npy", "target": "tokens:500:0:{here}.npy", "context": 256},
        lambda p: np.save(p, tokens(1500)),
        "fixed.source: tokens:500:0:{here}.npy: ",
        ("at least 257",),
    ),
    "a vocabulary that is no number": (
        {"source": "tokens:many:0:{here}.npy"},
        None,
        "fixed.source: ",
        ("tokens:VOCABULARY:SEPARATOR:PATH",),
    ),
    "another vocabulary for the target": (
        {"source": "tokens:500:0:{here}.npy"},
        lambda p: np.save(p, tokens()),
        "fixed.target: ",
        ("500",),
    ),
    "a width that divides into no heads": ({"width": 33}, None, "fixed.width: ", ("head width 16",)),
    "an overlap angle above 90": ({"overlap_angle": 91}, None, "fixed.overlap_angle: ", ("0 to 90 (degrees)",)),
    "an unknown preset": ({"preset": "7b"}, None, "fixed.preset: ", ("30m",)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_computed_is_refused_in_one_line(case, call, storage, tmp_path):
    fixed, write, begins, parts = CASES[case]
    here = str(tmp_path / "here")
    if write is not None:
        suffix = re.search(r"{here}(\.\w+)?", str(fixed))
        write(Path(here + (suffix[1] or "")))
    space = tmp_path / "space.yaml"
    space.write_text(
        yaml.safe_dump(
            {
                "name": "bad",
                "workload": "language",
                "axes": {"finetune_lr": [1e-3, 2e-3]},
                "fixed": {
                    key: value.format(here=here) if isinstance(value, str) else value for key, value in fixed.items()
                },
            }
        )
    )
    before = sorted(tmp_path.iterdir())
    for more in ((), ("--dry-run",)):
        outcome = call(
            "run", space, "--storage", storage, "--executor", "inline", "--tracking-uri", "none", "--no-report", *more
        )
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1), outcome.err
        assert outcome.err.startswith(begins.format(here=here)), outcome.err
        for part in parts:
            assert part.format(here=here) in outcome.err
        assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("rates", [[1e-3, 0], [-1e-3], ["fast"]])
def test_rates_on_an_axis_are_refused_by_their_path(rates, call, storage, tmp_path):
    space = tmp_path / "space.yaml"
    space.write_text(yaml.safe_dump({"name": "bad", "workload": "language", "axes": {"finetune_lr": rates}}))
    outcome = call("run", space, "--storage", storage, "--tracking-uri", "none")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert outcome.err.startswith("axes.finetune_lr")
    assert "above 0" in outcome.err
    assert not storage.exists()
