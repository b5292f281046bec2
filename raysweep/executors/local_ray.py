"""A Ray of our own on this machine, which no other machine and no other user can talk to.

Ray by itself listens on every interface, and whoever reaches its ports and has its token can run programs as this user;
it keeps the token in a file that every user of the machine may read.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

TOKEN_VARIABLES = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def machine(cpus: int) -> dict[str, float]:
    """What Ray, told of this many CPUs, will say that this machine has."""
    from ray._private.resource_and_label_spec import ResourceAndLabelSpec

    return ResourceAndLabelSpec(num_cpus=cpus).resolve(is_head=True, node_ip_address="127.0.0.1").to_resource_dict()


def start(cpus: int, **options: Any) -> None:
    """Start it, with this many CPUs: on 127.0.0.1 only, behind a token that only this user can read, no dashboard."""
    import ray

    _private_token()
    with _loopback():
        ray.init(address="local", include_dashboard=False, num_cpus=cpus, **options)


@contextmanager
def _loopback() -> Iterator[None]:
    """Have Ray take 127.0.0.1 for this machine's address: its servers then listen there alone. (It does so by itself on
    macOS and Windows, by this switch; asked for 127.0.0.1 as its address, it would take another.)"""
    from ray._private import ray_constants

    before = getattr(ray_constants, "ENABLE_RAY_CLUSTER", None)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _private_token() -> None:
    """See to it that Ray finds a token that nobody else can read, unless the user has settled the matter: it makes one
    itself, for all to read."""
    if any(os.environ.get(name) for name in TOKEN_VARIABLES):
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
    except OSError:  # a home that is not there or read-only
        os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
