"""`make test-gpu` has every test of a GPU, also on a machine that has torch and no Ray."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COLLECT = """
import sys
for name in ("ray", "mlflow", "optuna", "click", "rich", "pandas", "moto"):
    sys.modules[name] = None  # as if it were not installed
import pytest
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


@pytest.mark.long
def test_every_test_of_a_gpu_is_found_where_ray_and_mlflow_are_missing():
    (line,) = re.findall(r"^test-gpu:.*\n\t.* -m pytest (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    folders = [ROOT / word for word in line.split() if word.startswith("tests/")]
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, *line.split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    others = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)}
    asks = re.compile(r'mark\.gpu|\ba_gpu\b|usefixtures\("gpu"\)')
    of_a_gpu = [path for path, text in others.items() if asks.search(text) and "def gpu(" not in text]
    assert len(of_a_gpu) > 5
    for path in of_a_gpu:
        assert any(path.is_relative_to(folder) for folder in folders), f"{path} is not run by make test-gpu"
        assert f"{path.relative_to(ROOT)}::" in done.stdout
