"""Fine-tuning a checkpoint: a step against one of transformers' Trainer, on one CPU core.

Run with: python -m benchmarks.checkpoints. That Trainer needs accelerate, which peft brings. Both train the same
model on the same batches with the same AdamW, schedule and clipping. They take turns, and the least time of each
counts: other work on the machine only adds to it. Time is that of the process while it trains, so that neither's
preparations count.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any

import numpy as np
import torch
import transformers

from raysweep.training import schedules
from raysweep.training.trainer import BETAS, CLIP, Recipe, Trainer
from raysweep.workloads.checkpoints.stages import losses

Row = tuple[str, str, str]
SHAPE = {"vocab_size": 1024, "hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 2}
HEADS, LENGTH, BATCH, STEPS, ROUNDS, LR = 4, 64, 8, 10, 5, 1e-4


def model() -> transformers.PreTrainedModel:
    """A Llama of some 700,000 weights, the same each time."""
    torch.manual_seed(0)
    shape = {**SHAPE, "num_attention_heads": HEADS, "max_position_embeddings": LENGTH, "tie_word_embeddings": False}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape, use_cache=False))


def tokens() -> np.ndarray:
    """The batches, (steps, batch, length + 1)."""
    return np.random.default_rng(0).integers(0, SHAPE["vocab_size"], (STEPS, BATCH, LENGTH + 1)).astype(np.int32)


def ours(batches: np.ndarray) -> tuple[float, torch.nn.Module]:
    """Seconds of a step as the workload `checkpoints` makes it, and the trained module."""
    module = model().eval()
    trained = Trainer(module, losses, Recipe(LR, schedules.schedule("constant", STEPS, 0)))
    started = time.process_time()
    trained.train(lambda step: batches[step], STEPS)
    return (time.process_time() - started) / STEPS, module


def theirs(batches: np.ndarray) -> tuple[float, torch.nn.Module]:
    """Seconds of a step of transformers' Trainer, and the trained module."""
    module, clock = model(), Clock()
    # Both predict the same tokens; this one reads a last token more.
    texts = [{"input_ids": row, "labels": row} for row in torch.from_numpy(batches.astype(np.int64)).flatten(0, 1)]
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            folder,
            use_cpu=True,
            max_steps=STEPS,
            per_device_train_batch_size=BATCH,
            learning_rate=LR,
            lr_scheduler_type="constant",
            adam_beta1=BETAS[0],
            adam_beta2=BETAS[1],
            weight_decay=0.0,
            max_grad_norm=CLIP,
            optim="adamw_torch_fused",
            train_sampling_strategy="sequential",
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = transformers.Trainer(module, settings, train_dataset=texts, callbacks=[clock])
        trainer.remove_callback(transformers.trainer_callback.PrinterCallback)
        trainer.train()
    return clock.seconds / STEPS, module


class Clock(transformers.TrainerCallback):
    """Process time between the beginning and the end of training."""

    def on_train_begin(self, *given: Any, **named: Any) -> None:
        """Start."""
        self.started = time.process_time()

    def on_train_end(self, *given: Any, **named: Any) -> None:
        """Stop."""
        self.seconds = time.process_time() - self.started


def rows() -> list[Row]:
    """The lines of the table: what, measured, bound."""
    what = f"a step of fine-tuning a checkpoint on a CPU core, {BATCH * LENGTH:,} tokens, transformers' Trainer / ours"
    threads, batches = torch.get_num_threads(), tokens()
    torch.set_num_threads(1)  # as a trial has
    found = np.min([[run(batches)[0] for run in (theirs, ours)] for _ in range(ROUNDS + 1)][1:], 0)
    torch.set_num_threads(threads)
    return [(what, f"{1000 * found[0]:.0f} / {1000 * found[1]:.0f} ms = {found[0] / found[1]:.2f} x", "1 x or more")]


if __name__ == "__main__":
    for line in rows():
        print("| " + " | ".join(line) + " |", flush=True)
