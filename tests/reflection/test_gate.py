"""The gate: who is asked, who agreed to it, and what it may cost."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reflector.config import Config, ConfigError, load_config
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.ledger.store import Ledger
from reflector.reflection.gate import Gate, Opened, ace_settings
from reflector.reflection.spending import spent_on_session, spent_this_month, tokens_of
from reflector.sessions.intake import Source, take_in
from tests.road.sessions import Session

PROJECT = Path("/home/ada/work/shop")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open_file(tmp_path / "ledger.db") as opened:
        yield opened


def recorded(ledger: Ledger, tmp_path: Path, trigger: str = "SessionEnd", reason: str | None = None) -> Event:
    path = Session("s-1").cites("pat-001").write(tmp_path / "t.jsonl")
    taken = take_in(ledger, Source(path, trigger, reason=reason))
    assert taken.event_id is not None
    event = ledger.event(taken.event_id)
    assert event is not None
    return event


def check(ledger: Ledger, event: Event, gate: Gate, **fields: bool) -> Opened | str:
    return gate.check(ledger, event, **({"cited": True, "live": True, "is_model": True} | fields))


def gate(environ: Mapping[str, str] | None = None, layer: str = "user", **config: Any) -> Gate:
    layers: Any = {"backend": layer}
    return Gate(Config(backend="anthropic", layers=layers, **config), PROJECT, environ or {})


def answer(ledger: Ledger, number: int, session_id: str, **meta: Any) -> None:
    data = {"answer": "", "iteration": 1}
    ledger.append(
        [
            NewEvent(
                ev.REFLECTION_ANSWERED,
                identity(ev.REFLECTION_ANSWERED, number),
                data,
                "anthropic",
                session_id=session_id,
                meta=meta,
            )
        ]
    )


def test_an_open_gate_says_what_is_left_of_the_smaller_budget(ledger: Ledger, tmp_path: Path) -> None:
    event = recorded(ledger, tmp_path)
    answer(ledger, 1, "s-1", input_tokens=1000, output_tokens=200, cache_read_tokens=30, cache_write_tokens=4)
    answer(ledger, 2, "s-2", input_tokens=10_000)
    assert (spent_on_session(ledger, "s-1"), spent_on_session(ledger, None)) == (1234, 0)
    assert spent_this_month(ledger) == 11_234
    assert check(ledger, event, gate(session_tokens=50_000, monthly_tokens=0)) == Opened(50_000 - 1234, "session")
    assert check(ledger, event, gate(session_tokens=50_000, monthly_tokens=40_000)) == Opened(
        40_000 - 11_234, "monthly"
    )
    assert check(ledger, event, gate(session_tokens=0, monthly_tokens=0)) == Opened(None)


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (11_234, "the monthly budget is spent: 11,234 of 11,234 tokens (setting monthly_tokens)"),
        (9_000, "the monthly budget is spent: 11,234 of 9,000 tokens (setting monthly_tokens)"),
        (
            19_233,
            "7,999 of 19,233 tokens of the monthly budget are left, fewer than the 8,000 that a request needs "
            "(setting monthly_tokens)",
        ),
        (19_234, Opened(8_000, "monthly")),
    ],
)
def test_a_budget_is_called_spent_only_where_nothing_is_left(
    ledger: Ledger, tmp_path: Path, limit: int, said: Opened | str
) -> None:
    event = recorded(ledger, tmp_path)
    answer(ledger, 1, "s-2", input_tokens=11_234)
    assert check(ledger, event, gate(session_tokens=0, monthly_tokens=limit)) == said


def test_a_month_begins_at_midnight_utc_of_its_first_day(ledger: Ledger) -> None:
    answer(ledger, 1, "s-1", input_tokens=7)
    now = datetime.now(UTC)
    after = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
    assert spent_this_month(ledger, now) == 7
    assert spent_this_month(ledger, after) == 0


@pytest.mark.parametrize("odd", [None, "7", 1.5, [1]])
def test_a_count_that_is_none_costs_nothing(ledger: Ledger, odd: Any) -> None:
    answer(ledger, 1, "s-1", input_tokens=odd, output_tokens=5)
    (event,) = ledger.events()
    assert tokens_of(event.meta) == spent_on_session(ledger, "s-1") == 5


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"live": False}, "the playbook is empty"),
        ({"live": False, "forced": True}, "the playbook is empty"),
        ({"cited": False, "is_model": False}, "the window cites nothing"),
        ({"cited": False}, Opened()),
        ({"cited": False, "forced": True}, Opened()),
        ({"is_model": False}, Opened()),
    ],
)
def test_what_there_is_nothing_to_ask_about_is_not_asked(
    ledger: Ledger, tmp_path: Path, fields: dict[str, bool], said: Opened | str
) -> None:
    event = recorded(ledger, tmp_path)
    assert check(ledger, event, gate(session_tokens=0, monthly_tokens=0), **fields) == said


@pytest.mark.parametrize(
    ("layer", "projects", "trigger", "opens"),
    [
        ("user", (), "SessionEnd", True),
        ("environment", (), "SessionEnd", True),
        ("flag", ("~/else/*",), "SessionEnd", True),
        ("project", (), "SessionEnd", False),
        ("project", (), "ingest", True),
        ("project", ("/home/ada/work/*",), "SessionEnd", True),
        ("user", ("/home/ada/work/*",), "SessionEnd", True),
        ("user", ("/home/ada/play/*",), "SessionEnd", False),
        ("user", ("~nobody-of-that-name/*",), "SessionEnd", False),
        ("user", ("/home/ada/work",), "SessionEnd", False),
    ],
)
def test_a_model_is_asked_where_the_user_wants_it(
    ledger: Ledger, tmp_path: Path, layer: str, projects: tuple[str, ...], trigger: str, opens: bool
) -> None:
    event = recorded(ledger, tmp_path, trigger)
    found = check(ledger, event, gate(layer=layer, projects=projects))
    assert isinstance(found, Opened) == opens
    # Who judges by rules needs nobody's consent.
    assert check(ledger, event, gate(layer=layer, projects=projects), is_model=False) == Opened()


SETTINGS = ("playbook_update_on_exit", "playbook_update_on_clear", "playbook_update_on_subagent_stop")


@pytest.mark.parametrize(
    ("trigger", "reason", "closes"),
    [
        ("SessionEnd", "prompt_input_exit", "playbook_update_on_exit"),
        ("SessionEnd", "clear", "playbook_update_on_clear"),
        ("SubagentStop", None, "playbook_update_on_subagent_stop"),
        ("SessionEnd", "other", None),
        ("SessionEnd", None, None),
        ("PreCompact", "clear", None),
        ("ingest", None, None),
    ],
)
def test_each_setting_of_the_ace_tool_closes_the_gate_for_its_own_event(
    ledger: Ledger, tmp_path: Path, trigger: str, reason: str | None, closes: str | None
) -> None:
    event = recorded(ledger, tmp_path, trigger, reason)
    folder = tmp_path / "client"
    folder.mkdir()
    for setting in SETTINGS:
        (folder / "settings.json").write_text(json.dumps({setting: False}))
        found = check(ledger, event, gate({"CLAUDE_CONFIG_DIR": str(folder)}), is_model=False)
        assert found == (f"{setting} is false in the client's settings" if setting == closes else Opened())
    for value in (True, None, "false", 0):
        (folder / "settings.json").write_text(json.dumps(dict.fromkeys(SETTINGS, value)))
        assert check(ledger, event, gate({"CLAUDE_CONFIG_DIR": str(folder)}), is_model=False) == Opened()


def test_a_person_who_asks_by_hand_goes_past_every_setting(ledger: Ledger, tmp_path: Path) -> None:
    event = recorded(ledger, tmp_path, "SessionEnd", "clear")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text('{"playbook_update_on_clear": false}')
    answer(ledger, 1, "s-1", input_tokens=10**9)
    closed = gate({"HOME": str(tmp_path)}, layer="project", projects=("/x",))
    assert isinstance(check(ledger, event, closed), str)
    assert check(ledger, event, closed, forced=True) == Opened()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 99_999, b'{"a": 1', None], ids=lambda raw: str(raw)[:12]
)
def test_settings_that_cannot_be_read_are_none(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "settings.json").write_bytes(content)
    assert ace_settings({"CLAUDE_CONFIG_DIR": str(tmp_path)}) == {}


def test_settings_that_are_a_pipe_or_nowhere_hold_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "settings.json")
    assert ace_settings({"CLAUDE_CONFIG_DIR": str(tmp_path)}) == {}
    assert ace_settings({"CLAUDE_CONFIG_DIR": "~nobody-of-that-name"}) == {}
    assert ace_settings({"CLAUDE_CONFIG_DIR": "", "HOME": str(tmp_path / "none")}) == {}


@pytest.mark.parametrize(
    ("users", "own", "refused"),
    [
        ("", "monthly_tokens = 5000000", None),
        ("", "monthly_tokens = 5000001", "monthly_tokens is 5000001; here it may only be lowered, from 5000000"),
        ("", "session_tokens = 0", "session_tokens is 0; here it may only be lowered"),
        ("session_tokens = 9000", "session_tokens = 9001", "from 9000"),
        ("session_tokens = 0", "session_tokens = 9001", None),
        ("session_tokens = 0", "session_tokens = 0", None),
    ],
)
def test_a_projects_file_lowers_budgets_and_raises_none(
    tmp_path: Path, users: str, own: str, refused: str | None
) -> None:
    path = tmp_path / "home" / ".config" / "reflector" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(users)
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "reflector.toml").write_text(own)
    environ = {"HOME": str(tmp_path / "home")}
    if refused is None:
        load_config(tmp_path, environ=environ)
        return
    with pytest.raises(ConfigError, match=refused):
        load_config(tmp_path, environ=environ)
