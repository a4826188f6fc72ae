"""Loads the SQL of the package: one object or query a file, in the top-level `sql/` directory.

In an installed wheel the files lie in `autogen_eventlog/_sql`, in a checkout beside `src`.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

OBJECT_KINDS = ("types", "tables", "functions", "triggers", "indexes", "views")
"""Directories of schema objects in the order in which they can be created."""


def query(name: str) -> bytes:
    """The statement of `sql/queries/<name>.sql`, without its header.

    Bytes, because psycopg takes those (or literal strings) as a statement.
    """
    return _query(name)


def objects() -> bytes:
    """All schema objects, as one script."""
    names = [(kind, name) for kind in OBJECT_KINDS for name in _names(kind)]
    return "\n".join(_root().joinpath(kind, name).read_text("utf-8") for kind, name in names).encode()


def migrations() -> dict[int, tuple[str, bytes]]:
    """Migrations by number, ascending: name and script of `sql/migrations/<number>_<name>.sql`."""
    found: dict[int, tuple[str, bytes]] = {}
    for file_name in _names("migrations"):
        number, _, name = file_name.removesuffix(".sql").partition("_")
        found[int(number)] = (name, _root().joinpath("migrations", file_name).read_bytes())
    return found


@cache
def _query(name: str) -> bytes:
    lines = _root().joinpath("queries", f"{name}.sql").read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--")).encode()


def _names(kind: str) -> list[str]:
    return sorted(entry.name for entry in _root().joinpath(kind).iterdir() if entry.name.endswith(".sql"))


@cache
def _root() -> Path:
    installed = files("autogen_eventlog").joinpath("_sql")
    return Path(str(installed)) if installed.is_dir() else Path(__file__).parents[3] / "sql"
