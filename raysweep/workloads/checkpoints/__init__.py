"""Released language models: which of their intermediate checkpoints, fine-tuned at which rate, is best (paper O, §2).

This file is the declaration. The other files here compute the workload. No file that is imported here imports torch.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from raysweep.workloads.checkpoints import data, harness, hub
from raysweep.workloads.declaration import Metric, Parameter, Workload, deferred, stage_of
from raysweep.workloads.language import BATCH, CURVATURE, NOISE, SCHEDULE, SHIFT, STEPS, TOKENS, TUNED
from raysweep.workloads.language import METRICS as LANGUAGE

Fetching, Finetuning, Evaluation = (partial(Parameter, stage=name) for name in ("fetch", "finetune", "evaluate"))

PARAMETERS = (
    Fetching("model", str, "EleutherAI/pythia-70m", "a name on the Hugging Face hub, or a folder"),
    Fetching("revision", str, hub.MAIN, "a branch, tag or commit of the hub; of a folder, a folder in it"),
    Fetching("pretrain_length", float, 299892736000.0, "as published; zip it with revision", unit="tokens", minimum=0),
    Finetuning("finetune_lr", float, 1e-5, "peak rate of AdamW", **TUNED, scale="log"),
    Fetching(
        "precision",
        str,
        "mixed",
        "mixed: float32, on a GPU products in bfloat16; bfloat16: weights and moments too",
        choices=("mixed", "bfloat16"),
    ),
    Evaluation("source", str, "python-source:5", f"text like that of pretraining, to see forgetting on: {data.FORMS}"),
    Finetuning("target", str, "python-docs:10", f"text likewise, or {data.CHAT}PATH (.jsonl), for its answers"),
    Finetuning("template", str, data.TOKENIZER, "for messages: its chat template, or tulu", choices=data.TEMPLATES),
    Finetuning("finetune_method", str, "full", "all weights, or adapters (LoRA)", choices=("full", "lora")),
    Finetuning("lora_rank", int, 16, "rank of adapters", minimum=1, maximum=65536, label="rank of adapters"),
    Finetuning("lora_alpha", float, 32.0, "adapters are multiplied by it and divided by their rank", minimum=0),
    Finetuning("noise", float, 0.0, f"{NOISE} initializer_range as its configuration has it; gains stay", **SHIFT),
    Finetuning("finetune_steps", int, 100, "steps on the target; 0 for none, or for epochs", **STEPS),
    Finetuning("finetune_batch", int, 256, "sequences or conversations a step", **BATCH),
    Finetuning("context", int, 2048, "of a longer conversation the beginning is cut", **TOKENS | {"minimum": 8}),
    Finetuning("finetune_schedule", str, "cosine", "cosine and constant_warmup warm up", **SCHEDULE),
    Finetuning("finetune_warmup", int, 20, "steps of linear warm-up (O Table 2); 0: a tenth of all", **STEPS),
    Finetuning("finetune_weight_decay", float, 0.0, "AdamW's decay", minimum=0),
    Evaluation("evaluation_tokens", int, 65536, "held-out tokens for each loss", **TOKENS),
    Finetuning("epochs", float, 0.0, "passes over the target, with finetune_steps: 0", minimum=0, absent=0.0),
    Finetuning("packing", bool, False, "conversations share rows, for the same gradient", absent=False),
    Evaluation("tasks", str, "", "names of tasks of lm-eval, or files (.yaml), by commas; their time is not estimated"),
)

Accuracy = partial(Metric, direction="maximize", share=True)
METRICS = (
    *(metric for metric in LANGUAGE if metric.name != "epochs" and metric not in CURVATURE),
    Metric("steps_taken", "steps of fine-tuning, stated or by epochs", label="steps of fine-tuning"),
    Accuracy("task_accuracy", "mean acc on `tasks`, or NaN", label="accuracy on tasks", error="task_accuracy_error"),
    Metric("task_accuracy_error", "its standard error over examples, by lm-eval", label="error of accuracy on tasks"),
    Accuracy("task_accuracy_before", "the same of the checkpoint itself", label="accuracy on tasks before"),
)


def identify(stage: str, values: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """What identifies a stage: the commit or digest of a checkpoint instead of its name, and the digests of texts.

    Where nothing is trained, how it would be does not.
    """
    named = {"model", "revision", "pretrain_length"}
    if not (row["finetune_steps"] or row["epochs"]):
        named |= {name for name in values if name.startswith(("finetune_", "lora_"))} | {"packing"}
    if row["finetune_method"] == "full":
        named |= {"lora_rank", "lora_alpha"}
    identity = {name: value for name, value in values.items() if name not in named}
    folder, absent = hub.place(str(row["model"]), str(row["revision"])), f"{row['model']} {row['revision']}, not here"
    identity["checkpoint"] = hub.identity(folder) if folder is not None else absent
    return identity | {name: data.documents(str(row[name])).digest for name in ("source", "target") if name in identity}


def check(parameters: Mapping[str, Any]) -> tuple[str, str] | None:
    """Errors of one cell that no single range can catch: a checkpoint that is not here, or texts that do not fit it."""
    model, revision = str(parameters["model"]), str(parameters["revision"])
    if str(parameters["source"]).startswith(data.CHAT):
        return "source", f"expected {data.FORMS}, got conversations"
    if parameters["epochs"] and parameters["finetune_steps"]:
        steps = f"{parameters['finetune_steps']:,} steps (finetune_steps: 0 takes them away)"
        return "epochs", f"expected steps or epochs, got {steps} and {parameters['epochs']:g} epochs"
    if parameters["packing"] and not str(parameters["target"]).startswith(data.CHAT):
        return "packing", f"expected conversations ({data.CHAT}PATH) to pack, got text, which fills its rows"
    if parameters["tasks"] and (why := harness.complaint(str(parameters["tasks"]))):
        return "tasks", why
    try:
        folder = hub.place(model, revision)
    except ValueError as error:
        return "model", f"expected a folder or a name on the hub, got {model!r} ({error})"
    length, planned = int(parameters["context"]), folder is None and hub.downloads(parameters)
    if not planned and (lacking := hub.lacking(str(parameters["finetune_method"]))):
        return lacking
    if folder is None and not planned:
        return "revision", hub.absence(model, revision)
    if folder is not None and (why := hub.incomplete(folder)):
        return "revision", f"{model} {revision}: {why}"
    most = getattr(hub.config(folder), "max_position_embeddings", 10**9) if folder is not None else length
    if length > most:
        return "context", f"expected at most {most:,} tokens, which {model} reads, got {length:,}"
    for name in ("source", "target"):
        if why := data.complaint(str(parameters[name]), str(parameters["template"]), folder, length):
            return name, why
    return None


_HERE = "raysweep.workloads.checkpoints"
_stage = partial(stage_of, _HERE)
WORKLOAD = Workload(
    name="checkpoints",
    summary="intermediate checkpoints of a released language model, fine-tuned or perturbed (paper O, Overtrained "
    "Language Models, §2); diverged: a loss or gradient that is not finite",
    identity_version=1,
    parameters=PARAMETERS,
    metrics=METRICS,
    stages=(_stage("fetch"), _stage("finetune", "fetch"), _stage("evaluate", "finetune")),
    sources=(_HERE, "raysweep.workloads.language", "raysweep.workloads.cache", "raysweep.training"),
    identify=identify,
    data_parallel=True,
    exports={"finetune": deferred(f"{_HERE}.exported:exported")},
    check=check,
    fetch=hub.fetch,
    downloads=hub.downloads,
    gpu_guess="within a factor of 3 either way: flops are counted, and their speed is assumed from the data sheet of "
    "an H200; no GPU has confirmed it",
)
