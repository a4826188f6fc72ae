"""A database that answers and lets nobody in: it is told at once, with the reason, and not tried again (B15)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from autogen_eventlog import EventLog
from autogen_eventlog.errors import DatabaseRefused, DatabaseUnavailable
from autogen_eventlog.postgres.embedded import EmbeddedServer, open_embedded
from autogen_eventlog.postgres.session import is_refusal, is_transient
from tests.integration.test_worker_mixed import certificate

__all__ = ["certificate"]


async def refused(dsn: str) -> DatabaseRefused:
    """What comes of opening a log there, which must not take long."""

    async def opening() -> None:
        async with EventLog.open(dsn, unavailable_after=60):
            pass

    with pytest.raises(DatabaseRefused) as caught:
        await asyncio.wait_for(opening(), 10)
    assert caught.value.waited_seconds < 10
    assert "secret" not in str(caught.value)
    return caught.value


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server with a role that must give its password, one that may not log in, and one that nobody has told it of."""
    with open_embedded(tmp_path_factory.mktemp("strict") / "data") as server:
        rules = server.data_dir / "server" / "cluster" / "pg_hba.conf"
        kept = rules.read_text()
        rules.write_text("local all guarded scram-sha-256\nlocal all banned reject\n" + kept)
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE ROLE guarded LOGIN PASSWORD 'secret'")
            connection.execute("CREATE ROLE banned LOGIN")
            connection.execute("CREATE ROLE nologin")
            connection.execute("SELECT pg_reload_conf()")
        yield server


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"dbname": "nowhere"}, 'database "nowhere" does not exist'),
        ({"user": "stranger"}, 'role "stranger" does not exist'),
        ({"user": "nologin"}, "is not permitted to log in"),
        ({"user": "banned"}, "pg_hba.conf rejects connection"),
        ({"user": "guarded", "password": "secretly wrong"}, "password authentication failed"),
        ({"user": "guarded"}, "no password supplied"),
    ],
)
async def test_what_is_wrong_with_a_dsn_is_told_at_once(
    strict_server: EmbeddedServer, change: dict[str, str], problem: str
) -> None:
    error = await refused(make_conninfo(strict_server.dsn, **change))
    assert problem in error.problem
    assert error.server.endswith("/" + change.get("dbname", "eventlog"))
    assert "refused the connection" in str(error)


@contextlib.contextmanager
def listening(answer: bytes, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Something at a port that says this when it is asked for TLS, and then speaks TLS or nothing; gives the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.recv(8)
                        connection.sendall(answer)
                        if context is not None:
                            context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


async def test_a_server_that_has_no_tls_where_it_is_asked_for_is_told_at_once() -> None:
    with listening(b"N") as port:
        error = await refused(f"host=127.0.0.1 port={port} dbname=d sslmode=require password=secret")
    assert "does not support SSL" in error.problem


async def test_a_certificate_that_is_not_trusted_is_told_at_once(
    certificate: tuple[bytes, bytes], tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")
    other = tmp_path / "other"
    other.mkdir()
    with listening(b"S", context) as port:
        dsn = f"host=127.0.0.1 port={port} dbname=d sslmode=verify-ca password=secret"
        missing = await refused(f"{dsn} sslrootcert={other / 'none.pem'}")
        assert "root certificate file" in missing.problem
        unknown = await refused(f"{dsn} sslrootcert=system".replace("verify-ca", "verify-full"))
        assert "certificate verify failed" in unknown.problem
        name = await refused(f"{dsn} sslrootcert={tmp_path / 'certificate.pem'}".replace("verify-ca", "verify-full"))
        assert "does not match" in name.problem


async def test_who_was_let_in_before_is_patient_and_then_says_what_is_wrong(strict_server: EmbeddedServer) -> None:
    """A server that is being replaced may refuse for a while."""
    dsn = make_conninfo(strict_server.dsn, user="visitor")
    with psycopg.connect(strict_server.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE visitor LOGIN SUPERUSER")
        async with EventLog.open(dsn, unavailable_after=0.5) as log:
            assert await log.head("agent/1") is None
            connection.execute("ALTER ROLE visitor NOLOGIN")
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'visitor'")
            with pytest.raises(DatabaseUnavailable) as caught:
                await log.head("agent/1")
            assert isinstance(caught.value, DatabaseRefused)
            assert caught.value.waited_seconds == 0.5
            connection.execute("ALTER ROLE visitor LOGIN")
            assert await log.head("agent/1") is None


@pytest.mark.parametrize(
    "text",
    [
        "connection refused",
        "FATAL:  the database system is starting up",
        "FATAL:  sorry, too many clients already",
        "failed to resolve host 'db': Temporary failure in name resolution",
        "FATAL:  server login has been failing, try again later (server_login_retry)",
        "session is read-only",
    ],
)
def test_what_time_may_mend_is_no_refusal(text: str) -> None:
    error = psycopg.OperationalError(f"connection failed: {text}")
    assert is_transient(error)
    assert not is_refusal(error)
