"""No modules import each other in a circle, in types and within functions either; and what is slow to load waits."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from conftest import python

HOME = Path(__file__).parents[1]


def modules():
    """The modules of the package and of its benchmarks, by name. The package's own `__init__` is left out: it imports
    nothing until a name is asked for."""
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
        "from raysweep.space import packaged, space_files; [space_files.locate(name) for name in packaged.spaces()]",
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
