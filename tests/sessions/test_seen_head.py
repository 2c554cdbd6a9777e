"""A ledger on a server that goes away and comes back: sessions wait for it, and what it lost is
missed, by the newest head that a project saw.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from reflector.ledger.store import Ledger
from reflector.mistakes import Finding
from reflector.project import Project
from reflector.sessions import drain, seen_head
from tests.conftest import Postgres
from tests.ledger.events import added
from tests.road.agent import Agent
from tests.servers import at_a_port, nobody, spelled

pytestmark = pytest.mark.postgres


@dataclass
class Server:
    """The databases of a server, of which one answers under the ledger's URL."""

    folder: Path
    postgres: Postgres
    url: str

    def project(self, url: str = "", playbook: str = "default") -> Project:
        self.folder.mkdir(exist_ok=True)
        project = Project.at(
            self.folder, flags={"ledger_url": url or self.url, "playbook": playbook}
        )
        project.make_state_dir()
        return project

    def append(self, *names: str) -> None:
        with Ledger.open(self.url) as ledger:
            ledger.append([added(name) for name in names])

    def keep(self, url: str = "", playbook: str = "default") -> None:
        project = self.project(url, playbook)
        with project.open_ledger() as ledger:
            seen_head.keep_head(project, ledger)

    def missed(self) -> Finding | None:
        project = self.project()
        with project.open_ledger() as ledger:
            return seen_head.missed(project, ledger)

    @property
    def files(self) -> list[Path]:
        return sorted((self.project().state_dir / "heads").glob("*"))


@pytest.fixture
def server(postgres: Postgres, tmp_path: Path) -> Iterator[Server]:
    with postgres.database() as url:
        yield Server(tmp_path / "project", postgres, url)


def test_seen_head_stays_in_a_growing_ledger(server: Server) -> None:
    server.keep()
    assert (server.files, server.missed()) == ([], None)
    server.append("pat-001")
    server.keep()
    server.append("pat-002", "pat-003")
    assert server.missed() is None
    server.keep()
    (file,) = server.files
    assert file.read_text().splitlines()[-1].startswith("3:")


def test_each_playbook_server_and_schema_has_its_head(
    server: Server,
) -> None:
    """A longer ledger of one team was once told as events that the other team's had lost."""
    server.append("pat-001", "pat-002")
    server.keep()
    url = sa.make_url(server.url)
    server.keep(
        url.set(password="secret")
        .update_query_dict({"connect_timeout": "3"})
        .render_as_string(False)
    )
    assert [b"secret" in file.read_bytes() for file in server.files] == [False]
    role = f"team_{os.getpid()}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"CREATE SCHEMA {role} AUTHORIZATION {role}")
        connection.execute(f"ALTER ROLE {role} SET search_path = {role}")
    team = url.set(username=role).render_as_string(False)
    with server.postgres.database() as another:
        for number, (where, playbook) in enumerate(
            [(server.url, "other"), (another, "default"), (team, "default")]
        ):
            with Ledger.open(where, playbook) as ledger:
                ledger.append([added("pat-001")])
                assert seen_head.missed(server.project(where, playbook), ledger) is None
            server.keep(where, playbook)
            assert len(server.files) == 2 + number
    assert server.missed() is None
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"DROP OWNED BY {role}")
        connection.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"7", b"x:y", b"\xff\xfe:1", b"1:" + b"a" * 5000, None],
    ids=lambda value: str(value)[:12],
)
def test_invalid_head_is_ignored_and_rewritten(
    server: Server, tmp_path: Path, content: bytes | None
) -> None:
    server.append("pat-001")
    server.keep()
    (file,) = server.files
    good = file.read_bytes()
    file.unlink()
    if content is None:  # a repository could ship a link
        elsewhere = tmp_path / "elsewhere"
        elsewhere.write_bytes(b"9:nowhere\n")
        file.symlink_to(elsewhere)
    else:
        file.write_bytes(content)
    assert server.missed() is None
    server.keep()
    assert file.read_bytes() == good
    assert not file.is_symlink()


def test_file_ledger_has_no_seen_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    project = Project.at(tmp_path)
    with project.open_ledger() as ledger:
        ledger.append([added("pat-001")])
        seen_head.keep_head(project, ledger)
        assert seen_head.newest_seen(project, ledger) is None
        assert seen_head.missed(project, ledger) is None
    assert not (project.state_dir / "heads").exists()


def agent_of(folder: Path, url: str) -> Agent:
    agent = Agent.in_folder(folder)
    agent.environ["REFLECTOR_LEDGER_URL"] = url
    return agent


def test_hook_drain_waits_for_the_server(tmp_path: Path, server: Server) -> None:
    port = nobody()
    agent = agent_of(tmp_path, spelled(server.url, "libpq", nobody(), port))
    agent.ended(id="s-1", spawn=True)
    agent.wait_until((agent.state / "away.lock").exists)
    agent.ended(id="s-2", spawn=True)
    assert sum(drain.OUTAGE_PAUSES) == 300
    with at_a_port(server.url, port):
        agent.wait_until(lambda: agent.counters()["pat-001"] == (2, 0))
    assert agent.deliveries() == []


def test_lost_events_are_reported_until_acknowledged(tmp_path: Path, server: Server) -> None:
    """An asynchronous standby that takes over is the primary as it was a moment ago: here, a
    copy of its database.
    """
    agent, postgres = agent_of(tmp_path, server.url), server.postgres

    def heads() -> list[dict[str, str]]:
        return [check for check in agent.json("doctor", code=None) if check["name"] == "head"]

    agent.counted(id="s-1")
    name = sa.make_url(server.url).database
    postgres._run(f"CREATE DATABASE {name}_standby TEMPLATE {name}")
    try:
        agent.counted(id="s-2")
        assert heads() == []
        postgres._run(f"ALTER DATABASE {name} RENAME TO {name}_gone")
        postgres._run(f"ALTER DATABASE {name}_standby RENAME TO {name}")
        agent.ended(id="s-3")
        assert "the server has lost events that it had confirmed" in agent.call("drain").err
        (check,) = heads()
        (file,) = (agent.state / "heads").iterdir()
        assert (check["state"], "reflector history" in check["mend"]) == ("error", True)
        assert check["mend"].endswith(f"then remove {file}")
        assert agent.call("verify", code=1).out != ""
        agent.counted(id="s-2")
        file.unlink()
        assert (heads(), agent.counters()["pat-001"]) == ([], (3, 0))
        agent.call("verify")
    finally:
        for end in ("_standby", "_gone"):
            postgres._run(f"DROP DATABASE IF EXISTS {name}{end} WITH (FORCE)")
