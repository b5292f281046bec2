"""Nothing that lies in a storage or a space is ever executed."""

import ast
import pickle
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import QUIET, ok, refused
from spaces import small_space

import raysweep
from raysweep.report.page import TEMPLATES
from raysweep.stages import checkpoints
from raysweep.stages.store import Store
from raysweep.storage.sealed import Damaged, seal

UNPICKLERS = {"pickle", "_pickle", "cPickle", "dill", "joblib", "cloudpickle", "shelve", "marshal", "jsonpickle"}
PROCESSES = {  # the names of joblib that send work to processes of its own, through pipes, and read no file
    "joblib": {"Parallel", "delayed", "parallel_config"},
    "joblib.externals.loky": {"get_reusable_executor"},
}
BUILTINS = {"eval", "exec", "compile", "__import__"}
OF_YAML = "load load_all full_load full_load_all unsafe_load unsafe_load_all Loader FullLoader UnsafeLoader CLoader"
CALLS = {("yaml", name) for name in OF_YAML.split()} | {("os", "system"), ("os", "popen"), ("subprocess", "getoutput")}
CALLS |= {(module, name) for module in ("pandas", "pd") for name in ("read_pickle", "eval")}
MUST_SAY = {
    ("torch", "load"): ("weights_only", True),
    ("np", "load"): ("allow_pickle", False),
    ("numpy", "load"): ("allow_pickle", False),
}


def executes(source):
    """Whatever in a module could execute what it reads, as words with line numbers."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module in PROCESSES:
            yield from (
                f"{node.lineno}: {node.module}.{alias.name}"
                for alias in node.names
                if alias.name not in PROCESSES[node.module]
            )
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from (f"{node.lineno}: import {name}" for name in names if name.split(".")[0] in UNPICKLERS)
        of_name = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if of_name and (node.value.id, node.attr) in CALLS:
            yield f"{node.lineno}: {node.value.id}.{node.attr}"
        if not isinstance(node, ast.Call):
            continue
        options = {
            word.arg: word.value.value for word in node.keywords if word.arg and isinstance(word.value, ast.Constant)
        }
        if isinstance(node.func, ast.Name) and node.func.id in BUILTINS:
            yield f"{node.lineno}: {node.func.id}"
        if options.get("allow_pickle") or options.get("shell"):
            yield f"{node.lineno}: allow_pickle or shell"
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            called = (node.func.value.id, node.func.attr)
            if called in MUST_SAY and options.get(MUST_SAY[called][0]) is not MUST_SAY[called][1]:
                yield f"{node.lineno}: {'.'.join(called)} without {MUST_SAY[called][0]}"


def test_no_module_can_execute_what_it_reads():
    package = Path(raysweep.__file__).parent
    modules = [*package.rglob("*.py")]
    assert len(modules) > 100
    assert {str(path): result for path in modules if (result := list(executes(path.read_text())))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "import joblib.memory",
        "from joblib import load",
        "from joblib import Parallel, Memory",
        "eval('1')",
        "yaml.load(text, Loader=x)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "pd.read_pickle(path)",
        "os.system(line)",
        "subprocess.run(line, shell=True)",
    ],
)
def test_the_search_for_such_a_module_is_awake(line):
    assert len(list(executes(line))) >= 1
    assert not list(executes("np.load(p, allow_pickle=False); torch.load(p, weights_only=True); re.compile(p)"))


class Canary:
    """Unpickled, it leaves a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture
def canary(tmp_path):
    """A file that must not come to be; what is pickled here would make it."""
    path = tmp_path / "executed"
    pickle.loads(pickle.dumps(Canary(path)))
    assert path.exists()  # it does what it is feared for
    path.unlink()
    yield path
    assert not path.exists()


def tags(path):
    """YAML that asks PyYAML's unsafe loaders to execute."""
    return [
        f"!!python/object/apply:os.system ['touch {path}']",
        f"!!python/object/apply:pathlib.Path.touch [{path}]",
        "!!python/name:os.system",
        "!!python/object/new:os.system [x]",
        "!!python/module:os",
    ]


def test_a_space_is_plain_data(call, canary, tmp_path, storage):
    for tag in tags(canary):
        (tmp_path / "evil.yaml").write_text(f"name: evil\nworkload: linear_transfer\naxes: {tag}\n")
        refused(call("run", tmp_path / "evil.yaml", "--storage", storage), f"{tmp_path / 'evil.yaml'}: line 3")
        refused(call("run", "quickstart", "--set", f"axes.depth={tag}", "--storage", storage), "--set axes.depth: ")
    (tmp_path / "pickled.yaml").write_bytes(pickle.dumps(Canary(canary)))
    refused(call("run", tmp_path / "pickled.yaml", "--storage", storage), f"{tmp_path / 'pickled.yaml'}: ")
    assert not storage.exists()


def test_pickles_in_the_store_are_damage_or_one_line(call, canary, tmp_path):
    evil = pickle.dumps(Canary(canary))
    store = Store(tmp_path / "store")
    for stage in ("record", "weights", "forged", "elsewhere"):
        assert store.publish(stage, {"w": np.zeros(3)}, {"a": 1})
    entries = tmp_path / "store" / "entries"
    (entries / "record.json").write_bytes(evil)
    next(entries.glob("weights.*.safetensors")).write_bytes(evil)
    weights = next(entries.glob("forged.*.safetensors"))  # a record and a checksum that agree with it
    weights.write_bytes(evil)
    checksum = checkpoints.Checksum()
    checksum.add(np.frombuffer(evil, np.uint8))
    body = {"meta": {}, "describe": {}, "published": "", "format": 1, "bytes": len(evil), "raysweep": "0"}
    (entries / "forged.json").write_bytes(
        seal({**body, "stage": "forged", "weights": f"entries/{weights.name}", "checksum": checksum.result()})
    )
    (tmp_path / "secret").write_text("not for the store")
    (entries / "elsewhere.json").write_bytes(
        seal({**body, "stage": "elsewhere", "weights": "../secret", "bytes": 17, "checksum": "0" * 64})
    )
    forged = store.fetch("forged")
    with pytest.raises(Damaged, match="not safetensors"):
        forged.tensors()
    for stage in ("record", "weights", "elsewhere"):
        assert store.fetch(stage) is None
    assert (tmp_path / "secret").read_text() == "not for the store"
    (tmp_path / "store" / "refs" / "s").mkdir(parents=True)
    (tmp_path / "store" / "refs" / "s" / "r.json").write_bytes(evil)
    refused(call("store", "list", "--store", tmp_path / "store"), f"{tmp_path / 'store'}: ", "r.json")
    (tmp_path / "store" / "store.json").write_bytes(evil)
    # Beside entries it is as good as lost, and not read.
    result = call("store", "verify", "--store", tmp_path / "store")
    assert (result.code, "Traceback" in result.err) == (0, False)


def test_an_array_of_objects_is_no_text(canary, tmp_path):
    from raysweep.workloads.language import files
    from raysweep.workloads.language.corpus import BadText

    path = tmp_path / "tokens.npy"
    np.save(path, np.array([Canary(canary)], dtype=object), allow_pickle=True)
    with pytest.raises(BadText, match=str(path)) as raised:
        files.tokens(f"tokens:300:0:{path}")
    assert "\n" not in str(raised.value)


@pytest.mark.long
def test_what_tune_might_take_for_its_own_is_not_read(call, canary, small, ray_cluster):
    evil = pickle.dumps(Canary(canary))
    inner = ["tuner.pkl", "trainable.pkl", "searcher-state-1.pkl", "search_gen_state-1.json", "experiment_state-1.json"]
    for name in ("tuner.pkl", "trainable.pkl", *(f"tune/{name}" for name in inner)):
        path = small / "tune" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(evil)
    for path in (small / "ledger").iterdir():
        path.unlink()
    ok(call("resume", "small", "--executor", "ray", "--storage", small.parent, *QUIET))
    assert len(call("results", "small", "--storage", small.parent).out.splitlines()) == 19


def test_a_report_shows_the_words_of_a_space_as_words(call, storage, tmp_path):
    evil = (
        "<script>alert(1)</script> <img src=x onerror=alert(1)> [a](javascript:alert(1)) ![b](http://example.org/x.png)"
    )
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(small_space(description=evil)))
    ok(call("run", tmp_path / "small.yaml", "--storage", storage, "--tracking-uri", "none"))
    page = (storage / "small" / "report" / "report.html").read_text()
    data = '<script type="application/json" class="'
    assert page.lower().count("<script") == page.count(data) + page.count(
        f"<script>{(TEMPLATES / 'report.js').read_text()}</script>"
    )
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert 'href="javascript' not in page


def test_a_billion_laughs_are_one_line_and_soon(call, tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    for where in ("", "axes:", "fixed:", "seeds:", "exclude:", "analysis:", "analysis: [{boundary: {lines: *a11}}]"):
        text = "name: x\nworkload: linear_transfer\n" + "\n".join(
            [*lines, where] if "[" in where else [where, *(f"  {line}" if where else line for line in lines)]
        )
        (tmp_path / "laughs.yaml").write_text(text)
        refused(call("run", tmp_path / "laughs.yaml", *QUIET), "")
