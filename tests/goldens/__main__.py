"""Write the goldens anew: `python -m tests.goldens`. With --check, say what differs, to the last digit.

To be run on purpose alone: when the numbers of a workload change, with the version of its identity.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.goldens import SPACES, path_of, rows_of


def main():
    """Exit code 1 if --check found a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.goldens", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    check, different = parser.parse_args().check, False
    with tempfile.TemporaryDirectory() as storage:
        for name in SPACES:
            text = rows_of(name, Path(storage)).to_csv(index=False)
            if check:
                same = path_of(name).read_text() == text
                different |= not same
                print(f"{name:35} {'equal' if same else 'DIFFERENT'}", flush=True)
            else:
                path_of(name).write_text(text)
    return int(different)


if __name__ == "__main__":
    sys.exit(main())
