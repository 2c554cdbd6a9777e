"""A ledger whose URL names several servers: the one that takes writes is used, and none stops a program for long."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlencode

import pytest
import sqlalchemy as sa

from reflector.ledger.errors import LedgerAway
from reflector.ledger.store import Ledger
from tests.conftest import Postgres, with_setting

from .events import added

pytestmark = pytest.mark.postgres


@contextmanager
def at_a_port(url: str, port: int = 0) -> Iterator[int]:
    """A port of loopback (0: any) that leads to a server behind a socket's file."""
    server = sa.make_url(url)
    path = f"{server.query['host']}/.s.PGSQL.{server.port or 5432}"

    def forward(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                behind = socket.socket(socket.AF_UNIX)
                behind.connect(path)
                for ends in ((client, behind), (behind, client)):
                    threading.Thread(target=forward, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", port)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def nobody() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def spelled(url: str, spelling: str, *ports: int, **more: str) -> str:
    """A server's URL with these ports of loopback as its servers, and more of what it says."""
    known = sa.make_url(url)
    hosts = [f"127.0.0.1:{port}" for port in ports]
    query = {name: str(value) for name, value in known.query.items() if name not in ("host", "port")} | more
    if spelling == "libpq":
        return f"postgresql://{known.username}@{','.join(hosts)}/{known.database}?{urlencode(query)}"
    query_of_hosts = [*(("host", host) for host in hosts), *query.items()]
    return f"postgresql://{known.username}@/{known.database}?{urlencode(query_of_hosts)}"


@pytest.mark.parametrize("spelling", ["libpq", "sqlalchemy"])
def test_a_url_may_name_several_servers_in_both_spellings(postgres: Postgres, spelling: str) -> None:
    with postgres.database() as url, at_a_port(url) as port:
        with Ledger.open(spelled(url, spelling, nobody(), port)) as ledger:
            ledger.append([added("pat-001")])
        with Ledger.open(url) as ledger:
            assert ledger.head().position == 1


def test_among_servers_that_may_only_be_read_there_is_none_to_use(postgres: Postgres) -> None:
    with postgres.database() as url, at_a_port(url) as port:
        standby = with_setting(url, "default_transaction_read_only", "on")
        with pytest.raises(LedgerAway, match="session is read-only"):
            Ledger.open(spelled(standby, "libpq", port, port))


_ANY = {"connect_timeout": "7", "target_session_attrs": "any"}


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({}, {"connect_timeout": "3", "target_session_attrs": "read-write"}),
        (_ANY, _ANY),
    ],
)
def test_a_server_that_does_not_answer_keeps_nobody_for_long(
    postgres: Postgres, more: dict[str, str], wanted: dict[str, str]
) -> None:
    with (
        postgres.database() as url,
        at_a_port(url) as port,
        Ledger.open(spelled(url, "libpq", port, nobody(), **more)) as ledger,
        ledger.engine.connection() as driver,
    ):
        told = driver.info.get_parameters()
    assert {name: told.get(name, "any") for name in wanted} == wanted  # a default of libpq is not told
    # A machine that is gone says nothing: without these the system waits for two hours.
    assert int(told["keepalives_idle"]) + int(told["keepalives_interval"]) * int(told["keepalives_count"]) <= 60
    assert int(told["tcp_user_timeout"]) <= 60_000
