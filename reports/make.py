"""Make the committed tables, pictures and manifest of reports anew.

    python reports/make.py [--storage FOLDER] [REPORT …]

runs each space (or continues it), writes its report into the storage, copies the tables and the picture that
`manifest.json` names, and records there what they were made of: the digest of the resolved space, the code version, the
number of rows and the digest of their table. Without names it makes every report, which takes hours of two cores.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

import raysweep
from raysweep.space import space_files

HERE = Path(__file__).parent
MANIFEST = HERE / "manifest.json"
WIDTH = 1100  # of a picture: sharp beside a row of the gallery, and about 40 kB


def space_digest(entry: dict[str, Any]) -> str:
    """The digest of what the numbers of a report follow from: its space without name, description and wording."""
    sets = {key: yaml.safe_load(value) for key, value in (text.split("=", 1) for text in entry["set"])}
    space = space_files.read(entry["space"], sets).as_dict()
    for each in space["analysis"]:
        for options in each.values():
            for wording in ("question", "words"):
                options.pop(wording, None)
    kept = {key: value for key, value in space.items() if key not in ("name", "description")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def make(name: str, entry: dict[str, Any], storage: Path) -> dict[str, Any]:
    """Run the space of a report, and copy what is committed of it. Returns its entry with what it was made of."""
    command = [sys.executable, "-m", "raysweep.main", "run", entry["space"], "--name", name, "--storage", str(storage)]
    sets = [part for text in entry["set"] for part in ("--set", text)]
    subprocess.run([*command, *sets, "--executor", "inline", "--tracking-uri", "none"], check=True)
    rows = raysweep.open(name, storage=str(storage)).results()
    report = storage / name / "report"
    folder = HERE / "tables" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for table in entry["tables"]:
        shutil.copy(report / "tables" / f"{table}.csv", folder)
    if entry["picture"]:
        shrink(report / "figures" / f"{entry['picture']}.png", HERE / "pictures" / f"{name}.png")
    measured = rows.drop(columns=["seconds", "code_version"]).to_csv(index=False)
    return {
        **entry,
        "space_digest": space_digest(entry),
        "code": ", ".join(sorted(set(rows["code_version"]))),
        "rows": len(rows),
        "rows_digest": hashlib.sha256(measured.encode()).hexdigest(),
    }


def shrink(source: Path, target: Path) -> None:
    """A picture with 256 colours, small enough to be committed."""
    from PIL import Image

    image = Image.open(source).convert("RGB")
    image.thumbnail((WIDTH, WIDTH))
    image.quantize(dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="REPORT")
    parser.add_argument("--storage", type=Path, default=Path("sweeps"))
    given = parser.parse_args()
    manifest = json.loads(MANIFEST.read_text())
    for each in given.names or manifest:
        manifest[each] = make(each, manifest[each], given.storage)
        MANIFEST.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
