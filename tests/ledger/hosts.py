"""A program with a table of its own, which appends to a ledger in its own transactions.

`python -m tests.ledger.hosts URL NUMBER` does so until it is killed.
"""

import sys
from itertools import count
from typing import Any

import sqlalchemy as sa

from reflector.ledger.store import Ledger

from .events import added

_metadata = sa.MetaData()
orders = sa.Table(
    "orders",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("note", sa.Text),
)


def host_engine(url: str, **options: Any) -> sa.Engine:
    """An engine as docs/embedding.md makes it."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), **options)
    if engine.dialect.name == "sqlite":

        @sa.event.listens_for(engine, "connect")
        def check_foreign_keys(connection: Any, _: Any) -> None:
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA busy_timeout=30000")

    return engine


def main(url: str, writer: str) -> None:
    engine = host_engine(url)
    for step in count(1):
        number = int(writer) * 100_000 + step
        with engine.begin() as connection:
            ledger = Ledger.on(connection)
            ledger.append([added(f"pat-{number:03}")])
            connection.execute(orders.insert().values(id=number))
        if step % 3 == 0:
            with engine.connect() as connection:
                connection.execute(orders.insert().values(id=-number))
                Ledger.on(connection).append([added(f"pat-{number + 50_000:03}")])
                connection.rollback()


if __name__ == "__main__":
    main(*sys.argv[1:])
