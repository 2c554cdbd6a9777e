"""Many ledgers in one database, a schema each, and many playbooks in one ledger: nobody waits for a neighbour."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa

from reflector.exchange import transfer
from reflector.exchange.transfer import exported, load
from reflector.ledger.rebuilding import rebuild
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import Postgres
from tests.ledger.events import added
from tests.ledger.test_rebuilding import lived

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture
def teams(postgres: Postgres) -> Iterator[tuple[str, str]]:
    """Two schemas of one database, each of an owner who may not use the other's: the URLs of the owners."""
    names = [f"team_{letter}_{os.getpid()}" for letter in "ab"]
    with postgres.database(empty=True) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            for name in names:
                connection.execute(f"CREATE ROLE {name} LOGIN")
                connection.execute(f"CREATE SCHEMA {name} AUTHORIZATION {name}")
                connection.execute(f"ALTER ROLE {name} SET search_path = {name}")
        one, two = (sa.make_url(url).set(username=name).render_as_string(hide_password=False) for name in names)
        yield one, two
    for name in names:
        postgres._run(f"DROP ROLE {name}")


def test_ledgers_of_two_owners_are_rebuilt_at_the_same_time_and_each_erases_its_own(teams: tuple[str, str]) -> None:
    """They once staged their rows in one schema, and each threw the other's away."""
    reached: dict[str, list[int]] = {url: [] for url in teams}
    both = threading.Barrier(2, timeout=60)
    for url in teams:
        with Ledger.open(url) as ledger:
            lived(ledger)

    def rebuilt(url: str) -> None:
        def progress(position: int) -> None:
            if not reached[url]:
                both.wait()
            reached[url].append(position)

        with Ledger.open(url) as ledger:
            ledger.rebuild(progress)

    threads = [threading.Thread(target=rebuilt, args=(url,)) for url in teams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for url in teams:
        with Ledger.open(url) as ledger:
            assert reached[url] == sorted(set(reached[url]))
            assert reached[url][-1] == ledger.head().position
            ledger.redact(next(e.event_id for e in ledger.events() if e.type == "bullet.added"), reason="x", actor="me")
            assert list(verify(ledger)) == []


def test_a_neighbour_appends_and_begins_a_playbook_while_another_is_rebuilt_or_loaded(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the transaction of the rebuild, so a lock that it held would never be let go."""
    with postgres.database() as url, Ledger.open(url, "neighbour") as neighbour, Ledger.open(url, "big") as big:
        lived(big)
        lines = list(exported(big))
        number = iter(range(1000))

        def append(_: int) -> None:
            neighbour.append([added(f"pat-{next(number):03}")])
            with Ledger.open(url, f"new-{next(number)}") as new:
                new.append([added("pat-001")])

        with psycopg.connect(url, autocommit=True) as connection:
            # A neighbour that had to wait would be told so at once.
            connection.execute(f"ALTER DATABASE {sa.make_url(url).database} SET statement_timeout = '10s'")
        big.rebuild(append)
        with postgres.database() as other, Ledger.open(other, "neighbour") as neighbour:
            url = other
            # The end of a load, whose head has moved already: its transaction is open.
            monkeypatch.setattr(transfer, "rebuild", lambda sql: (rebuild(sql), append(0)))
            with Ledger.open(other, "big") as copied:
                load(copied, lines, append)
                assert list(verify(copied)) == []
            assert list(verify(neighbour)) == []
