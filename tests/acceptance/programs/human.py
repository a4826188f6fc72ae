"""Agents that wait for a person, on a worker in a process of its own.

    python -m tests.acceptance.programs.human DSN PORT DIRECTORY retry|fail TYPE...

The person is asked by an effect: the question is a file `asked-N` of DIRECTORY, the answer a file `answer-N`. Each time that
somebody begins to wait for an answer is a line of the file `waits`. The fourth argument says what becomes of a question whose
process died before it had the answer.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autogen_core import AgentId, AgentRuntime, MessageContext, RoutedAgent, TopicId, TypeSubscription, event, rpc

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedGrpcWorkerAgentRuntime, effect

from .remote import until_input_ends

ANSWERED = TopicId("answered", "all")
PERSON = AgentId("person", "p")


@dataclass
class Wish:
    number: int


@dataclass
class Question:
    number: int


@dataclass
class Answer:
    number: int
    text: str


@effect("human.input")
async def ask(directory: str, number: int) -> str:
    """Asks the person, who is not asked twice, and waits for as long as it takes."""
    place = Path(directory)
    with (place / "waits").open("a") as file:
        file.write(f"{number}\n")
    (place / f"asked-{number}").touch()
    answer = place / f"answer-{number}"
    while not answer.exists():
        await asyncio.sleep(0.01)
    return answer.read_text()


class Person(RoutedAgent):
    directory = ""

    def __init__(self) -> None:
        super().__init__("asks the person")
        self.answers: list[str] = []

    @rpc
    async def on_question(self, message: Question, ctx: MessageContext) -> Answer:
        asking = asyncio.ensure_future(ask(Person.directory, message.number))
        ctx.cancellation_token.link_future(asking)
        self.answers.append(await asking)
        return Answer(message.number, self.answers[-1])


class Asker(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("has a question")
        self.wishes: list[int] = []
        self.answers: list[str] = []

    @rpc
    async def on_wish(self, message: Wish, ctx: MessageContext) -> Answer:
        self.wishes.append(message.number)
        answer: Answer = await self.send_message(Question(message.number), PERSON)
        self.answers.append(answer.text)
        await self.publish_message(answer, ANSWERED)
        return answer


class Reader(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("reads what was answered")
        self.read: list[str] = []

    @event
    async def on_answer(self, message: Answer, ctx: MessageContext) -> None:
        self.read.append(message.text)


AGENTS: dict[str, Any] = {"asker": Asker, "person": Person, "reader": Reader}


async def settle_in(runtime: AgentRuntime, types: list[str]) -> None:
    for name in types:
        await AGENTS[name].register(runtime, name, AGENTS[name])
        if name == "reader":
            await runtime.add_subscription(TypeSubscription(ANSWERED.type, name))


async def main(dsn: str, port: str, directory: str, unknown: str, *types: str) -> None:
    Person.directory = directory
    async with EventLog.open(dsn) as log:
        handler = EventLogHandler(log, effects_unknown={"own.human.input": "retry" if unknown == "retry" else "fail"})
        runtime = EventSourcedGrpcWorkerAgentRuntime(
            f"localhost:{port}", intervention_handlers=[handler], registration_patience=30
        )
        await runtime.start()
        await settle_in(runtime, list(types))
        await until_input_ends()
        await runtime.stop()


if __name__ == "__main__":
    from tests.acceptance.programs import human  # its classes by their importable name, not as __main__'s

    asyncio.run(human.main(*sys.argv[1:]))
