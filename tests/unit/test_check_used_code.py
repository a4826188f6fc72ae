"""The hash of what an agent's class uses: it changes with a helper, and with nothing else."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autogen_eventlog.incarnation.producer import Producer, likely_cause, producer_of
from autogen_eventlog.incarnation.used_code import LARGEST, used_code_hash

FILES = {
    "__init__.py": "from .texts import spelled as exported\n",
    "agents.py": '''
from dataclasses import dataclass
import json

from . import deep, exported
from .deep import inner
from .texts import loud as louder
from .stars import *

LIMIT = 3


@dataclass
class Order:
    item: str


class Base:
    def begin(self):
        return LIMIT


class Agent(Base):
    """Does it."""

    def handle(self, message: Order):
        from .lazy import late

        # a remark
        return louder(exported(inner.told(late(starred(message.item))))) + deep.other.name()


def unused():
    return 1
''',
    "texts.py": (
        "def spelled(text):\n    return text\n\n\ndef loud(text):\n    return shout(text)\n\n\n"
        "def shout(text):\n    return text\n"
    ),
    "stars.py": "def starred(text):\n    return text\n",
    "lazy.py": "def late(text):\n    return text\n",
    "deep/__init__.py": "",
    "deep/inner.py": "def told(text):\n    return text\n",
    "deep/other.py": "def name():\n    return NAME\n\n\nNAME = 'x'\n",
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    package = tmp_path / "used_shop"
    for name, text in FILES.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield package
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("used_shop", "used_flat", "used_words")]:
        del sys.modules[name]
    importlib.invalidate_caches()


def now() -> str:
    """The hash in a program that has just begun."""
    forget()
    return used_code_hash([importlib.import_module("used_shop.agents").Agent])


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("texts.py", "def spelled(text):\n    return text", "def spelled(text):\n    return text.upper()"),
        ("texts.py", "def shout(text):\n    return text", "def shout(text):\n    return text.upper()"),
        ("stars.py", "return text", "return text.upper()"),
        ("lazy.py", "return text", "return text.upper()"),
        ("deep/inner.py", "return text", "return text.upper()"),
        ("deep/other.py", "NAME = 'x'", "NAME = 'y'"),
        ("agents.py", "LIMIT = 3", "LIMIT = 4"),
        ("agents.py", "item: str", "item: str = ''"),
        ("agents.py", "return LIMIT", "return LIMIT + 1"),
        ("agents.py", "from .texts import loud as", "from .texts import shout as"),
        ("agents.py", "return louder(", "return 'x' + louder("),
    ],
)
def test_what_the_class_uses_changes_the_hash(shop: Path, file: str, old: str, new: str) -> None:
    before = now()
    text = (shop / file).read_text()
    assert text.count(old) == 1
    (shop / file).write_text(text.replace(old, new))
    assert now() != before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("agents.py", "return 1", "return 2"),
        ("agents.py", '"""Does it."""', '"""Does it well."""'),
        ("agents.py", '    """Does it."""\n', ""),
        ("agents.py", "# a remark", "# another"),
        ("agents.py", "LIMIT = 3", "LIMIT = (\n    3\n)"),
        ("agents.py", "import json", "import json\nimport re"),
        ("agents.py", "from .texts import loud as louder", "from .texts import loud as louder, shout"),
    ],
)
def test_what_the_class_does_not_use_changes_nothing(shop: Path, file: str, old: str, new: str) -> None:
    before = now()
    text = (shop / file).read_text()
    assert text.count(old) == 1
    (shop / file).write_text(text.replace(old, new))
    assert now() == before != ""


def test_it_is_the_same_in_every_process_and_whatever_was_imported_or_changed(shop: Path) -> None:
    here = now()
    program = (
        "import used_shop.lazy, used_shop.agents as agents\n"
        "from autogen_eventlog.incarnation.used_code import used_code_hash\n"
        "agents.LIMIT = 99\n"
        "print(used_code_hash([agents.Agent]))"
    )
    for seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join([str(shop.parent), *sys.path]),
        }
        out = subprocess.run(
            [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
        )
        assert out.stdout.strip() == here


def test_modules_without_a_package_are_followed_within_their_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: Path
) -> None:
    (tmp_path / "used_flat.py").write_text("import used_words\n\n\nclass Agent:\n    said = used_words.spelled\n")
    (tmp_path / "used_words.py").write_text("def spelled(text):\n    return text\n")
    first = used_code_hash([importlib.import_module("used_flat").Agent])
    forget()
    (tmp_path / "used_words.py").write_text("def spelled(text):\n    return text.upper()\n")
    assert used_code_hash([importlib.import_module("used_flat").Agent]) != first


def test_a_class_of_a_function_stands_for_that_function() -> None:
    def made(text: str) -> type:
        class Local:
            said = text

        return Local

    assert used_code_hash([made("x")]) == used_code_hash([made("y")]) != ""


def test_without_a_source_there_is_no_hash() -> None:
    namespace: dict[str, type] = {}
    exec("class Agent:\n    pass", {"__name__": "nowhere_at_all"}, namespace)
    assert used_code_hash([namespace["Agent"]]) == ""
    assert used_code_hash([]) == ""


def test_what_is_followed_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: Path) -> None:
    links = "\n\n".join(f"def f{number}():\n    return f{number + 1}()" for number in range(LARGEST + 50))
    (tmp_path / "used_flat.py").write_text(f"{links}\n\n\nclass Agent:\n    said = f0\n")
    first = used_code_hash([importlib.import_module("used_flat").Agent])
    for number, changes in ((LARGEST - 10, True), (LARGEST + 10, False)):
        forget()
        changed = links.replace(f"def f{number}():", f"def f{number}(x=1):")
        (tmp_path / "used_flat.py").write_text(f"{changed}\n\n\nclass Agent:\n    said = f0\n")
        assert (used_code_hash([importlib.import_module("used_flat").Agent]) != first) is changes


# -- what is made of it -------------------------------------------------------------------------------------------

NOW = Producer("shop:Agent", "abc", "3.12.1", "random", "5f", uses_hash="u1", autogen=("autogen-core 0.7.5",))


def test_a_changed_helper_is_other_code_and_said_as_such() -> None:
    recorded = {**NOW.as_metadata(), "uses_hash": "u0"}
    assert NOW.differs(recorded)
    assert likely_cause(recorded, NOW) == "code that is used by shop:Agent has changed since it recorded this"
    compared = NOW.against(recorded, 7)
    assert (compared.version, compared.recorded, compared.now, compared.changed) == (7, "u0", "u1", True)


def test_a_changed_comment_in_the_class_is_no_other_code() -> None:
    recorded = {**NOW.as_metadata(), "code_hash": "abd"}
    assert not NOW.differs(recorded)
    assert "changed" not in likely_cause(recorded, NOW)


@pytest.mark.parametrize(("code", "changed"), [("abc", False), ("abd", True)])
def test_streams_of_an_older_release_are_compared_by_the_class_alone(code: str, changed: bool) -> None:
    recorded = {**NOW.as_metadata(), "code_hash": code}
    del recorded["uses_hash"], recorded["autogen"]
    assert NOW.differs(recorded) is changed
    assert NOW.against(recorded).recorded == code


def test_another_python_reads_sources_otherwise_so_the_class_alone_is_compared() -> None:
    recorded = {**NOW.as_metadata(), "python": "3.11.1", "uses_hash": "u0"}
    assert not NOW.against(recorded).changed
    assert likely_cause(recorded, NOW) == "it was recorded under Python 3.11.1 and runs under 3.12.1"


def test_another_autogen_is_other_code_and_said_as_such() -> None:
    recorded = {**NOW.as_metadata(), "autogen": ["autogen-core 0.7.4"]}
    assert NOW.differs(recorded)
    assert likely_cause(recorded, NOW) == "it was recorded with autogen-core 0.7.4 and runs with 0.7.5"


def test_a_producer_says_both_hashes_and_autogens_version() -> None:
    from tests.unit.random_programs import Programmed

    described = producer_of(object.__new__(Programmed))
    assert described.uses_hash and described.code_hash
    assert described.uses_hash != described.code_hash
    [named] = described.autogen
    assert named.startswith("autogen-core 0.7.")
