"""Spectra as a space writes them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from raysweep.workloads.linear_spectrum import WORKLOAD
from raysweep.workloads.linear_spectrum.spectra import read


def test_spectra_are_read_as_they_are_written():
    np.testing.assert_allclose(read("power:2:0.5", 4), [2, 2 / 2**0.5, 2 / 3**0.5, 1])
    np.testing.assert_allclose(read("geometric:2:0.5:3", 5), [2, 1, 0.5, 0, 0])
    np.testing.assert_allclose(read("linear:1:3:3", 4), [1, 2, 3, 0])
    np.testing.assert_allclose(read(" 2, 1.5,1e-1 ", 4), [2, 1.5, 0.1, 0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "singular values as in"),
        ("2,,1", "singular values"),
        ("2;1", "got '2;1'"),
        ("nan", "singular values"),
        ("powr:1:1", "power:FIRST:EXPONENT"),
        ("power:1", "two or three numbers"),
        ("power:1:1:2.5", "whole COUNT"),
        ("geometric:1:0.5:9", "at most dim = 8"),
        ("1,2", "from the largest to the smallest"),
        ("2,-1", "at least 0"),
        ("geometric:1:2", "from the largest to the smallest"),
        ("0,0", "above 0"),
        ("geometric:1e300:1e300", "finite"),
    ],
)
def test_a_bad_spectrum_is_refused_in_words(text, words):
    complaint = WORKLOAD.check({"source_spectrum": text, "target_spectrum": "1", "dim": 8})
    assert complaint is not None
    assert complaint[0] == "source_spectrum"
    assert words in complaint[1]


def test_a_bad_spectrum_in_a_space_ends_with_one_line(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(
        "name: bad\nworkload: linear_spectrum\naxes: {pretrain_length: [1, 2]}\nfixed: {target_spectrum: 'power:1'}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "raysweep.main", "run", str(path), "--storage", str(tmp_path / "s"), "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "target_spectrum" in done.stderr.splitlines()[0]
    assert "two or three numbers" in done.stderr
