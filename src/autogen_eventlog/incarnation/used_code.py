"""A hash of the code that an agent's class uses: what it names, what that names, and so on, within its own package.

Read from the sources, not from the running program: a module that was not imported yet counts, a global that was changed
does not, and the answer is the same in every process. Comments, docstrings and formatting do not count. What belongs to
another package is left out; so is what is only reached through an object (a tool or a client that the agent was given).
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

LARGEST: Final = 500
"""Definitions that are followed, at most; the nearest first."""

_ATTEMPTS: Final = 10
_INSTALLED: Final = ("site-packages", "dist-packages")

Definition = tuple[str, str]
"""A module, and a name that is bound at its top level."""


def used_code_hash(roots: Iterable[Any]) -> str:
    """The hash of what classes or functions use, themselves included; empty where there is no source to read.

    Args:
        roots: What it begins from. Each says where it was defined, in `__module__` and `__qualname__`.
    """
    found: dict[Definition, str] = {}
    waiting: deque[tuple[_Sources, Definition]] = deque()
    for root in roots:
        module = sys.modules.get(root.__module__)
        if module is not None:
            waiting.append((_sources_beside(module), (module.__name__, root.__qualname__.partition(".")[0])))
    while waiting and len(found) < LARGEST:
        sources, place = waiting.popleft()
        source = sources.module(place[0])
        if place in found or source is None or place[1] not in source.bound:
            continue
        text, uses = source.definition(place[1], sources)
        found[place] = text
        waiting.extend((sources, used) for used in uses)
    if not found:
        return ""
    digest = hashlib.sha256()
    for (module_name, name), text in sorted(found.items()):
        digest.update(f"{module_name}:{name}\0{text}\0".encode())
    return digest.hexdigest()[:16]


class _Module:
    """One module's source: what it binds at its top level, and by which statements."""

    def __init__(self, name: str, package: str, tree: ast.Module) -> None:
        self.name = name
        self.bound: dict[str, list[ast.stmt]] = {}
        self._package = package
        self._known: dict[str, tuple[str, list[Definition]]] = {}
        self._stars: list[str] = []
        """Modules of which everything is imported."""
        for statement in _statements(tree.body):
            for bound in _names_bound(statement):
                self.bound.setdefault(bound, []).append(statement)
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                self._stars.append(self._origin(statement))

    def definition(self, name: str, sources: _Sources) -> tuple[str, list[Definition]]:
        """What binds a name, without positions, comments and docstrings, and what that refers to in these sources."""
        if name not in self._known:
            texts: list[str] = []
            uses: dict[Definition, None] = {}
            for statement in self.bound[name]:
                text, used = self._statement(name, statement, sources)
                texts.append(text)
                uses |= dict.fromkeys(used)
            self._known[name] = "\n".join(texts), list(uses)
        return self._known[name]

    def _statement(self, name: str, statement: ast.stmt, sources: _Sources) -> tuple[str, list[Definition]]:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            imported = dict(self._bound_by(statement))[name]
            return "import " + ":".join(imported), list(sources.follow(imported, ()))
        seen = _Seen(statement)
        local = {bound: target for each in seen.imports for bound, target in self._bound_by(each)}
        used = [each for target in local.values() for each in sources.follow(target, ())]
        for chain in seen.chains:
            used += self._named(chain, local, sources)
        return _dumped(statement), used

    def _named(
        self, chain: tuple[str, ...], imported: dict[str, Definition], sources: _Sources
    ) -> Iterator[Definition]:
        first, rest = chain[0], chain[1:]
        if first in imported:
            yield from sources.follow(imported[first], rest)
        elif first in self.bound:
            yield self.name, first
            for statement in self.bound[first]:
                if rest and isinstance(statement, (ast.Import, ast.ImportFrom)):
                    yield from sources.follow(dict(self._bound_by(statement))[first], rest)
        else:
            yield from ((star, first) for star in self._stars)

    def _bound_by(self, statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Definition]]:
        """What an import binds; a module is a definition without a name."""
        for alias in statement.names:
            if isinstance(statement, ast.Import):
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or whole, (whole, "")
            elif alias.name != "*":
                yield alias.asname or alias.name, (self._origin(statement), alias.name)

    def _origin(self, statement: ast.ImportFrom) -> str:
        """The module that `from … import` names."""
        if not statement.level:
            return statement.module or ""
        parts = self._package.split(".")
        base = ".".join(parts[: len(parts) - statement.level + 1])
        return f"{base}.{statement.module}" if statement.module else base


class _Sources:
    """The modules of one package, or of one directory of modules without a package."""

    def __init__(self, given: ModuleType, top: str, directory: str | None) -> None:
        self._given = given
        self._top = top
        self._directory = directory
        self._modules: dict[str, _Module | None] = {}

    def module(self, name: str) -> _Module | None:
        """A module of these; None if it is none of them, or has no source."""
        if name not in self._modules:
            self._modules[name] = self._read(name)
        return self._modules[name]

    def follow(self, imported: Definition, rest: tuple[str, ...]) -> Iterator[Definition]:
        """What an imported thing is, and what is taken of it if it is a module."""
        module, name = imported
        if name:
            yield module, name
            module = f"{module}.{name}"
        for attribute in rest:
            yield module, attribute
            module = f"{module}.{attribute}"

    def _read(self, name: str) -> _Module | None:
        given = self._given
        if name == given.__name__:
            text, package = _source_of(given), given.__package__ or ""
        else:
            spec = self._spec(name)
            text = _source_at(spec)
            package = "" if spec is None else spec.parent or ""
        tree = None if text is None else _parsed(text)
        return None if tree is None else _Module(name, package, tree)

    def _spec(self, name: str) -> ModuleSpec | None:
        """Where a module would be imported from. Nothing is imported."""
        parts = name.split(".")
        spec: ModuleSpec | None = None
        path = [self._directory] if self._directory is not None else None
        if path is None:
            top = sys.modules.get(self._top)
            if parts[0] != self._top or top is None:
                return None
            spec, path = top.__spec__, list(getattr(top, "__path__", ()))
        elif parts[0] in sys.stdlib_module_names:
            return None
        for length in range(1 if spec is None else 2, len(parts) + 1):
            spec = PathFinder.find_spec(".".join(parts[:length]), path)
            if spec is None:
                return None
            path = list(spec.submodule_search_locations or ())
        return spec


@lru_cache(maxsize=256)
def _sources_beside(module: ModuleType) -> _Sources:
    """The sources that belong to the same program as a module: its package, or the modules in its directory.

    What is installed without a package is told from other installed things by nothing: it is one module.
    """
    package = module.__package__ or ""
    file = getattr(module, "__file__", None)
    if package or file is None:
        return _Sources(module, package.partition(".")[0] or module.__name__, None)
    directory = Path(file).resolve().parent
    if any(part in _INSTALLED for part in directory.parts):
        return _Sources(module, module.__name__, None)
    return _Sources(module, module.__name__, str(directory))


def _source_of(module: ModuleType) -> str | None:
    try:
        return inspect.getsource(module)
    except (OSError, TypeError):
        return None


def _source_at(spec: ModuleSpec | None) -> str | None:
    get_source = getattr(None if spec is None else spec.loader, "get_source", None)
    if spec is None or get_source is None:
        return None
    try:
        return cast("str | None", get_source(spec.name))
    except (ImportError, OSError, SyntaxError, UnicodeDecodeError):
        return None


def _parsed(text: str) -> ast.Module | None:
    for _ in range(_ATTEMPTS):
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return None
        except SystemError:
            # Python 3.11's parser counts its depth for the whole process, and gives this where two threads parse at once.
            continue
    return None


# -- statements ---------------------------------------------------------------------------------------------------


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module's top level, those in `if`, `try` and the like included."""
    for statement in body:
        yield statement
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for field in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, field, ()))
            for handler in getattr(statement, "handlers", ()):
                yield from _statements(handler.body)


def _names_bound(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield statement.name
        case ast.Assign(targets=targets):
            yield from (name for target in targets for name in _targets(target))
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            yield from _targets(target)
        case ast.Import(names=names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
        case ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name for alias in names if alias.name != "*")
        case _:
            return


def _targets(target: ast.expr) -> Iterator[str]:
    yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


class _Seen:
    """What one look at a statement finds: the names it uses, with what is taken of them (`a`, `a.b.c`), and its imports.

    Docstrings are taken out of it on the way.
    """

    def __init__(self, statement: ast.stmt) -> None:
        self.chains: dict[tuple[str, ...], None] = {}
        """In the order in which they are found: where the bound is reached, the same are left out in every process."""
        self.imports: list[ast.Import | ast.ImportFrom] = []
        waiting: list[ast.AST] = [statement]
        while waiting:
            node = waiting.pop()
            if isinstance(node, (ast.Name, ast.Attribute)) and (chain := _chain(node)):
                self.chains[chain] = None
                continue
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.imports.append(node)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                _take_docstring(node)
            waiting.extend(ast.iter_child_nodes(node))


def _take_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        node.body = node.body[1:] or [ast.Pass()]


def _dumped(statement: ast.stmt) -> str:
    try:
        return ast.dump(statement)
    except RecursionError:  # a literal of thousands of parts: that it is there is all that is said
        return type(statement).__name__


def _chain(node: ast.AST) -> tuple[str, ...]:
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id, *reversed(attributes)) if isinstance(node, ast.Name) else ()
