"""Says what is missing before anything starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import server


def pytest_sessionstart(session: pytest.Session) -> None:
    packages = server.missing()
    if packages and not session.config.option.collectonly:
        pytest.exit(
            f"make test-cluster needs an OpenSSH server and its friends; on Debian: "
            f"apt-get install {' '.join(packages)}",
            returncode=2,
        )
