"""State as named arrays: nested mappings and lists of arrays, such as an optimizer's state_dict, for the store.

Arrays of NumPy and torch become named arrays, and the rest (numbers, words, the nesting) becomes plain data. What comes
back has the same form: torch tensors where there were torch tensors, on the CPU and without gradients; a mapping comes
back as a dict. What could not come back as it was given is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
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
    """TypeError, which names the place, if a tree holds what would not come back from the store as it is. A tree
    consists of mappings whose keys are words or whole numbers, lists, tuples, arrays of real numbers (or of complex64),
    numbers, words and None."""
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
    """The arrays of a tree by their path (a/b/0), and a plain description from which `unflatten` builds it again. A
    path that two arrays have, as a/b in {"a": {"b": …}, "a/b": …}, gets a ' for the second. TypeError as in `check`."""
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
        if "torch" not in description:
            return array[()] if "number" in description else array
        import torch

        tensor = torch.from_numpy(array)
        return tensor.view(torch.bfloat16) if description["torch"] == TORCH_ONLY else tensor
    if "mapping" in description:
        return {key: unflatten(arrays, entry) for key, entry in description["mapping"]}
    for kind, made in (("list", list), ("tuple", tuple)):
        if kind in description:
            return made(unflatten(arrays, entry) for entry in description[kind])
    return description["plain"]


def mapped(tree: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(tree, Mapping):
        return {key: mapped(value, change) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(mapped(value, change) for value in tree)
    return change(tree)


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(tree, (Mapping, list, tuple)):
        yield path.removeprefix("/"), tree
        return
    for key, value in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
        yield from leaves(value, f"{path}/{key}")


def entry(tree: Any, index: int) -> Any:
    """One entry of the first axis of every array (NumPy or torch); what is no array stays as it is."""
    return mapped(tree, lambda leaf: leaf[index] if is_array(leaf) else leaf)


def read_only(tree: Any) -> Any:
    """The same tree, whose arrays of NumPy cannot be changed in place. Nothing is copied."""

    def guarded(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            leaf = leaf.view()
            leaf.flags.writeable = False
        return leaf

    return mapped(tree, guarded)


def versions(tree: Any) -> list[int]:
    """How often each tensor of torch in a tree was changed in place; one of inference mode does not count that."""
    return [leaf._version for _, leaf in leaves(tree) if hasattr(leaf, "is_inference") and not leaf.is_inference()]


def lengths(tree: Any) -> list[tuple[str, int]]:
    """The path of every array with the length of its first axis; -1 for an array without axes."""
    return [(path, len(leaf) if len(leaf.shape) else -1) for path, leaf in leaves(tree) if is_array(leaf)]


def stack(trees: list[Any]) -> Any:
    """Trees of equal form as one, each array with a new first axis: one entry per tree. What is no array stays as it is
    where it is equal in all trees; otherwise it becomes a list, one entry per tree."""
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
