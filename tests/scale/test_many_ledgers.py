"""Many ledgers in one database, a schema each, and many playbooks in one ledger: nobody waits for a neighbour."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from reflector.exchange.transfer import copy
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import Postgres, with_setting
from tests.ledger.events import window
from tests.ledger.test_rebuilding import lived
from tests.ledger.writer import prepare, writers
from tests.scale.clusters import clusters
from tests.scale.patroni import until

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

#: What a server logs of a transaction that waits longer than `deadlock_timeout` for another's lock. The lock under
#: which a table's file gets longer is let go at once, in the middle of a transaction.
_WAITS = re.compile(r"^<(\w+)> .* still waiting for (?!ExclusiveLock on extension of)", re.MULTILINE)


@pytest.fixture(params=["one owner", "two owners"])
def teams(postgres: Postgres, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The URLs of two ledgers in two schemas of one database. Owners may make schemas, but not use each other's."""
    names = [f"team_{letter}_{os.getpid()}" for letter in "ab"]
    owners = names if request.param == "two owners" else [names[0], names[0]]
    with postgres.database(empty=True) as url:
        database = sa.make_url(url)
        with psycopg.connect(url, autocommit=True) as connection:
            for owner in sorted({*owners}):
                connection.execute(f"CREATE ROLE {owner} LOGIN")
                connection.execute(f"GRANT CREATE ON DATABASE {database.database} TO {owner}")
            for name, owner in zip(names, owners, strict=True):
                connection.execute(f"CREATE SCHEMA {name} AUTHORIZATION {owner}")
        ways = [database.set(username=owner).render_as_string(hide_password=False) for owner in owners]
        one, two = (with_setting(way, "search_path", name) for way, name in zip(ways, names, strict=True))
        yield one, two
    for owner in sorted({*owners}):
        postgres._run(f"DROP ROLE {owner}")


def asked(url: str, which: str, number: int) -> None:
    """Wait until so many of the server's processes are such."""
    with psycopg.connect(url, autocommit=True) as connection:
        query = f"SELECT count(*) FROM pg_stat_activity WHERE {which}"
        until(lambda: connection.execute(query).fetchone() == (number,), which)


def _counters(ledger: Ledger) -> dict[str, tuple[int, int]]:
    return {bullet.name: (bullet.helpful, bullet.harmful) for bullet in ledger.bullets()}


def test_each_ledger_of_a_database_erases_its_own_text_while_the_other_is_rebuilt(teams: tuple[str, str]) -> None:
    """A redaction once looked for staged rows in a schema of the other's."""
    with Ledger.open(teams[0]) as one, Ledger.open(teams[1]) as two:
        for ledger in (one, two):
            lived(ledger)

        def erase(position: int) -> None:
            if position == 2000:
                event_id = next(event.event_id for event in two.events() if event.type == "bullet.added")
                two.redact(event_id, reason="x", actor="me")

        one.rebuild(erase)
        assert two.bullets()[0].text == "[redacted]"
        assert one.bullets()[0].text == "Read the error first"
        for ledger in (one, two):
            assert _counters(ledger) == {"pat-001": (1499, 0), "mis-001": (2, 1499)}
            assert list(verify(ledger)) == []


def test_the_server_sees_no_neighbour_wait_for_a_lock_of_a_copy_or_a_rebuild(tmp_path: Path) -> None:
    with clusters(1) as (server,):
        with psycopg.connect(server.url, autocommit=True) as connection:
            for setting in ("log_lock_waits = on", "deadlock_timeout = '1ms'", "log_line_prefix = '<%a> '"):
                connection.execute(f"ALTER SYSTEM SET {setting}")
            connection.execute("SELECT pg_reload_conf()")
        with Ledger.open_file(tmp_path / "copied.db", "copied") as source, Ledger.open(server.url, "big") as big:
            lived(source)
            lived(big)
            for name in ("n1", "n2"):
                prepare(server.url, name)
            # They append as fast as they can, from before the first rebuild to after the copy.
            named = f"{server.url}&application_name=neighbour"
            with writers(named, 1, 2, batches=None, playbook="n{}") as neighbours:
                for one in neighbours:
                    one.begin()
                for _ in range(3):
                    big.rebuild()
                copy(source, server.url)
                for one in neighbours:
                    one.kill()
            assert [one.error for one in neighbours] == [None, None]
            assert all(len(one.acks) > 20 for one in neighbours)
            assert "neighbour" not in _WAITS.findall((server.folder / "log").read_text())

            # Who writes to the playbook itself waits for its rebuild, and the log has it.
            with writers(f"{server.url}&application_name=own", 3, batches=1, playbook="big") as (writer,):
                waiting = "application_name = 'own' AND wait_event_type = 'Lock'"

                def begin(position: int) -> None:
                    if position == 2000:
                        writer.begin()
                        asked(server.url, waiting, 1)

                big.rebuild(begin)
                writer.finish()
            assert _WAITS.findall((server.folder / "log").read_text()) == ["own"]


def test_the_first_appends_to_a_fresh_ledger_read_no_more_than_later_ones() -> None:
    """A trigger's plan that a session made on the empty table once read an index whole, at every event."""
    read = "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname IN ('event', 'playbook')"
    taken = [0]
    with clusters(1) as (server,):
        for session in range(3):
            with Ledger.open(server.url) as ledger:
                for number in range(session * 1500, session * 1500 + 1500, 500):
                    ledger.append([window(n, f"s{n}", keys=[n]) for n in range(number, number + 500)])
            # What a session read is counted when it ends.
            asked(server.url, "backend_type = 'client backend' AND pid <> pg_backend_pid()", 0)
            with psycopg.connect(server.url) as connection:
                taken += connection.execute(read).fetchone() or ()
    first, second, third = (after - before for before, after in itertools.pairwise(taken))
    assert first <= 2 * min(second, third)
