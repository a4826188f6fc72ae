"""Who and what produces an agent's events: worker, class, a hash of its code, Python (on `AgentActivated`)."""

from __future__ import annotations

import hashlib
import inspect
import os
import platform
import sys
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

RANDOM = "random"
"""The hash seed of a process to which none was given."""

_FOREIGN_PACKAGES = ("autogen_core", "autogen_agentchat", "autogen_ext", "builtins", "abc", "typing")


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

    def differs(self, recorded: dict[str, Any]) -> bool:
        """Whether ticks may differ from those of the recorded producer: other code, or another minor version of Python."""
        code = recorded.get("agent_class"), recorded.get("code_hash")
        return code != (self.agent_class, self.code_hash) or _minor(recorded.get("python", "")) != _minor(self.python)

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


def likely_cause(recorded: dict[str, Any] | None, now: Producer) -> str:
    """Why the code may do something else than the log says, from what differs between then and now."""
    if recorded is None:
        return "the log does not say which code recorded it"
    causes: list[str] = []
    if recorded.get("agent_class") != now.agent_class:
        causes.append(f"the agent's class was {recorded.get('agent_class')} and is {now.agent_class}")
    elif recorded.get("code_hash") != now.code_hash:
        causes.append(f"the code of {now.agent_class} has changed since it recorded this")
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


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


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
