"""What cannot be a sweep of a function is said in one line, with exit code 2, and nothing is left behind."""

import functools
import json

import pytest
from conftest import QUIET, halted

import raysweep
from raysweep.errors import InputError
from raysweep.space.schema import restore
from raysweep.workloads import functions

GOOD = "def train(x, seed):\n    return {'loss': 1.0}\n"


@pytest.mark.parametrize(
    ("source", "space", "message"),
    [
        (None, "", "workload: mine.py "),
        ("def tran(x, seed): ...", "", "workload: unknown function in mine.py"),
        ("x = 1\n\ndef train(x, seed)\n    return 1", "", "workload: mine.py, line 3 "),
        ("import this_is_nowhere\n" + GOOD, "", "workload: mine.py, line 1 "),
        ("class Over(BaseException): ...\nraise Over('over')\n" + GOOD, "", "workload: mine.py, line 2 cannot be im"),
        (GOOD + "import raysweep\nraysweep.run(train, axes={'x': [1]})", "", "workload: mine.py, line 4 runs a sweep"),
        ("train = 3", "", "workload: expected a function"),
        ("async def train(x, seed): ...", "", "workload: "),
        ("def train(x):\n    return 1", "", "workload: train has no argument seed"),
        ("def train(*x, seed):\n    return 1", "", "workload: train has *x"),
        ("def train(x, /, seed):\n    return 1", "", "workload: train has x before /"),
        ("def train(x, cell, seed):\n    return 1", "", "workload: train has an argument cell"),
        ("def train(x, y, seed):\n    return 1", "", "fixed.y: missing"),
        ("def train(y, seed):\n    return 1", "", "axes.x: unknown argument of train"),
        (GOOD, "fixed: {z: 1}", "fixed.z: unknown argument of train"),
        (GOOD, "axes: {x: [1], seed: [1]}", "axes.seed: "),
        ("def train(x: str, seed):\n    return 1", "", 'axes.x[0]: expected text, in quotes: "1", got 1'),
        ("def train(x: list, seed):\n    return 1", "", "workload: train: x is annotated list"),
        ("def train(x, seed, y: int = 0.5):\n    return 1", "", "workload: train: y is annotated int"),
        ("def train(x, seed):\n    return {'x': 1}", "", "workload: train returned x"),
        ("def train(x, seed):\n    return {'status': 1}", "", "workload: train: "),
        (GOOD, "metrics: {loss: up}", "metrics.loss: expected minimize or maximize"),
        (GOOD, "metrics: {los: minimize}", "metrics.los: unknown metric of train 'los'; did you mean loss?"),
        (GOOD, "search: {optuna: {metric: los, cells: 2}}", "search.optuna.metric: "),
        (GOOD, "keep: [train]", "keep: "),
        (GOOD, "function: {name: train}", "function: "),
        (GOOD, "axes: {x: {values: [1, 2], when: {y: 1}}}", "axes.x.when: "),
        (GOOD, "workload: mine.py", "workload: expected FILE.py:FUNCTION"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(source, space, message, tmp_path, storage, call):
    if source is not None:
        (tmp_path / "mine.py").write_text(source)
    key = space.partition(":")[0]
    usual = {"name": "mine", "workload": "mine.py:train", "axes": "{x: [1, 2]}"}
    lines = [f"{name}: {value}" for name, value in usual.items() if name != key]
    (tmp_path / "space.yaml").write_text("\n".join([*lines, space]))
    done = call("run", tmp_path / "space.yaml", "--storage", storage, *QUIET)
    halted(done, message)
    assert all("not known yet" in line for line in done.err.splitlines()[:-1])
    assert not storage.exists()


@pytest.mark.parametrize(
    "function", [lambda x, seed: 1.0, functools.partial(lambda x, y, seed: 1.0, y=1)], ids=["lambda", "partial"]
)
def test_a_function_without_a_name_is_named_by_the_call(function, storage):
    quiet = {"storage": storage, "tracking_uri": "none", "report": False}
    with pytest.raises(InputError, match="^workload: expected a function with a name"):
        raysweep.run(function, axes={"x": [1]}, **quiet)
    assert not storage.exists()
    assert raysweep.run(function, axes={"x": [1]}, name="mine", **quiet).results()["value"].tolist() == [1.0]


def test_a_description_from_a_storage_is_checked_and_never_imported():
    def train(x, seed):
        return x

    plain = functions.describe(train, name=None, digest="0" * 12, axes={"x": [1.0]}).plain()
    space = {"name": "mine", "workload": "train", "axes": {"x": [1.0]}, "fixed": {}, "function": plain}
    assert restore(json.loads(json.dumps(space))).declaration.name == "train"
    for wrong in (
        {"digest": "x"},
        {"version": "1"},
        {"parameters": [{"name": "x", "type": "Path", "default": 1}]},
        {"parameters": [1]},
        {"metrics": {"loss": "up"}},
        {"returned": "loss"},
        {"seconds": -1},
        {"seconds": "1"},
        {"source": 1},
        {"name": "a\nb"},
        {"more": 1},
    ):
        with pytest.raises(InputError, match="^function: "):
            restore({**space, "function": {**plain, **wrong}})
    for gone in plain:
        with pytest.raises(InputError, match="^function: "):
            restore({**space, "function": {key: value for key, value in plain.items() if key != gone}})


FILE = """import argparse
from sharing_out import share
import other

K = 2  # a factor
UNUSED = 1


def help(x):
    return K * x


def train(x, seed):
    table = help(x)
    return table + share()


def plot(x):
    return UNUSED


if __name__ == "__main__":
    import raysweep
    table = raysweep.run(train, axes={"x": [1, 2]}, tracking_uri="none", report=False)
"""


def test_a_file_has_one_digest_which_changes_with_what_the_function_names(tmp_path, monkeypatch):
    from raysweep.space import function_digest

    texts = {"mine.py": FILE, "sharing_out.py": "from deep.inner import S\ndef share():\n    return S\n"}
    texts |= {"deep/__init__.py": "", "deep/inner.py": "S = 0.5\n", "other.py": "raise SystemExit"}
    (tmp_path / "deep").mkdir()

    def digest(**changes):
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        for old, new in changes.items():
            file, was = old.split("__")
            text = texts[file + ".py"]
            assert was.replace("_", " ") in text
            (tmp_path / f"{file}.py").write_text(text.replace(was.replace("_", " "), new))
        return function_digest.of_file((tmp_path / "mine.py").read_bytes(), tmp_path / "mine.py", "train")

    same = digest()
    assert digest(**{"mine__UNUSED = 1": "UNUSED = 3"}) == same
    assert digest(**{'mine__{"x": [1, 2]}': '{"x": [1, 2, 3]}'}) == same
    assert digest(**{"other__raise SystemExit": "1"}) == same
    for name, new in {
        "mine__K = 2": "K = 3",
        "mine__return K * x": "return K + x",
        "mine__table + share()": "table - share()",
        "mine__UNUSED = 1": "help = print",
        "sharing_out__return S": "return 2 * S",
        "deep/inner__S = 0.5": "S = 0.25",
    }.items():
        assert digest(**{name: new}) != same, name
    digest()
    script = {"__name__": "__main__", "raysweep": None}
    monkeypatch.syspath_prepend(str(tmp_path))
    text = FILE.partition("if __name__")[0].replace("import other", "other = 1")
    exec(compile(text, tmp_path / "mine.py", "exec"), script)
    assert function_digest.of_function(script["train"]) == same
