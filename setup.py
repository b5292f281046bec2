"""Only what pyproject.toml cannot say: search_spaces/ of the top level ships as the folder raysweep/search_spaces."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["raysweep", "raysweep.*"]), "raysweep.search_spaces"],
    package_dir={"raysweep.search_spaces": "search_spaces"},
    package_data={"raysweep": ["py.typed", "theory/THEORY.md"], "raysweep.search_spaces": ["*.yaml"]},
)
