"""Two runs side by side, and what was asked of the outside without an answer: what an auditor asks."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

import pytest

from autogen_eventlog.audit import compare
from autogen_eventlog.codec import Codec, TypeRegistry
from autogen_eventlog.events import EventType, Outcome
from tests.integration.test_audit import Answer, Life, Task, open_log
from tests.integration.test_cli import Cli

CODEC = Codec(TypeRegistry())
CODEC.registry.register(Task, Answer)
FIRST, SECOND = UUID(int=1), UUID(int=2)


async def run(agent: Life, correlation: UUID, *texts: str, answer: int = 1) -> None:
    for text in texts:
        order = await agent.delivered(text, correlation=correlation)
        await agent.completed(order, answer)


def said(differences: list[object]) -> list[tuple[str, object, object]]:
    def text(event: object) -> object:
        message: object = None if event is None else CODEC.decode(event.payload)  # type: ignore[attr-defined]
        return getattr(message, "text", getattr(message, "number", message))

    return [(one.change, text(one.first), text(one.second)) for one in differences]  # type: ignore[attr-defined]


async def test_two_runs_that_did_the_same_have_no_difference(dsn: str) -> None:
    async with open_log(dsn, Task, Answer) as log:
        await run(await log.agent("clerk/monday"), FIRST, "open", "close")
        tuesday = await log.agent("clerk/tuesday")
        await tuesday.activated()
        await run(tuesday, SECOND, "open", "close")
        assert await log.audit.differences(FIRST, SECOND) == []
        assert await log.audit.differences(FIRST, FIRST) == []
        assert await log.audit.differences(uuid4(), uuid4()) == []


async def test_a_step_that_only_one_run_has_and_one_that_says_something_else_are_found(dsn: str) -> None:
    async with open_log(dsn, Task, Answer) as log:
        clerk, guard = await log.agent("clerk/1"), await log.agent("guard/1")
        await run(clerk, FIRST, "open", "count", "close")
        await run(clerk, SECOND, "open", "close")
        await run(guard, SECOND, "lock", answer=7)
        differences = await log.audit.differences(FIRST, SECOND)
        assert said(differences) == [
            ("changed", "count", "close"),
            ("only_first", "close", None),
            ("only_first", 1, None),
            ("only_second", None, "lock"),
            ("only_second", None, 7),
        ]
        assert [one.first and one.first.stream for one in differences][:3] == ["clerk/1"] * 3


async def test_stretches_of_streams_are_compared_too(dsn: str) -> None:
    async with open_log(dsn, Task, Answer) as log:
        await run(await log.agent("clerk/1"), FIRST, "open", answer=1)
        await run(await log.agent("clerk/2"), SECOND, "open", answer=2)
        first = [event async for event in log.store.reader.read("clerk/1")]
        second = [event async for event in log.store.reader.read("clerk/2")]
        assert said(compare(first, second)) == [("changed", 1, 2)]  # type: ignore[arg-type]


async def test_runs_that_are_too_long_are_refused(dsn: str) -> None:
    async with open_log(dsn, Task, Answer) as log:
        await run(await log.agent("clerk/1"), FIRST, "open")
        [delivered, _] = [event async for event in log.store.reader.read("clerk/1")]
    with pytest.raises(ValueError, match="too long to compare"):
        compare([delivered] * 20_001, [])


async def test_requests_without_an_answer_are_told(dsn: str) -> None:
    async with open_log(dsn, Task, Answer) as log:
        clerk, other = await log.agent("clerk/1"), await log.agent("clerk/2")
        lost = await clerk.add(EventType.EFFECT_REQUESTED, Task("tea"), metadata={"kind": "tool.search", "effect": 0})
        got = await other.add(EventType.EFFECT_REQUESTED, Task("milk"), metadata={"kind": "tool.search", "effect": 0})
        await other.add(
            EventType.EFFECT_RECORDED,
            Answer(1),
            outcome=Outcome.REPLIED,
            cause=got.id,
            metadata={"kind": "tool.search"},
        )
        assert [event.id for event in await log.audit.unanswered_effects()] == [lost.id]
        assert [event.id for event in await log.audit.unanswered_effects(agent="clerk/1")] == [lost.id]
        assert await log.audit.unanswered_effects(agent="clerk/2") == []


def test_the_commands_show_them(dsn: str) -> None:
    async def record() -> None:
        async with open_log(dsn, Task, Answer) as log:
            clerk = await log.agent("clerk/1")
            await run(clerk, FIRST, "open")
            await run(clerk, SECOND, "shut")
            await clerk.add(EventType.EFFECT_REQUESTED, Task("tea"), metadata={"kind": "tool.search", "effect": 0})

    asyncio.run(record())
    cli = Cli(dsn)
    differ = cli.run("diff", str(FIRST), str(SECOND))
    assert differ.exit_code == 1
    assert [line[0] for line in differ.stdout.splitlines()] == ["-", "+"]
    assert "open" in differ.stdout and "shut" in differ.stdout
    same = cli.run("diff", str(FIRST), str(FIRST))
    assert (same.exit_code, same.stdout) == (0, "")
    assert "same" in same.stderr
    [asked] = cli.lines("effects", "--unanswered")
    assert (asked["agent"], asked["kind"], asked["outcome"]) == ("clerk/1", "tool.search", None)
    assert cli.lines("effects") == []
    assert "unknown" in cli.text("effects", "--unanswered")
