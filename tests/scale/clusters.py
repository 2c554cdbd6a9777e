"""PostgreSQL clusters of Debian's package that can be killed as a whole, and started again on what they wrote."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.servers import DEBIAN, answers, as_user, make_cluster, own_folder

#: The system survives the kill, so what was written need not be on the disk; but it has to be written.
_SETTINGS = ("fsync=off", "full_page_writes=off", "synchronous_commit=on", "max_connections=100", "listen_addresses=")


class Cluster:
    """A cluster in a folder, listening on a socket there."""

    def __init__(self, folder: Path, user: dict[str, Any]) -> None:
        self.folder = folder
        self.user = user
        self.url = f"postgresql://postgres@/postgres?host={folder}"
        make_cluster(DEBIAN, folder, user)
        self.start()

    def start(self) -> None:
        """Start, and return when it takes connections."""
        until = time.monotonic() + 60
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
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
