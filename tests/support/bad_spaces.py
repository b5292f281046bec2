"""Spaces that nobody can run: what is wrong with each, and what should be said of it."""

from bad_searches import KINDS as SEARCHES
from bad_searches import RANGES, WHEN


def axis(text):
    """A space whose axis gamma is this YAML."""
    return (
        "name: small\nworkload: linear_transfer\naxes:\n  overlap_angle: [30, 60]\n"
        f"  gamma: {text}\nfixed: {{dim: 20}}\n"
    )


def fixed(text):
    """A space with this mapping under fixed."""
    return f"name: small\nworkload: linear_transfer\naxes: {{overlap_angle: [30, 60]}}\nfixed: {text}\n"


GOOD = axis("[0.3, 0.5]")


def with_line(line):
    return GOOD + line + "\n"


def replaced(line):
    key = line.partition(":")[0]
    return "\n".join(line if entry.startswith(f"{key}:") else entry for entry in GOOD.splitlines()) + "\n"


def without(key):
    return "".join(line for line in GOOD.splitlines(keepends=True) if not line.startswith(f"{key}:"))


def searched(text):
    """A random search with this YAML as the axis gamma."""
    return axis(text) + "search: {random: {cells: 5}}\n"


# How the complaint begins, with what else it says behind |: what is wrong.
AXES = {
    "axes.gamma[1]: expected a number above 0|got 0": ["[0.5, 0]"],
    "axes.gamma[1]: |expected a number above 0": ["[0.5, .inf]", "[0.5, .nan]"],
    "axes.gamma[0]: |'0.5'": ["['0.5']"],
    "axes.gamma[0]: ": ["[1e400]", "[1" + "0" * 400 + "]", f"[{'many' * 5000}]"],
    "axes.gamma: expected a list": ["0.5"],
    "axes.gamma: missing; expected a list": [""],
    "axes.gamma: |at least one value": ["[]"],
    "axes.gamma[2]: duplicate value 0.3": ["[0.3, 0.5, 0.3]"],
    "axes.gamma: expected values, linspace, geomspace|logspace": ["{logspace: [1, 2, 3]}"],
    "axes.gamma.linspace: expected [first, last, count]": ["{linspace: [1, 2]}"],
    "axes.gamma.linspace: ": [
        "{linspace: [a, b, c]}",
        "{linspace: [1, 2, 1" + "0" * 400 + "]}",
        "{linspace: [1, 2, 0]}",
    ],
    "axes.gamma.linspace: |whole|2.5": ["{linspace: [1, 2, 2.5]}"],
    "axes.gamma.linspace: |1,000,000,000": ["{linspace: [1, 2, 1e9]}"],
    "axes.gamma.geomspace: |above 0": ["{geomspace: [-1, 1, 3]}", "{geomspace: [0, 1, 3]}"],
    "axes.gamma: repeated key|line 6, column 3": ["[0.3]\n  gamma: [0.5]"],
    "axes.gamma.range: |searches {random: …} and {optuna: …}": ["{range: [0.1, 1]}"],
    "axes.gamma.range: |has search optimum": [
        "{range: [0.1, 1]}\nsearch: {optimum: {metric: risk_scratch, x: gamma, budget: 9}}"
    ],
}
LINES = {
    "axis: unknown key|did you mean axes|workload": ["axis: {}"],
    "depth: is a parameter of linear_transfer; say fixed.depth or axes.depth": ["depth: 3"],
    "": ["~: 1", "search: {~: 1}"],
    "|plain key": ["? [a, b]\n: 1"],
    "seeds: expected a count of at least 1|got 0": ["seeds: 0"],
    "seeds: ": ["seeds: -1", "seeds: 2.5", "seeds: true", "seeds:", "seeds: many", "seeds: []", "seeds: 1" + "0" * 30],
    "seeds[0]: ": ["seeds: [9223372036854775808]"],
    "seeds[1]: duplicate value 4": ["seeds: [4, 4]"],
    "zip[0]: unknown axis": ["zip: [[gamma, dim]]"],
    "zip[1]: |twice": ["zip: [[gamma, overlap_angle], [gamma]]"],
    "zip: expected a list of lists": ["zip: [gamma, overlap_angle]"],
    "zip: ": ["zip: gamma"],
    "exclude: expected a list": ["exclude: {gamma: 0.3}"],
    "exclude[0].gamma: |0.3, 0.5": ["exclude: [{gamma: 0.4}]"],
    "exclude: every cell is excluded": ["exclude: [{gamma: [0.3, 0.5]}]"],
    "search: unknown search|did you mean grid": ["search: gird"],
    "search: |grid": ["search: 3", "search: [grid]"],
    "search: imported": ["search: imported", "search: {imported: {cells: 3}}"],
    "resources.gpu: unknown resource|gpus_per_trial": ["resources: {gpu: 1}"],
    "resources.gpus_per_trial: |0.5": ["resources: {gpus_per_trial: 0.5}"],
    "resources.gang: |at most 1024": ["resources: {gang: 2000}"],
    "resources: expected a mapping": ["resources: [1]"],
    "resources.where: expected a list of mappings": ["resources: {where: {gamma: 0.3}}"],
    "resources.where[0]: expected an axis with its value": [
        "resources: {where: [{gamma: 0.3}]}",
        "resources: {where: [{gang: 3}]}",
    ],
    "resources.where[0].gamma: 0.4 is not on the axis: 0.3, 0.5": ["resources: {where: [{gamma: 0.4, gang: 2}]}"],
    "resources.gang: expected 3 workers, one for each GPU (the def": ["resources: {gpus_per_trial: 3, gang: 2}"],
    "resources.where[0].gang: expected 3 workers": ["resources: {gang: 2, where: [{gamma: 0.3, gpus_per_trial: 3}]}"],
    "early_stopping: linear_transfer logs no learning curve": ["early_stopping: {metric: risk_linear}"],
    "search.optuna.sampler: unknown sampler|gp": ["search: {optuna: {metric: risk_linear, cells: 5, sampler: gpp}}"],
    "description: expected text": ["description: [a]"],
    "name: repeated key|line 7, column 1": ["name: other"],
    "FILE: |recursive": ["exclude: &a [*a]"],
    "FILE: line ": ["---\nname: b"],
    "FILE: line 7, column 14": ["description: !!python/object/apply:os.system [true]", "description: !here 3"],
    "FILE: ": ["seeds: !!float many", "description: \x07", "description: " + "[" * 5000 + "]" * 5000],
    "analysis: expected a list": ["analysis: {boundary: {}}"],
    "analysis[0]: expected one of agreement": ["analysis: [3]"],
}
FIXED = {
    "fixed.angle: unknown parameter|did you mean overlap_angle|engine, pretrain_length": ["{angle: 3}"],
    "fixed.pretrain_length: |1e400": ["{pretrain_length: 1e400}"],
    "fixed.depth: expected a whole number|got 0": ["{depth: 0}"],
    "fixed.noise: |at least 0|got -0.1": ["{noise: -0.1}"],
    "fixed.engine: expected one of theory, limit|limt": ["{engine: limt}"],
    "fixed.frozen_layers: |depth = 2": ["{frozen_layers: 2}"],
    "fixed.finetune_steps: |limit": ["{finetune_steps: 100}"],
    "fixed: expected a mapping": ["[1, 2]"],
    "fixed.noise: |got [[1], ": [
        "{noise: [&a0 [1], " + ", ".join(f"&a{i + 1} [{', '.join([f'*a{i}'] * 10)}]" for i in range(9)) + "]}"
    ],
}
REPLACED = {
    "workload: unknown workload|did you mean linear_transfer": ["workload: linear_transfr"],
    "name: expected a plain name": ["name: my sweep"],
    "name: expected a plain name|größe": ["name: größe"],
    "name: mlflow.db is ": ["name: mlflow.db"],
}
OTHERS = [
    (without("workload"), "workload: missing|linear_transfer"),
    (without("name"), "name: missing"),
    (fixed("{}").replace("[30, 60]", "[0, 180.5]"), "axes.overlap_angle[1]: expected a number from 0 to 180|got 180.5"),
    ("name: a\nworkload: linear_transfer\naxes: [gamma]\n", "axes: expected a mapping"),
    (fixed("{}").replace("overlap_angle: [30, 60]", "depth: {linspace: [1, 2, 3]}"), "axes.depth[1]: |1.5"),
    (axis("[0.5]").replace("{dim: 20}", "{dim: 20, gamma: 0.3}"), "fixed.gamma: |axes"),
    (
        axis("[0.3]") + "zip: [[gamma, overlap_angle]]\n",
        "zip[0]: expected axes of equal length|gamma: 1|overlap_angle: 2",
    ),
    (axis("[0.3, 0.3]").replace("[30, 60]", "[30, 30]") + "zip: [[gamma, overlap_angle]]\n", "zip[0][1]: duplicate"),
    ("name: a\naxes:\n\tgamma: [1]\n", "FILE: line 3, column 1"),
    ("", "FILE: expected a mapping"),
]
KINDS = (
    *((axis, AXES | WHEN), (searched, RANGES), (with_line, LINES), (fixed, FIXED), (replaced, REPLACED)),
    *SEARCHES,
)
TEXTS = [(make(text), message) for make, said in KINDS for message, texts in said.items() for text in texts] + OTHERS
"""Text of a space, and the complaint."""
