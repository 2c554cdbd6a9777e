"""The URL of a ledger: its engine, and its form in messages.

Invariant: no message shows a password. A SQLite ledger's URL is read without SQLAlchemy, which
takes longer to load than a question takes to answer.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote, unquote

from reflector.ledger.errors import LedgerUnavailable

Dialect = Literal["sqlite", "postgresql"]
_FILE = "sqlite:///"
#: A new ledger in memory, which ends with its connection.
_IN_MEMORY = "sqlite://"
#: libpq's spelling of several servers: postgresql://user@host:port,host:port/name?option=value
_SEVERAL = (
    r"(postgresql(?:\+psycopg)?://(?:[^@/?#]*@)?)([^@/?#,]*(?:,[^@/?#,"
    r"]*)+)(/[^?#]*)?(?:\?(.*))?"
)
#: Parameters of a URL that name the server, database or schema.
_OF_PLACE = frozenset({"host", "port", "dbname", "options", "service"})
_DRIVERS: Final[dict[str, Dialect]] = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgresql+psycopg": "postgresql",
}


class Url(NamedTuple):
    """A ledger's URL.

    text      in SQLAlchemy's form, with its password
    dialect   the engine
    database  SQLite's file, "" or ":memory:" for none; the name of a server's database
    """

    text: str
    dialect: Dialect
    database: str

    @property
    def is_file(self) -> bool:
        """True for a SQLite ledger in a file that the URL names by its plain path."""
        return (
            self.dialect == "sqlite"
            and not self.in_memory
            and not self.database.startswith("file:")
        )

    @property
    def in_memory(self) -> bool:
        """True for a SQLite ledger in memory, which ends with its connection."""
        return self.dialect == "sqlite" and self.database in {"", ":memory:"}

    @property
    def shown(self) -> str:
        """The database in the form for messages: a SQLite file by its path, any other URL without
        its passwords.
        """
        if self.dialect == "sqlite":
            return self.database or ":memory:"
        url = self.alchemy().difference_update_query(["password", "sslpassword"])
        return str(url.render_as_string(hide_password=True))

    @property
    def public(self) -> str:
        """The URL without its passwords."""
        return sqlite_url(Path(self.database)) if self.is_file else self.shown

    @property
    def place(self) -> str:
        """The place of the ledger in a form that is the same for all its users: without user names,
        passwords and options of the connection.
        """
        if self.dialect == "sqlite":
            return sqlite_url(Path(self.database).absolute()) if self.is_file else self.text
        import sqlalchemy as sa

        url = self.alchemy()
        query = {key: value for key, value in sorted(url.query.items()) if key in _OF_PLACE}
        return str(
            sa.URL.create(
                "postgresql", host=url.host, port=url.port, database=url.database, query=query
            )
        )

    def alchemy(self) -> Any:
        """Return SQLAlchemy's URL."""
        import sqlalchemy as sa

        return sa.make_url(self.text)


def sqlite_url(path: Path) -> str:
    """Return the URL of a SQLite ledger in a file.

    Raises: LedgerUnavailable for a path that is not UTF-8, or that Python does not read as UTF-8.
    """
    try:
        return _FILE + quote(str(path), safe=" +/")
    except UnicodeEncodeError as error:
        try:
            shown = os.fsencode(path).decode("utf-8")
        except UnicodeError:
            raise LedgerUnavailable(
                f"the path {path} is not UTF-8; rename the folder whose name is not UTF-8"
            ) from error
        raise LedgerUnavailable(
            f"Python reads the path {shown!a} in the encoding {sys.getfilesystemencoding()}, "
            "which lacks some letters of the path; set PYTHONUTF8=1, or set LC_ALL to a UTF-8 "
            "locale such as C.UTF-8"
        ) from error


def url_of(text: str) -> Url:
    """Return a ledger's URL.

    Raises: LedgerUnavailable for one that no engine accepts.
    """
    if "\0" in unquote(text):
        raise LedgerUnavailable("the ledger URL contains a null character; remove this character")
    if text.startswith(_FILE) and "?" not in text:
        return Url(text, "sqlite", unquote(text.removeprefix(_FILE)))
    if text == _IN_MEMORY:
        return Url(text, "sqlite", "")
    import sqlalchemy as sa

    text = _one_spelling(text)
    try:
        parsed = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        # Neither the URL nor the parser's message is shown, because the part that cannot be parsed
        # may be a password.
        raise LedgerUnavailable(
            f"the ledger URL, which begins with {text.split(':')[0][:20]!r}, cannot be used; write "
            "sqlite:////path/to/ledger.db or postgresql://user@host/name, and percent-encode the "
            "special characters of a password"
        ) from None
    dialect = _DRIVERS.get(parsed.drivername)
    if dialect is None:
        raise LedgerUnavailable(
            f"{parsed.drivername!r} is not a database that reflector supports; use a "
            "sqlite:// or postgresql:// URL"
        )
    return Url(text, dialect, parsed.database or "")


def url_of_engine(engine: Any) -> Url:
    """Return the ledger's URL for the database of an SQLAlchemy engine.

    Raises: LedgerUnavailable for a database in memory, which a second connection cannot reach, and
    for an unsupported driver.
    """
    url = engine.url
    if url.get_backend_name() == "sqlite":
        url = url.set(drivername="sqlite")
    found = url_of(url.render_as_string(hide_password=False))
    if found.in_memory:
        raise LedgerUnavailable(
            "the engine's database is in memory, so the ledger cannot connect to it; open a file, "
            "or use `Ledger.open('sqlite://')` for a new ledger in memory"
        )
    return found


def _one_spelling(text: str) -> str:
    """Return a URL with several servers in SQLAlchemy's form, `?host=host:port&host=host:port`;
    other URLs unchanged.
    """
    found = re.fullmatch(_SEVERAL, text)
    if found is None:
        return text
    begin, servers, path, query = found.groups()
    named = "&".join(f"host={server}" for server in servers.split(","))
    return f"{begin}{path or '/'}?{named}{f'&{query}' if query else ''}"
