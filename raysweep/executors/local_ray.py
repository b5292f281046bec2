"""Starts Ray on this machine so that no other machine and no other user can reach it.

By default Ray listens on every interface, keeps its token in a file that every user of the machine can read, and has
its sockets in a folder that all may write. Anyone who reaches its ports and has the token, or puts a socket in the
place of one of these, can run programs as this user.
"""

from __future__ import annotations

import atexit
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from raysweep.errors import Halted
from raysweep.executors import temporary

REASON = 300  # letters of Ray's reason that are shown


def machine(cpus: int) -> dict[str, float]:
    """The resources that Ray will report for this machine if it is started with this number of CPUs."""
    from ray._private.resource_and_label_spec import ResourceAndLabelSpec

    return ResourceAndLabelSpec(num_cpus=cpus).resolve(is_head=True, node_ip_address="127.0.0.1").to_resource_dict()


def start(cpus: int, **options: Any) -> None:
    """Start Ray, on 127.0.0.1 only; nobody else can reach it. Raises Halted if it does not start."""
    import ray

    session = temporary.folder() / "r"  # Ray lets all write there; nobody else can enter the folder around it
    atexit.register(ray.shutdown)  # before that folder is removed
    _private_token()
    try:
        with _loopback():
            ray.init(address="local", include_dashboard=False, num_cpus=cpus, _temp_dir=str(session), **options)
    except Exception as error:  # of many classes
        ray.shutdown()
        reason = " ".join(str(error).split()) or type(error).__name__
        raise Halted(
            "--executor",
            f"Ray cannot be started on this machine ({reason[:REASON]}); try again, or compute in this process with "
            "--executor inline",
        ) from error


@contextmanager
def _loopback() -> Iterator[None]:
    """Make Ray use 127.0.0.1 as this machine's address inside the block, as it does itself on macOS and Windows by the
    same switch. The address 127.0.0.1 in `ray.init` is replaced by another one."""
    from ray._private import ray_constants

    before = getattr(ray_constants, "ENABLE_RAY_CLUSTER", None)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _private_token() -> None:
    """Create a token that only this user can read, unless the user has set one, or another mode."""
    mode = os.environ.get("RAY_AUTH_MODE") or "token"
    if mode.lower() != "token" or os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH"):
        return
    path = Path.home() / ".ray" / "auth_token"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            new = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(new, "w") as stream:
                stream.write(secrets.token_hex(32))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError:  # the home folder is missing or read-only
        from ray._raylet import Config  # type: ignore[attr-defined]  # of Cython

        os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
        Config.initialize("")  # it has read the environment before
