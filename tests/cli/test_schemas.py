"""A ledger that begins in another schema than the one which holds the playbook's history is told with both names."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.conftest import ON_CITUS, Postgres, with_setting
from tests.road.agent import Agent

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(ON_CITUS, reason="there each test has a schema beside those of other tests, not a database"),
]

_BOTH = "this ledger is in the schema team%b; the same database holds a ledger of the playbook 'default' in the schema "


def _warned(agent: Agent) -> list[tuple[str, str]]:
    return [(one["state"], one["text"]) for one in agent.json("doctor", code=None) if one["name"] == "schemas"]


def test_a_ledger_that_begins_empty_beside_one_of_the_same_playbook_names_both_schemas(
    postgres: Postgres, tmp_path: Path
) -> None:
    agent = Agent.in_folder(tmp_path, {})
    with postgres.database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            (first,) = connection.execute("SELECT current_schema()").fetchone() or ("",)
            connection.execute('CREATE SCHEMA "team%b"')
            connection.execute("CREATE SCHEMA strange")  # of another program
            connection.execute("CREATE TABLE strange.playbook (name text)")
            connection.execute("CREATE TABLE strange.event (name text)")
        agent.environ = {"REFLECTOR_LEDGER_URL": url}
        assert _BOTH[:20] not in agent.call("add", "pat", "Read the error first.").err
        assert _warned(agent) == []
        agent.environ = {"REFLECTOR_LEDGER_URL": with_setting(url, "search_path", '"team%b"')}
        (agent.claude / "playbook.json").unlink()
        assert _warned(agent) == [("warning", _BOTH + first)]
        said = agent.call("add", "ctx", "Another advice.").err
        assert f"{_BOTH}{first}; if that is the one you mean, correct the search_path" in said
        assert _BOTH not in agent.call("add", "ctx", "One more advice.").err
        assert _warned(agent) == [("warning", _BOTH + first)]
        agent.counted("ctx-001")
        assert _warned(agent) == [("ok", _BOTH + first)]
