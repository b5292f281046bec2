"""Whether the fits are those whose coverage was simulated: `python -m tests.fits.coverage_digest` fails if not.

`--write` notes that they are.
"""

import hashlib
import sys
from pathlib import Path

import raysweep.fits

FITS = Path(raysweep.fits.__file__).parent
NOTE = FITS / "COVERAGE.digest"


def digest():
    """The SHA-256 of all Python files of the fits, with their names."""
    whole = hashlib.sha256()
    for path in sorted(FITS.rglob("*.py")):
        whole.update(f"{path.relative_to(FITS).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return whole.hexdigest()


if __name__ == "__main__":
    if "--write" in sys.argv:
        NOTE.write_text(digest() + "\n")
    elif not NOTE.exists() or NOTE.read_text().strip() != digest():
        sys.exit("the fits are not those whose coverage was last simulated")
