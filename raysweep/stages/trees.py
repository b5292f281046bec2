"""State as named arrays: nested mappings and lists of arrays, such as an optimizer's state_dict, for the store.

Arrays of NumPy and torch become named arrays, and the rest (numbers, words, the nesting) becomes plain data beside
them. What comes back has the same form: torch tensors where there were torch tensors, on the CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

TORCH_ONLY = "bfloat16"
"""The dtype of torch that NumPy does not have: its bits are stored as int16."""


def flatten(tree: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a tree by their path (a/b/0), and a plain description from which `unflatten` builds it again.

    TypeError for a value that is neither an array nor plain data.
    """
    arrays: dict[str, np.ndarray] = {}

    def describe(value: Any, path: str) -> Any:
        if isinstance(value, np.ndarray):
            arrays[path] = value
            return {"array": path}
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            own = value.detach().cpu()
            kind = str(own.dtype).removeprefix("torch.")
            arrays[path] = (own.view(torch.int16) if kind == TORCH_ONLY else own).numpy()
            return {"array": path, "torch": kind}
        if isinstance(value, Mapping):
            inner = [[key, describe(entry, f"{path}/{key}" if path else str(key))] for key, entry in value.items()]
            return {"mapping": inner}
        if isinstance(value, (list, tuple)):
            return {"list": [describe(entry, f"{path}/{i}") for i, entry in enumerate(value)]}
        if isinstance(value, np.generic):
            return describe(np.asarray(value), path)
        if value is None or isinstance(value, (bool, int, float, str)):
            return {"plain": value}
        raise TypeError(
            f"{path}: expected an array, a number, a word, or a mapping or list of these, got {type(value).__name__}"
        )

    return arrays, describe(tree, "")


def unflatten(arrays: Mapping[str, np.ndarray], description: Mapping[str, Any]) -> Any:
    """The tree that `flatten` took apart."""
    if "array" in description:
        array = arrays[description["array"]]
        if "torch" not in description:
            return array
        import torch

        tensor = torch.from_numpy(array)
        return tensor.view(torch.bfloat16) if description["torch"] == TORCH_ONLY else tensor
    if "mapping" in description:
        return {key: unflatten(arrays, entry) for key, entry in description["mapping"]}
    if "list" in description:
        return [unflatten(arrays, entry) for entry in description["list"]]
    return description["plain"]


def entry(tree: Any, index: int) -> Any:
    """One entry of the first axis of every array (NumPy or torch)."""
    if isinstance(tree, Mapping):
        return {key: entry(value, index) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [entry(value, index) for value in tree]
    return tree[index] if _is_array(tree) else tree


def lengths(tree: Any, path: str = "") -> dict[str, int]:
    """The length of the first axis of every array, by its path; -1 for an array without axes."""
    if isinstance(tree, Mapping):
        return {k: n for key, value in tree.items() for k, n in lengths(value, f"{path}/{key}").items()}
    if isinstance(tree, (list, tuple)):
        return {k: n for i, value in enumerate(tree) for k, n in lengths(value, f"{path}/{i}").items()}
    return {path.removeprefix("/"): len(tree) if len(tree.shape) else -1} if _is_array(tree) else {}


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def stack(trees: list[Any]) -> Any:
    """Trees of equal form as one, each array with a new first axis: one entry per tree."""
    first = trees[0]
    if isinstance(first, Mapping):
        return {key: stack([tree[key] for tree in trees]) for key in first}
    if isinstance(first, (list, tuple)):
        return [stack(list(entries)) for entries in zip(*trees, strict=True)]
    if isinstance(first, (np.ndarray, np.generic)):  # an entry of a vector is a number of NumPy's
        return np.stack(trees)
    if _is_array(first):
        import torch

        return torch.stack(trees)
    return list(trees)
