"""State as named arrays: nested mappings and lists of arrays, such as an optimizer's state_dict, for the store.

Arrays of NumPy and torch become named arrays, and the rest (numbers, words, the nesting) becomes plain data. What comes
back has the same form: torch tensors where there were torch tensors, on the CPU and without gradients; a mapping comes
back as a dict. What could not come back as it was given is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from raysweep.stages.tensors import CODES

TORCH_ONLY = "bfloat16"
"""The dtype of torch that NumPy does not have: its bits are stored as int16."""
_STORED = {np.dtype(code).name: code for code in CODES} | {TORCH_ONLY: ""}
"""The dtypes that are stored, by their names in torch and in NumPy (in any order of bytes; they come back in the order
of this machine)."""
_NUMBERS_AND_WORDS = (bool, int, float, str, type(None))


def check(tree: Any, path: str = "") -> None:
    """TypeError, which names the place, if a tree holds what would not come back from the store as it is.

    A tree consists of mappings whose keys are words or whole numbers, lists, tuples, arrays of real numbers (or of
    complex64), numbers, words and None.
    """
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            if type(key) not in (str, int):
                raise TypeError(f"{_at(path)}expected words or whole numbers as keys, got {key!r}")
            check(value, f"{path}/{key}")
    elif type(tree) in (list, tuple):
        for i, value in enumerate(tree):
            check(value, f"{path}/{i}")
    elif is_array(tree):
        if problem := _problem(tree):
            raise TypeError(f"{_at(path)}expected a plain array of real numbers, got {problem}")
    elif type(tree) not in _NUMBERS_AND_WORDS:
        raise TypeError(
            f"{_at(path)}expected an array, a number, a word, or a mapping or list of these, got {type(tree).__name__}"
        )


def _at(path: str) -> str:
    return f"{path[1:]}: " if path else ""


def _problem(array: Any) -> str:
    """Why an array cannot be stored, in words; "" if it can be."""
    if isinstance(array, (np.ndarray, np.generic)):
        if not isinstance(array, np.generic) and type(array) not in (np.ndarray, np.memmap):
            return f"a {type(array).__name__}"
        return "" if array.dtype.str[1:] in _STORED.values() else f"one of dtype {array.dtype}"
    layout, kind = str(array.layout).removeprefix("torch."), str(array.dtype).removeprefix("torch.")
    if layout != "strided":
        return f"one of layout {layout}"
    return "" if kind in _STORED else f"one of dtype {kind}"


def is_array(value: Any) -> bool:
    """Whether a value is an array or a number of NumPy, or a tensor of torch."""
    torch = sys.modules.get("torch")
    return isinstance(value, (np.ndarray, np.generic)) or (torch is not None and isinstance(value, torch.Tensor))


def flatten(tree: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a tree by their path (a/b/0), and a plain description from which `unflatten` builds it again.

    A path that two arrays have, as a/b in {"a": {"b": …}, "a/b": …}, gets a ' for the second.

    TypeError as in `check`.
    """
    check(tree)
    arrays: dict[str, np.ndarray] = {}

    def named(array: np.ndarray, path: str) -> str:
        while path in arrays or path == "__metadata__":  # which has a meaning of its own in the file
            path += "'"
        arrays[path] = array
        return path

    def describe(value: Any, path: str) -> Any:
        if isinstance(value, np.ndarray):
            return {"array": named(value, path)}
        if isinstance(value, np.generic):
            return {"array": named(np.asarray(value), path), "number": True}
        if is_array(value):
            tensor = value.detach().cpu().resolve_conj().resolve_neg()
            kind = str(tensor.dtype).removeprefix("torch.")
            array = (tensor.view(sys.modules["torch"].int16) if kind == TORCH_ONLY else tensor).numpy()
            return {"array": named(array, path), "torch": kind}
        if isinstance(value, Mapping):
            inner = [[key, describe(entry, f"{path}/{key}" if path else str(key))] for key, entry in value.items()]
            return {"mapping": inner}
        if isinstance(value, (list, tuple)):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [describe(entry, f"{path}/{i}" if path else str(i)) for i, entry in enumerate(value)]}
        return {"plain": value}

    return arrays, describe(tree, "")


def unflatten(arrays: Mapping[str, np.ndarray], description: Mapping[str, Any]) -> Any:
    if "array" in description:
        array = arrays[description["array"]]
        if "number" in description:
            return array[()]
        if "torch" not in description:
            return array
        import torch

        tensor = torch.from_numpy(array)
        return tensor.view(torch.bfloat16) if description["torch"] == TORCH_ONLY else tensor
    if "mapping" in description:
        return {key: unflatten(arrays, entry) for key, entry in description["mapping"]}
    if "list" in description:
        return [unflatten(arrays, entry) for entry in description["list"]]
    if "tuple" in description:
        return tuple(unflatten(arrays, entry) for entry in description["tuple"])
    return description["plain"]


def entry(tree: Any, index: int) -> Any:
    """One entry of the first axis of every array (NumPy or torch); what is no array stays as it is."""
    if isinstance(tree, Mapping):
        return {key: entry(value, index) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(entry(value, index) for value in tree)
    return tree[index] if is_array(tree) else tree


def read_only(tree: Any) -> Any:
    """The same tree, whose arrays of NumPy cannot be changed in place. Nothing is copied."""
    if isinstance(tree, Mapping):
        return {key: read_only(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(read_only(value) for value in tree)
    if isinstance(tree, np.ndarray):
        tree = tree.view()
        tree.flags.writeable = False
    return tree


def versions(tree: Any) -> list[int]:
    """How often each tensor of torch in a tree was changed in place; one of inference mode does not count that."""
    if isinstance(tree, Mapping):
        return [version for value in tree.values() for version in versions(value)]
    if isinstance(tree, (list, tuple)):
        return [version for value in tree for version in versions(value)]
    return [tree._version] if hasattr(tree, "is_inference") and not tree.is_inference() else []


def lengths(tree: Any, path: str = "") -> list[tuple[str, int]]:
    """The path of every array with the length of its first axis; -1 for an array without axes."""
    if isinstance(tree, Mapping):
        return [item for key, value in tree.items() for item in lengths(value, f"{path}/{key}")]
    if isinstance(tree, (list, tuple)):
        return [item for i, value in enumerate(tree) for item in lengths(value, f"{path}/{i}")]
    return [(path.removeprefix("/"), len(tree) if len(tree.shape) else -1)] if is_array(tree) else []


def stack(trees: list[Any]) -> Any:
    """Trees of equal form as one, each array with a new first axis: one entry per tree.

    What is no array stays as it is where it is equal in all trees; otherwise it becomes a list, one entry per tree.
    """
    first = trees[0]
    if isinstance(first, (np.ndarray, np.generic)):  # an entry of a vector is a number of NumPy's
        return np.stack(trees)
    if is_array(first):
        return sys.modules["torch"].stack(trees)
    if isinstance(first, Mapping) and all(isinstance(tree, Mapping) and tree.keys() == first.keys() for tree in trees):
        return {key: stack([tree[key] for tree in trees]) for key in first}
    if isinstance(first, (list, tuple)) and lengths(first):
        return type(first)(stack(list(entries)) for entries in zip(*trees, strict=True))
    # their texts, because a NaN is not equal to itself, and 1 is equal to True
    return first if all(repr(tree) == repr(first) for tree in trees) else list(trees)
