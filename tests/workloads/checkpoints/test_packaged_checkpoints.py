"""Packaged spaces of released models: what their revisions were pretrained on, and plans without the extra `hub`."""

from __future__ import annotations

import re
import sys

import pytest
from conftest import QUIET, refused

from raysweep.space import packaged, space_files

SPACES = {
    name: space_files.read(path)
    for name, path in packaged.spaces().items()
    if "workload: checkpoints" in path.read_text()
}


def tokens(revision):
    """Tokens that a revision says in its name, or by the step or chunk that it was saved after."""
    if match := re.search(r"tokens(\d+)B$", revision):
        return int(match[1]) * 10**9
    if step := re.fullmatch(r"step(\d+)", revision):
        return int(step[1]) * 2_097_152
    return (int(revision.removeprefix("ckpt_")) + 1) * 1_706_976 * 2048


@pytest.mark.parametrize("name", SPACES)
def test_every_revision_stands_with_the_tokens_that_it_was_pretrained_on(name):
    space = SPACES[name]
    assert ("revision", "pretrain_length") in [tuple(group) for group in space.zip]
    assert list(space.axes["pretrain_length"]) == [tokens(revision) for revision in space.axes["revision"]]


@pytest.mark.long
def test_released_models_are_planned_without_the_extra_and_run_only_with_it(call, storage, monkeypatch):
    assert len(SPACES) == 4
    for package in ("transformers", "huggingface_hub", "peft"):
        monkeypatch.setitem(sys.modules, package, None)
    for name, space in SPACES.items():
        output = call("run", name, "--storage", storage, *QUIET, "--dry-run")
        assert output.code == 0, output.err
        cells = len(space.axes["revision"]) * len(space.axes.get("model", [0]))
        assert f"and {cells - 1} more, " in output.out.partition("to download first (--download): ")[2]
        assert re.search(r"estimated .*of one GPU$", output.out, re.MULTILINE)
    needs = "model: needs transformers: pip install 'raysweep[hub]'"
    refused(call("run", "overtraining_olmo1b", "--storage", storage, *QUIET, "--download"), f"fixed.{needs}")
    assert not storage.exists()
