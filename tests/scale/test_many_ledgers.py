"""Many playbooks in one ledger on a server: nobody waits for a neighbour."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import psycopg
import pytest

from reflector.exchange.transfer import copy
from reflector.ledger.store import Ledger
from tests.ledger.events import window
from tests.ledger.test_rebuilding import lived
from tests.ledger.writer import prepare, writers
from tests.scale.clusters import cluster, until

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

#: What a server logs of a transaction that waits longer than `deadlock_timeout` for another's lock. The lock under
#: which a table's file gets longer is let go at once, in the middle of a transaction.
_WAITS = re.compile(r"^<(\w+)> .* still waiting for (?!ExclusiveLock on extension of)", re.MULTILINE)


def asked(url: str, which: str, number: int) -> None:
    """Wait until so many of the server's processes are such."""
    with psycopg.connect(url, autocommit=True) as connection:
        query = f"SELECT count(*) FROM pg_stat_activity WHERE {which}"
        until(lambda: connection.execute(query).fetchone() == (number,), which)


def test_the_server_sees_no_neighbour_wait_for_a_lock_of_a_copy_or_a_rebuild(tmp_path: Path) -> None:
    with cluster() as server:
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
    with cluster() as server:
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
