"""AgentChat's teams on a worker, in a process of its own.

    python -m tests.acceptance.programs.teams DSN PORT TEAM ID first|again

It builds the team (`swarm`, `magentic`, …) with the id ID, and with models for its first runs or for later ones. It says
`{"ready": pid}`, and does what it is asked, a line of JSON each (`{"number": 1, "do": "run", "task": "…"}`); what comes of
it, it answers as `{"number": 1, …}`.

AgentChat draws a random id for each team object and derives its agents' types from it. With the same id the agents are the
same ones; with another the team is another one.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, UserProxyAgent
from autogen_agentchat.base import Handoff, Response, TaskResult
from autogen_agentchat.conditions import HandoffTermination, MaxMessageTermination
from autogen_agentchat.messages import BaseChatMessage, HandoffMessage, TextMessage
from autogen_agentchat.teams import MagenticOneGroupChat, RoundRobinGroupChat, Swarm
from autogen_core import AgentId, AgentRuntime, CancellationToken, FunctionCall
from autogen_core.models import CreateResult, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedGrpcWorkerAgentRuntime, effect

INFO = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=False)


def model(*answers: str | CreateResult) -> ReplayChatCompletionClient:
    return ReplayChatCompletionClient(list(answers), model_info=INFO)


def calls(name: str) -> CreateResult:
    content = [FunctionCall(id="1", name=name, arguments="{}")]
    return CreateResult(finish_reason="function_calls", content=content, usage=RequestUsage(1, 1), cached=False)


def swarm(runtime: AgentRuntime, begun: bool) -> Swarm:
    """Its one agent hands off to the user, and says a word when it is asked again."""
    client = model("thank you") if begun else model(calls("transfer_to_user"), "thank you")
    agent = AssistantAgent("clerk", client, handoffs=[Handoff(target="user")])
    return Swarm([agent], termination_condition=HandoffTermination("user"), max_turns=1, runtime=runtime)


def ledger(*, progress: bool = True, satisfied: bool = False, step: str = "") -> str:
    """What the orchestrator's model says of how things are."""
    answers = {
        "is_request_satisfied": satisfied,
        "is_progress_being_made": progress,
        "is_in_loop": False,
        "instruction_or_question": step,
        "next_speaker": "clerk",
    }
    return json.dumps({name: {"reason": "so it is", "answer": answer} for name, answer in answers.items()})


PLANNED = ["the facts", "the plan", ledger(step="step one"), ledger(progress=False, step="step two")]
PLANNED_ANEW = ["new facts", "a new plan", ledger(satisfied=True), "the answer"]


class Dawdler(BaseChatAgent):
    """Answers the first time at once; the second time it takes longer than its process lives."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(name, "takes its time")
        self._seconds = seconds
        self._asked: list[str] = []

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        self._asked.append(messages[-1].to_text())
        if len(self._asked) == 2:
            await asyncio.sleep(self._seconds)
        return Response(chat_message=TextMessage(content=f"done {self._asked[-1]}", source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        self._asked.clear()


def magentic(runtime: AgentRuntime, begun: bool) -> MagenticOneGroupChat:
    """Stops after two rounds; what is run then has other things to say."""
    client = model(*(PLANNED_ANEW if begun else PLANNED))
    agent = Dawdler("clerk", 0.0)
    ends = MaxMessageTermination(2)
    return MagenticOneGroupChat([agent], client, termination_condition=ends, runtime=runtime)


def magentic_killed(runtime: AgentRuntime, begun: bool) -> MagenticOneGroupChat:
    """Is killed in its second round; what remains to be said is how it ends."""
    ends = [ledger(satisfied=True), "the answer"]
    client = model(*([*ends, *PLANNED_ANEW[:-1], "the new answer"] if begun else PLANNED))
    return MagenticOneGroupChat([Dawdler("clerk", 2.0)], client, runtime=runtime)


def rounds(runtime: AgentRuntime, begun: bool) -> RoundRobinGroupChat:
    """Is killed in the second answer of its second member."""
    members: list[Any] = [Dawdler("clerk", 0.0), Dawdler("porter", 0.0 if begun else 60.0)]
    return RoundRobinGroupChat(members, max_turns=6, runtime=runtime)


class Counting(BaseChatAgent):
    """Keeps what it knows in private attributes, and has no `save_state`."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "counts")
        self._heard: list[str] = []
        self.__count = 0

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        self._heard += [message.to_text() for message in messages]
        self.__count += 1
        return Response(chat_message=TextMessage(content=str(self.__count), source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        self._heard.clear()
        self.__count = 0


@effect("team.input")
async def ask_the_person(prompt: str, cancellation_token: CancellationToken | None = None) -> str:
    """A line of the file `asked` each time that somebody begins to wait; the answer is a file too."""
    place = Path(os.environ["TEAM_DIRECTORY"])
    with (place / "asked").open("a") as file:
        file.write(f"{prompt}\n")
    while not (place / "answer").exists():
        await asyncio.sleep(0.01)
    return (place / "answer").read_text()


def asking(runtime: AgentRuntime, begun: bool) -> RoundRobinGroupChat:
    """Has a question for the person."""
    members: list[Any] = [
        AssistantAgent("clerk", model("what now?")),
        UserProxyAgent("person", input_func=ask_the_person),
    ]
    return RoundRobinGroupChat(members, max_turns=2, runtime=runtime)


def counting(runtime: AgentRuntime, begun: bool) -> RoundRobinGroupChat:
    return RoundRobinGroupChat([Counting("clerk")], max_turns=1, runtime=runtime)


TEAMS: dict[str, Callable[[AgentRuntime, bool], Any]] = {
    "swarm": swarm,
    "magentic": magentic,
    "magentic_killed": magentic_killed,
    "rounds": rounds,
    "counting": counting,
    "asking": asking,
}


def made(kind: str, runtime: AgentRuntime, identity: int, *, begun: bool) -> Any:
    """A team with that id."""
    with mock.patch("uuid.uuid4", return_value=uuid.UUID(int=identity)):
        return TEAMS[kind](runtime, begun)


FIELDS = ("_current_speaker", "_current_turn", "_task", "_facts", "_plan", "_n_rounds", "_n_stalls", "_heard", "_asked")


def kept(agent: Any) -> dict[str, Any]:
    """What a member or the manager of a team keeps, with ids and times of its messages."""
    found = {name: getattr(agent, name) for name in (*FIELDS, "_Counting__count") if hasattr(agent, name)}
    found["_message_thread"] = [message.dump() for message in getattr(agent, "_message_thread", [])]
    return json.loads(json.dumps(found, default=str))  # type: ignore[no-any-return]


class Program:
    """A team, and what can be asked of it."""

    def __init__(self, runtime: Any, team: Any) -> None:
        self._runtime = runtime
        self._team = team
        self._manager = AgentId(team._group_chat_manager_topic_type, team._team_id)
        self._clerk = AgentId(team._participant_topic_types[0], team._team_id)

    async def run(self, task: str, handoff: str = "") -> dict[str, Any]:
        message = HandoffMessage(content=task, source="user", target=handoff) if handoff else task
        try:
            result: TaskResult = await self._team.run(task=message)
        except Exception as error:  # it is what the test asks about
            return {"error": type(error).__name__, "text": str(error)}
        return {"said": [one.to_text() for one in result.messages], "stopped": result.stop_reason}

    async def runs(self, times: int) -> dict[str, Any]:
        """So many runs, one after the other; what the last one said."""
        return [await self.run(f"task {number}") for number in range(times)][-1]

    async def live(self) -> dict[str, Any]:
        """What the manager and the first member keep."""
        manager = await self._runtime.try_get_underlying_agent_instance(self._manager)
        container = await self._runtime.try_get_underlying_agent_instance(self._clerk)
        return {"manager": kept(manager), "clerk": kept(container._agent)}

    async def register(self) -> dict[str, Any]:
        """As the first run would: from here on, what was left in the middle goes on."""
        await self._team._init(self._runtime)
        return {}

    async def save(self) -> dict[str, Any]:
        state: Mapping[str, Any] = await self._team.save_state()
        return {"state": state}

    async def load(self, state: Mapping[str, Any]) -> dict[str, Any]:
        await self._team.load_state(state)
        return {}

    async def another(self, team: str, identity: int) -> dict[str, Any]:
        """From here on it is another team, of another id, with the state of this one."""
        saved = await self._team.save_state()
        self.__init__(self._runtime, made(team, self._runtime, identity, begun=True))
        await self._team.load_state(saved)
        return {}

    async def asked(self) -> dict[str, Any]:
        """How many model calls the team has made in this process."""
        return {"models": len(self._team._model_client.create_calls)}


async def serve(program: Program) -> None:
    lines = asyncio.StreamReader(limit=1 << 24)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    print(json.dumps({"ready": os.getpid()}), flush=True)
    running: set[asyncio.Task[None]] = set()

    async def answer(asked: dict[str, Any]) -> None:
        number, do = asked.pop("number"), asked.pop("do")
        try:
            said = await getattr(program, do)(**asked)
        except Exception as error:  # the test is told, and fails where it waits for something else
            said = {"error": type(error).__name__, "text": str(error)}
        print(json.dumps({"number": number, **said}), flush=True)

    while line := await lines.readline():
        task = asyncio.create_task(answer(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)
    transport.close()


async def main(dsn: str, port: str, kind: str, identity: str, begun: str) -> None:
    async with EventLog.open(dsn) as log:
        handler = EventLogHandler(log, effects_unknown={"own.team.input": "retry"})
        runtime = EventSourcedGrpcWorkerAgentRuntime(
            f"localhost:{port}", intervention_handlers=[handler], registration_patience=30
        )
        await runtime.start()
        await serve(Program(runtime, made(kind, runtime, int(identity), begun=begun == "again")))
        await runtime.stop()


if __name__ == "__main__":
    from tests.acceptance.programs import teams  # its classes by their importable name, not as __main__'s

    asyncio.run(teams.main(*sys.argv[1:]))
