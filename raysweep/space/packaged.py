"""The spaces that ship with raysweep, in an installed package and in a source checkout alike."""

from __future__ import annotations

from pathlib import Path

FOLDER = "search_spaces"


def folder() -> Path:
    """`raysweep/search_spaces` of an installation, `search_spaces` of a checkout; FileNotFoundError without either."""
    package = Path(__file__).parents[1]
    installed, checkout = package / FOLDER, package.parent / FOLDER
    if installed.is_dir():
        return installed
    if checkout.is_dir() and (package.parent / "pyproject.toml").is_file():
        return checkout
    raise FileNotFoundError(f"no packaged spaces: neither {installed} nor {checkout} is there")


def spaces() -> dict[str, Path]:
    """Packaged spaces by name (the file's name without .yaml), in alphabetical order."""
    return {path.stem: path for path in sorted(folder().glob("*.yaml"))}
