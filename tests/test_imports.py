"""No modules import each other in a circle, in types and within functions either."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

HOME = Path(__file__).parents[1]


def modules() -> dict[str, Path]:
    """The modules of the package and of its benchmarks, by name. The package's own `__init__` is left out: it imports
    nothing until a name is asked for."""
    files = [path for room in ("raysweep", "benchmarks") for path in (HOME / room).rglob("*.py")]
    named = {".".join(path.relative_to(HOME).with_suffix("").parts).removesuffix(".__init__"): path for path in files}
    named.pop("raysweep")
    return named


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that a file imports anywhere."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{name.name}" for name in node.names}
            found |= {name if name in known else node.module for name in whole}
    return found & known.keys()


def test_no_modules_import_each_other() -> None:
    known = modules()
    assert len(known) > 300
    try:
        TopologicalSorter({name: imported(path, known) - {name} for name, path in known.items()}).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle of imports: {' -> '.join(error.args[1])}") from None
