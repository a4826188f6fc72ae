"""What an installed copy needs, and a checkout has."""

from __future__ import annotations

import re
import sys
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import pytest

from autogen_eventlog.postgres import sql

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_every_sql_file_is_loaded() -> None:
    objects = sql.objects().decode()
    for kind in sql.OBJECT_KINDS:
        for path in (ROOT / "sql" / kind).glob("*.sql"):
            assert path.read_text("utf-8") in objects, path
    for path in (ROOT / "sql" / "queries").glob("*.sql"):
        assert sql.query(path.stem)
    numbers = sorted(int(path.name.split("_")[0]) for path in (ROOT / "sql" / "migrations").glob("*.sql"))
    assert list(sql.migrations()) == numbers


def test_every_directory_of_sql_is_known_to_the_loader() -> None:
    known = {*sql.OBJECT_KINDS, "queries", "migrations"}
    assert {path.name for path in (ROOT / "sql").iterdir() if path.is_dir()} <= known


def test_every_package_directory_is_a_package() -> None:
    source = ROOT / "src" / "autogen_eventlog"
    directories = {path.parent for path in source.rglob("*.py")}
    assert [str(one) for one in directories if not (one / "__init__.py").exists()] == []


def test_the_wheel_brings_the_sql_and_the_type_marker(project: dict[str, Any]) -> None:
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {"sql": "autogen_eventlog/_sql"}
    assert (ROOT / "src" / "autogen_eventlog" / "py.typed").exists()


def test_the_sdist_brings_everything_that_the_readme_names(project: dict[str, Any]) -> None:
    included = set(project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    assert {"src", "sql", "tests", "examples", "docs", "README.md", "LICENSE", "CHANGELOG.md"} <= included
    assert all((ROOT / name).exists() for name in included)


def test_the_changelog_tells_of_this_version(project: dict[str, Any]) -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None and newest[1] == project["project"]["version"]


def test_the_pytest_plugin_is_found_by_pytest_and_in_the_wheel(project: dict[str, Any]) -> None:
    assert project["project"]["entry-points"]["pytest11"] == {"pytest_autogen_eventlog": "pytest_autogen_eventlog"}
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert packages == ["src/autogen_eventlog", "src/pytest_autogen_eventlog"]
    assert all((ROOT / package / "__init__.py").exists() for package in packages)


def test_the_command_is_installed_under_its_name(project: dict[str, Any]) -> None:
    assert project["project"]["scripts"] == {"eventlog": "autogen_eventlog.cli:main"}
    installed = [one for one in entry_points(group="console_scripts") if one.name == "eventlog"]
    if not installed:
        pytest.skip("the package is not installed here")
    assert installed[0].value == "autogen_eventlog.cli:main"
    assert version("autogen-eventlog") == project["project"]["version"]
