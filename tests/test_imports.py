"""No modules import each other in a circle, in types and within functions either; what is slow to load waits; and which
Ray may be installed: one whose private parts, where they are used, are those that were tested."""

import ast
import pkgutil
import re
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import ray
from conftest import python
from packaging.requirements import Requirement
from packaging.version import Version

HOME = Path(__file__).parents[1]


def modules():
    """The modules of package and benchmarks, by name, but the package's `__init__`, which imports when asked."""
    files = [path for room in ("raysweep", "benchmarks") for path in (HOME / room).rglob("*.py")]
    named = {".".join(path.relative_to(HOME).with_suffix("").parts).removesuffix(".__init__"): path for path in files}
    named.pop("raysweep")
    return named


def imported(path, every):
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{name.name}" for name in node.names}
            names |= {name if name in every else node.module for name in whole}
    return names & every.keys()


def test_no_modules_import_each_other():
    every = modules()
    assert len(every) > 300
    try:
        TopologicalSorter({name: imported(path, every) - {name} for name, path in every.items()}).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle of imports: {' -> '.join(error.args[1])}") from None


HEAVY = {"torch", "scipy", "pandas", "ray", "mlflow", "matplotlib", "optuna", "pyarrow", "sklearn", "s3fs"}


@pytest.mark.parametrize(
    "statement",
    [
        "import raysweep",
        "import raysweep.stages.store, raysweep.stages.prune, raysweep.commands.store",
        "from raysweep import workloads; [workloads.get(name) for name in workloads.names()]",
        "from raysweep import workloads; workloads.get('linear_spectrum').metric_names()",
        "from raysweep import workloads; from raysweep.plan.row_stages import RowStages; "
        "from raysweep.workloads.declaration import column; w = workloads.get('language'); "
        "w.check({p.name: p.default for p in w.parameters}); "
        "RowStages(w, {p.name: column(p, [p.default]) for p in w.parameters}).of_row(0, 0)",
        "from raysweep.space import space_files; [space_files.locate(name) for name in space_files.packaged()]",
        "from raysweep.analyses import registry; from raysweep.space import analyses; registry.names()",
    ],
)
def test_looking_loads_nothing_heavy(statement):
    code = f"{statement}; import sys; print(*sys.modules)"
    loaded = python(code).out.split()
    assert loaded
    assert not set(loaded) & HEAVY


@pytest.mark.usefixtures("template")  # the empty database, for which MLflow is needed once
def test_rows_of_a_function_and_their_mirror_wait_for_no_library_that_they_do_not_use(tmp_path):
    program = (
        "import sys, raysweep\n"
        "def row(x, seed):\n    return {'loss': x + seed}\n"
        "raysweep.run(row, axes={'x': [1, 2]}, seeds=2, report=False, storage=sys.argv[1])\n"
        "assert len(raysweep.open('row', sys.argv[1]).rows()) == 4\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'scipy', 'mlflow', 'ray', 'torch'}))"
    )
    done = python(program, tmp_path, cwd=tmp_path)
    assert done.out.splitlines()[-1:] == ["[]"], done.err


def private_names(text):
    """Dotted names of Ray with a part that begins with an underscore: what is imported, and attributes of it."""
    tree = ast.parse(text)
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    used = {
        f"{imported[node.value.id]}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported
    }
    for name in sorted({*imported.values(), *used}):
        if name.startswith("ray.") and "._" in name:
            yield name


def test_what_is_private_to_ray_is_there_and_looked_for_where_it_is_used():
    texts = {path.name: path.read_text() for path in (HOME / "raysweep").rglob("*.py")}
    uses = {file: names for file, text in texts.items() if "ray" in text and (names := [*private_names(text)])}
    assert set(uses) == {"local_ray.py", "machines.py"}
    for file, names in uses.items():
        for name in names:
            try:
                pkgutil.resolve_name(name)
            except (ImportError, AttributeError):
                pytest.fail(
                    f"Ray {ray.__version__} has no {name}, which {file} uses: find out what became of it before the "
                    "cap of ray in pyproject.toml is lifted"
                )


def test_ray_is_capped_at_the_minor_version_that_was_tested():
    project = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]
    asked = map(Requirement, (*project["dependencies"], *project["optional-dependencies"]["cluster"]))
    expected = [requirement for requirement in asked if requirement.name == "ray"]
    pinned = re.search(r"^ray==(\S+)$", (HOME / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned
    tested = Version(pinned[1])
    assert len(expected) == 2
    for requirement in expected:
        assert tested in requirement.specifier, requirement
        assert Version(f"{tested.major}.{tested.minor + 1}") not in requirement.specifier, requirement
