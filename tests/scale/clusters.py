"""PostgreSQL clusters of Debian's package that can be killed as a whole, and copied by a standby."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.servers import DEBIAN, answers, as_user, make_cluster, own_folder

#: The system survives the kill, so what was written need not be on the disk; but it has to be written.
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
    """A cluster in a folder, listening on a socket there, and on a port of loopback if it has one: new, or the standby
    `of` another one."""

    def __init__(
        self, folder: Path, user: dict[str, Any], *settings: str, port: int = 0, of: Cluster | None = None
    ) -> None:
        self.folder = folder
        self.user = user
        self.port = port
        self.url = f"postgresql://postgres@:{port or 5432}/postgres?host={folder}"
        self._settings = (f"listen_addresses={'127.0.0.1' if port else ''}", f"port={port or 5432}", *settings)
        folder.mkdir(mode=0o700, exist_ok=True)
        if user:
            os.chown(folder, user["user"], user["group"])
        if of is None:
            make_cluster(DEBIAN, folder, user)
        else:
            copy = [str(DEBIAN / "pg_basebackup"), "-R", "-D", "data", "-d", of.url, "--no-sync", "--checkpoint=fast"]
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
