"""kill -9 at every event: what is taken up comes to the same end, with nothing done twice (G1, G4, G8; A15, E13).

Each program is killed as its first event is in the log, as its second is, and so on, until it comes to its end by itself; and
in a second series when an event was made and is not in the log yet. After each kill a new process takes up what was left and
comes to its end, which is compared with a run that was never killed: all attributes of all agents, what was really done
outside, and what the log says. A tool whose outcome nobody knows is an error in the agent; so is it then in the run it is
compared with. The default run takes some of the events; EVENTLOG_TEST_EVERYWHERE=1 takes all.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from ..conftest import FreshLogs
from .programs.everywhere import Life
from .programs.everywhere_agents import PROGRAMS

EVERY = bool(os.environ.get("EVENTLOG_TEST_EVERYWHERE"))
SAMPLES = 1
"""Events of each series at which the default run kills."""
TELLING = {"cancelling": (5, 8), "locked": (12,)}
"""Where something went wrong once: a call was given up, and neither was its message delivered nor its handler told; what had
been taken up was said to be settled before its end was in the log."""
NEVER = 1_000_000
ONLY_OF_THE_RUN = ("lock",)
"""An `asyncio.Lock` says whether anybody ever had to wait for it, which requests from outside need not do after a kill."""
ROOT = Path(__file__).parents[2]

ANYTHING_DRAWN = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(Z|\+00:00)?"
)


class Lives:
    """Processes that live as they are told, one after the other."""

    def __init__(self, logs: FreshLogs, root: Path) -> None:
        self._logs = logs
        self._root = root
        self._numbers = itertools.count()
        self._references: dict[Life, Outcome] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.programs.everywhere"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()

    def of(self, program: str) -> Iterator[Life]:
        """One to start from, with a log and an outside of its own."""
        directory = self._root / str(next(self._numbers))
        directory.mkdir()
        with self._logs() as dsn:
            yield Life(dsn, program, str(directory))

    def lived(self, life: Life) -> int:
        """How it ended: 0, or a negative signal."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(life.line())
        self._process.stdin.flush()
        ended = int(self._process.stdout.readline())
        assert ended in (0, -signal.SIGKILL), f"{life}\n{Path(life.directory, 'errors').read_text()}"
        assert life.end or ended == 0
        return ended

    def reference(self, life: Life, unknown: frozenset[str]) -> Outcome:
        """What a program comes to that is never killed, and is told of some requests that nobody knows their outcome."""
        asked = Life("", life.program, "", told_unknown=tuple(sorted(unknown)))
        if asked not in self._references:
            for new in self.of(life.program):
                self.lived(replace(new, told_unknown=asked.told_unknown))
                self._references[asked] = Outcome.of(new)
        return self._references[asked]


@dataclass(frozen=True)
class Outcome:
    """What a log's last process came to, and what was done outside by all of them."""

    said: dict[str, Any]
    done: Counter[str]
    unknown: Counter[str]
    """How often the outcome of a request was found to be unknown."""

    @staticmethod
    def of(life: Life) -> Outcome:
        directory = Path(life.directory)
        said = json.loads((directory / "result").read_text("utf-8"))
        return Outcome(said, _lines(directory / "done"), _lines(directory / "unknown"))


def _lines(file: Path) -> Counter[str]:
    return Counter(file.read_text("utf-8").splitlines() if file.exists() else [])


@pytest.fixture(scope="module")
def lives(fresh_logs: FreshLogs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    made = Lives(fresh_logs, tmp_path_factory.mktemp("everywhere"))
    yield made
    made.close()


def numbers(length: int, program: str, rnd: random.Random) -> list[int]:
    """The events at which a program is killed; all of them, and one that it does not come to, where that is asked for."""
    if EVERY:
        return [*range(1, length + 1), NEVER]
    return [*rnd.sample(range(1, length + 1), min(SAMPLES, length)), *TELLING.get(program, ())]


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("end", ["committed", "submitted"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_was_killed_at_any_event_comes_to_the_same_end(lives: Lives, program: str, end: str) -> None:
    run(lives, Life("", program, "", end=end))


@pytest.mark.timeout(20_000)
@pytest.mark.parametrize(
    "settings", [{"unknown": "retry"}, {"unknown": "ask"}, {"durability": "strict"}, {"snapshots": True}], ids=str
)
def test_it_does_with_other_settings(lives: Lives, settings: dict[str, Any]) -> None:
    for program in some_programs():
        run(lives, Life("", program, "", end="committed", **settings))


@pytest.mark.timeout(20_000)
def test_what_is_killed_while_it_takes_up_is_taken_up_again(lives: Lives) -> None:
    for program in {"locked", *some_programs()}:
        run(lives, Life("", program, "", end="committed"), again=3)


@pytest.mark.timeout(3000)
def test_what_was_given_up_arrives_however_often_the_processes_die_that_take_it_up(lives: Lives) -> None:
    """The caller was done in the second process, and its message on its way: the third must not take that for settled."""
    run_once(lives, Life("", "cancelling", "", end="committed", number=5), [5, 1, 3])


def some_programs() -> list[str]:
    return list(PROGRAMS) if EVERY else random.sample(list(PROGRAMS), 1)


def run(lives: Lives, wanted: Life, *, again: int = 0) -> None:
    """Kill at one event after the other, and compare what becomes of it.

    Args:
        again: Those that take up are killed too, so many of them, soon after they began.
    """
    seed = random.randrange(1 << 30)
    rnd = random.Random(seed)
    failures: list[str] = []
    length: int = lives.reference(wanted, frozenset()).said["events"]
    for number in numbers(length, wanted.program, rnd):
        try:
            run_once(lives, replace(wanted, number=number), [rnd.randint(1, 6) for _ in range(again)])
        except AssertionError as failure:
            failures.append(f"{wanted.program}, seed {seed}, event {number}: {failure}")
    assert not failures, "\n\n".join(failures)


def run_once(lives: Lives, wanted: Life, again: list[int]) -> None:
    """Kill at an event, kill those that take up at an event each, and compare."""
    for new in lives.of(wanted.program):
        life = replace(wanted, dsn=new.dsn, directory=new.directory)
        ended = lives.lived(life)
        assert ended == 0 or life.number != NEVER
        for number in again:
            lives.lived(replace(life, number=number))
        if ended != 0:
            lives.lived(replace(life, end=""))
        check(lives, life, Outcome.of(life))


def check(lives: Lives, life: Life, found: Outcome) -> None:
    """It is as if it had not been killed, but that the agents know what nobody knows."""
    tools = frozenset(what for what in found.unknown if not what.startswith("model "))
    expected = lives.reference(life, frozenset() if life.unknown else tools)
    check_log(found, expected)
    check_done(life, found, lives.reference(life, frozenset()))
    slow = any(what.startswith("slow") for what in tools)
    states = {agent: normal(unfolded(state), slow) for agent, state in found.said["states"].items()}
    others = {agent: normal(unfolded(state), slow) for agent, state in expected.said["states"].items()}
    cut = any(what.startswith("model ") for what in found.unknown)
    found_differences = "\n".join(differences("", states, others, cut))
    assert not found_differences, found_differences
    assert normal(found.said["replies"], slow) == normal(expected.said["replies"], slow)


def check_log(found: Outcome, expected: Outcome) -> None:
    """Nothing is left under way, nothing was delivered twice, and what is replayed is what lives."""
    said = found.said
    assert (said["differing"], said["in_flight"], said["undelivered"], said["unsettled"]) == ([], [], [], 0)
    assert said["deliveries"] == expected.said["deliveries"]
    assert [what for what in said["unanswered"] if not what.startswith("slow")] == []


def check_done(life: Life, found: Outcome, expected: Outcome) -> None:
    """Once each; what was asked again, so much more often; and what became unknown, once or never."""
    assert set(found.done) <= set(expected.done)
    for what in expected.done:
        times, unknown = found.done[what], found.unknown[what]
        again = what.startswith("model ") or life.unknown == "retry"
        least, most = (1, 1 + unknown) if again else (max(0, 1 - unknown), 1)
        if what.startswith("slow"):
            least = 0  # its time-out may come before its request is in the log
        assert least <= times <= most, f"{what} was done {times} times; {unknown} times its outcome was unknown"


def unfolded(state: dict[str, Any]) -> Any:
    """A captured state as one value, objects in the places where they are met first."""
    objects, met = state["objects"], set[int]()

    def value(one: Any) -> Any:
        if isinstance(one, list):
            number: int = cast("list[int]", one)[0]
            if number in met:
                return f"object {number}"
            met.add(number)
            return {name: inner(content) for name, content in objects[number].items()}
        return one

    def inner(content: Any) -> Any:
        if isinstance(content, dict):
            return {name: value(one) for name, one in cast("dict[str, Any]", content).items()}
        return [value(one) for one in cast("list[Any]", content)] if isinstance(content, list) else content

    return value(state["root"])


def normal(value: Any, slow: bool, name: str = "") -> Any:
    """Without what is drawn anew in each run, and with what may come in any order in one."""
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        kept = {key: one for key, one in named.items() if key not in ONLY_OF_THE_RUN}
        return {key: normal(one, slow, key if key == "any_order" else name) for key, one in kept.items()}
    if isinstance(value, list):
        values = [normal(one, slow) for one in cast("list[Any]", value)]
        return sorted(values, key=str) if name == "any_order" else values
    if isinstance(value, str):
        return _normal_text(value, slow)
    return value


def _normal_text(text: str, slow: bool) -> str:
    if "the outcome of" in text and "is unknown" in text:
        return "(unknown)"
    if slow and (text in ("late", "unknown", "ended by its token") or text.startswith("slow")):
        return "(whatever came first)"
    return ANYTHING_DRAWN.sub("(drawn)", text)


def differences(path: str, found: Any, expected: Any, cut: bool) -> Iterator[str]:
    """Where two states differ. Of a stream that was cut, the agent has the beginning, and then the last."""
    if type(found) is not type(expected):
        yield f"{path}: {found!r}, not {expected!r}"
    elif isinstance(found, dict):
        yield from _differences_of_named(path, cast("dict[str, Any]", found), expected, cut)
    elif isinstance(found, list):
        yield from _differences_in_order(path, cast("list[Any]", found), expected, cut)
    elif found != expected:
        yield f"{path}: {found!r}, not {expected!r}"


def _differences_of_named(path: str, found: dict[str, Any], expected: dict[str, Any], cut: bool) -> Iterator[str]:
    if list(found) != list(expected):
        yield f"{path}: {list(found)}, not {list(expected)}"
    for name in found:
        if name in expected:
            yield from differences(f"{path}.{name}", found[name], expected[name], cut)


def _differences_in_order(path: str, found: list[Any], expected: list[Any], cut: bool) -> Iterator[str]:
    if cut and ".chunks." in path and found == expected[: len(found)]:
        return
    if len(found) != len(expected):
        yield f"{path}: {found!r}, not {expected!r}"
    for number, (one, other) in enumerate(zip(found, expected, strict=False)):
        yield from differences(f"{path}[{number}]", one, other, cut)
