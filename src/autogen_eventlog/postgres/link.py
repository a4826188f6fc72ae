"""The writer's connection: two prepared statements, whose parameters we pack and whose few result cells we read.

It speaks to libpq through psycopg's own wrapper (`psycopg.pq`), and waits for the answer itself: a cursor, and a watch
on the socket that is set up for each answer, cost about as much for one small batch as the whole batch costs here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from struct import Struct
from typing import Any

import psycopg
from psycopg import generators, pq
from psycopg.errors import error_from_result

from autogen_eventlog.postgres.alarm import Alarm
from autogen_eventlog.postgres.packing import array, array_of_bytes
from autogen_eventlog.postgres.session import connect
from autogen_eventlog.postgres.sql import query
from autogen_eventlog.postgres.ticket import Ticket

_INT8 = Struct("!q")
_POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
_ZERO = _INT8.pack(0)
_TRUE = b"\x01"
_STATEMENTS = {"append": b"eventlog_append", "append_large": b"eventlog_append_large"}


@dataclass(frozen=True, slots=True)
class StreamAnswer:
    """What `append` said about one stream of the batch."""

    stream: str
    epoch: int
    accepted: bool
    found_epoch: int
    found_version: int
    recorded_at: datetime | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What `append` said. Streams that aren't named were accepted, at `recorded_at`."""

    position: int
    """Of the event before the batch's first."""
    recorded_at: datetime
    streams: tuple[StreamAnswer, ...]

    @property
    def refused(self) -> bool:
        """Whether any stream was."""
        return any(not said.accepted for said in self.streams)


class Link:
    """An open connection that can append. Not for two tasks at once."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], element_type: int) -> None:
        self._connection = connection
        self._element_type = element_type
        self._loop = asyncio.get_running_loop()
        self._socket = connection.pgconn.socket
        self._listening = False
        """Whether the loop watches the socket for us; psycopg's own calls need it for themselves."""
        self._arrival: asyncio.Future[None] | None = None
        self._hangs = Alarm(self.abort)

    @classmethod
    async def open(cls, conninfo: str, schema: str) -> Link:
        """Connects, prepares the statements, and makes sure of partitions and of the position base."""
        connection = await connect(conninfo, schema)
        try:
            await connection.execute(query("maintain"))
            cursor = await connection.execute(query("event_input_type"))
            row = await cursor.fetchone()
            assert row is not None
            link = cls(connection, row[0])
            for name, statement in _STATEMENTS.items():
                connection.pgconn.send_prepare(statement, query(name))
                results = await connection.wait(generators.execute(connection.pgconn))
                _check(results, pq.ExecStatus.COMMAND_OK)
        except BaseException:
            await connection.close()
            raise
        return link

    async def maintain(self) -> None:
        """Makes next month's partition when it is due."""
        self._stop_listening()
        await self._connection.execute(query("maintain"))

    async def append(self, batch: Sequence[Ticket], timeout: float) -> Answer:
        """One statement, one transaction, one round trip.

        Raises:
            psycopg.Error: The database refused, or the connection is gone; after `timeout` seconds we end it.
        """
        pieces: list[bytes] = []
        events = 0
        large: dict[bytes, bytes] = {}
        for ticket in batch:
            pieces += ticket.pieces
            events += ticket.events
            if ticket.large:
                large.update(ticket.large)
        parameters = [array(self._element_type, pieces, events)]
        if large:
            parameters.append(array_of_bytes(large.values()))
        pgconn = self._connection.pgconn
        self._hangs.set(timeout)
        try:
            pgconn.send_query_prepared(
                _STATEMENTS["append_large" if large else "append"],
                parameters,
                [pq.Format.BINARY] * len(parameters),
                pq.Format.BINARY,
            )
            if pgconn.flush():  # larger than the socket's buffer
                self._stop_listening()
                results = await self._connection.wait(generators.execute(pgconn))
            else:
                results = await self._results()
        except BaseException:
            self._stop_listening()
            raise
        finally:
            self._hangs.clear()
        return _answer(_check(results, pq.ExecStatus.TUPLES_OK))

    async def find(self, tickets: Sequence[Ticket]) -> dict[int, tuple[int, datetime]]:
        """Looks for the last event of each ticket by its id; by index in `tickets`: position and recorded_at."""
        self._stop_listening()
        cursor = await self._connection.execute(
            query("find_appended"),
            {
                "streams": [ticket.stream for ticket in tickets],
                "versions": [ticket.version for ticket in tickets],
                "ids": [ticket.last_id for ticket in tickets],
            },
        )
        return {row[0] - 1: (row[1], row[2]) for row in await cursor.fetchall()}

    def abort(self) -> None:
        """Breaks the connection under a call that hangs, which then fails as if the network had."""
        connection = socket.socket(fileno=self._connection.pgconn.socket)
        try:
            connection.shutdown(socket.SHUT_RDWR)
        finally:
            connection.detach()

    async def close(self) -> None:
        """Closes at once; what runs is left to the server."""
        self._hangs.stop()
        self._stop_listening()
        await self._connection.close()

    async def _results(self) -> list[pq.abc.PGresult]:
        """What the server says to what was sent."""
        pgconn = self._connection.pgconn
        if not self._listening:
            self._loop.add_reader(self._socket, self._arrived)
            self._listening = True
        results: list[pq.abc.PGresult] = []
        while True:
            if pgconn.is_busy():
                self._arrival = self._loop.create_future()
                await self._arrival
            result = pgconn.get_result()
            if result is None:
                return results
            results.append(result)

    def _arrived(self) -> None:
        arrival = self._arrival
        if arrival is None or arrival.done():
            self._stop_listening()  # nobody asked: the connection has ended, as the next append will find
            return
        pgconn = self._connection.pgconn
        try:
            pgconn.consume_input()
        except psycopg.Error as error:
            self._stop_listening()  # libpq has closed the socket: its number may be another's before the append goes on
            arrival.set_exception(error)
        else:
            if not pgconn.is_busy():
                arrival.set_result(None)

    def _stop_listening(self) -> None:
        if self._listening:
            self._listening = False
            self._loop.remove_reader(self._socket)


def _check(results: Sequence[pq.abc.PGresult], expected: pq.ExecStatus) -> pq.abc.PGresult:
    result = results[-1]
    if result.status != expected:
        raise error_from_result(result)
    return result


def _answer(result: pq.abc.PGresult) -> Answer:
    recorded_at = result.get_value(0, 7)
    plain = result.ntuples == 1 and result.get_value(0, 2) == _TRUE and result.get_value(0, 5) == recorded_at
    streams = () if plain else tuple(_stream_answer(result, row) for row in range(result.ntuples))
    return Answer(_int8(result.get_value(0, 6)), _time(recorded_at), streams)


def _stream_answer(result: pq.abc.PGresult, row: int) -> StreamAnswer:
    recorded_at = result.get_value(row, 5)
    return StreamAnswer(
        stream=(result.get_value(row, 0) or b"").decode(),
        epoch=_int8(result.get_value(row, 1)),
        accepted=result.get_value(row, 2) == _TRUE,
        found_epoch=_int8(result.get_value(row, 3) or _ZERO),
        found_version=_int8(result.get_value(row, 4) or _ZERO),
        recorded_at=None if recorded_at is None else _time(recorded_at),
    )


def _int8(data: bytes | None) -> int:
    assert data is not None
    return _INT8.unpack(data)[0]


def _time(data: bytes | None) -> datetime:
    return _POSTGRES_EPOCH + timedelta(microseconds=_int8(data))
