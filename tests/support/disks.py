"""Places for a test to write to that are small or read-only: by a mount where this user may, by limits anywhere."""

import contextlib
import ctypes
import os
import resource
import subprocess

import pytest

NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}  # which a limit on files would leave cut short for everybody
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2  # linux/prctl.h, linux/capability.h


def mounted(*arguments):
    """Whether this system lets us mount (root, outside of most containers)."""
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def disk(folder, *options):
    """A file system of its own at `folder`, mounted so. Beside each test that needs one stands one without."""
    folder.mkdir(parents=True, exist_ok=True)
    if not mounted("-t", "tmpfs", *options, "tmpfs", str(folder)):
        pytest.skip("mounting needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def no_file_beyond(size):
    """To be called in a new process: none of its files may grow beyond so many bytes, as under a quota."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def bound_by_permissions():
    """To be called in a new process: permissions of files hold for root as for everybody else."""
    if os.geteuid() == 0:
        for right in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, right, 0, 0, 0)


@contextlib.contextmanager
def read_only(folder):
    """Nothing can be created below `folder` by who is bound by permissions."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    try:
        yield
    finally:
        for path in folders:
            path.chmod(0o755)
