"""Who and what produces an agent's events: worker, class, hashes of its code, Python and AutoGen (on `AgentActivated`)."""

from __future__ import annotations

import hashlib
import inspect
import os
import platform
import sys
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

from autogen_eventlog.errors import CodeComparison
from autogen_eventlog.incarnation.used_code import used_code_hash

RANDOM = "random"
"""The hash seed of a process to which none was given."""

_FOREIGN_PACKAGES = ("autogen_core", "autogen_agentchat", "autogen_ext", "builtins", "abc", "typing")

_AUTOGEN = {"autogen_core": "autogen-core", "autogen_agentchat": "autogen-agentchat", "autogen_ext": "autogen-ext"}
"""Packages of AutoGen, and the distributions that bring them."""


@dataclass(frozen=True, slots=True)
class Producer:
    """What replay compares to say why code and log may disagree."""

    agent_class: str
    code_hash: str
    python: str
    hash_seed: str
    string_hash: str
    """How this process hashes a string: the same in two that order a set of strings in the same way."""
    worker: str = ""
    uses_hash: str = ""
    """A hash of the class and of everything of its own package that it uses; empty: there is no source to read."""
    autogen: tuple[str, ...] = ()
    """The versions of AutoGen's packages that the class stands on."""

    def differs(self, recorded: dict[str, Any]) -> bool:
        """Whether ticks may differ from those of the recorded producer: other code, AutoGen, or minor version of Python."""
        return (
            self.against(recorded).changed
            or bool(self.autogen_changes(recorded))
            or _minor(recorded.get("python", "")) != _minor(self.python)
        )

    def against(self, recorded: dict[str, Any], activation: int | None = None) -> CodeComparison:
        """The code that recorded something beside this one.

        The hash of what the class uses decides, if both have one and read it with the same Python: it tells a changed
        helper, and no comment. Streams that older releases recorded have the hash of the class alone.

        Args:
            activation: The version of the event that names the recorded producer.
        """
        named = recorded.get("agent_class")
        uses = str(recorded.get("uses_hash") or "")
        if uses and self.uses_hash and _minor(recorded.get("python", "")) == _minor(self.python):
            then, now = uses, self.uses_hash
        else:
            then, now = str(recorded.get("code_hash")), self.code_hash
        return CodeComparison(activation, then, now, changed=(named, then) != (self.agent_class, now))

    def autogen_changes(self, recorded: dict[str, Any]) -> list[str]:
        """In words, which of AutoGen's packages had another version."""
        then = dict(_named_version(each) for each in cast("list[str]", recorded.get("autogen") or []))
        now = dict(_named_version(each) for each in self.autogen)
        return [
            f"it was recorded with {name} {then[name]} and runs with {now[name]}"
            for name in now
            if name in then and then[name] != now[name]
        ]

    def as_metadata(self) -> dict[str, Any]:
        return asdict(self)


def producer_of(agent: object, worker: str = "") -> Producer:
    """Describe the code at hand for an instance."""
    cls = type(agent)
    return Producer(
        agent_class=f"{cls.__module__}:{cls.__qualname__}",
        code_hash=code_hash(cls),
        python=platform.python_version(),
        hash_seed=_hash_seed(),
        string_hash=f"{hash('autogen-eventlog') & 0xFFFFFFFFFFFFFFFF:x}",
        worker=worker,
        uses_hash=uses_hash(cls),
        autogen=autogen_versions(cls),
    )


_ATTEMPTS = 10


@lru_cache(maxsize=1024)
def code_hash(cls: type) -> str:
    """A hash of the source of the class and of its own bases (AutoGen's and Python's are named by their versions)."""
    digest = hashlib.sha256()
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] not in _FOREIGN_PACKAGES:
            digest.update(_source(base).encode())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1024)
def uses_hash(cls: type) -> str:
    """A hash of the class, its own bases, and what they use within their packages; empty if there is no source."""
    return used_code_hash([base for base in cls.__mro__ if _is_own(base)])


@lru_cache(maxsize=1024)
def autogen_versions(cls: type) -> tuple[str, ...]:
    """AutoGen's packages that the class stands on, as `name version`."""
    packages = {base.__module__.partition(".")[0] for base in cls.__mro__}
    return tuple(f"{name} {_version(name)}" for package, name in _AUTOGEN.items() if package in packages)


@lru_cache(maxsize=8)
def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"


def _is_own(cls: type) -> bool:
    package = cls.__module__.partition(".")[0]
    return package not in _FOREIGN_PACKAGES and package not in sys.stdlib_module_names


def likely_cause(recorded: dict[str, Any] | None, now: Producer) -> str:
    """Why the code may do something else than the log says, from what differs between then and now."""
    if recorded is None:
        return "the log does not say which code recorded it"
    causes: list[str] = []
    if recorded.get("agent_class") != now.agent_class:
        causes.append(f"the agent's class was {recorded.get('agent_class')} and is {now.agent_class}")
    elif now.against(recorded).changed:
        what = "the code of" if recorded.get("code_hash") != now.code_hash else "code that is used by"
        causes.append(f"{what} {now.agent_class} has changed since it recorded this")
    causes += now.autogen_changes(recorded)
    if _minor(recorded.get("python", "")) != _minor(now.python):
        causes.append(f"it was recorded under Python {recorded.get('python')} and runs under {now.python}")
    if causes:
        return "; ".join(causes)
    unrecorded = "the handler depends on something that is not recorded (files, the environment, shared objects)"
    return f"{_other_order(recorded, now)}{unrecorded}"


def _other_order(recorded: dict[str, Any], now: Producer) -> str:
    """That strings are hashed otherwise, if they are, and what to do about it; ends in `, or`."""
    seed = str(recorded.get("hash_seed"))
    if recorded.get("string_hash") == now.string_hash or (
        "string_hash" not in recorded and seed == now.hash_seed != RANDOM
    ):
        return ""
    remedy = (
        "it was random and can't be had again, so sort, and set PYTHONHASHSEED to the same number in every process"
        if seed in (RANDOM, "None")
        else f"set PYTHONHASHSEED={seed}, as there"
    )
    return f"a set of strings has another order here than in the process that recorded it ({remedy}), or "


def _named_version(text: str) -> tuple[str, str]:
    name, _, number = text.partition(" ")
    return name, number


def _minor(number: str) -> str:
    return ".".join(number.split(".")[:2])


def _hash_seed() -> str:
    if not sys.flags.hash_randomization:
        return "0"
    return os.environ.get("PYTHONHASHSEED") or RANDOM


def _source(cls: type) -> str:
    for _ in range(_ATTEMPTS):
        try:
            return inspect.getsource(cls)
        except (OSError, TypeError):  # defined in a REPL or in C: its name is all there is
            break
        except SystemError:
            # Python 3.11's parser counts its depth for the whole process, and gives this where two threads parse at once.
            continue
    return f"{cls.__module__}:{cls.__qualname__}"
