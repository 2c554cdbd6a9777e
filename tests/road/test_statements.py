"""The number of SQL statements in an everyday command. It is the same on any machine."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from reflector.ledger import sqlite_file
from reflector.ledger.statements import Statements
from reflector.project import Project
from reflector.sessions.drain import open_pipeline
from tests.road.agent import Agent, environ

#: The maximum numbers of statements in SQLite's own trace, including those of triggers and those
#: for opening a file.
_MAX_OF_A_SESSION_END = 110
_MAX_OF_LIST = 27
#: The maximum number of statements from our code while the ledger was open.
_MAX_ASKED_BY_LIST = 15


@pytest.fixture
def steady(agent: Agent) -> Agent:
    """A project with two counted sessions, in which `list` was run."""
    for session in ("s-1", "s-2"):
        agent.ended(id=session)
        agent.call("drain")
    for _ in range(2):
        agent.call("list")
    return agent


@contextmanager
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the statements that SQLite runs in this process meanwhile."""
    statements: list[str] = []
    module = sqlite_file.sqlite_module()
    connect = module.connect

    def connect_traced(*arguments: Any, **options: Any) -> Any:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(statements.append)
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(module, "connect", connect_traced)
        yield statements


def test_session_end_runs_few_statements(steady: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    steady.ended(id="s-3")
    with traced(monkeypatch) as statements:
        steady.call("drain")
    assert len(statements) <= _MAX_OF_A_SESSION_END, "\n".join(statements)


def test_list_runs_few_statements(steady: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    with traced(monkeypatch) as statements:
        steady.call("list")
    assert len(statements) <= _MAX_OF_LIST, "\n".join(statements)


def test_list_asks_the_ledger_little(steady: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    execute = Statements.execute

    def execute_counted(statements: Statements, sql: str, *values: object) -> Any:
        asked.append(sql)
        return execute(statements, sql, *values)

    monkeypatch.setattr(Statements, "execute", execute_counted)
    steady.call("list")
    assert len(asked) <= _MAX_ASKED_BY_LIST, "\n".join(asked)


def test_question_opens_the_ledger_once(steady: Agent) -> None:
    steady.ended(id="s-3")
    opening = Project.open_ledger
    with patch.object(Project, "open_ledger", autospec=True, side_effect=opening) as opened:
        steady.call("list")
    assert opened.call_count == 1


@pytest.mark.parametrize("is_replaced", [False, True])
def test_replaced_ledger_is_opened_again(steady: Agent, is_replaced: bool) -> None:
    with environ(steady.env()):
        project = Project.at(steady.project)
        with project.open_ledger() as ledger:
            if is_replaced:
                steady.ledger.rename(steady.home / "replaced.db")
                shutil.copyfile(steady.home / "replaced.db", steady.ledger)
            with open_pipeline(project, opened=ledger) as pipeline:
                assert pipeline is not None
                assert (pipeline.ledger is ledger) != is_replaced
