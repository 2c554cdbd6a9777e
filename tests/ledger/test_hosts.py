"""A ledger in another program's transaction: what commits, what rolls back, what is refused."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from reflector.events import event as ev
from reflector.ledger.errors import Conflict, LedgerLocked, LedgerMisused, LedgerUnavailable
from reflector.ledger.projection import Projector
from reflector.ledger.store import Ledger
from reflector.ledger.tables import bullet, bullets, event
from reflector.proof.verify import verify

from .events import added, changed
from .hosts import host_engine, orders

Host = sa.Engine


@pytest.fixture
def host(ledger_url: str) -> Iterator[Host]:
    """A program's engine, with a table of its own beside a ledger."""
    engine = host_engine(ledger_url)
    Ledger.open(engine).close()
    with engine.begin() as connection:
        orders.create(connection)
    yield engine
    engine.dispose()


def order_and_append(connection: sa.Connection, number: int) -> None:
    connection.execute(orders.insert().values(id=number, note=f"order {number}"))
    Ledger.on(connection).append([added(f"pat-{number:03}")])


def names(host: Host) -> tuple[list[int], list[str]]:
    with host.connect() as connection:
        numbers = connection.scalars(sa.select(orders.c.id).order_by(orders.c.id)).all()
        told = connection.scalars(sa.select(bullet.c.name).order_by(bullet.c.name)).all()
    return list(numbers), list(told)


def test_commit_keeps_the_row_and_the_event(host: Host) -> None:
    with host.begin() as connection:
        order_and_append(connection, 1)
    assert names(host) == ([1], ["pat-001"])


def test_rollback_takes_the_row_and_the_event(host: Host) -> None:
    with host.connect() as connection:
        order_and_append(connection, 1)
        connection.rollback()
    assert names(host) == ([], [])


def test_appends_of_one_transaction_follow_each_other(host: Host) -> None:
    with host.begin() as connection:
        for number in (1, 2, 3):
            order_and_append(connection, number)
    with Ledger.open(host) as ledger:
        assert [one.position for one in ledger.events()] == [1, 2, 3]
        assert list(verify(ledger)) == []


def test_a_host_sees_its_own_uncommitted_events(host: Host) -> None:
    with host.connect() as connection:
        order_and_append(connection, 1)
        ledger = Ledger.on(connection)
        assert [one.name for one in ledger.bullets()] == ["pat-001"]
        with ledger.snapshot():
            assert ledger.head().position == 1


def test_a_refused_append_leaves_the_hosts_work(host: Host) -> None:
    with host.begin() as connection:
        order_and_append(connection, 1)
        with pytest.raises(Conflict):
            Ledger.on(connection).append([added("pat-002"), added("pat-001", "Other words.")])
        order_and_append(connection, 3)
    assert names(host) == ([1, 3], ["pat-001", "pat-003"])
    with Ledger.open(host) as ledger:
        assert list(verify(ledger)) == []


def test_an_append_that_fails_midway_leaves_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("in the middle")

    with host.begin() as connection:
        with monkeypatch.context() as patched:
            patched.setattr(Projector, "project", fail)
            with pytest.raises(RuntimeError, match="in the middle"):
                Ledger.on(connection).append([added("pat-001")])
        order_and_append(connection, 2)
    assert names(host) == ([2], ["pat-002"])


def test_triggers_guard_a_hosts_transaction(host: Host) -> None:
    with host.begin() as connection:
        order_and_append(connection, 1)
    with host.connect() as connection, pytest.raises(sa.exc.DBAPIError, match="append-only"):
        connection.execute(event.delete())


def test_another_writer_waits_for_the_host(host: Host) -> None:
    with host.connect() as connection:
        order_and_append(connection, 1)
        with host.connect() as other:
            other.exec_driver_sql(_IMPATIENT[host.dialect.name])
            with pytest.raises(LedgerLocked):
                Ledger.on(other).append([added("pat-002")])
        connection.commit()
    assert names(host) == ([1], ["pat-001"])


_IMPATIENT = {"sqlite": "PRAGMA busy_timeout=50", "postgresql": "SET statement_timeout = 200"}


def test_a_closed_connection_is_refused(host: Host) -> None:
    with host.connect() as connection:
        pass
    with pytest.raises(LedgerMisused, match="is closed"):
        Ledger.on(connection)


def test_autocommit_is_refused_with_the_reason(host: Host) -> None:
    loose = host.execution_options(isolation_level="AUTOCOMMIT")
    with loose.connect() as connection:
        ledger = Ledger.on(connection)
        with pytest.raises(LedgerMisused, match="AUTOCOMMIT"):
            ledger.append([added("pat-001")])
    assert names(host) == ([], [])


def test_redaction_needs_a_transaction_of_its_own(host: Host) -> None:
    with host.begin() as connection:
        order_and_append(connection, 1)
        ledger = Ledger.on(connection)
        with pytest.raises(LedgerMisused, match="redact needs its own transaction"):
            ledger.redact(["x"], reason="a secret", actor="human")


def test_a_missing_playbook_is_named(host: Host) -> None:
    with (
        host.connect() as connection,
        pytest.raises(LedgerUnavailable, match="does not have a playbook 'x'"),
    ):
        Ledger.on(connection, "x")


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("is_used", [False, True])
def test_a_database_without_a_ledger_is_refused(ledger_url: str, is_used: bool) -> None:
    engine = host_engine(ledger_url)
    if is_used:
        orders.create(engine)
    with (
        engine.connect() as connection,
        pytest.raises(LedgerUnavailable, match=r"not contain a ledger .*`Ledger\.open\(engine\)`"),
    ):
        Ledger.on(connection)
    engine.dispose()


def test_a_ledger_moves_in_beside_a_hosts_tables(ledger_url: str) -> None:
    engine = host_engine(ledger_url)
    with engine.begin() as connection:
        orders.create(connection)
    with Ledger.open(engine) as ledger:
        ledger.append([added("pat-001")])
        assert list(verify(ledger)) == []
    engine.dispose()


def test_closing_the_ledger_leaves_the_hosts_engine(host: Host) -> None:
    with host.connect() as connection:
        Ledger.open(host).close()
        assert connection.execute(sa.select(sa.literal(1))).scalar_one() == 1


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_unchecked_foreign_keys_are_refused(ledger_url: str) -> None:
    Ledger.open(ledger_url).close()
    engine = sa.create_engine(ledger_url)
    with (
        engine.connect() as connection,
        pytest.raises(LedgerMisused, match=r"foreign keys.*PRAGMA foreign_keys=ON"),
    ):
        Ledger.on(connection).append([added("pat-001")])
    engine.dispose()


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("ledger_url")
def test_read_only_file_is_refused(host: Host) -> None:
    with host.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only=ON")
        with pytest.raises(LedgerUnavailable, match=r"cannot be written|readonly|read-only"):
            Ledger.on(connection).append([added("pat-001")])


@pytest.mark.postgres
@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"isolation_level": "SERIALIZABLE"}, "SERIALIZABLE"),
        ({"isolation_level": "REPEATABLE READ"}, "REPEATABLE READ"),
        ({"postgresql_readonly": True}, "transaction is read-only"),
    ],
)
def test_a_servers_unfit_transaction_is_refused(
    host: Host, options: dict[str, Any], reason: str
) -> None:
    with (
        host.connect().execution_options(**options) as connection,
        pytest.raises(LedgerMisused, match=reason),
    ):
        Ledger.on(connection).append([added("pat-001")])


def test_a_view_joins_a_hosts_table(host: Host) -> None:
    with host.begin() as connection:
        order_and_append(connection, 1)
        Ledger.on(connection).append([changed(ev.BULLET_REVISED, "pat-001", text="New words.")])
    joined = sa.select(orders.c.note, bullets.c.text, bullets.c.helpful).join_from(
        orders, bullets, bullets.c.position == orders.c.id
    )
    with host.connect() as connection:
        assert connection.execute(joined).all() == [("order 1", "New words.", 0)]


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_opening_and_closing_keeps_a_hosts_commits(host: Host) -> None:
    """Two SQLite libraries in one process would drop each other's locks."""
    with host.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    for number in (1, 2, 3):
        with host.begin() as connection:
            order_and_append(connection, number)
        with Ledger.open(host) as ledger:
            assert ledger.head().position == number
    host.dispose()
    assert names(host)[0] == [1, 2, 3]


@pytest.mark.parametrize("level", ["AUTOCOMMIT", "SERIALIZABLE"])
def test_opened_ledger_has_its_own_isolation_level(ledger_url: str, level: str) -> None:
    plain = host_engine(ledger_url)
    engine = host_engine(ledger_url, isolation_level=level)
    with Ledger.open(engine) as ledger:
        ledger.append([added("pat-001")])
        with pytest.raises(Conflict):
            ledger.append([added("pat-002"), added("pat-001", "Other words.")])
        ledger.append([added("pat-003")])
        assert list(verify(ledger)) == []
        assert [one.position for one in ledger.events()] == [1, 2]
    engine.dispose()
    plain.dispose()


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_savepoint_without_a_transaction_is_refused(host: Host) -> None:
    with (
        host.connect() as connection,
        connection.begin_nested(),
        pytest.raises(LedgerMisused, match=r"savepoint.*`begin_nested`"),
    ):
        Ledger.on(connection).append([added("pat-001")])
    assert names(host) == ([], [])


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_opening_waits_for_a_hosts_open_transaction(host: Host) -> None:
    with host.begin() as connection:
        connection.execute(orders.insert().values(id=1))
        with Ledger.open(host) as ledger:
            assert ledger.head().position == 0


@pytest.mark.slow
def test_killed_hosts_leave_all_or_nothing(host: Host, ledger_url: str) -> None:
    chance = random.Random(7)
    command = [sys.executable, "-m", "tests.ledger.hosts", ledger_url]
    writers = [subprocess.Popen([*command, str(number)]) for number in range(8)]
    try:
        wait_for(lambda: len(names(host)[0]) > 20)
        for victim in chance.sample(writers, 4):
            time.sleep(chance.uniform(0.01, 0.2))
            victim.send_signal(signal.SIGKILL)
        before = len(names(host)[0])
        wait_for(lambda: len(names(host)[0]) > before + 20)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    numbers, told = names(host)
    assert sorted(f"pat-{number:03}" for number in numbers) == told
    with Ledger.open(host) as ledger:
        assert list(verify(ledger)) == []


def wait_for(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_upgrade_copies_no_hosts_database(host: Host, ledger_url: str) -> None:
    with host.begin() as connection:
        order_and_append(connection, 1)
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0009'")
    with Ledger.open(host) as ledger:
        assert list(verify(ledger)) == []
    folder = Path(ledger_url.removeprefix("sqlite:///")).parent
    assert [path for path in folder.iterdir() if "revision" in path.name] == []
