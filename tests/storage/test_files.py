"""Files are whole or absent, and what a signal interrupts is told as that signal."""

import os
from unittest import mock

import pytest

from raysweep.storage import files


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
