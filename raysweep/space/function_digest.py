"""The digest of what a Python function does, from the text of its file where there is one.

What counts is what the function names, wherever it stands: the lines of its definition; those of the definitions,
constants and imports at the top level of its file that these lines name, and so on; statements that change one of these
(CONFIG["lr"] = 3, torch.manual_seed(0)); and the whole text of every module next to the file that is imported on the
way. Other lines of the file do not count, nor does what stands under `if __name__ == "__main__":`. So the digest is
known before the file is executed, and it is the same if the file is run as a script.

A function that is not at the top level of a file (a closure, a notebook) has its own lines instead, and the values that
it took from around it: of closures, and plain values, functions and classes of a notebook. In a script the plain values
count that its text alone does not tell (K = int(sys.argv[1])). A module that is imported by a computed name is not
seen.
"""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import symtable
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CellType, CodeType
from typing import Any

PLAIN = (int, float, str, bool, tuple, type(None))


def of_file(text: bytes, file: Path, name: str) -> str:
    """The digest of the function of this name in a file, 12 hexadecimal digits; of the whole text if it has none."""
    try:
        statements, modules = _named(ast.parse(text), {name}, file)
    except (SyntaxError, ValueError):
        statements, modules = [], {}
    return _digest(_parts(text, statements, modules) or [text])


def of_function(function: Callable[..., Any]) -> str:
    """The digest of a function that was given in Python. 12 hexadecimal digits."""
    inner: Any = function
    parts: list[bytes] = []
    while hasattr(inner, "func"):  # functools.partial
        parts.append(repr((inner.args, sorted(inner.keywords.items()))).encode())
        inner = inner.func
    inner = inspect.unwrap(inner)
    if not hasattr(inner, "__code__") and not isinstance(inner, type):  # an object that can be called
        inner = vars(type(inner)).get("__call__", inner)
    return _digest([*parts, *_counted(inner, set())])


def _counted(function: Any, seen: set[int]) -> Iterator[bytes]:
    """What counts of a function, without what was seen already."""
    seen.add(id(function))
    code = getattr(function, "__code__", None)
    if code is None:
        yield repr(type(function)).encode()
        return
    closure = zip(code.co_freevars, function.__closure__ or (), strict=False)
    named = {name: cell.cell_contents for name, cell in closure if cell != CellType()}
    available = function.__globals__
    file = Path(code.co_filename)
    try:
        text = file.read_bytes() if file.suffix == ".py" else None
        tree = None if text is None else ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        text = tree = None
    if text is None or tree is None:
        yield _lines_of(function)
        yield from _values(named | {name: available[name] for name in _names(code) if name in available}, seen)
        return
    top = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == code.co_qualname]
    seeds = {code.co_name} if top else set(_names(code))
    statements, modules = _named(tree, seeds, file)
    if not top:
        yield _lines_of(function)
    yield from _parts(text, statements, modules)
    asked = set(_names(code)).union(*map(_read, statements)) & available.keys() & _untold(tree, statements)
    yield from _values(named | {name: available[name] for name in asked if isinstance(available[name], PLAIN)}, seen)


def _values(named: dict[str, Any], seen: set[int]) -> Iterator[bytes]:
    for name, value in sorted(named.items()):
        if isinstance(value, PLAIN):
            yield f"{name} = {value!r}".encode()
        elif id(value) in seen or getattr(value, "__module__", "__main__") != "__main__":
            continue
        elif inspect.isfunction(value):
            yield name.encode()
            yield from _counted(value, seen)
        elif inspect.isclass(value):
            seen.add(id(value))
            yield f"{name}({', '.join(base.__name__ for base in value.__bases__)})".encode()
            inner = {key: each for key, each in vars(value).items() if not key.startswith("__") or callable(each)}
            yield from _values(inner, seen)


def _lines_of(function: Any) -> bytes:
    try:
        return textwrap.dedent(inspect.getsource(function)).encode()
    except (OSError, TypeError):
        return repr(_content(function.__code__)).encode()


def _content(code: CodeType) -> tuple[Any, ...]:
    constants = [_content(value) if isinstance(value, CodeType) else repr(value) for value in code.co_consts]
    return (code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars)


def _names(code: CodeType) -> Iterator[str]:
    """The names outside of it that code and the functions within it read."""
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME") or each.opname.startswith("LOAD_FROM_DICT_OR_GLOBALS"):
            yield each.argval
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _names(value)


def _named(tree: ast.Module, names: set[str], file: Path) -> tuple[list[ast.stmt], dict[Path, bytes]]:
    """Top-level statements that make or change what these names stand for, and texts of modules that they import."""
    needed, chosen = set(names), set[int]()
    body = [(each, _made(each), _read(each)) for each in tree.body if not _is_main(each)]
    while more := [n for n, (_, made, _) in enumerate(body) if n not in chosen and (made & needed or "*" in made)]:
        for number in more:
            chosen.add(number)
            needed |= body[number][2]
    statements = [body[number][0] for number in sorted(chosen)]
    modules: dict[Path, bytes] = {}
    _import(ast.Module(statements, []), file, modules)
    return statements, modules


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'"


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _made(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            names.add(_root(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            names |= {_root(node.value.func)} if isinstance(node.value.func, ast.Attribute) else set()
    return names - {"", "raysweep"}


def _read(statement: ast.stmt) -> set[str]:
    """The names at the top level of its file that a statement reads."""
    return set(_global(symtable.symtable(ast.unparse(statement), "", "exec")))


def _global(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module"):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _global(inner)


def _untold(tree: ast.Module, statements: list[ast.stmt]) -> set[str]:
    """The names whose values the text does not tell: those that are not made once, of constants alone."""
    sure: set[str] = set()
    made = [name for each in tree.body for name in _made(each)]
    for each in statements:
        if isinstance(each, (ast.Assign, ast.AnnAssign)) and each.value is not None:
            parts = (ast.Constant, ast.Name, ast.UnaryOp, ast.BinOp, ast.Tuple, ast.operator, ast.unaryop, ast.Load)
            simple = all(isinstance(node, parts) for node in ast.walk(each.value))
            if simple and {node.id for node in ast.walk(each.value) if isinstance(node, ast.Name)} <= sure:
                sure |= {name for name in _made(each) if made.count(name) == 1}
    return set(made) - sure


def _import(tree: ast.AST, file: Path, modules: dict[Path, bytes]) -> None:
    """Add the modules next to a file that its statements import, and those that these import."""
    home, package = file.absolute().parent, list[str]()
    while (home / "__init__.py").exists():
        home, package = home.parent, [home.name, *package]
    root = home.joinpath(*package[:1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            asked = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, *(node.module or "").split(".")] if node.module else base
            asked = [base, *([*base, alias.name] for alias in node.names)]
        else:
            continue
        for parts in asked:
            for place in (home.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)):
                for file_of in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
                    if file_of.is_relative_to(root) and file_of not in modules and file_of.is_file():
                        modules[file_of] = file_of.read_bytes()
                        try:
                            inner = ast.parse(modules[file_of])
                        except (SyntaxError, ValueError):
                            continue
                        _import(inner, file_of, modules)


def _parts(text: bytes, statements: list[ast.stmt], modules: dict[Path, bytes]) -> list[bytes]:
    lines = text.splitlines()
    parts = []
    for each in statements:
        first = min([each.lineno, *(one.lineno for one in getattr(each, "decorator_list", []))])
        parts.append(b"\n".join(lines[first - 1 : each.end_lineno]))
    return [*parts, *(path.name.encode() + b"\0" + modules[path] for path in sorted(modules))]


def _digest(parts: list[bytes]) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
