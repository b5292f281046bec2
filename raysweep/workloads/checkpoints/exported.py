"""A fine-tuned checkpoint as the files that transformers reads: whole weights, adapters merged into them."""

import fnmatch
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from raysweep import plain_json as json
from raysweep.errors import InputError
from raysweep.workloads.checkpoints import hub, stages
from raysweep.workloads.declaration import Exported

_DTYPES = ("dtype", "torch_dtype")  # the weights of the export are float32, whatever those of the checkpoint were


def exported(row: Mapping[str, Any], stage: str, read: Callable[[str], Any]) -> Exported:
    """The model that fine-tuning left for a row. read: the stage's name -> what it left.

    What fine-tuning did not change comes from the checkpoint, which is read again. InputError if it is not here, or
    if it is another one by now.
    """
    left, folder = read(stage), stages.folder_of(row)
    identity = hub.identity(folder)
    if np.asarray(left.get("checkpoint", np.frombuffer(identity.encode(), np.uint8))).tobytes().decode() != identity:
        raise InputError("revision", f"{row['model']} {row['revision']} is {identity} by now, not what was fine-tuned")
    module = stages.pretrained(row)
    start = {name: weight.detach() for name, weight in module.named_parameters()}
    stages.adapt(module, row)
    stages.put(module, stages.perturbed(start, row) | left["weights"])
    with torch.no_grad():
        weights = {name: weight.float().numpy() for name, weight in stages.merged(module).items()}
    read_config = json.loads((folder / hub.CONFIG).read_bytes()).items()
    config = {name: value for name, value in read_config if name not in _DTYPES} | {"dtype": "float32"}
    files = {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if any(fnmatch.fnmatch(path.name, each) for each in hub.PATTERNS) and ".safetensors" not in path.name
    } | {hub.CONFIG: f"{json.dumps(config, indent=1)}\n".encode()}
    note = f"Fine-tuned from {row['model']} {row['revision']} ({identity}), with its tokenizer."
    return Exported(files, weights, note)
