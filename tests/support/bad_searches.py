"""Searches, ranges, conditions and rules that nobody can ask for, as in bad_spaces.py."""

PRECISE = """name: asked
workload: linear_transfer
axes: {overlap_angle: {linspace: [9, 90, 10]}, gamma: [0.2, 0.6, 1.5]}
seeds: 400
precision: {boundary: 4.0}
analysis: [{boundary: {metric: transferability_finetune, x: overlap_angle, y: gamma}}]
"""


def precise(line):
    """A space with a precision and this line, in the place of that of its key if there is one."""
    key = line.partition(":")[0]
    return "\n".join([*(entry for entry in PRECISE.splitlines() if not entry.startswith(f"{key}:")), line])


def stopping(text):
    """A space of language models with this YAML under early_stopping."""
    return f"name: a\nworkload: language\naxes: {{finetune_lr: [0.1, 0.2]}}\nearly_stopping: {text}\n"


WHEN = {
    "axes.depth.when.gama: unknown axis|gamma": ["[0.5]\n  depth: {values: [2, 3], when: {gama: 0.5}}"],
    "axes.depth.when.engine: expected one of theory": [
        "[0.5]\n  engine: [flow, limit]\n  depth: {values: [2, 3], when: {engine: flw}}"
    ],
    "axes.depth.when.gamma: |not on the axis": ["[0.5]\n  depth: {values: [2, 3], when: {gamma: 0.3}}"],
    "axes.depth.when: |{axis: value or values}": ["[0.5]\n  depth: {values: [2, 3], when: flow}"],
    "axes.depth.when: |circle": [
        "[0.5]\n  depth: {values: [2, 3], when: {noise: 0.1}}\n  noise: {values: [0, 0.1], when: {depth: 3}}"
    ],
    "axes.depth: |or when|where": ["[0.5]\n  depth: {values: [2, 3], where: {}}"],
    "axes.depth: |none of them": ["[0.5]\n  depth: {when: {gamma: 0.5}}"],
    "axes.noise.when.gamma: |depth is there only when gamma is 0.3": [
        "[0.3, 0.5]\n  depth: {values: [2, 3], when: {gamma: 0.3}}\n"
        "  noise: {values: [0, 1], when: {depth: 3, gamma: 0.5}}"
    ],
    "axes.depth.when: no cell satisfies it": [
        "[0.3, 0.5]\n  depth: {values: [2, 3], when: {gamma: 0.3}}\nexclude: [{gamma: 0.3}]"
    ],
    "FILE: line |column": ["[0.3, 0.5", "'0.3"],
}
RANGES = {
    "axes.gamma.range: |low below high": ["{range: [0.1, 0.1]}"],
    "axes.gamma.range: |two finite numbers": ["{range: [0.1, 1, 5]}", "{range: [0.1, .inf]}"],
    "axes.gamma.range: |ends above 0": ["{range: [0, 1], log: true}"],
    "axes.gamma.log: |true or false": ["{range: [0.1, 1], log: 10}"],
    "axes.gamma.log: |is for a range": ["{values: [0.1, 1], log: true}"],
    "axes.engine.range[0]: |one of theory, limit": ["[0.5]\n  engine: {range: [0, 1]}"],
    "zip[0]: |gamma is a range": ["{range: [0.1, 1]}\nzip: [[gamma, overlap_angle]]"],
    "exclude[0].gamma: |gamma is a range": ["{range: [0.1, 1]}\nexclude: [{gamma: 0.3}]"],
    "axes.depth.when.gamma: |gamma is a range": ["{range: [0.1, 1]}\n  depth: {values: [2], when: {gamma: 0.3}}"],
    "resources.where: |range": ["{range: [0.1, 1]}\nresources: {where: [{overlap_angle: 30, cpus_per_trial: 2}]}"],
}
PRECISION = {
    "precision.boundary: expected an analysis boundary in the space": ["analysis: []"],
    "precision.boundary: expected a number above 0, got 0": ["precision: {boundary: 0}"],
    "precision.boundary: expected a half-width below 40.5": ["precision: {boundary: 41}"],
    "precision: expected boundary or optimum": ["precision: {pointwise: true}"],
    "search: expected none with precision": ["search: {random: {cells: 3}}"],
    "early_stopping: expected none with precision": ["early_stopping: {metric: transferability_finetune}"],
    "budget: is for a space with a precision": ["precision:\nbudget: {rows: 9}"],
    "budget.rows: expected a whole number of at least 1": ["budget: {rows: 0}"],
    "budget.gpu_hours: expected rows or hours of another kind": ["budget: {gpu_hours: 1}"],
    "precision.boundary: no slice of analysis[0].boundary has the 2 values of overlap_angle": [
        "exclude: [{overlap_angle: [18, 27, 36, 45, 54, 63, 72, 81, 90]}]"
    ],
    "budget.rows: expected at least 30, what the first round takes": ["budget: {rows: 29}"],
}
STOPPING = {
    "early_stopping.rule: unknown rule 'medain'; did you mean median": ["{metric: finetune_loss, rule: medain}"],
    "early_stopping.metric: missing": ["{rule: median}"],
    "early_stopping.grace: |a step above 0": ["{metric: finetune_loss, grace: 0}"],
    "early_stopping.reduction: |at least 2": ["{metric: finetune_loss, rule: asha, reduction: 1}"],
    "early_stopping: |has boundary": [
        "{metric: finetune_loss}\nsearch: {boundary: {metric: finetune_loss, x: finetune_lr, budget: 9}}"
    ],
}
KINDS = ((precise, PRECISION), (stopping, STOPPING))
