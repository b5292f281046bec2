"""Spaces that nobody can run: what is wrong with each, and what should be said of it."""

from __future__ import annotations

from typing import Any

import yaml
from spaces import small_space


def space(**changes: Any) -> str:
    return yaml.safe_dump(small_space(**changes), sort_keys=False)


def axis(text: str) -> str:
    """A space whose axis gamma is this YAML."""
    return (
        "name: small\nworkload: linear_transfer\naxes:\n  overlap_angle: [30, 60]\n"
        f"  gamma: {text}\nfixed: {{dim: 20}}\n"
    )


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
    "parameter beside its place": (
        with_line("depth: 3"),
        "depth: is a parameter of linear_transfer; say fixed.depth or axes.depth",
        (),
    ),
    "unknown key of another language": (with_line("größe: 1"), "größe: ", ("known: name",)),
    "key that is a number": (with_line("3: 1"), "3: unknown key", ()),
    "key that is null": (with_line("~: 1"), "", ()),
    "key that is a list": (with_line("? [a, b]\n: 1"), "", ("plain key",)),
    "merge key": (with_line("<<: {seeds: 3}"), "<<: unknown key", ()),
    "unknown workload": (
        replaced("workload", "workload: linear_transfr"),
        "workload: unknown workload",
        ("did you mean linear_transfer",),
    ),
    "workload of another type": (
        replaced("workload", "workload: [linear_transfer]"),
        "workload: ",
        ("linear_transfer",),
    ),
    "no workload": (replaced("workload", ""), "workload: missing", ("linear_transfer",)),
    "no name": (replaced("name", ""), "name: missing", ()),
    "unknown parameter on an axis": (
        axis("[0.3]").replace("gamma", "gama"),
        "axes.gama: unknown parameter",
        ("did you mean gamma", "overlap_angle"),
    ),
    "unknown parameter under fixed": (
        fixed("{angle: 3}"),
        "fixed.angle: unknown parameter",
        ("did you mean overlap_angle", "engine, pretrain_length"),
    ),
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
    "angle above 180": (
        fixed("{overlap_angle: 30}")
        .replace("axes: {overlap_angle: [30, 60]}", "axes: {overlap_angle: [0, 180.5]}")
        .replace("{overlap_angle: 30}", "{}"),
        "axes.overlap_angle[1]: expected a number from 0 to 180",
        ("got 180.5",),
    ),
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
    "axis null": (axis(""), "axes.gamma: missing; expected a list", ()),
    "axis empty": (axis("[]"), "axes.gamma: ", ("at least one value",)),
    "axis with a repeated value": (axis("[0.3, 0.5, 0.3]"), "axes.gamma[2]: duplicate value 0.3", ()),
    "axis with 1 and 1.0": (axis("[1, 1.0]"), "axes.gamma[1]: duplicate value", ()),
    "axis with 0 and -0.0": (
        fixed("{}").replace("overlap_angle: [30, 60]", "noise: [0, -0.0]"),
        "axes.noise[1]: duplicate value",
        (),
    ),
    "spacing unknown": (
        axis("{logspace: [1, 2, 3]}"),
        "axes.gamma: expected values, linspace, geomspace",
        ("logspace",),
    ),
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
        fixed("{}").replace("overlap_angle: [30, 60]", "depth: {linspace: [1, 2, 3]}"),
        "axes.depth[1]: ",
        ("1.5",),
    ),
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
    "zip of unequal axes": (
        axis("[0.3]") + "zip: [[gamma, overlap_angle]]\n",
        "zip[0]: expected axes of equal length",
        ("gamma: 1", "overlap_angle: 2"),
    ),
    "zip twice": (with_line("zip: [[gamma, overlap_angle], [gamma]]"), "zip[1]: ", ("twice",)),
    "zip twice in one": (with_line("zip: [[gamma, gamma]]"), "zip[0]: ", ("twice",)),
    "zip flat": (with_line("zip: [gamma, overlap_angle]"), "zip: expected a list of lists", ()),
    "zip of a list": (with_line("zip: [[[gamma]]]"), "zip[0]: ", ()),
    "zip of a mapping": (with_line("zip: [[{a: 1}]]"), "zip[0]: ", ()),
    "zip repeating": (
        axis("[0.3, 0.3]").replace("[30, 60]", "[30, 30]") + "zip: [[gamma, overlap_angle]]\n",
        "zip[0][1]: duplicate",
        (),
    ),
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
    "resources more than can be": (with_line("resources: {gang: 2000}"), "resources.gang: ", ("at most 1024",)),
    "resources a list": (with_line("resources: [1]"), "resources: expected a mapping", ()),
    "description a list": (with_line("description: [a]"), "description: expected text", ()),
    "name with a slash": (replaced("name", "name: ../small"), "name: expected a plain name", ("'../small'",)),
    "name dotted": (replaced("name", "name: .."), "name: expected a plain name", ()),
    "name with a space": (replaced("name", "name: my sweep"), "name: expected a plain name", ()),
    "name empty": (replaced("name", "name: ''"), "name: expected a plain name", ()),
    "name null": (replaced("name", "name:"), "name: missing; expected a plain name", ()),
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
    "aliases that multiply": (
        fixed("{noise: [&a0 [1], " + ", ".join(f"&a{i + 1} [{', '.join([f'*a{i}'] * 10)}]" for i in range(9)) + "]}"),
        "fixed.noise: ",
        ("got [[1], ",),
    ),
    "a long text where a number belongs": (axis(f"[{'many' * 5000}]"), "axes.gamma[0]: ", ()),
    "a long list where a number belongs": (axis(f"[[{', '.join(['1'] * 5000)}]]"), "axes.gamma[0]: ", ()),
    "analysis a mapping": (with_line("analysis: {boundary: {}}"), "analysis: expected a list", ()),
    "analysis a number": (with_line("analysis: [3]"), "analysis[0]: expected one of agreement", ()),
    "analysis of two": (with_line("analysis: [{boundary: {}, curves: {}}]"), "analysis[0]: expected one of", ()),
    "analysis without a metric": (with_line("analysis: [{boundary: {}}]"), "analysis[0].boundary", ("metric",)),
    "analysis unknown": (with_line("analysis: [{bondary: {}}]"), "analysis[0]", ("boundary",)),
    "analysis of an unknown metric": (
        with_line("analysis: [{boundary: {metric: lss, x: overlap_angle, y: gamma}}]"),
        "analysis[0].boundary.metric: ",
        (),
    ),
}
