"""Accuracies on the tasks of lm-eval, by name or by a task file, with the standard errors that it gives them.

Imports lm-eval and torch only where tasks are asked for.
"""

import copy
import functools
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import yaml


def split(tasks: str) -> list[str | dict[str, Any]]:
    """The tasks that a parameter names: names, and the content of task files. ValueError if a file is none."""
    return [_file(name) if name.endswith((".yaml", ".yml")) else name for name in map(str.strip, tasks.split(","))]


def _file(name: str) -> dict[str, Any]:
    try:
        task = yaml.safe_load(Path(name).expanduser().read_bytes())  # which runs no code that it names
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(f"{name} cannot be read ({str(error).partition(chr(10))[0]})") from None
    if not (isinstance(task, dict) and isinstance(task.get("task"), str)):
        raise ValueError(f"{name}: expected a task file of lm-eval, with `task: NAME`")
    return task


def complaint(tasks: str) -> str | None:
    """What is wrong with the tasks that a parameter names, or None."""
    if importlib.util.find_spec("lm_eval") is None:
        return "needs lm-eval: pip install 'raysweep[tasks]'"
    try:
        names = [task for task in split(tasks) if isinstance(task, str)]
    except ValueError as error:
        return str(error)
    unknown = [name for name in names if name not in _manager(True).all_tasks]
    return f"lm-eval has no task {unknown[0]}; `lm-eval ls tasks` lists them" if unknown else None


@functools.lru_cache(maxsize=2)
def _manager(named: bool) -> Any:
    from lm_eval.tasks import TaskManager

    return TaskManager(include_defaults=named)  # reading what it has takes ten seconds


def accuracy(module: Any, words: Any, tasks: str, at_once: int) -> tuple[float, float]:
    """Mean accuracy (lm-eval's acc) over tasks, and its standard error. ValueError for a task that measures none.

    words: the tokenizer. at_once: sequences evaluated at a time.
    """
    import lm_eval
    from lm_eval.models.huggingface import HFLM

    asked = split(tasks)
    results = lm_eval.simple_evaluate(
        HFLM(pretrained=module, tokenizer=copy.deepcopy(words), batch_size=at_once),
        tasks=asked,
        task_manager=_manager(any(isinstance(task, str) for task in asked)),
        log_samples=False,
        random_seed=None,  # the generators of this process are not touched
        numpy_random_seed=None,
        torch_random_seed=None,
    )["results"]
    scores = [results[task if isinstance(task, str) else task["task"]] for task in asked]
    if lacking := [each["alias"] for each in scores if "acc,none" not in each]:
        raise ValueError(f"tasks: {lacking[0]} does not measure acc")
    errors = [each["acc_stderr,none"] for each in scores]
    return float(np.mean([each["acc,none"] for each in scores])), float(np.linalg.norm(errors) / len(scores))
