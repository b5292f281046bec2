"""Where checkpoints lie on this machine, what they are, and how they come here. Imports no torch.

A model is a folder, or a name on the Hugging Face hub. A folder may hold revisions as folders of their own. What was
downloaded lies in the cache of huggingface_hub (HF_HOME, HF_HUB_CACHE), which knows the commit that a revision was.
Planning and computing read only what is there; only `raysweep run --download` asks the hub. A token comes from the
environment (HF_TOKEN), to the library alone. Weights are read from safetensors only; no code of a repository is run.
"""

import fnmatch
import functools
import hashlib
import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raysweep.workloads import asked_once

PATTERNS = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt")
"""The files of a repository that are downloaded; pickled weights are not among them."""
MAIN, CONFIG = "main", "config.json"
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class Shape:
    """What decides the cost of a model. parameters: all weights; bytes: those of the files of one checkpoint."""

    parameters: float
    layers: int
    width: int
    vocabulary: int
    bytes: float


PUBLISHED = {
    "EleutherAI/pythia-70m": Shape(70.4e6, 6, 512, 50304, 0.17e9),
    "EleutherAI/pythia-160m": Shape(162.3e6, 12, 768, 50304, 0.38e9),
    "EleutherAI/pythia-410m": Shape(405.3e6, 24, 1024, 50304, 0.91e9),
    "EleutherAI/pythia-1b": Shape(1.01e9, 16, 2048, 50304, 2.1e9),
    "allenai/OLMo-1B-hf": Shape(1.18e9, 16, 2048, 50304, 4.7e9),
    "allenai/OLMo-2-1124-7B": Shape(7.30e9, 32, 4096, 100352, 29.2e9),
    "LLM360/Amber": Shape(6.74e9, 32, 4096, 32000, 27.0e9),
}
"""Models whose intermediate checkpoints are revisions, for plans made before anything is here. Shapes are those of the
models' papers and cards, bytes those that their pages on the hub list; no download has verified them."""


def lacking(method: str) -> tuple[str, str] | None:
    """("model", which package of the extra `hub` a method needs and is not installed), or None."""
    needed = ("transformers", "huggingface_hub", *("peft",) * (method == "lora"))
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    return ("model", f"needs {missing[0]}: pip install 'raysweep[hub]'") if missing else None


def _cache() -> Path:
    from huggingface_hub import constants

    return Path(os.environ.get("HF_HUB_CACHE") or constants.HF_HUB_CACHE)


@asked_once.once
def place(model: str, revision: str) -> Path | None:
    """The folder with a checkpoint's files on this machine; None if they are not there. ValueError for no name."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        within = folder / revision
        checkpoint = within if revision != MAIN or (within / CONFIG).is_file() else folder
        return checkpoint if (checkpoint / CONFIG).is_file() else None
    if lacking("full"):
        return None
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(model, CONFIG, cache_dir=_cache(), revision=revision)
    return Path(cached).parent if isinstance(cached, str) else None


def absence(model: str, revision: str) -> str:
    """That a revision is not on this machine: where it was sought, and which ones are there."""
    folder, loads = Path(model).expanduser(), ""
    if folder.is_dir():
        there = sorted(path.parent.name for path in folder.glob(f"*/{CONFIG}"))
    else:
        folder, loads = _cache(), " (--download loads it from the hub)"
        refs = folder / f"models--{model.replace('/', '--')}" / "refs"
        there = sorted(str(path.relative_to(refs)) for path in refs.rglob("*") if path.is_file())
    return f"{model} {revision} is not here, in {folder}{loads}; there: {', '.join(there) or 'nothing'}"


@asked_once.once
def incomplete(folder: Path) -> str | None:
    """Why a checkpoint cannot be read, or None."""
    from safetensors import SafetensorError, safe_open
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

    try:
        names, kind = {_SINGLE}, config(folder).model_type
        if (folder / _INDEX).is_file():
            names = set(json.loads((folder / _INDEX).read_bytes())["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"cannot be read ({str(error).partition(chr(10))[0]})"
    if kind not in CAUSAL:
        return f"expected a causal language model that transformers has, got the type {kind}"
    lacking = sorted(name for name in names if not (folder / name).is_file())
    if lacking and any(folder.glob("*.bin")):
        return f"has pickled weights only, which are never read; expected {_SINGLE}"
    if lacking:
        return f"has no {lacking[0]}"
    for path in (folder / name for name in sorted(names)):
        try:
            with safe_open(path, "numpy"):  # reads the header, and compares it with the length
                pass
        except (OSError, SafetensorError) as error:
            return f"{path} is damaged or cut off ({error}); remove it, and load or copy it again"
    return None


@asked_once.once
def config(folder: Path) -> Any:
    """The configuration of a checkpoint, as transformers has it. ValueError or OSError if it cannot be read."""
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def identity(folder: Path) -> str:
    """What identifies a checkpoint: the commit in a cache of the hub, else a digest of its files."""
    if folder.parent.name == "snapshots":
        return folder.name
    files = sorted(path for path in folder.iterdir() if any(fnmatch.fnmatch(path.name, each) for each in PATTERNS))
    return _digest(tuple((path, (status := path.stat()).st_size, status.st_mtime_ns) for path in files))


@functools.lru_cache(maxsize=256)
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    whole = hashlib.sha256()
    for path, size, _ in files:
        with path.open("rb") as stream:
            whole.update(f"{path.name}/{size}/{hashlib.file_digest(stream, 'sha256').hexdigest()}/".encode())
    return whole.hexdigest()[:40]


def shape(parameters: Mapping[str, Any]) -> Shape:
    """What decides the cost of a row's model, from its files, or as published."""
    model = str(parameters["model"])
    if (folder := place(model, str(parameters["revision"]))) is None:
        return PUBLISHED[model]
    settings = config(folder)
    size = float(sum(path.stat().st_size for path in folder.glob("*.safetensors")))
    each = 2 if str(settings.dtype).endswith("16") else 4
    return Shape(size / each, settings.num_hidden_layers, settings.hidden_size, settings.vocab_size, size)


def downloads(parameters: Mapping[str, Any]) -> dict[str, float]:
    """The checkpoint of a row with its bytes, if it is a published one that is not on this machine; else nothing."""
    model, revision = str(parameters["model"]), str(parameters["revision"])
    if model not in PUBLISHED or place(model, revision) is not None:
        return {}
    return {f"{model} {revision}": PUBLISHED[model].bytes}


def fetch(parameters: Mapping[str, Any], say: Callable[[str], None]) -> tuple[str, str] | None:
    """Download a row's checkpoint, if it is not there. Returns (parameter, why that is impossible), or None."""
    model = str(parameters["model"])
    if why := lacking(str(parameters["finetune_method"])):
        return why
    return None if Path(model).expanduser().is_dir() else _fetch(model, str(parameters["revision"]), say)


@asked_once.once
def _fetch(model: str, revision: str, say: Callable[[str], None]) -> tuple[str, str] | None:
    from huggingface_hub import HfApi, errors, snapshot_download

    cache = _cache()
    try:
        if (there := place(model, revision)) is not None and not incomplete(there):
            return None
        info = HfApi().model_info(model, revision=revision, files_metadata=True)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        files = [name for name in sizes if any(fnmatch.fnmatch(name, each) for each in PATTERNS)]
        if not any(name.endswith(".safetensors") for name in files):
            return "revision", f"{model} has no safetensors at {revision}; pickled weights are never read"
        size = sum(sizes[name] for name in files)
        free = shutil.disk_usage(next(each for each in (cache, *cache.parents) if each.exists())).free
        if size > free:
            return "model", f"{size / 1e9:,.1f} GB to download for {revision}, and {free / 1e9:,.1f} GB free in {cache}"
        say(f"{model}: loading {revision}, {size / 1e9:,.2f} GB")
        snapshot_download(model, revision=revision, cache_dir=cache, allow_patterns=files)
    except errors.OfflineModeIsEnabled:
        return "model", f"{model} cannot be downloaded while HF_HUB_OFFLINE is set; unset it"
    except errors.RevisionNotFoundError:
        return "revision", f"{model} has no revision {revision} on the hub"
    except errors.RepositoryNotFoundError:
        return "model", f"there is no {model} on the hub, or it needs a token (HF_TOKEN)"
    except Exception as error:  # of many kinds: no network, a gated model, no name
        return "model", f"{model} cannot be downloaded: {str(error).partition(chr(10))[0] or type(error).__name__}"
    return None
