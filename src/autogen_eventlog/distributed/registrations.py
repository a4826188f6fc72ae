"""A worker's agent types and subscriptions: at the host, which forgets them with the connection (T9), and in the log.

The log has the subscriptions so that whoever publishes knows whom it is for, also while no worker has the agent's type.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import grpc
import grpc.aio
from autogen_core import AgentId, Subscription, TopicId, TypePrefixSubscription, TypeSubscription
from autogen_core._runtime_impl_helpers import SubscriptionManager
from autogen_ext.runtimes.grpc._utils import subscription_from_proto, subscription_to_proto
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2 as pb

from autogen_eventlog.distributed.connection import HostConnection
from autogen_eventlog.errors import AgentTypeTaken, HostUnavailable
from autogen_eventlog.postgres.subscriptions import StoredSubscription, Subscriptions

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.2
_FRESH_SECONDS = 0.5
_WATCH_SECONDS = 5.0
_GRACE_SECONDS = 30.0
"""How long a type that was registered anew still has the subscriptions it had before, until they are added again."""
_LET_GO_AFTER_SECONDS = 3.0
"""Of refusals to give a type back. For less, it may be this worker's own lost connection that the host still knows."""


class Registrations:
    """Agent types and subscriptions, told to the host again after each new connection.

    Args:
        subscriptions: AutoGen's manager of this worker's own subscriptions.
        kept: Those of all event-sourced workers, in the log.
        let_go: Told of a type that another worker has at the host: agents of it are to be that worker's.
        patience: Seconds for which the host may refuse a type, because a worker that is gone still holds it there.
    """

    def __init__(
        self,
        connection: HostConnection,
        subscriptions: SubscriptionManager,
        kept: Subscriptions,
        *,
        let_go: Callable[[str], Awaitable[None]],
        patience: float,
    ) -> None:
        self._connection = connection
        self._own = subscriptions
        self._kept = kept
        self._let_go = let_go
        self._patience = patience
        self.types: dict[str, None] = {}
        """Those that the host has given to this worker, and those it is to get back after a lost connection."""
        self._all: list[tuple[Subscription, datetime]] | None = None
        self._looked_at = 0.0
        self._getting_back: dict[asyncio.Task[None], str] = {}
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Keep the host's list of this worker's subscriptions whole.

        The host drops those of a broken connection when it notices the break, which may be after they were added anew.
        """
        self._watching = asyncio.create_task(self._watch(), name="eventlog-registrations")

    async def add_type(self, agent_type: str) -> None:
        """Have the host give messages for a type to this worker. Nothing is registered if it does not.

        Raises:
            AgentTypeTaken: The host refused for longer than `patience`.
            HostUnavailable: It was away for longer than that.
        """
        client = await self._ask_for(agent_type)
        self.types[agent_type] = None  # from here on, each new connection asks for it
        try:
            while self._connection.client_id not in ("", client):  # but one that came meanwhile did not
                client = await self._ask_for(agent_type)
            await self._kept.begin_anew(agent_type)
        except BaseException:
            del self.types[agent_type]
            raise

    async def add(self, subscription: Subscription) -> None:
        """Subscribe at the host, then here.

        Raises:
            ValueError: The subscription exists already.
            HostUnavailable: The host is away.
        """
        if subscription in self._own.subscriptions:
            raise ValueError("Subscription already exists")
        await self._kept.add(*_names(subscription), prefix=_is_prefix(subscription))
        await self._subscribe(subscription)
        await self._own.add_subscription(subscription)
        self._all = None

    async def remove(self, id: str) -> None:
        """Unsubscribe at the host, then here."""
        removed = [subscription for subscription in self._own.subscriptions if subscription.id == id]
        await self._asked("RemoveSubscription", pb.RemoveSubscriptionRequest(id=id))
        await self._own.remove_subscription(id)
        for subscription in removed:
            await self._kept.remove(*_names(subscription), prefix=_is_prefix(subscription))
        self._all = None

    async def again(self) -> None:
        """After a new connection. A type that another worker has now is asked for until the host gives it back."""
        self._all = None
        for subscription in self._own.subscriptions:
            try:
                await self._connection.ask_host("AddSubscription", _subscription(subscription))
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.INVALID_ARGUMENT:
                    raise
                logger.debug("the host has subscription %s already: %s", subscription.id, error.details())
        for agent_type in list(self.types):
            try:
                await self._register(agent_type)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.INVALID_ARGUMENT:
                    raise
                task = asyncio.create_task(self._get_back(agent_type))
                self._getting_back[task] = agent_type
                task.add_done_callback(self._getting_back.pop)

    async def subscribers(self, topic: TopicId, published_at: datetime) -> list[AgentId]:
        """The agents that a publication is for, on all event-sourced workers, those that are away included.

        One agent stands there as often as it is subscribed, as AutoGen delivers it. The list is at most half a second old.
        """
        loop = asyncio.get_running_loop()
        if self._all is None or loop.time() - self._looked_at > _FRESH_SECONDS:
            found = await self._kept.all(grace=_GRACE_SECONDS)
            self._all, self._looked_at = [(_subscription_of(one), one.created_at) for one in found], loop.time()
        return [
            subscription.map_to_agent(topic)
            for subscription, created_at in self._all
            if created_at <= published_at and subscription.is_match(topic)
        ]

    @property
    def elsewhere(self) -> frozenset[str]:
        """Types of this worker that the host has given to another, and that are asked for until it gives them back."""
        return frozenset(self._getting_back.values())

    async def close(self) -> None:
        """Ask for nothing any more."""
        tasks = [*self._getting_back, *([] if self._watching is None else [self._watching])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            try:
                found = await self._connection.ask_host("GetSubscriptions", pb.GetSubscriptionsRequest())
                known = [subscription_from_proto(one) for one in found.subscriptions]
                for subscription in self._own.subscriptions:
                    if subscription not in known:
                        await self._connection.ask_host("AddSubscription", _subscription(subscription))
            except grpc.aio.AioRpcError as error:
                logger.debug("subscriptions not looked at: %s", error.details())

    async def _get_back(self, agent_type: str) -> None:
        logger.warning("another worker has agent type %r at the host, or one that is gone still has", agent_type)
        client = self._connection.client_id
        letting_go = asyncio.create_task(self._let_go_of(agent_type))
        try:
            while self._connection.client_id == client and agent_type in self.types:
                try:
                    await self._register(agent_type)
                    logger.warning("agent type %r is this worker's again", agent_type)
                    return
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(5 * _PAUSE_SECONDS)
        finally:
            letting_go.cancel()
            await asyncio.wait([letting_go])

    async def _let_go_of(self, agent_type: str) -> None:
        await asyncio.sleep(_LET_GO_AFTER_SECONDS)
        await self._let_go(agent_type)

    async def _register(self, agent_type: str) -> str:
        """Ask the host for a type; the client id that has it then."""
        client = self._connection.client_id
        try:
            await self._connection.ask_host("RegisterAgent", pb.RegisterAgentTypeRequest(type=agent_type))
        except grpc.aio.AioRpcError as error:
            if not client or client not in (error.details() or ""):  # which says who has it, and it may be ourselves
                raise
        return client

    async def _ask_for(self, agent_type: str) -> str:
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._patience
        while True:
            try:
                return await self._register(agent_type)
            except grpc.aio.AioRpcError as error:
                if loop.time() < ends:
                    await asyncio.sleep(_PAUSE_SECONDS)
                elif error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                    raise AgentTypeTaken(agent_type, self._patience, (error.details() or "").rstrip(".")) from error
                else:
                    raise self._unavailable(error) from error

    async def _subscribe(self, subscription: Subscription) -> None:
        """A worker that is gone may have the same one at the host still."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._patience
        while True:
            try:
                await self._asked("AddSubscription", _subscription(subscription))
                return
            except grpc.aio.AioRpcError as error:
                if loop.time() >= ends:
                    raise ValueError(error.details()) from error
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _asked(self, method: str, request: Any) -> Any:
        """Ask the host, through a connection that may just be made anew."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._patience
        while True:
            try:
                return await self._connection.ask_host(method, request)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                    raise
                if loop.time() >= ends:
                    raise self._unavailable(error) from error
                await asyncio.sleep(_PAUSE_SECONDS)

    def _unavailable(self, error: grpc.aio.AioRpcError) -> HostUnavailable:
        return HostUnavailable(self._connection.address, self._patience, error.details() or error.code().name)


def _subscription(subscription: Subscription) -> pb.AddSubscriptionRequest:
    return pb.AddSubscriptionRequest(subscription=subscription_to_proto(subscription))


def _is_prefix(subscription: Subscription) -> bool:
    return isinstance(subscription, TypePrefixSubscription)


def _names(subscription: Subscription) -> tuple[str, str]:
    """Agent type and topic type.

    Raises:
        ValueError: It is of a kind that AutoGen's host doesn't know either.
    """
    if isinstance(subscription, TypePrefixSubscription):
        return subscription.agent_type, subscription.topic_type_prefix
    if isinstance(subscription, TypeSubscription):
        return subscription.agent_type, subscription.topic_type
    raise ValueError("Unsupported subscription type.")


def _subscription_of(stored: StoredSubscription) -> Subscription:
    if stored.prefix:
        return TypePrefixSubscription(stored.topic_type, stored.agent_type)
    return TypeSubscription(stored.topic_type, stored.agent_type)
