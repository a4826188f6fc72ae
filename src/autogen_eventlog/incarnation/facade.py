"""The runtime as an agent sees it: AutoGen's `AgentRuntime` protocol, with everything the agent asks recorded."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from autogen_core import (
    Agent,
    AgentId,
    AgentMetadata,
    AgentRuntime,
    AgentType,
    CancellationToken,
    MessageSerializer,
    Subscription,
    TopicId,
)

from autogen_eventlog.events import EventType
from autogen_eventlog.ids import check_text
from autogen_eventlog.incarnation.incarnation import Incarnation, current_delivery
from autogen_eventlog.incarnation.parts import Call
from autogen_eventlog.replay.loop import SESSION
from autogen_eventlog.replay.machine import Production

T = TypeVar("T", bound=Agent)


class RuntimeFacade(AgentRuntime):
    """Stands between an instance and its runtime.

    Messages become events; other requests become effects, answered from the log in replay. Called from outside the
    agent's session (a test that calls the agent's own methods, a task made in its constructor), a request goes to the
    runtime as it is: it is not the doing of a handler, and replay would not repeat it.
    """

    def __init__(self, runtime: AgentRuntime) -> None:
        self._runtime = runtime
        self._attached: Incarnation | None = None

    def attach(self, incarnation: Incarnation) -> None:
        """Say whose requests these are. An instance that was registered ready-made has a runtime before it has a log."""
        self._attached = incarnation

    @property
    def _incarnation(self) -> Incarnation:
        assert self._attached is not None
        return self._attached

    def __getattr__(self, name: str) -> Any:
        # What is not in the protocol (AutoGen's runtimes have more methods) is the runtime's own.
        if name.startswith("__") or "_runtime" not in self.__dict__:
            raise AttributeError(name)
        found = getattr(self._runtime, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def asked(*args: Any, **keywords: Any) -> Any:
            return await self._effect(name, repr((args, keywords)), lambda: found(*args, **keywords))

        return asked

    def _check_alive(self) -> None:
        """A view, and what was replaced, must not act in the agent's name, whoever calls it."""
        if self._attached is not None and self._attached.ended:
            raise self._attached.refusal()

    @property
    def _inside(self) -> bool:
        return self._attached is not None and SESSION.get() is self._attached.session

    # -- messages -------------------------------------------------------------------------------------------------

    async def send_message(
        self,
        message: Any,
        recipient: AgentId,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
    ) -> Any:
        if not self._inside:
            self._check_alive()
            return await self._runtime.send_message(
                message, recipient, sender=sender, cancellation_token=cancellation_token, message_id=message_id
            )
        incarnation = self._incarnation
        encoded = incarnation.encode(message, where="message")
        check_text("recipient", str(recipient))
        check_text("message_id", message_id)
        made = Production(
            EventType.MESSAGE_SENT,
            recipient=str(recipient),
            message_type=encoded.type_name,
            payload=encoded.data,
            delivery=_delivery_number(),
        )
        event, ticket = await incarnation.produce(
            made, delivery=current_delivery(), metadata={} if message_id is None else {"asked_id": message_id}
        )
        future = incarnation.session.loop.create_future()
        call = Call(event, recipient, encoded, message, future, CancellationToken())
        if cancellation_token is not None:
            cancellation_token.link_future(future)
            # At once, as AutoGen's runtime passes the token itself on.
            cancellation_token.add_callback(partial(incarnation.give_up, call))
        incarnation.calls[event.id] = call
        if incarnation.live:
            incarnation.let_out(call, ticket)
        try:
            return await future
        finally:
            incarnation.calls.pop(event.id, None)
            if future.cancelled():
                incarnation.give_up(call)
            elif future.done():
                future.exception()  # an answer that came as the waiting task was cancelled is nobody's error

    async def publish_message(
        self,
        message: Any,
        topic_id: TopicId,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
    ) -> None:
        if not self._inside:
            self._check_alive()
            await self._runtime.publish_message(
                message, topic_id, sender=sender, cancellation_token=cancellation_token, message_id=message_id
            )
            return
        incarnation = self._incarnation
        encoded = incarnation.encode(message, where="message")
        check_text("topic", str(topic_id))
        check_text("message_id", message_id)
        made = Production(
            EventType.MESSAGE_PUBLISHED,
            topic=str(topic_id),
            message_type=encoded.type_name,
            payload=encoded.data,
            delivery=_delivery_number(),
        )
        metadata = await incarnation.fan_out(topic_id)
        if message_id is not None:
            metadata["asked_id"] = message_id
        event, ticket = await incarnation.produce(made, delivery=current_delivery(), metadata=metadata)
        if cancellation_token is not None:
            cancellation_token.add_callback(incarnation.say)
        if incarnation.live:
            incarnation.let_out_publication(event, encoded, message, ticket, _to_pass_on(cancellation_token))

    # -- everything else ------------------------------------------------------------------------------------------

    async def _effect(self, name: str, request: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        if not self._inside:
            self._check_alive()
            return await ask()
        return await self._incarnation.effect(f"runtime.{name}", request, ask)

    async def register_factory(
        self,
        type: str | AgentType,
        agent_factory: Callable[[], T | Awaitable[T]],
        *,
        expected_class: type[T] | None = None,
    ) -> AgentType:
        name = type if isinstance(type, str) else type.type

        async def register() -> None:
            await self._runtime.register_factory(name, agent_factory, expected_class=expected_class)

        await self._effect("register_factory", name, register)
        return AgentType(name)

    async def register_agent_instance(self, agent_instance: Agent, agent_id: AgentId) -> AgentId:
        async def register() -> None:
            await self._runtime.register_agent_instance(agent_instance, agent_id)

        await self._effect("register_agent_instance", str(agent_id), register)
        return agent_id

    async def try_get_underlying_agent_instance(self, id: AgentId, type: type[T] = Agent) -> T:  # type: ignore[assignment]
        # An object of another agent can't be recorded; what the agent does with it is outside its log.
        return await self._runtime.try_get_underlying_agent_instance(id, type)

    async def get(
        self, id_or_type: AgentId | AgentType | str, /, key: str = "default", *, lazy: bool = True
    ) -> AgentId:
        found = id_or_type if isinstance(id_or_type, AgentId) else AgentId(id_or_type, key)
        if not lazy:

            async def instantiate() -> None:
                await self._runtime.get(found, lazy=False)

            await self._effect("get", str(found), instantiate)
        return found

    async def save_state(self) -> Mapping[str, Any]:
        return await self._effect("save_state", "", self._runtime.save_state)

    async def load_state(self, state: Mapping[str, Any]) -> None:
        await self._effect("load_state", "", lambda: self._runtime.load_state(state))

    async def agent_metadata(self, agent: AgentId) -> AgentMetadata:
        async def ask() -> dict[str, str]:
            found = await self._runtime.agent_metadata(agent)
            return {"type": found["type"], "key": found["key"], "description": found["description"]}

        found = await self._effect("agent_metadata", str(agent), ask)
        return AgentMetadata(**found)

    async def agent_save_state(self, agent: AgentId) -> Mapping[str, Any]:
        async def ask() -> dict[str, Any]:
            return dict(await self._runtime.agent_save_state(agent))

        return await self._effect("agent_save_state", str(agent), ask)

    async def agent_load_state(self, agent: AgentId, state: Mapping[str, Any]) -> None:
        await self._effect("agent_load_state", str(agent), lambda: self._runtime.agent_load_state(agent, state))

    async def add_subscription(self, subscription: Subscription) -> None:
        await self._effect(
            "add_subscription", subscription_text(subscription), lambda: self._runtime.add_subscription(subscription)
        )

    async def remove_subscription(self, id: str) -> None:
        # Ids of subscriptions are drawn at random by AutoGen, so they can't tell one request from another.
        await self._effect("remove_subscription", "", lambda: self._runtime.remove_subscription(id))

    def add_message_serializer(self, serializer: MessageSerializer[Any] | Sequence[MessageSerializer[Any]]) -> None:
        self._runtime.add_message_serializer(serializer)


def subscription_text(subscription: Subscription) -> str:
    """What a subscription matches, without its random id."""
    parts = {key: value for key, value in vars(subscription).items() if "id" not in key}
    return f"{type(subscription).__name__} {parts}"


def _delivery_number() -> int | None:
    delivery = current_delivery()
    return None if delivery is None else delivery.number


def _to_pass_on(token: CancellationToken | None) -> CancellationToken | None:
    """A publication is cancelled by whoever cancels what led to it, also when the handler that published it has ended."""
    delivery = current_delivery()
    if delivery is None or token is not delivery.token or delivery.came_with is None:
        return token
    return delivery.came_with
