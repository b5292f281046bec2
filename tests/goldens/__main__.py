"""Write the goldens anew: `python -m tests.goldens`; git shows what differs, to the last digit.

To be run on purpose alone: when the numbers of a workload change, with the version of its identity.
"""

import tempfile
from pathlib import Path

from tests.goldens import SPACES, path_of, rows_of

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as storage:
        for name in SPACES:
            rows_of(name, Path(storage)).to_csv(path_of(name), index=False)
