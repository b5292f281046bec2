"""Which Ray may be installed: one whose private parts, where they are used, are those that were tested."""

import ast
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest
import ray
from packaging.requirements import Requirement
from packaging.version import Version

TOP = Path(__file__).parents[2]


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
    texts = {path.name: path.read_text() for path in (TOP / "raysweep").rglob("*.py")}
    uses = {file: names for file, text in texts.items() if "ray" in text and (names := [*private_names(text)])}
    assert set(uses) == {"local_ray.py", "machines.py", "nested_tasks.py", "ray_alive.py"}
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
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    expected = [
        requirement
        for line in (*project["dependencies"], *project["optional-dependencies"]["cluster"])
        if (requirement := Requirement(line)).name == "ray"
    ]
    pinned = re.search(r"^ray==(\S+)$", (TOP / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned
    tested = Version(pinned[1])
    assert len(expected) == 2
    for requirement in expected:
        assert tested in requirement.specifier, requirement
        assert Version(f"{tested.major}.{tested.minor + 1}") not in requirement.specifier, requirement
