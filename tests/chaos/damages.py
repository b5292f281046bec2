"""What goes wrong on the disk between two drivers: damaged files, and what dead writers leave behind."""

import json
import subprocess

from raysweep.stages import references
from raysweep.storage import processes
from raysweep.storage.leases import Lease
from tests.chaos.left import ELSEWHERE


def _damaged(sweep, dice, place, how):
    folder, pattern = (sweep.folder, "*.jsonl") if place == "ledger" else (sweep.storage / "store", "*")
    files = sorted(path for path in (folder / place).glob(pattern) if path.stat().st_size)
    if not files:
        return False
    path = dice.choice(files)
    content = path.read_bytes()
    cut = dice.randrange(len(content))
    if place == "entries":
        sweep.damage(path.name.split(".")[0])
    if how == "flip":
        flipped = content[cut] ^ (1 << dice.randrange(8))
        path.write_bytes(content[:cut] + bytes([flipped]) + content[cut + 1 :])
    elif how == "truncate":
        path.write_bytes(content[:cut])
    else:  # what a writer that died leaves: a temporary file, and on a poor file system half of a segment
        path.with_name(f".{path.name}.chaos.part").write_bytes(content[:cut])
        path.with_name("feedfeedfeedfeed-1.jsonl").write_bytes(content[:cut])
    return True


def _left_lease(sweep, dice, here):
    """A lease of a process that died, on this machine or on another, for a stage that the sweep still needs."""
    store = sweep.store
    needed = {stage for sweep in store.files.names("refs") for stage in references.referred(store, sweep)}
    held = {name.split(".")[0] for name in store.files.names("leases")}
    missing = sorted(needed - set(store.stages()) - held)
    if not missing:
        return False
    lease = Lease(store.files, dice.choice(missing), 1, 3.0)
    told = json.loads(lease.content())
    if here:
        with subprocess.Popen(["sleep", "60"]) as process:
            told |= {"process": process.pid, "life": processes.life(process.pid)}
            process.kill()
    else:
        told |= {"host": ELSEWHERE, "process": 1, "life": None}
    store.files.create(lease.name, json.dumps(told).encode())
    return True


DAMAGES = {
    "segment truncated": lambda sweep, dice: _damaged(sweep, dice, "ledger", "truncate"),
    "bit of a segment flipped": lambda sweep, dice: _damaged(sweep, dice, "ledger", "flip"),
    "half a segment left behind": lambda sweep, dice: _damaged(sweep, dice, "ledger", "half"),
    "bit of a stored stage flipped": lambda sweep, dice: _damaged(sweep, dice, "entries", "flip"),
    "stored stage truncated": lambda sweep, dice: _damaged(sweep, dice, "entries", "truncate"),
    "bit of a checkpoint flipped": lambda sweep, dice: _damaged(sweep, dice, "progress", "flip"),
    "lease of a dead process": lambda sweep, dice: _left_lease(sweep, dice, here=True),
    "lease of a dead machine": lambda sweep, dice: _left_lease(sweep, dice, here=False),
}
