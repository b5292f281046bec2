"""Bad input: exit 2, one line that begins with the path of the key, nothing created, nothing recorded touched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import QUIET, Outcome, files_of, process
from spaces import small_space

Call = Callable[..., Outcome]


def refused(outcome: Outcome, begins: str, *parts: str) -> None:
    """Exit 2, nothing on stdout, one plain line on stderr that begins so and holds these parts."""
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert outcome.err.endswith("\n")
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith(begins), outcome.err
    assert "Traceback" not in outcome.err
    assert "│" not in outcome.err
    assert len(outcome.err) < 1000, "a line that no one can read"
    for part in parts:
        assert part in outcome.err


def space(**changes: Any) -> str:
    return yaml.safe_dump(small_space(**changes), sort_keys=False)


def axis(text: str) -> str:
    """A space whose axis gamma is this YAML."""
    return ("name: small\nworkload: linear_transfer\naxes:\n  overlap_angle: [30, 60]\n"
            f"  gamma: {text}\nfixed: {{dim: 20}}\n")


def fixed(text: str) -> str:
    """A space with this mapping under fixed."""
    return f"name: small\nworkload: linear_transfer\naxes: {{overlap_angle: [30, 60]}}\nfixed: {text}\n"


def with_line(line: str) -> str:
    """A good space and one more line."""
    return axis("[0.3, 0.5]") + line + "\n"


def replaced(key: str, line: str) -> str:
    """A good space with the line of a key replaced."""
    return "\n".join(line if entry.startswith(f"{key}:") else entry for entry in axis("[0.3, 0.5]").splitlines()) + "\n"


# Text of a space, how the complaint begins, what else it says.
TEXTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "unknown key": (with_line("axis: {}"), "axis: unknown key", ("did you mean axes", "workload")),
    "unknown key of another language": (with_line("größe: 1"), "größe: ", ("known: name",)),
    "key that is a number": (with_line("3: 1"), "3: unknown key", ()),
    "key that is null": (with_line("~: 1"), "", ()),
    "key that is a list": (with_line("? [a, b]\n: 1"), "", ("plain key",)),
    "merge key": (with_line("<<: {seeds: 3}"), "<<: unknown key", ()),
    "unknown workload": (replaced("workload", "workload: linear_transfr"), "workload: unknown workload",
                         ("did you mean linear_transfer",)),
    "workload of another type": (replaced("workload", "workload: [linear_transfer]"), "workload: ",
                                 ("linear_transfer",)),
    "no workload": (replaced("workload", ""), "workload: missing", ("linear_transfer",)),
    "no name": (replaced("name", ""), "name: missing", ()),
    "unknown parameter on an axis": (axis("[0.3]").replace("gamma", "gama"), "axes.gama: unknown parameter",
                                     ("did you mean gamma", "overlap_angle")),
    "unknown parameter under fixed": (fixed("{angle: 3}"), "fixed.angle: unknown parameter",
                                      ("did you mean overlap_angle", "engine, pretrain_length")),
    "gamma zero": (axis("[0.5, 0]"), "axes.gamma[1]: expected a number above 0", ("got 0",)),
    "gamma negative": (axis("[-0.5]"), "axes.gamma[0]: expected a number above 0", ()),
    "gamma infinite": (axis("[0.5, .inf]"), "axes.gamma[1]: ", ("expected a number above 0",)),
    "gamma NaN": (axis("[0.5, .nan]"), "axes.gamma[1]: ", ("expected a number above 0",)),
    "gamma text": (axis("[0.5, lots]"), "axes.gamma[1]: ", ("'lots'",)),
    "gamma number as text": (axis("['0.5']"), "axes.gamma[0]: ", ("'0.5'",)),
    "gamma true": (axis("[true]"), "axes.gamma[0]: ", ("True",)),
    "gamma on": (axis("[on]"), "axes.gamma[0]: ", ("'on'",)),
    "gamma null": (axis("[0.5, null]"), "axes.gamma[1]: ", ("None",)),
    "gamma empty entry": (axis("[0.5, ~]"), "axes.gamma[1]: ", ()),
    "gamma a list": (axis("[[0.5]]"), "axes.gamma[0]: ", ()),
    "gamma a date": (axis("[2020-01-01]"), "axes.gamma[0]: ", ("'2020-01-01'",)),
    "gamma a clock": (axis("[1:30]"), "axes.gamma", ()),
    "gamma with underscores": (axis("[1_0]"), "axes.gamma[0]: ", ()),
    "gamma hexadecimal": (axis("[0x10]"), "axes.gamma[0]: ", ()),
    "gamma beyond a float": (axis("[1e400]"), "axes.gamma[0]: ", ()),
    "gamma a huge whole number": (axis("[1" + "0" * 400 + "]"), "axes.gamma[0]: ", ()),
    "gamma below a float": (axis("[1e-400]"), "axes.gamma[0]: ", ()),
    "pretraining beyond a float": (fixed("{pretrain_length: 1e400}"), "fixed.pretrain_length: ", ("1e400",)),
    "angle above 180": (fixed("{overlap_angle: 30}").replace("axes: {overlap_angle: [30, 60]}",
                                                             "axes: {overlap_angle: [0, 180.5]}").replace(
                                                                 "{overlap_angle: 30}", "{}"),
                        "axes.overlap_angle[1]: expected a number from 0 to 180", ("got 180.5",)),
    "angle below 0": (fixed("{gamma: 0.5}").replace("[30, 60]", "[-1]"), "axes.overlap_angle[0]: ", ("0 to 180",)),
    "depth 0": (fixed("{depth: 0}"), "fixed.depth: expected a whole number", ("got 0",)),
    "depth one and a half": (fixed("{depth: 1.5}"), "fixed.depth: expected a whole number", ("got 1.5",)),
    "noise negative": (fixed("{noise: -0.1}"), "fixed.noise: ", ("at least 0", "got -0.1")),
    "engine unknown": (fixed("{engine: limt}"), "fixed.engine: expected one of theory, limit", ("limt",)),
    "engine off": (fixed("{engine: off}"), "fixed.engine: expected one of", ("'off'",)),
    "frozen layers as deep as the network": (fixed("{frozen_layers: 2}"), "fixed.frozen_layers: ", ("depth = 2",)),
    "a budget for an end point": (fixed("{finetune_steps: 100}"), "fixed.finetune_steps: ", ("limit",)),
    "fixed null": (fixed("{noise: null}"), "fixed.noise: ", ()),
    "fixed a list": (fixed("[1, 2]"), "fixed: expected a mapping", ()),
    "axes a list": ("name: a\nworkload: linear_transfer\naxes: [gamma]\n", "axes: expected a mapping", ()),
    "axis a number": (axis("0.5"), "axes.gamma: expected a list", ()),
    "axis null": (axis(""), "axes.gamma: expected a list", ()),
    "axis empty": (axis("[]"), "axes.gamma: ", ("at least one value",)),
    "axis with a repeated value": (axis("[0.3, 0.5, 0.3]"), "axes.gamma[2]: duplicate value 0.3", ()),
    "axis with 1 and 1.0": (axis("[1, 1.0]"), "axes.gamma[1]: duplicate value", ()),
    "axis with 0 and -0.0": (fixed("{}").replace("overlap_angle: [30, 60]", "noise: [0, -0.0]"),
                             "axes.noise[1]: duplicate value", ()),
    "spacing unknown": (axis("{logspace: [1, 2, 3]}"), "axes.gamma: expected linspace or geomspace", ("logspace",)),
    "spacing twice": (axis("{linspace: [1, 2, 3], geomspace: [1, 2, 3]}"), "axes.gamma: ", ()),
    "spacing of nothing": (axis("{}"), "axes.gamma: ", ()),
    "spacing of two": (axis("{linspace: [1, 2]}"), "axes.gamma.linspace: expected [first, last, count]", ()),
    "spacing of words": (axis("{linspace: [a, b, c]}"), "axes.gamma.linspace: ", ()),
    "spacing null": (axis("{linspace: }"), "axes.gamma.linspace: ", ()),
    "spacing to infinity": (axis("{linspace: [1, .inf, 3]}"), "axes.gamma.linspace: ", ()),
    "spacing to a huge whole number": (axis("{linspace: [1, 1" + "0" * 400 + ", 3]}"), "axes.gamma.linspace: ", ()),
    "spacing of a huge count": (axis("{linspace: [1, 2, 1" + "0" * 400 + "]}"), "axes.gamma.linspace: ", ()),
    "spacing of none": (axis("{linspace: [1, 2, 0]}"), "axes.gamma.linspace: ", ("at least 1",)),
    "spacing of minus one": (axis("{linspace: [1, 2, -1]}"), "axes.gamma.linspace: ", ("at least 1",)),
    "spacing of a fraction": (axis("{linspace: [1, 2, 2.5]}"), "axes.gamma.linspace: ", ("whole", "2.5")),
    "spacing of true": (axis("{linspace: [1, 2, true]}"), "axes.gamma.linspace: ", ()),
    "spacing of a milliard": (axis("{linspace: [1, 2, 1e9]}"), "axes.gamma.linspace: ", ("1,000,000,000",)),
    "spacing within rounding": (axis("{linspace: [1, 1.000000000000001, 5]}"), "axes.gamma", ()),
    "spacing between equal ends": (axis("{linspace: [1, 1, 3]}"), "axes.gamma.linspace: ", ()),
    "spacing that leaves the range": (axis("{linspace: [-1, 1, 3]}"), "axes.gamma[0]: ", ()),
    "geometric from below 0": (axis("{geomspace: [-1, 1, 3]}"), "axes.gamma.geomspace: ", ("above 0",)),
    "geometric from 0": (axis("{geomspace: [0, 1, 3]}"), "axes.gamma.geomspace: ", ("above 0",)),
    "spacing of whole numbers that is not whole": (
        fixed("{}").replace("overlap_angle: [30, 60]", "depth: {linspace: [1, 2, 3]}"), "axes.depth[1]: ", ("1.5",)),
    "on an axis and fixed": (axis("[0.5]").replace("{dim: 20}", "{dim: 20, gamma: 0.3}"), "fixed.gamma: ", ("axes",)),
    "seeds 0": (with_line("seeds: 0"), "seeds: expected a count of at least 1", ("got 0",)),
    "seeds -1": (with_line("seeds: -1"), "seeds: ", ()),
    "seeds a half": (with_line("seeds: 2.5"), "seeds: ", ()),
    "seeds true": (with_line("seeds: true"), "seeds: ", ()),
    "seeds null": (with_line("seeds:"), "seeds: ", ()),
    "seeds text": (with_line("seeds: many"), "seeds: ", ()),
    "seeds none": (with_line("seeds: []"), "seeds: ", ()),
    "seeds negative": (with_line("seeds: [0, -1]"), "seeds[1]: ", ()),
    "seeds beyond 64 bits": (with_line("seeds: [9223372036854775808]"), "seeds[0]: ", ()),
    "seeds repeated": (with_line("seeds: [4, 4]"), "seeds[1]: duplicate value 4", ()),
    "seeds more than can be": (with_line("seeds: 1" + "0" * 30), "seeds: ", ()),
    "zip of an unknown axis": (with_line("zip: [[gamma, dim]]"), "zip[0]: unknown axis", ()),
    "zip of unequal axes": (axis("[0.3]") + "zip: [[gamma, overlap_angle]]\n", "zip[0]: expected axes of equal length",
                            ("gamma: 1", "overlap_angle: 2")),
    "zip twice": (with_line("zip: [[gamma, overlap_angle], [gamma]]"), "zip[1]: ", ("twice",)),
    "zip twice in one": (with_line("zip: [[gamma, gamma]]"), "zip[0]: ", ("twice",)),
    "zip flat": (with_line("zip: [gamma, overlap_angle]"), "zip: expected a list of lists", ()),
    "zip of a list": (with_line("zip: [[[gamma]]]"), "zip[0]: ", ()),
    "zip of a mapping": (with_line("zip: [[{a: 1}]]"), "zip[0]: ", ()),
    "zip repeating": (axis("[0.3, 0.3]").replace("[30, 60]", "[30, 30]") + "zip: [[gamma, overlap_angle]]\n",
                      "zip[0][1]: duplicate", ()),
    "zip text": (with_line("zip: gamma"), "zip: ", ()),
    "exclude a mapping": (with_line("exclude: {gamma: 0.3}"), "exclude: expected a list", ()),
    "exclude an unknown axis": (with_line("exclude: [{dim: 20}]"), "exclude[0].dim: unknown axis", ()),
    "exclude a value not there": (with_line("exclude: [{gamma: 0.4}]"), "exclude[0].gamma: ", ("0.3, 0.5",)),
    "exclude text": (with_line("exclude: [{gamma: some}]"), "exclude[0].gamma: ", ()),
    "exclude nothing": (with_line("exclude: [{gamma: []}]"), "exclude[0].gamma: ", ()),
    "exclude all": (with_line("exclude: [{gamma: [0.3, 0.5]}]"), "exclude: every cell is excluded", ()),
    "search unknown": (with_line("search: gird"), "search: unknown search", ("did you mean grid",)),
    "search with options": (with_line("search: {grid: {budget: 3}}"), "search.grid", ()),
    "search a number": (with_line("search: 3"), "search: ", ("grid",)),
    "search a list": (with_line("search: [grid]"), "search: ", ("grid",)),
    "search a null key": (with_line("search: {~: 1}"), "", ()),
    "resources unknown": (with_line("resources: {gpu: 1}"), "resources.gpu: unknown resource", ("gpus_per_trial",)),
    "resources half a GPU": (with_line("resources: {gpus_per_trial: 0.5}"), "resources.gpus_per_trial: ", ("0.5",)),
    "resources no CPU": (with_line("resources: {cpus_per_trial: 0}"), "resources.cpus_per_trial: ", ("at least 1",)),
    "resources a list": (with_line("resources: [1]"), "resources: expected a mapping", ()),
    "description a list": (with_line("description: [a]"), "description: expected text", ()),
    "name with a slash": (replaced("name", "name: ../small"), "name: expected a plain name", ("'../small'",)),
    "name dotted": (replaced("name", "name: .."), "name: expected a plain name", ()),
    "name with a space": (replaced("name", "name: my sweep"), "name: expected a plain name", ()),
    "name empty": (replaced("name", "name: ''"), "name: expected a plain name", ()),
    "name null": (replaced("name", "name:"), "name: expected a plain name", ()),
    "name a number": (replaced("name", "name: 12"), "name: expected a plain name", ("got 12",)),
    "name in unicode": (replaced("name", "name: größe"), "name: expected a plain name", ("größe",)),
    "name with a line break": (replaced("name", 'name: "a\\n"'), "name: expected a plain name", ()),
    "name too long": (replaced("name", "name: " + "a" * 65), "name: expected a plain name", ("64",)),
    "name of the database": (replaced("name", "name: mlflow.db"), "name: mlflow.db is ", ()),
    "repeated key at the top": (with_line("name: other"), "name: repeated key", ("line 7, column 1",)),
    "repeated key below": (axis("[0.3]\n  gamma: [0.5]"), "axes.gamma: repeated key", ("line 6, column 3",)),
    "repeated key in flow": (fixed("{dim: 20, noise: 0, dim: 30}"), "fixed.dim: repeated key", ("line 4, column 28",)),
    "repeated key in a list": (with_line("exclude: [{gamma: 0.3, gamma: 0.5}]"), "exclude[0].gamma: repeated key", ()),
    "alias that is not": (axis("*here"), "FILE: line 5, column 10", ("here",)),
    "alias of itself": (with_line("exclude: &a [*a]"), "FILE: ", ("recursive",)),
    "unclosed list": (axis("[0.3, 0.5"), "FILE: line ", ("column",)),
    "unclosed quote": (axis("'0.3"), "FILE: line ", ("column",)),
    "tab as indentation": ("name: a\naxes:\n\tgamma: [1]\n", "FILE: line 3, column 1", ()),
    "two documents": (with_line("---\nname: b"), "FILE: line ", ()),
    "an object": (with_line("description: !!python/object/apply:os.system [true]"), "FILE: line 7, column 14", ()),
    "an unknown tag": (with_line("description: !here 3"), "FILE: line 7, column 14", ()),
    "a false float": (with_line("seeds: !!float many"), "FILE: ", ()),
    "a false int": (with_line("seeds: !!int many"), "FILE: ", ()),
    "control characters": (with_line("description: \x07"), "FILE: ", ()),
    "empty file": ("", "FILE: expected a mapping", ()),
    "only a comment": ("# nothing\n", "FILE: expected a mapping", ()),
    "list at the top": ("- name: a\n", "FILE: expected a mapping", ()),
    "text at the top": ("name\n", "FILE: expected a mapping", ()),
    "deep nesting": (with_line("description: " + "[" * 5000 + "]" * 5000), "FILE: ", ()),
    "aliases that multiply": (fixed("{noise: [&a0 [1], " + ", ".join(
        f"&a{i + 1} [{', '.join([f'*a{i}'] * 10)}]" for i in range(9)) + "]}"), "fixed.noise: ", ("got [[1], ",)),
    "a long text where a number belongs": (axis(f"[{'many' * 5000}]"), "axes.gamma[0]: ", ()),
    "a long list where a number belongs": (axis(f"[[{', '.join(['1'] * 5000)}]]"), "axes.gamma[0]: ", ()),
    "analysis a mapping": (with_line("analysis: {boundary: {}}"), "analysis: expected a list", ()),
    "analysis a number": (with_line("analysis: [3]"), "analysis[0]: expected one of boundary", ()),
    "analysis of two": (with_line("analysis: [{boundary: {}, curves: {}}]"), "analysis[0]: expected one of", ()),
    "analysis without a metric": (with_line("analysis: [{boundary: {}}]"), "analysis[0].boundary", ("metric",)),
    "analysis unknown": (with_line("analysis: [{bondary: {}}]"), "analysis[0]", ("boundary",)),
    "analysis of an unknown metric": (with_line(
        "analysis: [{boundary: {metric: lss, x: overlap_angle, y: gamma}}]"), "analysis[0].boundary.metric: ", ()),
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_bad_space_is_refused_in_one_line(case: str, call: Call, tmp_path: Path, storage: Path) -> None:
    text, begins, parts = TEXTS[case]
    file = tmp_path / "bad.yaml"
    file.write_text(text, encoding="utf-8")
    refused(call("run", file, "--storage", storage, *QUIET), begins.replace("FILE", str(file)), *parts)
    assert not storage.exists()


@pytest.mark.parametrize(("content", "part"), [
    (b"\x89PNG\r\n\x1a\n\0\0\xff\xfe", "UTF-8"), ("name: größe".encode("latin-1"), "UTF-8"),
    (b"\0\1\2\3", ""), (b"\xff\xfe" + "name: a".encode("utf-16-le"), "UTF-8"),
])
def test_a_file_that_is_no_text_is_refused(content: bytes, part: str, call: Call, tmp_path: Path,
                                           storage: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    refused(call("run", file, "--storage", storage, *QUIET), f"{file}: ", part)
    assert not storage.exists()


def test_places_that_are_no_space_are_refused(call: Call, tmp_path: Path, storage: Path) -> None:
    refused(call("run", tmp_path / "none.yaml", "--storage", storage), f"{tmp_path / 'none.yaml'}: no such file")
    refused(call("run", tmp_path, "--storage", storage), f"{tmp_path}: ", "folder")
    refused(call("run", "quikstart", "--storage", storage), "quikstart: unknown space", "did you mean quickstart")
    refused(call("run", "", "--storage", storage), "")
    refused(call("run", "a\0b", "--storage", storage), "")
    assert call("run", "x" * 5000, "--storage", storage).code == 2
    assert not storage.exists()


@pytest.mark.parametrize(("text", "begins"), [
    ("axes.gamma", "--set axes.gamma: expected KEY=VALUE"), ("=3", "--set"),
    ("axes.gamma=[1", "--set axes.gamma: line 1"),
    ("axs.gamma=[1]", "axs: unknown key"), ("axes.gama=[1]", "axes.gama: unknown parameter"),
    ("axes.gamma=[0]", "axes.gamma[0]: "), ("axes.gamma=0.5", "axes.gamma: expected a list"),
    ("axes.gamma.9=0.5", "axes.gamma.9: expected a position from 0 to 2"),
    ("axes.gamma.x=1", "axes.gamma.x: expected a pos"),
    ("axes.gamma.²=1", "axes.gamma.²: expected a pos"), ("axes.gamma.-1=1", "axes.gamma.-1: expected a pos"),
    ("seeds.x=1", "seeds.x: "), ("name.first=a", "name.first: "), ("axes=3", "axes: expected a mapping"),
    ("seeds=0", "seeds: "), ("fixed.gamma=3", "fixed.gamma: also"), (".=3", ""), ("axes.=3", "axes."),
    ("fixed..x=3", "fixed."),
    ("name=null", "name: missing"), ("fixed.dim=1e-3", "fixed.dim: expected a whole number"),
    ("exclude.0.gamma=3", "exclude"),
    ("fixed={dim: 20, dim: 30}", "fixed.dim: repeated key"),
])
def test_a_bad_change_is_refused(text: str, begins: str, call: Call, tmp_path: Path, storage: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(space())
    refused(call("run", file, "--set", text, "--storage", storage, *QUIET), begins)
    assert not storage.exists()


@pytest.mark.parametrize(("arguments", "begins"), [
    (["run"], "SPACE: "), (["run", "quickstart", "quickstart"], ""), (["rum"], ""), (["--nothing"], "--nothing"),
    (["run", "quickstart", "--worker", "3"], "--worker"), (["run", "quickstart", "--workers", "0"], "--workers: "),
    (["run", "quickstart", "--workers", "many"], "--workers: "),
    (["run", "quickstart", "--executor", "dask"], "--executor: "),
    (["run", "quickstart", "--name", "../x"], "--name: expected a plain name"),
    (["run", "quickstart", "--set"], "--set"),
    (["run", "quickstart", "--name", ""], "--name: expected a plain name"),
    (["run", "quickstart", "--name", "mlflow.db"], "--name: "),
    (["run", "quickstart", "--on-code-change", "x"], "--on-code"),
    (["resume"], "SWEEP: "), (["resume", "nothing"], "nothing: no such sweep"),
    (["status", "nothing"], "nothing: no such sweep"),
    (["results", "nothing"], "nothing: no such sweep"), (["report", "nothing"], "nothing: no such sweep"),
    (["debug", "nothing", "0"], "nothing: no such sweep"), (["delete", "nothing"], "nothing: no such sweep"),
    (["sync", "nothing"], "nothing: no such sweep"), (["resume", "../storage"], "../storage: "), (["resume", ""], ""),
    (["resume", "/"], "/: "), (["resume", "a\0b"], ""), (["results", "nothing", "--format", "xls"], "--format: "),
])
def test_a_bad_command_is_refused(arguments: list[str], begins: str, call: Call, storage: Path) -> None:
    where = ["--storage", str(storage)] if len(arguments) > 1 and arguments[-1] != "--set" else []
    refused(call(*arguments, *where), begins)
    assert not storage.exists()


def test_workloads_names_the_nearest(call: Call) -> None:
    refused(call("workloads", "linear"), "linear: unknown workload", "linear_transfer")


def test_a_huge_grid_says_its_size_and_asks_for_yes(call: Call, tmp_path: Path, storage: Path) -> None:
    file = tmp_path / "huge.yaml"
    file.write_text(axis("{linspace: [0.1, 2, 1000]}") + "seeds: 500\n")
    for more in ([], ["--dry-run"]):
        refused(call("run", file, "--storage", storage, *QUIET, *more), "axes: 1,000,000 rows", "1,000 gamma", "--yes")
    file.write_text(axis("{linspace: [0.1, 2, 1000]}") + "seeds: 499\n")
    assert call("run", file, "--storage", storage, *QUIET, "--dry-run").code == 0
    file.write_text(axis("{linspace: [0.1, 2, 1e5]}").replace("[30, 60]", "{linspace: [1, 90, 101]}"))
    refused(call("run", file, "--storage", storage, *QUIET, "--yes"), "axes: 10,100,000 cells", "10,000,000")
    assert not storage.exists()


@pytest.mark.parametrize("where", ["file", "file/below", "/proc/raysweep", "/dev/null/x", "/proc/1/x/y"])
def test_a_storage_that_cannot_be_written_is_refused(where: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    file = tmp_path / "space.yaml"
    file.write_text(space())
    before = files_of(tmp_path)
    refused(call("run", file, "--storage", tmp_path / where, *QUIET), "--storage: ", "cannot be written")
    assert files_of(tmp_path) == before


def test_a_sweep_whose_place_is_taken_is_refused(call: Call, tmp_path: Path, storage: Path) -> None:
    storage.mkdir()
    (storage / "small").write_text("a file")
    file = tmp_path / "space.yaml"
    file.write_text(space())
    refused(call("run", file, "--storage", storage, *QUIET), "--storage: ")
    assert files_of(storage) == {"small": b"a file"}


@pytest.mark.parametrize("uri", [
    "http://127.0.0.1:9/", "sqlite:////dev/null/x.db", "nonsense", "ftp://example.org",
    "", "file:///tmp/x", "sqlite:///", "postgresql://nobody@127.0.0.1:9/x",
])
def test_a_tracking_uri_that_cannot_be_reached_is_refused(uri: str, call: Call, tmp_path: Path, storage: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(space())
    outcome = call("run", file, "--storage", storage, "--tracking-uri", uri, "--no-report")
    refused(outcome, "--tracking-uri: ")
    assert outcome.err.count("--tracking-uri: ") == 1
    assert not storage.exists()


@pytest.fixture
def recorded(call: Call, tmp_path: Path, storage: Path) -> Path:
    """A finished sweep `small`; returns the file of its space."""
    file = tmp_path / "space.yaml"
    file.write_text(space())
    assert call("run", file, "--storage", storage, *QUIET).code == 0
    return file


@pytest.mark.parametrize(("changes", "begins"), [
    (["axes.gamma=[0.3, 0.5]"], "axes.gamma: "), (["axes.gamma=null"], "axes.gamma: "),
    (["axes.depth=[2]"], "axes.depth: "),
    (["fixed.noise=0.3"], "fixed.noise: "), (["fixed.depth=3"], "fixed.depth: "), (["seeds=2"], "seeds: "),
    (["seeds=[1, 2, 3, 4]"], "seeds: "), (["name=other"], "name: "), (["exclude=[{gamma: 0.3}]"], "exclude: "),
    (["axes.overlap_angle=[30, 60, 90]", "zip=[[overlap_angle, gamma]]"], "zip: "),
])
def test_an_existing_sweep_with_another_space_is_refused_and_untouched(
        changes: list[str], begins: str, call: Call, recorded: Path, storage: Path) -> None:
    before = files_of(storage)
    sets = [word for change in changes for word in ("--set", change)]
    for more in ([], ["--dry-run"]):
        refused(call("run", recorded, "--name", "small", *sets, "--storage", storage, *QUIET, *more), begins,
                "small", "--name")
    assert files_of(storage) == before


def test_bad_input_leaves_an_existing_sweep_untouched(call: Call, recorded: Path, storage: Path,
                                                      tmp_path: Path) -> None:
    before = files_of(storage)
    good = recorded.read_text()
    for case, (text, _, _) in list(TEXTS.items())[::9]:
        recorded.write_text(text)
        assert call("run", recorded, "--storage", storage, *QUIET).code == 2, case
    recorded.write_text(good)
    refused(call("run", recorded, "--storage", storage, "--tracking-uri", "http://127.0.0.1:9/"), "--tracking-uri: ")
    refused(call("resume", "small", "--storage", storage, "--tracking-uri", "http://127.0.0.1:9/"), "--tracking-uri: ")
    refused(call("delete", "small", "--storage", storage, "--tracking-uri", "http://127.0.0.1:9/"), "--tracking-uri: ")
    refused(call("sync", "small", "--storage", storage), "--tracking-uri: ")
    refused(call("resume", "smal", "--storage", storage), "smal: unknown sweep", "did you mean small")
    refused(call("debug", "small", "zzzz", "--storage", storage), "zzzz: ")
    refused(call("debug", "small", "", "--storage", storage), "", "6")
    refused(call("debug", "small", "a", "x", "--storage", storage), "[SEED]: ")
    refused(call("debug", "small", cell_of(call, storage), "-1", "--storage", storage), "")
    nowhere = tmp_path / "no" / "table.csv"
    refused(call("results", "small", "-o", nowhere, "--storage", storage), f"{nowhere}: cannot be written")
    refused(call("results", "small", "-o", tmp_path, "--storage", storage), str(tmp_path))
    refused(call("results", "small", "other", "--storage", storage), "other: unknown sweep")
    assert files_of(storage) == before


def cell_of(call: Call, storage: Path) -> str:
    return call("results", "small", "--storage", storage).out.splitlines()[1].split(",")[1]


@pytest.mark.parametrize("content", [
    "", "{", "[]", "3", "null", "{}", '{"format": 2}', '{"format": 1}',
    '{"format": 1, "space": {}, "sweep": 1, "sweep_id": 1, "tracking_uri": 1, "created": 1}'])
def test_a_record_that_cannot_be_understood_is_named(content: str, call: Call, recorded: Path, storage: Path) -> None:
    file = storage / "small" / "sweep.json"
    file.write_text(content)
    for arguments in (["run", recorded], ["resume", "small"], ["status", "small"], ["results", "small"],
                      ["delete", "small"]):
        refused(call(*arguments, "--storage", storage), str(file))
    listed = call("list", "--storage", storage)
    assert listed.code == 0
    assert str(file) in listed.out
    assert file.read_text() == content


def test_a_record_of_a_workload_that_is_gone_is_named(call: Call, recorded: Path, storage: Path) -> None:
    file = storage / "small" / "sweep.json"
    record = json.loads(file.read_text())
    record["space"]["workload"] = "gone"
    file.write_text(json.dumps(record))
    for arguments in (["run", recorded], ["resume", "small"], ["results", "small"], ["status", "small"]):
        outcome = call(*arguments, "--storage", storage, *(QUIET if arguments[0] in ("run", "resume") else ()))
        refused(outcome, "")


def test_a_storage_that_is_a_file_holds_no_sweeps(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments in (["resume", "small"], ["status", "small"]):
        refused(call(*arguments, "--storage", tmp_path / "file"), "small: no such sweep")


PROCESSES = ["gamma zero", "unknown workload", "unknown parameter on an axis", "repeated key below", "unclosed list",
             "deep nesting", "empty file"]


@pytest.mark.parametrize("case", PROCESSES)
def test_a_process_says_the_same(case: str, tmp_path: Path, storage: Path) -> None:
    text, begins, parts = TEXTS[case]
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    outcome = process("run", file, "--storage", storage, env={"COLUMNS": "20"})
    refused(outcome, begins.replace("FILE", str(file)), *parts)
    assert not storage.exists()


def test_a_process_refuses_what_is_not_in_the_file(tmp_path: Path, storage: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(space())
    (tmp_path / "file").write_text("")
    refused(process("run", tmp_path / "none.yaml", "--storage", storage), f"{tmp_path / 'none.yaml'}: no such file")
    refused(process("run", file, "--storage", tmp_path / "file"), "--storage: ")
    refused(process("run", file, "--storage", storage, "--tracking-uri", "http://127.0.0.1:9/"), "--tracking-uri: ")
    refused(process("resume", "nothing", "--storage", storage), "nothing: no such sweep")
    refused(process("run", file, "--set", "axes.gamma={linspace: [0.1, 2, 1000000]}", "--storage", storage), "axes: ",
            "--yes")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "space.yaml"]
