"""PostgreSQL's server and PgBouncer from Debian's packages, started for a test and stopped after
it; and clusters that can be killed as a whole, and copied by a standby.

All refuse to run as root, so a run by root starts them as another user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
import sqlalchemy as sa

#: Debian's server: another major version than the wheel's.
DEBIAN = Path("/usr/lib/postgresql/15/bin")
#: Where a package that is not installed is unpacked, once.
_CACHE = Path(tempfile.gettempdir()) / f"reflector-packages-{os.getuid()}"
#: Nothing here outlives the run, so it need not survive a power failure.
_FAST = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "max_connections=200")


def as_user(owner_of: str = "") -> dict[str, Any]:
    """As whom `subprocess` starts a process that refuses to be root's: {} where we are not root,
    else the owner of a folder, if that is not root.
    """
    if os.getuid() != 0:
        return {}
    names = {one.pw_name: one for one in pwd.getpwall()}
    other = names.get("postgres") or names["nobody"]
    if owner_of.startswith("/") and (uid := Path(owner_of).stat().st_uid) != 0:
        other = pwd.getpwuid(uid)
    return {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []}


@contextmanager
def own_folder(user: dict[str, Any]) -> Iterator[Path]:
    # Not below pytest's own folder, which only its owner may enter; and short, for a socket's path
    # has 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="reflector-server-", dir="/tmp"))
    try:
        if user:
            os.chown(folder, user["user"], user["group"])
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(
    command: Sequence[str | Path], folder: Path, url: str, user: dict[str, Any], **environ: str
) -> Iterator[None]:
    """A server's process, from the time at which it takes connections at an URL."""
    log = folder / "log"
    unpacked = ":".join(map(str, _CACHE.glob("usr/lib/*-linux-gnu")))
    env = {**os.environ, **({"LD_LIBRARY_PATH": unpacked} if unpacked else {}), **environ}
    with log.open("wb") as out:
        options: dict[str, Any] = {"cwd": folder, "env": env, "stdin": subprocess.DEVNULL, **user}
        process = subprocess.Popen(
            [str(word) for word in command], stdout=out, stderr=out, **options
        )
    try:
        until = time.monotonic() + 60
        while not answers(url):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(
                    f"{command[0]} did not start:\n{log.read_text(errors='replace')}"
                )
            time.sleep(0.02)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(url: str) -> bool:
    """Whether a server takes connections."""
    with suppress(psycopg.OperationalError), psycopg.connect(url):
        return True
    return False


def make_cluster(programs: Path, folder: Path, user: dict[str, Any]) -> None:
    """Make a cluster in `data` of a folder, whose superuser is postgres."""
    initdb = [
        programs / "initdb",
        "-D",
        "data",
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--no-sync",
    ]
    made = [str(word) for word in (*initdb, "--locale", "C.UTF-8")]
    subprocess.run(made, cwd=folder, check=True, capture_output=True, **user)


@contextmanager
def postgres_server(
    programs: Path = DEBIAN, more: Sequence[str] = (), language: str = ""
) -> Iterator[str]:
    """The URL of a superuser on a new PostgreSQL, made by the programs in a folder; skips where it
    has none.

    `more` are settings of the server, and `language` is the one that it speaks.
    """
    if not (programs / "initdb").exists():
        pytest.skip(f"there is no PostgreSQL in {programs}; apt-get install postgresql-15")
    user = as_user()
    with own_folder(user) as folder:
        make_cluster(programs, folder, user)
        settings = [word for setting in (*_FAST, *more) for word in ("-c", setting)]
        command = [
            programs / "postgres",
            "-D",
            "data",
            "-k",
            folder,
            "-c",
            "listen_addresses=",
            *settings,
        ]
        url = f"postgresql://postgres@/postgres?host={folder}"
        with _running(command, folder, url, user, **({"LANGUAGE": language} if language else {})):
            yield url


@contextmanager
def pgbouncer(server: str, users: Sequence[str] = (), more: Sequence[str] = ()) -> Iterator[str]:
    """The URL of a server through a PgBouncer in transaction mode, which shares three connections a
    database and user.

    It takes the URL's user, and these, without a password. `more` are settings of the pooler. Skips
    where there is no PgBouncer.
    """
    program = _pgbouncer()
    url = sa.make_url(server)
    known = [url.username or "postgres", *users]
    host = str(url.query.get("host") or url.host)
    user = as_user(host)
    with own_folder(user) as folder:
        (folder / "users").write_text("".join(f'"{name}" ""\n' for name in known))
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host={host} port={url.port or 5432}\n[pgbouncer]\n"
            f"unix_socket_dir = {folder}\nlisten_port = 6432\nauth_type = trust\nauth_file = "
            f"{folder}/users\n"
            "pool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = "
            "300\nserver_idle_timeout = 5\n" + "".join(f"{setting}\n" for setting in more)
        )
        through = url.difference_update_query(["host"]).set(host=None, port=6432)
        way = through.update_query_dict({"host": str(folder)}).render_as_string(hide_password=False)
        with _running([program, folder / "pgbouncer.ini"], folder, way, user):
            yield way


def _pgbouncer() -> Path:
    """The installed PgBouncer, or Debian's package unpacked into a folder, which root is not
    needed for; or skips.
    """
    for found in (
        shutil.which("pgbouncer", path=f"{os.defpath}:/usr/sbin:/sbin"),
        _CACHE / "usr/sbin/pgbouncer",
    ):
        if found is not None and Path(found).exists():
            return Path(found)
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        pytest.skip("there is no PgBouncer, and no apt-get that could bring one")
    _CACHE.mkdir(mode=0o755, exist_ok=True)
    if _CACHE.stat().st_uid != os.getuid():
        pytest.skip(f"there is no PgBouncer, and {_CACHE} is somebody else's")
    download = ["apt-get", "download", "pgbouncer", "libc-ares2", "libevent-2.1-7"]
    came = subprocess.run(download, cwd=_CACHE, capture_output=True, text=True)
    if came.returncode:
        pytest.skip(f"there is no PgBouncer, and apt-get brought none: {came.stderr.strip()}")
    for package in _CACHE.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, _CACHE], check=True, capture_output=True)
    return _CACHE / "usr/sbin/pgbouncer"


#: The system survives the kill, so what was written need not be on the disk; but it has to be
#: written.
_SETTINGS = ("fsync=off", "full_page_writes=off", "synchronous_commit=on", "max_connections=100")


def until(what: Callable[[], Any], words: str, seconds: float = 120) -> Any:
    """Ask until the answer is true, and return it; a server that is not there has none."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError, psycopg.Error):
            if answer := what():
                return answer
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds:.0f} s: {words}")


class Cluster:
    """A cluster in a folder, listening on a socket there, and on a port of loopback if it has one:
    new, or the standby `of` another one.
    """

    def __init__(
        self,
        folder: Path,
        user: dict[str, Any],
        *settings: str,
        port: int = 0,
        of: Cluster | None = None,
    ) -> None:
        self.folder = folder
        self.user = user
        self.port = port
        self.url = f"postgresql://postgres@:{port or 5432}/postgres?host={folder}"
        self._settings = (
            f"listen_addresses={'127.0.0.1' if port else ''}",
            f"port={port or 5432}",
            *settings,
        )
        folder.mkdir(mode=0o700, exist_ok=True)
        if user:
            os.chown(folder, user["user"], user["group"])
        if of is None:
            make_cluster(DEBIAN, folder, user)
        else:
            copy = [
                str(DEBIAN / "pg_basebackup"),
                "-R",
                "-D",
                "data",
                "-d",
                of.url,
                "--no-sync",
                "--checkpoint=fast",
            ]
            subprocess.run(copy, cwd=folder, check=True, **user)
        self.start()

    def start(self) -> None:
        """Start, and return when it takes connections."""
        until = time.monotonic() + 60
        settings = [word for setting in (*_SETTINGS, *self._settings) for word in ("-c", setting)]
        command = [str(DEBIAN / "postgres"), "-D", "data", "-k", str(self.folder), *settings]
        with (self.folder / "log").open("ab") as log:
            options: dict[str, Any] = {"cwd": self.folder, "stdin": subprocess.DEVNULL, **self.user}
            self.process = subprocess.Popen(command, stdout=log, stderr=log, **options)
        while not answers(self.url):
            if self.process.poll() is not None:  # what was killed still holds its memory
                assert time.monotonic() < until, (self.folder / "log").read_text()
                time.sleep(0.1)
                self.start()
                return
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the server and all of its processes at once, as a power failure would."""
        for pid in [self.process.pid, *_children(self.process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def _children(parent: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                yield int(stat.parent.name)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster on this machine; skips where Debian's package is not installed."""
    if not (DEBIAN / "initdb").exists():
        pytest.skip(f"there is no PostgreSQL in {DEBIAN}; apt-get install postgresql-15")
    user = as_user()
    with own_folder(user) as folder:
        made = Cluster(folder, user)
        try:
            yield made
        finally:
            made.kill()


@contextmanager
def at_a_port(url: str, port: int = 0, *, answers: int | None = None) -> Iterator[int]:
    """A port of loopback (0: any) that leads to a server behind a socket's file; a number of
    `answers` after which the connection is closed, as by a crash.
    """
    server = sa.make_url(url)
    path = f"{server.query['host']}/.s.PGSQL.{server.port or 5432}"
    left = None if answers is None else threading.Semaphore(answers)

    def forward(
        source: socket.socket, target: socket.socket, left: threading.Semaphore | None
    ) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if left is not None and not left.acquire(blocking=False):
                    break
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
                for ends in ((client, behind, None), (behind, client, left)):
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
    query = {
        name: str(value) for name, value in known.query.items() if name not in ("host", "port")
    } | more
    if spelling == "libpq":
        return (
            f"postgresql://{known.username}@{','.join(hosts)}/{known.database}?{urlencode(query)}"
        )
    query_of_hosts = [*(("host", host) for host in hosts), *query.items()]
    return f"postgresql://{known.username}@/{known.database}?{urlencode(query_of_hosts)}"
