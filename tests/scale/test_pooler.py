"""Behind a PgBouncer in transaction mode, where the next transaction may run on any of the pool's
connections; and many playbooks in one ledger on a server, where nobody waits for a neighbour.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from reflector.exchange.transfer import copy_ledger
from reflector.ledger import sqlite_file
from reflector.ledger.errors import LedgerAway, LedgerLocked, LedgerUnavailable
from reflector.ledger.readonly_sql import NotAQuestion, asking
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import Postgres
from tests.ledger.events import added, history, lived, window
from tests.ledger.writer import prepare, writers
from tests.servers import cluster, pgbouncer, until

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture(scope="module")
def pooler(postgres: Postgres) -> Iterator[sa.URL]:
    with pgbouncer(postgres.server.render_as_string(hide_password=False)) as way:
        yield sa.make_url(way)


@pytest.fixture
def ways(postgres: Postgres, pooler: sa.URL) -> Iterator[tuple[str, str]]:
    """A new ledger's URL, and its URL through the pooler."""
    with postgres.database() as url:
        database = sa.make_url(url).database
        yield url, pooler.set(database=database).render_as_string(hide_password=False)


def test_writers_and_rebuilds_share_a_pool(
    ways: tuple[str, str],
) -> None:
    direct, pooled = ways
    with Ledger.open(pooled, "rebuilt") as rebuilt:
        rebuilt.append(history())
        for number in range(4):
            prepare(pooled, f"v{number}")
        with writers(pooled, *range(4), batches=40, playbook="v{}") as made:
            for writer in made:
                writer.begin()
            for _ in range(3):
                rebuilt.rebuild()
            for writer in made:
                writer.finish()
        assert [writer.error for writer in made] == [None] * 4
        assert [len(writer.acks) for writer in made] == [40] * 4
    for way in (direct, pooled):
        for name in ("rebuilt", "v0", "v1", "v2", "v3"):
            with Ledger.open(way, name) as ledger:
                assert list(verify(ledger)) == []


@pytest.mark.parametrize("asked", ["", "&prepare_threshold=none"])
def test_a_statement_is_used_often_through_a_pool(ways: tuple[str, str], asked: str) -> None:
    with Ledger.open(ways[1] + asked) as one, Ledger.open(ways[1] + asked) as two:
        for number in range(12):
            for ledger in (one, two):
                ledger.append([added(f"pat-{ledger is two:d}{number:02}")])
                assert ledger.rows()[-1].position == ledger.head().position


@pytest.mark.parametrize(("asked", "wanted"), [("none", None), ("0", 0), ("50", 50)])
def test_the_url_says_when_a_statement_is_prepared(
    ways: tuple[str, str], asked: str, wanted: int | None
) -> None:
    with (
        Ledger.open(f"{ways[0]}&prepare_threshold={asked}") as ledger,
        ledger.engine.connection() as connection,
    ):
        assert connection.prepare_threshold == wanted
    with pytest.raises(
        LedgerUnavailable,
        match=(
            r"prepare_threshold=often .* write "
            r"prepare_threshold=none"
        ),
    ):
        Ledger.open(f"{ways[0]}&prepare_threshold=often")


def test_nothing_stays_on_the_pools_connections(ways: tuple[str, str]) -> None:
    direct, pooled = ways
    with psycopg.connect(direct) as connection:
        settings = (
            "SELECT name, setting FROM pg_settings WHERE name IN ('lock_timeout', "
            "'search_path', 'role')"
        )
        before = connection.execute(f"{settings} ORDER BY name").fetchall()
    with Ledger.open(pooled) as ledger:
        ledger.append(history())
        ledger.rebuild()
        ledger.redact(
            [next(e.event_id for e in ledger.events() if e.type == "bullet.added")],
            reason="x",
            actor="me",
        )
        with asking(ledger) as ask:
            assert list(ask.ask("SELECT count(*) FROM event").rows) != []
        assert list(verify(ledger)) == []
        for _ in range(4):
            with psycopg.connect(pooled, prepare_threshold=None) as connection:
                assert connection.execute(f"{settings} ORDER BY name").fetchall() == before
                assert connection.execute(
                    "SELECT count(*) FROM pg_prepared_statements"
                ).fetchone() == (0,)
                locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                assert connection.execute(locks).fetchone() == (0,)


def test_pooled_question_is_one_statement(ways: tuple[str, str]) -> None:
    with Ledger.open(ways[1]) as ledger:
        ledger.append([added("pat-001")])
        for query in ("SELECT 1; SELECT 2", "SELECT 1; COMMIT; UPDATE bullet SET helpful = 9"):
            with (
                asking(ledger) as ask,
                pytest.raises(NotAQuestion, match="runs one statement"),
            ):
                ask.ask(query)
        assert ledger.rows()[0].helpful == 0


def test_hanging_writer_is_not_awaited_permanently(
    ways: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(ways[1]) as ledger, psycopg.connect(ways[0]) as other:
        ledger.append([added("pat-001")])
        monkeypatch.setattr(sqlite_file, "BUSY_TIMEOUT_MS", 100)
        other.execute("SELECT 1 FROM playbook FOR UPDATE")
        for write in (lambda: ledger.append([added("pat-002")]), ledger.rebuild):
            with pytest.raises(LedgerLocked):
                write()
        other.rollback()
        ledger.append([added("pat-002")])


def test_lost_server_behind_a_pooler_is_away() -> None:
    """It was told as refused for good, which no drain waits for."""
    soon = ("client_login_timeout = 2", "server_login_retry = 1")
    with cluster() as server, pgbouncer(server.url, more=soon) as way:
        # Of a database that it has led to before, a pooler answers without the server.
        other = sa.make_url(way).set(database="template1").render_as_string(hide_password=False)
        server.kill()
        with pytest.raises(LedgerAway, match="client_login_timeout"):
            Ledger.open(other)


#: What a server logs of a transaction that waits longer than `deadlock_timeout` for another's lock.
#: The lock under which a table's file gets longer is let go at once, in the middle of a
#: transaction.
_WAITS = re.compile(
    r"^<(\w+)> .* still waiting for (?!ExclusiveLock on extension of)", re.MULTILINE
)


def asked(url: str, which: str, number: int) -> None:
    """Wait until so many of the server's processes are such."""
    with psycopg.connect(url, autocommit=True) as connection:
        query = f"SELECT count(*) FROM pg_stat_activity WHERE {which}"
        until(lambda: connection.execute(query).fetchone() == (number,), which)


def test_no_neighbour_waits_for_a_copy_or_rebuild(
    tmp_path: Path,
) -> None:
    with cluster() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            for setting in (
                "log_lock_waits = on",
                "deadlock_timeout = '1ms'",
                "log_line_prefix = '<%a> '",
            ):
                connection.execute(f"ALTER SYSTEM SET {setting}")
            connection.execute("SELECT pg_reload_conf()")
        with (
            Ledger.open_file(tmp_path / "copied.db", "copied") as source,
            Ledger.open(server.url, "big") as big,
        ):
            lived(source, 1500)
            lived(big, 1500)
            for name in ("n1", "n2"):
                prepare(server.url, name)
            # They append as fast as they can, from before the first rebuild to after the copy.
            named = f"{server.url}&application_name=neighbour"
            with writers(named, 1, 2, batches=None, playbook="n{}") as neighbours:
                for one in neighbours:
                    one.begin()
                for _ in range(3):
                    big.rebuild()
                copy_ledger(source, server.url)
                for one in neighbours:
                    one.kill()
            assert [one.error for one in neighbours] == [None, None]
            assert all(len(one.acks) > 20 for one in neighbours)
            assert "neighbour" not in _WAITS.findall((server.folder / "log").read_text())

            # Who writes to the playbook itself waits for its rebuild, and the log has it.
            with writers(f"{server.url}&application_name=own", 3, batches=1, playbook="big") as (
                writer,
            ):
                waiting = "application_name = 'own' AND wait_event_type = 'Lock'"

                def begin(position: int) -> None:
                    if position == 2000:
                        writer.begin()
                        asked(server.url, waiting, 1)

                big.rebuild(begin)
                writer.finish()
            assert _WAITS.findall((server.folder / "log").read_text()) == ["own"]


def test_first_appends_read_no_more_than_later() -> None:
    """A trigger's plan that a session made on the empty table once read an index whole, at every
    event.
    """
    read = (
        "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname IN ('event', 'playbook')"
    )
    taken = [0]
    with cluster() as server:
        for session in range(3):
            with Ledger.open(server.url) as ledger:
                for number in range(session * 1500, session * 1500 + 1500, 500):
                    ledger.append(
                        [window(n, f"s{n}", keys=[n]) for n in range(number, number + 500)]
                    )
            # What a session read is counted when it ends.
            asked(server.url, "backend_type = 'client backend' AND pid <> pg_backend_pid()", 0)
            with psycopg.connect(server.url) as connection:
                taken += connection.execute(read).fetchone() or ()
    first, second, third = (after - before for before, after in itertools.pairwise(taken))
    assert first <= 2 * min(second, third)
