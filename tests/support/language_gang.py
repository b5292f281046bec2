"""What the workers of test_parallel.py do: python -m tests.support.language_gang FOLDER RANK WORKERS JOBS GPUS

GPUS: none, or real; then each worker has one of its own.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

from raysweep.executors.gang_stages import GangStages, waiting_group
from raysweep.stages.store import Store
from raysweep.training import devices, parallel, trainer
from raysweep.training.trainer import Recipe, Trainer
from raysweep.workloads.language import model
from raysweep.workloads.language.model_config import ModelConfig
from tests.support import checkpoint_rows, language_rows
from tests.support.language_rows import columns_of, compute

SMALL = ModelConfig(depth=2, width=16, heads=2, mlp=24, context=12, vocabulary=20)
STEPS, RATE = 50, 1e-3
QUICK = {**language_rows.QUICK, "pretrain_batch": 5, "finetune_batch": 7, "pretrain_length": 40.0 * 5 * 16}
QUICK |= {"finetune_steps": 12, "evaluation_tokens": 528, "finetune_dropout": 0.1, "pretrain_dropout": 0.1}
ROWS = (
    {"finetune_lr": 2e-4},
    {"finetune_lr": 2e-4, "noise": 0.5, "sharpness_iterations": 2},
    {"noise": 1.0, "finetune_steps": 0},
    {"finetune_lr": 2e-4, "early_stopping": 3, "finetune_schedule": "constant"},
    {"finetune_lr": 1e7},
    {"overlap_angle": 45.0, "context": 64, "pretrain_length": 10.0 * 5 * 64},
    {"pretrain_schedule": "wsd"},
    {"pretrain_lr": 1e30},
)
ON_GPU = [0, 3, 4]  # of these


def tokens(step, batch=5):
    """A batch that two workers cannot share out evenly, with tokens that are given in its first sequence."""
    stream = np.random.default_rng(step)
    rows = (stream.integers(0, 20, (batch, 1)) + 3 * np.arange(SMALL.context + 1)) % 20
    rows[0, :6] = -1 - rows[0, :6]
    return rows.astype(np.int16)


def train(dropout=0.0):
    """A training: its losses, its weights, the loss on held-out tokens, and how many weights this worker holds."""
    module = model.decoder(SMALL, SMALL.initial(0), dropout)
    made = Trainer(
        module, model.losses, Recipe(RATE, lambda step: 1.0, 0.1, SMALL.lr_factors(), 0.0, dropout > 0, 3, "test")
    )
    losses = []
    batch = 40 if dropout else 5
    made.train(lambda step: tokens(step, batch), STEPS, lambda _, loss: losses.append(float(loss)))
    held_out = np.concatenate([tokens(1000 + number) for number in range(15)])
    local = [getattr(weight, "_local_tensor", weight) for weight in module.parameters()]
    return {
        **{name: values.numpy() for name, values in made.state(everywhere=True)["weights"].items()},
        "losses": np.array(losses),
        "held out": np.array(trainer.mean_loss(module, model.losses, [held_out])),
        "held": np.array(sum(weight.numel() for weight in local)),
    }


def rows(store, chosen=ROWS):
    """Whole rows, pretraining and all."""
    metrics, status = compute(columns_of(*chosen, **QUICK), np.zeros(len(chosen), int), store)
    return {**metrics, "status": status.astype(str)}


def fine_tunings(store, home):
    """Rows of `checkpoints`, on conversations of a file."""
    common = {"target": f"chat:{home}/chats.jsonl", "context": 48, "finetune_steps": STEPS, "finetune_lr": RATE}
    more = ({}, {"finetune_method": "lora", "lora_rank": 4}, {"packing": True, "noise": 0.5})
    asked = checkpoint_rows.table(*(common | {"finetune_batch": 5} | each for each in more))
    metrics, status = checkpoint_rows.compute(asked, np.zeros(len(more), int), store, ["finetune"])
    return {**metrics, "status": status.astype(str)}


def share():
    """This worker's part of a batch of five sequences."""
    part, first = parallel.share(np.arange(5 * 4, dtype=np.uint8).reshape(5, 4))
    return {"own": part, "first": np.array(first)}


def main(folder, rank, workers, jobs, gpus):
    """Each job's results as FOLDER/JOB.RANK.npz."""
    torch.set_num_threads(1)
    gpu = torch.device("cuda", rank) if gpus == "real" else None
    if gpu is not None:
        torch.cuda.set_device(gpu)
    torch.distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if gpu else "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=workers,
        device_id=gpu,
    )
    for job in jobs:
        with devices.granted(int(gpu is not None)):
            if job == "rows":
                store = GangStages(Store(folder / "store"), waiting_group())
                result = rows(store, ROWS if gpu is None else tuple(ROWS[i] for i in ON_GPU))
            elif job == "checkpoints":
                result = fine_tunings(GangStages(Store(folder / "store"), waiting_group()), str(folder.parent))
            else:
                result = share() if job == "share" else train(0.1 if job == "dropout" else 0.0)
        np.savez(folder / f"{job}.{rank}.npz", **result)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]), sys.argv[5])
