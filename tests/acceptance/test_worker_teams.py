"""AgentChat's teams on workers, taken up by a new process (A1 to A4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat.base import TaskResult
from autogen_agentchat.messages import HandoffMessage
from autogen_core import SingleThreadedAgentRuntime

from .asking import until
from .programs.teams import swarm
from .test_failover import free_port
from .workers import Remote, TeamWorker


class Processes:
    """Workers with a team, one after the other, at one host."""

    def __init__(self, dsn: str, port: int, stack: AsyncExitStack) -> None:
        self._dsn = dsn
        self._port = port
        self._stack = stack

    async def worker(self, kind: str, identity: int, begun: str = "first") -> TeamWorker:
        return await self._stack.enter_async_context(TeamWorker(self._dsn, self._port, kind, identity, begun))


@pytest.fixture
async def processes(dsn: str) -> AsyncIterator[Processes]:
    port = free_port()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(Remote("host", port))
        yield Processes(dsn, port, stack)


async def handed_over(processes: Processes, way: str, kind: str) -> tuple[TeamWorker, dict[str, Any], dict[str, Any]]:
    """A team that has run once, its process gone; the next process with it, what the team kept, and what it says now.

    By `state`: another team, into which the saved state is loaded. By `log`: the same team, of a process that was killed.
    """
    first = await processes.worker(kind, 1)
    await first.do("run", task="begin")
    before = await first.do("live")
    if way == "log":
        await first.kill()
        second = await processes.worker(kind, 1, "again")
        await second.do("register")
    else:
        saved = await first.do("save")
        assert await first.end() == 0
        second = await processes.worker(kind, 2, "again")
        await second.do("load", state=saved["state"])

    async def the_same() -> Any:
        """`run` may return before the log has the manager's last message; what it had not been given yet it is given now."""
        now = await second.do("live")
        return now if now["manager"] == before["manager"] else None

    return second, before, await until(the_same, "the manager is as it was", timeout=20)


async def uninterrupted() -> tuple[str, TaskResult]:
    """What AutoGen's own runtime makes of a text, and of a hand-off, after the hand-off to the user."""
    runtime = SingleThreadedAgentRuntime()
    runtime.start()
    team = swarm(runtime, False)
    await team.run(task="begin")
    with pytest.raises((ValueError, RuntimeError)) as refused:
        await team.run(task="go on")
    result = await team.run(task=HandoffMessage(content="go on", source="user", target="clerk"))
    await runtime.stop_when_idle()
    return str(refused.value), result


@pytest.mark.parametrize("way", ["state", "log"])
async def test_a_swarm_that_handed_off_to_the_user_goes_on_in_a_new_process_as_if_it_had_not_stopped(
    processes: Processes, way: str
) -> None:
    """A2."""
    second, before, now = await handed_over(processes, way, "swarm")
    assert now["manager"] == before["manager"]
    assert now["manager"]["_current_speaker"] == "clerk"
    error, result = await uninterrupted()
    refused = await second.do("run", task="go on")
    assert "['clerk']" in refused["text"] and "existing handoff target user" in refused["text"]
    assert refused["text"].splitlines()[0] == error.splitlines()[0]
    went_on = await second.do("run", task="go on", handoff="clerk")
    assert went_on["said"] == [message.to_text() for message in result.messages] == ["go on", "thank you"]


@pytest.mark.parametrize("way", ["state", "log"])
async def test_a_magentic_one_that_stopped_after_two_rounds_is_the_same_in_a_new_process_and_plans_anew_when_run(
    processes: Processes, way: str
) -> None:
    """A3. That `run` with a task makes new facts and a new plan is AutoGen's own doing, with or without a new process."""
    second, before, now = await handed_over(processes, way, "magentic")
    manager = now["manager"]
    assert manager == before["manager"]
    assert [manager[name] for name in ("_task", "_facts", "_plan")] == ["begin", "the facts", "the plan"]
    assert (manager["_n_rounds"], manager["_n_stalls"]) == (2, 1)
    assert [message["content"] for message in manager["_message_thread"][1:]] == [
        "step one",
        "done step one",
        "step two",
        "done step two",
    ]
    assert (await second.do("asked"))["models"] == 0
    result = await second.do("run", task="go on")
    assert result["said"][-1] == "the answer"
    manager = (await second.do("live"))["manager"]
    assert [manager[name] for name in ("_task", "_facts", "_plan")] == ["go on", "new facts", "a new plan"]


async def test_a_magentic_one_that_is_killed_in_a_round_goes_on_with_its_plan(processes: Processes) -> None:
    """A3. Its facts and its plan are neither asked for again nor lost; nobody has to run it."""
    first = await processes.worker("magentic_killed", 1)
    await first.do("register")
    first.ask("run", 1, task="begin")

    async def in_its_second_round() -> bool:
        return (await first.do("live"))["clerk"]["_asked"] == ["step one", "step two"]

    await until(in_its_second_round, "the second round")
    before = (await first.do("live"))["manager"]
    await first.kill()
    second = await processes.worker("magentic_killed", 1, "again")
    await second.do("register")

    async def over() -> Any:
        manager = (await second.do("live"))["manager"]
        return manager if manager["_n_rounds"] == 3 and len(manager["_message_thread"]) > 5 else None

    after: Any = await until(over, "the team goes on to its end", timeout=20)
    same = ("_task", "_facts", "_plan")
    assert [after[name] for name in same] == [before[name] for name in same] == ["begin", "the facts", "the plan"]
    assert after["_message_thread"][: len(before["_message_thread"])] == before["_message_thread"]
    assert [message["content"] for message in after["_message_thread"][-2:]] == ["done step two", "the answer"]
    assert (await second.do("asked"))["models"] == 2
    # The next run finds only what itself has said, not what the killed one had yet to say.
    again = await second.do("run", task="go on")
    assert (again["said"][0], again["said"][-1]) == ("go on", "the new answer")
    assert "the answer" not in again["said"]
    await second.do("another", team="magentic", identity=2)
    assert (await second.do("run", task="and on"))["said"][-1] == "the answer"
    assert (await second.do("live"))["manager"]["_plan"] == "a new plan"


async def test_a_team_that_is_run_while_the_run_of_a_killed_process_goes_on_comes_to_an_end(
    processes: Processes,
) -> None:
    """The two are one in the manager; who runs it waits for no end that was said before."""
    first = await processes.worker("rounds", 1)
    await first.do("register")
    first.ask("run", 1, task="begin")

    async def in_the_fourth_turn() -> bool:
        return len((await first.do("live"))["clerk"]["_asked"]) == 2

    await until(in_the_fourth_turn, "the second round")
    await first.kill()
    second = await processes.worker("rounds", 1, "again")
    result = await second.do("run", task="go on")  # at once: what was left goes on beside it
    assert result.keys() & {"stopped", "error"}  # the two may be at odds, which AutoGen's manager says then


async def test_a_chat_agent_without_save_state_is_whole_again_after_a_kill(processes: Processes) -> None:
    """A4: fifty messages, a private list and a private counter, and no method for the log."""
    first = await processes.worker("counting", 1)
    assert (await first.do("runs", times=25))["said"] == ["task 24", "25"]
    before = (await first.do("live"))["clerk"]
    await first.kill()
    second = await processes.worker("counting", 1, "again")
    await second.do("register")
    now = (await second.do("live"))["clerk"]
    assert now == before
    assert (now["_Counting__count"], len(now["_heard"])) == (25, 25)
    assert (await second.do("run", task="one more"))["said"] == ["one more", "26"]


async def test_a_person_whose_answer_a_team_waited_for_when_it_was_killed_answers_the_next_process(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E3, with AgentChat's own agent for a person, whose input function is an effect."""
    monkeypatch.setenv("TEAM_DIRECTORY", str(tmp_path))
    asked = tmp_path / "asked"
    first = await processes.worker("asking", 1)
    await first.do("register")
    first.ask("run", 1, task="begin")

    def times_asked() -> int:
        return len(asked.read_text().splitlines()) if asked.exists() else 0

    async def waits(times: int) -> bool:
        return times_asked() == times

    await until(lambda: waits(1), "the person is asked")
    before = (await first.do("live"))["manager"]["_message_thread"]
    await first.kill()
    second = await processes.worker("asking", 1, "again")
    await second.do("register")
    await until(lambda: waits(2), "the next process waits for the same answer")
    assert (await second.do("live"))["manager"]["_message_thread"] == before
    (tmp_path / "writing").write_text("go home")
    (tmp_path / "writing").rename(tmp_path / "answer")

    async def over() -> Any:
        thread = (await second.do("live"))["manager"]["_message_thread"]
        return thread if len(thread) > len(before) else None

    thread: Any = await until(over, "the answer is in the thread")
    contents = [message["content"] for message in thread if message["type"] == "TextMessage"]
    assert contents == ["begin", "what now?", "go home"]
    assert times_asked() == 2
