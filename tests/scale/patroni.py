"""A PostgreSQL that Patroni keeps alive: three servers and an etcd on loopback, each of which can lose its power.

The configuration of a server is the one of docs/team.md, with ports of loopback in place of machines' names.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psycopg
import pytest

from tests.servers import DEBIAN, as_user, own_folder

#: What takes seconds takes longer on a busy machine.
_PATIENCE = 120.0


def until(what: Callable[[], Any], words: str) -> Any:
    """Ask until the answer is true, and return it; a server that is not there has none."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        with suppress(OSError, psycopg.Error):
            if answer := what():
                return answer
        time.sleep(0.1)
    raise AssertionError(f"not within {_PATIENCE:.0f} s: {words}")


class Machine:
    """A folder and whatever runs in it, as another user than root; it loses its power when told."""

    def __init__(self, folder: Path, *command: str | Path) -> None:
        self._folder, self._command = folder, [str(word) for word in command]
        self.start()

    def start(self) -> None:
        options: dict[str, Any] = {"cwd": self._folder, "start_new_session": True, **as_user()}
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdout=quiet, stderr=quiet, **options)

    def cut_power(self) -> None:
        """Kill all that runs in the folder: Patroni's server belongs to no session or parent of ours."""
        while found := _running_in(self._folder):
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()


def _running_in(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append(int(process.name))
    return found


class Patroni:
    """Three servers of one cluster; `urls` names them all, and whoever connects gets the one that takes writes."""

    def __init__(self, folder: Path) -> None:
        etcd, patroni = _program("etcd", "etcd-server"), _program("patroni", "patroni")
        ports = _free_ports(8)
        self._ports, self._apis = ports[2:5], ports[5:]
        client, peer = (f"http://127.0.0.1:{port}" for port in ports[:2])
        urls = ("--listen-client-urls", client, "--advertise-client-urls", client)
        peers = ("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"e={peer}")
        data = ("--name", "e", "--data-dir", "data")
        self.etcd = Machine(_own(folder / "etcd"), etcd, *data, *urls, *peers)
        self.machines: list[Machine] = []
        self._commands: list[tuple[Path, str, Path]] = []
        for number, (port, api) in enumerate(zip(self._ports, self._apis, strict=True)):
            own = _own(folder / f"p{number}")
            configuration = _configuration(own, port, api, ports[0])
            (own / "patroni.yml").write_text(json.dumps(configuration))  # JSON is YAML
            self._commands.append((own, patroni, own / "patroni.yml"))

    def begin(self) -> None:
        """Start the servers, and wait for all of them."""
        for command in self._commands:
            self.machines.append(Machine(*command))
            if len(self.machines) == 1:
                until(lambda: self._is_writable(0), "the first server became the primary")
        self.until_whole()

    @property
    def url(self) -> str:
        """libpq's URL of the cluster's first database, with all servers."""
        servers = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        return f"postgresql://postgres@{servers}/postgres?target_session_attrs=read-write&connect_timeout=3"

    def primary(self) -> int | None:
        """The number of the server that takes writes."""
        return next((number for number in range(len(self.machines)) if self._is_writable(number)), None)

    def is_whole(self) -> bool:
        """Whether every server is there, and a standby may take over: while none is known as synchronous, none may."""
        with urlopen(f"http://127.0.0.1:{self._apis[0]}/cluster", timeout=3) as answer:
            members = json.loads(answer.read())["members"]
        roles = [one["role"] for one in members if one["state"] in {"running", "streaming"}]
        return len(roles) == len(self.machines) and {"leader", "sync_standby"} <= {*roles}

    def followed(self, primary: int) -> Any:
        """Wait until another server than this one takes writes; its number."""
        return until(lambda: (found := self.primary()) not in (None, primary) and [found], "another primary")[0]

    def until_whole(self) -> None:
        """Wait until every server is there."""
        until(self.is_whole, "every server is there")

    def close(self) -> None:
        for machine in [*self.machines, self.etcd]:
            machine.cut_power()

    def _is_writable(self, number: int) -> bool:
        where = f"postgresql://postgres@127.0.0.1:{self._ports[number]}/postgres"
        with suppress(psycopg.Error), psycopg.connect(where, connect_timeout=3) as connection:
            return connection.execute("SELECT NOT pg_is_in_recovery()").fetchone() == (True,)
        return False


@contextmanager
def patroni() -> Iterator[Patroni]:
    """A cluster in a folder of its own; skips where Debian's packages are missing."""
    if not (DEBIAN / "initdb").exists():
        pytest.skip(f"there is no PostgreSQL in {DEBIAN}; apt-get install postgresql-15")
    with own_folder(as_user()) as folder:
        cluster = Patroni(folder)
        try:
            cluster.begin()
            yield cluster
        finally:
            cluster.close()


def _own(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    if user := as_user():
        os.chown(folder, user["user"], user["group"])
    return folder


def _program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}; apt-get install {package}")
    return found


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _configuration(folder: Path, port: int, api: int, etcd: int) -> dict[str, Any]:
    account = {"username": "postgres", "password": "none"}
    parameters = {
        "max_connections": 100,
        "shared_buffers": "32MB",
        "wal_keep_size": "256MB",
        "unix_socket_directories": str(folder),
        "fsync": "off",  # the processes lose their lives here, not the machine its power
    }
    return {
        "scope": "ledger",
        "name": folder.name,
        "restapi": {"listen": f"127.0.0.1:{api}", "connect_address": f"127.0.0.1:{api}"},
        "etcd3": {"host": f"127.0.0.1:{etcd}"},
        "bootstrap": {
            "dcs": {
                "ttl": 10,
                "loop_wait": 2,
                "retry_timeout": 4,
                "maximum_lag_on_failover": 1 << 20,
                "synchronous_mode": True,
                "synchronous_mode_strict": True,
                "postgresql": {"use_pg_rewind": True, "parameters": parameters},
            },
            "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums", "no-sync"],
        },
        "postgresql": {
            "listen": f"127.0.0.1:{port}",
            "connect_address": f"127.0.0.1:{port}",
            "data_dir": str(folder / "data"),
            "bin_dir": str(DEBIAN),
            "pgpass": str(folder / "pgpass"),
            "authentication": {"superuser": account, "replication": account, "rewind": account},
            "pg_hba": [
                "local all all trust",
                "host all all 127.0.0.1/32 trust",
                "host replication all 127.0.0.1/32 trust",
            ],
        },
    }
