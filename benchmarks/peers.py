"""Other libraries for the same work in the same run. An event-sourcing library appends and projects
the same events, and sqlite-utils inserts the same rows.

Neither chains events, refuses changes or counts. Both are in the extra `bench`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reflector.events.event import BULLET_TAGGED, NewEvent

#: The number of events of an aggregate, which is one session's.
SESSION = 10
_PAGE = 5000


def is_there(package: str, distribution: str) -> bool:
    """Return whether a peer is installed. If it is not, print a line."""
    if find_spec(package) is not None:
        return True
    print(f"no {distribution} to compare with: pip install '.[bench]',", end=" ", file=sys.stderr)
    return False


@cache
def _session() -> Any:
    """Return the class of the aggregate. There is only one, because the library identifies a class
    by its name.
    """
    from eventsourcing.domain import Aggregate

    class Session(Aggregate):
        class Happened(Aggregate.Event):
            facts: dict[str, Any]

        def __init__(self, facts: dict[str, Any]) -> None:
            self.last = facts

    return Session


class EventSourcing:
    """An application of the event-sourcing library. Each session's events are one aggregate's."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        from eventsourcing.application import Application

        self._session = _session()
        self._application: Any = Application(env=dict(environment))

    def close(self) -> None:
        self._application.close()

    def append(self, events: Sequence[NewEvent]) -> None:
        """Append events in one transaction."""
        sessions = []
        for first in range(0, len(events), SESSION):
            of_session = [asdict(event) for event in events[first : first + SESSION]]
            session = self._session(facts=of_session[0])
            for facts in of_session[1:]:
                session.trigger_event(self._session.Happened, facts=facts)
            sessions.append(session)
        self._application.save(*sessions)

    def project(self) -> dict[tuple[str, str], int]:
        """Return how often each bullet has each verdict, from all events."""
        counted: dict[tuple[str, str], int] = {}
        start: int | None = 1
        while start is not None:
            page = self._application.recorder.select_notifications(start=start, limit=_PAGE)
            for notification in page:
                facts = self._application.mapper.to_domain_event(notification).facts
                if facts["type"] == BULLET_TAGGED:
                    key = facts["data"]["name"], facts["data"]["tag"]
                    counted[key] = counted.get(key, 0) + 1
            start = page[-1].id + 1 if page else None
        return counted


def on_sqlite(file: Path) -> EventSourcing | None:
    """Return the application on a SQLite file; None if the library is not installed."""
    if not is_there("eventsourcing", "eventsourcing"):
        return None
    return EventSourcing({"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(file)})


def on_postgresql(
    host: str, port: int | None, user: str, password: str, database: str
) -> EventSourcing | None:
    """Return the application on a server; None if the library is not installed."""
    if not (
        is_there("eventsourcing", "eventsourcing") and is_there("psycopg_pool", "psycopg-pool")
    ):
        return None
    return EventSourcing(
        {
            "PERSISTENCE_MODULE": "eventsourcing.postgres",
            "POSTGRES_DBNAME": database,
            "POSTGRES_HOST": host,
            "POSTGRES_PORT": str(port or ""),
            "POSTGRES_USER": user,
            "POSTGRES_PASSWORD": password,
            # One call for each transaction is the fastest way. The library's pipeline never returns
            # with some versions of the driver.
            "POSTGRES_ENABLE_DB_FUNCTIONS": "y",
        }
    )


class Rows:
    """A table of sqlite-utils with a row for each event."""

    def __init__(self, file: Path) -> None:
        from sqlite_utils import Database
        from sqlite_utils.db import Table

        self._database = Database(file)
        self._database.enable_wal()
        self._database.execute("PRAGMA synchronous=FULL")
        self._table = Table(self._database, "event")
        self._position = 0

    def append(self, events: Sequence[NewEvent]) -> None:
        """Insert a row for each event, in one transaction."""
        rows = [
            {"position": self._position + number, **asdict(event)}
            for number, event in enumerate(events, 1)
        ]
        self._position += len(rows)
        self._table.insert_all(rows, pk="position", batch_size=len(rows))


def rows_in(file: Path) -> Rows | None:
    """Return a table in a SQLite file; None if the library is not installed."""
    return Rows(file) if is_there("sqlite_utils", "sqlite-utils") else None
