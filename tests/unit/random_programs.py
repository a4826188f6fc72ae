"""Random concurrent programs as an agent's messages: yields, sleeps, time-outs, locks, queues, gather, background tasks,
calls, publications and exceptions. What an agent saw, in its `trace`, tells whether two runs were the same."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from autogen_core import AgentId, BaseAgent, MessageContext, TopicId


class Programmed(BaseAgent):
    """Runs the program that a message is."""

    def __init__(self) -> None:
        super().__init__("runs programs")
        self.trace: list[Any] = []
        self.lock = asyncio.Lock()
        self.queue: asyncio.Queue[int] = asyncio.Queue()
        self.background: set[asyncio.Task[None]] = set()
        self.ended = 0

    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        number = len(self.trace)
        await self.run(message, number, ctx)
        self.ended += 1
        return len(self.trace)

    async def run(self, program: list[Any], who: int, ctx: MessageContext) -> None:
        for kind, *args in program:
            await getattr(self, f"do_{kind}")(who, ctx, *args)

    async def do_change(self, who: int, ctx: MessageContext, value: int) -> None:
        self.trace.append((who, value))

    async def do_yield(self, who: int, ctx: MessageContext) -> None:
        await asyncio.sleep(0)

    async def do_sleep(self, who: int, ctx: MessageContext, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.trace.append((who, "slept"))

    async def do_call(self, who: int, ctx: MessageContext, question: int) -> None:
        try:
            self.trace.append(await self.send_message(question, AgentId("world", "one")))
        except (ValueError, KeyError) as error:
            self.trace.append((type(error).__name__, error.args))

    async def do_call_cancellable(self, who: int, ctx: MessageContext, question: int) -> None:
        try:
            answer = await self.send_message(
                question, AgentId("world", "one"), cancellation_token=ctx.cancellation_token
            )
            self.trace.append(answer)
        except asyncio.CancelledError:
            self.trace.append((who, "cancelled"))
            raise
        except (ValueError, KeyError) as error:
            self.trace.append((type(error).__name__, error.args))

    async def do_publish(self, who: int, ctx: MessageContext, value: int) -> None:
        await self.publish_message((value, len(self.trace)), TopicId("news", "all"))

    async def do_locked(self, who: int, ctx: MessageContext, program: list[Any]) -> None:
        async with self.lock:
            await self.run(program, who, ctx)

    async def do_gather(self, who: int, ctx: MessageContext, programs: list[Any]) -> None:
        results = await asyncio.gather(*(self.run(p, who, ctx) for p in programs), return_exceptions=True)
        self.trace.append((who, [type(result).__name__ for result in results]))

    async def do_spawn(self, who: int, ctx: MessageContext, program: list[Any]) -> None:
        task = asyncio.create_task(self.run(program, who, ctx))
        self.background.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self.background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.trace.append("background failed")

    async def do_timeout(self, who: int, ctx: MessageContext, seconds: float, program: list[Any]) -> None:
        try:
            await asyncio.wait_for(self.run(program, who, ctx), seconds)
            self.trace.append((who, "in time"))
        except asyncio.TimeoutError:
            self.trace.append((who, "timed out"))

    async def do_put(self, who: int, ctx: MessageContext, value: int) -> None:
        self.queue.put_nowait(value)

    async def do_get(self, who: int, ctx: MessageContext, seconds: float) -> None:
        try:
            self.trace.append((who, "got", await asyncio.wait_for(self.queue.get(), seconds)))
        except asyncio.TimeoutError:
            self.trace.append((who, "empty"))

    async def do_look(self, who: int, ctx: MessageContext) -> None:
        self.trace.append((who, ctx.cancellation_token.is_cancelled()))

    async def do_raise(self, who: int, ctx: MessageContext, value: int) -> None:
        raise ValueError(value)


def random_program(rnd: random.Random, depth: int = 0, locked: bool = False) -> list[Any]:
    program: list[Any] = []
    for _ in range(rnd.randint(1, 5)):
        kinds = ["change"] * 3 + ["yield"] * 2 + ["call"] * 2 + ["sleep", "publish", "put", "get", "look"]
        kinds += ["call_cancellable"]
        kinds += [] if depth > 2 else ["gather", "spawn", "timeout"] + ([] if locked else ["locked"])
        kinds += ["raise"] if rnd.random() < 0.1 else []
        program.append(_operation(rnd, rnd.choice(kinds), depth, locked))
    return program


def _operation(rnd: random.Random, kind: str, depth: int, locked: bool) -> tuple[Any, ...]:
    match kind:
        case "yield" | "look":
            return (kind,)
        case "sleep":
            return (kind, rnd.choice([0.0005, 0.001, 0.001, 0.002, 0.004]))
        case "get":
            return (kind, rnd.choice([0.001, 0.003]))
        case "locked":
            return (kind, random_program(rnd, depth + 1, True))
        case "spawn":
            return (kind, random_program(rnd, depth + 1))
        case "gather":
            return (kind, [random_program(rnd, depth + 1, locked) for _ in range(rnd.randint(2, 3))])
        case "timeout":
            return (kind, rnd.choice([0.001, 0.002, 0.01]), random_program(rnd, depth + 1, locked))
        case _:
            return (kind, rnd.randint(0, 999))
