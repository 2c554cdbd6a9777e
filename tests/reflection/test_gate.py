"""The gate (A-30): who is asked, who agreed to it, what it may cost, and which windows wait for
a budget.
"""

import json
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given, strategies as st

from reflector.config import Config, load_config
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.judges.consent import Choice, keep_choice
from reflector.judges.protocol import BackendError
from reflector.ledger.store import Ledger
from reflector.reflection import recorder as events_of
from reflector.reflection.gate import (
    NEVER_READ,
    Gate,
    Spending,
    ace_settings,
    spent_this_month,
    waiting_for_budget,
    waiting_words,
)
from reflector.sessions.intake import Source, take_in
from tests.building import add_bullets
from tests.road.agent import environ as variables
from tests.road.sessions import Session

PROJECT = Path("/home/ada/work/shop")


def recorded(
    ledger: Ledger, tmp_path: Path, trigger: str = "SessionEnd", reason: str | None = None
) -> Event:
    path = Session("s-1").cites("pat-001").write(tmp_path / "t.jsonl")
    return ledger.event(take_in(ledger, Source(path, trigger, reason=reason)).event_id)


def check(ledger: Ledger, event: Event, gate: Gate, **fields: bool) -> int | str | None:
    return gate.check(ledger, event, **({"cited": True, "live": True, "is_model": True} | fields))


def gate(environ: Mapping[str, str] | None = None, layer: str = "user", **config: Any) -> Gate:
    layers: Any = {"backend": layer}
    with variables(environ or {}):
        return Gate(Config(backend="anthropic", layers=layers, **config), PROJECT)


def spending_of(environ: Mapping[str, str], **options: Any) -> Spending:
    with variables(environ):
        return Spending(**options)


def answer(ledger: Ledger, number: int, session_id: str, **meta: Any) -> None:
    about: Any = {"actor": "anthropic", "session_id": session_id, "meta": meta}
    event_id = identity(ev.REFLECTION_ANSWERED, number)
    ledger.append(
        [NewEvent(ev.REFLECTION_ANSWERED, event_id, {"answer": "", "iteration": 1}, **about)]
    )


SPENT = "the monthly budget is spent: 11,234 of {} tokens (setting monthly_tokens)"
LITTLE = (
    "only 7,999 of 19,233 tokens of the monthly budget are left, but a request needs 8,000 "
    "(setting monthly_tokens)"
)


NOW = datetime(2026, 11, 28, 15, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            "the daily budget is spent: 20 of 20 requests (setting daily_requests)",
            "reflector has used its 20 requests for today (setting daily_requests); "
            f"judging continues at {datetime(2026, 11, 29, tzinfo=UTC).astimezone():%H:%M}",
        ),
        (
            "the monthly budget is spent: 5,000 of 5,000 tokens (setting monthly_tokens)",
            "this month's budget is spent; judging continues on 1 December",
        ),
        ("the session part does not cite a rule", ""),
    ],
    ids=["a day", "a month", "another reason"],
)
def test_a_spent_budget_says_when_judging_goes_on(reason: str, words: str) -> None:
    assert waiting_words(reason, NOW) == words


@pytest.mark.parametrize(
    ("month", "said"),
    [
        (0, None),
        (11_234, SPENT.format("11,234")),
        (9_000, SPENT.format("9,000")),
        (19_233, LITTLE),
        (19_234, 8_000),
    ],
)
def test_a_gate_says_what_is_left_or_why(
    ledger: Ledger, tmp_path: Path, month: int, said: int | str | None
) -> None:
    event = recorded(ledger, tmp_path)
    answer(
        ledger,
        1,
        "s-1",
        input_tokens=1000,
        output_tokens=200,
        cache_read_tokens=30,
        cache_write_tokens=4,
    )
    answer(
        ledger,
        2,
        "s-2",
        input_tokens=10_000,
        output_tokens=-5,
        cache_read_tokens="7",
        cache_write_tokens=1.5,
    )
    now = datetime.now(UTC)
    after = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
    assert (spent_this_month(ledger, now), spent_this_month(ledger, after)) == (11_234, 0)
    assert check(ledger, event, gate(monthly_tokens=month)) == said


@pytest.mark.parametrize(
    ("reasons", "waits"),
    [
        ([SPENT], True),
        (["what is left of the budget is too little: template and playbook take 9"], True),
        (["the project is not among `projects` in your own configuration file"], False),
        ([SPENT, "the session part does not cite a rule"], False),
        (["the session part does not cite a rule", SPENT], True),
    ],
)
def test_what_was_last_skipped_for_a_budget_waits(
    ledger: Ledger, tmp_path: Path, reasons: list[str], waits: bool
) -> None:
    add_bullets(ledger, "pat-001")
    event = recorded(ledger, tmp_path)
    for reason in reasons:
        (window,) = ledger.windows()
        if window.state == "skipped":  # tried by hand in between
            ledger.append(
                [
                    events_of.failure_event(
                        window, "anthropic", events_of.Failure("transport", "down")
                    )
                ]
            )
            (window,) = ledger.windows()
        ledger.append([events_of.skip_event(window, event, "anthropic", reason)])
    assert len(list(ledger.events(types=[ev.REFLECTION_SKIPPED]))) == len(reasons)
    assert [window.event_id for window in waiting_for_budget(ledger)] == [event.event_id] * waits
    answer(ledger, 1, "s-1", input_tokens=7)
    assert spent_this_month(ledger) == 7


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        *(({"live": False, "forced": forced}, "the playbook is empty") for forced in (False, True)),
        ({"cited": False, "is_model": False}, "the session part does not cite a rule"),
        *(
            (fields, None)
            for fields in ({"cited": False}, {"cited": False, "forced": True}, {"is_model": False})
        ),
    ],
)
def test_nobody_asks_about_nothing(
    ledger: Ledger, tmp_path: Path, fields: dict[str, bool], said: str | None
) -> None:
    event = recorded(ledger, tmp_path)
    assert check(ledger, event, gate(monthly_tokens=0), **fields) == said


@pytest.mark.parametrize(
    ("layer", "projects", "trigger", "opens"),
    [
        *((layer, (), "SessionEnd", True) for layer in ("user", "environment")),
        ("flag", ("~/else/*",), "SessionEnd", True),
        ("project", (), "SessionEnd", False),
        ("project", (), "ingest", True),
        ("project", ("/home/ada/work/*",), "SessionEnd", True),
        *(
            ("user", (other,), "SessionEnd", False)
            for other in ("/home/ada/play/*", "~nobody-of-that-name/*")
        ),
    ],
)
def test_model_is_asked_only_if_the_user_wants(
    ledger: Ledger, tmp_path: Path, layer: str, projects: tuple[str, ...], trigger: str, opens: bool
) -> None:
    event, closed = recorded(ledger, tmp_path, trigger), gate(layer=layer, projects=projects)
    assert (not isinstance(check(ledger, event, closed), str)) == opens
    # Who judges by rules needs nobody's consent.
    assert check(ledger, event, closed, is_model=False) is None


@pytest.mark.parametrize(("limit", "closes"), [(0, False), (1, True), (2, False)])
def test_dollars_of_the_month_close_the_gate(
    ledger: Ledger, tmp_path: Path, limit: int, closes: bool
) -> None:
    event = recorded(ledger, tmp_path)
    answer(ledger, 1, "s-1", cost_usd="1.25")
    said = check(ledger, event, gate(layer="user", monthly_dollars=limit, monthly_tokens=0))
    assert str(said).startswith("the monthly budget is spent: $1.25 of $1") == closes


@pytest.mark.parametrize("folder", ["/home/ada/work", "/home/ada/work/shop", "/"])
@pytest.mark.parametrize("forced", [False, True])
def test_no_model_reads_a_folder_of_never(
    ledger: Ledger, tmp_path: Path, folder: str, forced: bool
) -> None:
    event = recorded(ledger, tmp_path)
    closed = gate(layer="user", never=(folder,))
    assert check(ledger, event, closed, forced=forced) == NEVER_READ
    with pytest.raises(BackendError, match="setting `never`"):
        closed.reserve(ledger, 1)


def test_rules_judge_a_folder_of_never(ledger: Ledger, tmp_path: Path) -> None:
    event = recorded(ledger, tmp_path)
    assert check(ledger, event, gate(never=("/",)), is_model=False) is None


def test_a_folder_beside_that_of_never_is_read(ledger: Ledger, tmp_path: Path) -> None:
    event = recorded(ledger, tmp_path)
    closed = gate(layer="user", never=("/home/ada/work/sho",))
    assert check(ledger, event, closed) != NEVER_READ


SETTINGS = (
    "playbook_update_on_exit",
    "playbook_update_on_clear",
    "playbook_update_on_subagent_stop",
)


@pytest.mark.parametrize(
    ("trigger", "reason", "closes"),
    [
        ("SessionEnd", "prompt_input_exit", SETTINGS[0]),
        ("SessionEnd", "clear", SETTINGS[1]),
        ("SubagentStop", None, SETTINGS[2]),
        ("SessionEnd", "other", None),
        ("PreCompact", "clear", None),
    ],
)
def test_each_client_setting_closes_its_own_event(
    ledger: Ledger, tmp_path: Path, trigger: str, reason: str | None, closes: str | None
) -> None:
    event = recorded(ledger, tmp_path, trigger, reason)
    values: list[dict[str, Any]] = [{setting: False} for setting in SETTINGS]
    values += [dict.fromkeys(SETTINGS, value) for value in (True, None, "false", 0)]
    for value in values:
        (tmp_path / "settings.json").write_text(json.dumps(value))
        found = check(ledger, event, gate({"CLAUDE_CONFIG_DIR": str(tmp_path)}), is_model=False)
        closed = closes if value.get(closes or "") is False else None
        assert found == (f"{closed} is false in the agent's settings" if closed else None)


def test_request_by_hand_passes_every_setting(ledger: Ledger, tmp_path: Path) -> None:
    event = recorded(ledger, tmp_path, "SessionEnd", "clear")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text('{"playbook_update_on_clear": false}')
    answer(ledger, 1, "s-1", input_tokens=10**9)
    closed = gate({"HOME": str(tmp_path)}, layer="project", projects=("/x",))
    assert isinstance(check(ledger, event, closed), str)
    assert check(ledger, event, closed, forced=True) is None


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 99_999, None, "a pipe"])
def test_settings_that_cannot_be_read_are_none(tmp_path: Path, content: bytes | str | None) -> None:
    if isinstance(content, bytes):
        (tmp_path / "settings.json").write_bytes(content)
    elif content:
        os.mkfifo(tmp_path / "settings.json")
    for folder in (str(tmp_path), "~nobody-of-that-name"):
        with variables({"CLAUDE_CONFIG_DIR": folder}):
            assert ace_settings() == {}


# What a person's ledgers tell each other of the month's tokens


@pytest.fixture
def spending(tmp_path: Path) -> Spending:
    return spending_of({"HOME": str(tmp_path)})


def test_ledger_sees_tokens_of_the_others(spending: Spending) -> None:
    spending.write("a", 100)
    spending.write("b", 20, 3)
    assert [spending.total(origin, 0) for origin in ("a", "b", "c")] == [123, 120, 123]
    spending.write("b", 20)
    assert spending.total("a", 100) == 120
    assert [path.stat().st_mode & 0o777 for path in (spending.path, spending.path.parent)] == [
        0o600,
        0o700,
    ]
    spending.write("a", 40)  # an older ledger that came back frees nothing
    assert (spending.total("a", 40), spending.total("b", 20)) == (120, 120)
    # a lost record leaves each ledger its own sum and is written again by each
    spending.path.unlink()
    assert spending.total("a", 100) == 100
    spending.write("a", 100)
    spending.write("b", 25)
    assert spending.total("a", 100) == 125


@given(st.binary(max_size=200), st.booleans())
def test_damaged_spending_record_costs_nothing(damage: bytes, end: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spending = spending_of({"HOME": folder})
        spending.write("a", 7)
        with spending.path.open("ab" if end else "wb") as file:
            file.write(damage)
        assert spending.total("a", 50) >= 50
        spending.write("b", 9)
        assert spending.total("a", 50) >= 59


def test_neither_of_two_passes_the_limit_together(spending: Spending) -> None:
    spending.write("b", 0, 60)
    assert spending.reserve("a", 0, 60, 100) == 20
    assert spending.total("b", 0) == 0
    assert spending.reserve("a", 0, 40, 100) == 0
    assert spending.total("b", 0) == 40
    assert spending.reserve("c", 0, 1000, None) == 0


def take(home: str, origin: str) -> None:
    spending = spending_of({"HOME": home})
    own = 0
    for _ in range(20):
        if not spending.reserve(origin, own, 10, 400):
            own += 10
            spending.write(origin, own)


def test_parallel_processes_stay_within_the_limit(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    workers = [
        fork.Process(target=take, args=(str(tmp_path), f"ledger-{number}")) for number in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    # Each wanted half of the limit.
    spending = spending_of({"HOME": str(tmp_path)})
    assert 300 <= spending.total("", 0) <= 400
    # Who sees half of a line at the end of a page of memory writes an empty line before its own.
    lines = [line for line in spending.path.read_bytes().splitlines() if line]
    assert len(lines) == 4 * 20 * 2
    assert all(line.count(b" ") == 2 for line in lines)


def test_each_month_has_its_own_record(tmp_path: Path) -> None:
    november, december = (
        spending_of({"XDG_STATE_HOME": str(tmp_path)}, now=datetime(2026, month, 1, tzinfo=UTC))
        for month in (11, 12)
    )
    november.write("a", 7)
    assert november.path == tmp_path / "reflector" / "tokens-2026-11"
    assert (november.total("b", 0), december.total("b", 0)) == (7, 0)
    alone = spending_of({})
    alone.write("a", 7)
    assert (alone.path, alone.total("b", 5), alone.reserve("b", 5, 3, 8)) == (None, 5, 0)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("elsewhere")])
def test_unusable_record_is_an_error_without_waiting(
    spending: Spending, make: Callable[[Path], object]
) -> None:
    path = spending.path
    path.parent.mkdir(parents=True)
    make(path)
    with pytest.raises(OSError, match="Errno"):
        spending.write("a", 7)
    assert not (path.parent / "elsewhere").exists()


def test_reservations_of_threads_add_up(ledger: Ledger, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    shared = gate(environ, monthly_tokens=25_000)
    both = Barrier(2, timeout=20)

    def ask() -> str:
        try:
            shared.reserve(ledger, 10_000)
        except BackendError as error:
            return str(error)
        finally:
            both.wait()
        return ""

    with ThreadPoolExecutor(2) as threads:
        others = [threads.submit(ask) for _ in range(2)]
        assert [other.result() for other in others] == ["", ""]
    with pytest.raises(BackendError, match="5,000 more than the monthly budget allows"):
        shared.reserve(ledger, 10_000)
    assert shared.spending.total("another", 0) == 20_000


@pytest.mark.parametrize(("trigger", "is_asked"), [("SessionEnd", False), ("ingest", True)])
def test_another_address_is_only_asked_by_hand(
    ledger: Ledger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trigger: str,
    is_asked: bool,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    keep_choice(Choice("anthropic", "https://models.example", "1"))
    reason = check(ledger, recorded(ledger, tmp_path, trigger), gate(monthly_tokens=0))
    if is_asked:
        assert reason is None
    else:
        assert "allowed https://models.example to judge, but the API is now Anthropic" in str(
            reason
        )


def test_consent_is_for_one_api_alone(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    keep_choice(Choice("another", "", "1", "another"))
    reason = check(ledger, recorded(ledger, tmp_path, "SessionEnd"), gate(monthly_tokens=0))
    assert reason is not None
    assert "you allowed another to judge, not anthropic" in reason


@pytest.mark.parametrize(
    ("choice", "layer", "is_asked"),
    [
        (Choice("agent", None, "1"), "environment", False),
        (Choice("agent", None, "1"), "user", True),
        (Choice(), "environment", True),
    ],
    ids=["agents chosen", "your own file", "nothing chosen"],
)
def test_environment_replaces_no_chosen_agents(
    ledger: Ledger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    choice: Choice,
    layer: str,
    is_asked: bool,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    keep_choice(choice)
    asking = gate(layer=layer, monthly_tokens=0)
    reason = check(ledger, recorded(ledger, tmp_path, "SessionEnd"), asking)
    assert (reason is None) == is_asked


@pytest.mark.parametrize(
    ("folder", "reason"), [("secret", NEVER_READ), ("secret/a", NEVER_READ), ("open", None)]
)
def test_own_folder_of_a_session_is_never_read(
    ledger: Ledger, tmp_path: Path, folder: str, reason: str | None
) -> None:
    made = Session("s-1").cites("pat-001")
    for record in made.records:
        record["cwd"] = str(PROJECT / folder)
    path = made.write(tmp_path / "t.jsonl")
    event = ledger.event(take_in(ledger, Source(path, "SessionEnd")).event_id)
    guarded = gate(never=(str(PROJECT / "secret"),), monthly_tokens=0)
    assert check(ledger, event, guarded) == reason
    assert check(ledger, event, guarded, forced=True) == reason


def priced(environ: Mapping[str, str]) -> Gate:
    """Return a gate of a model with a price, for a month of one dollar."""
    return gate(environ, monthly_dollars=1, model="claude-sonnet-5-5", monthly_tokens=0)


def test_reserved_dollars_keep_others_from_asking(ledger: Ledger, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    spending_of(environ, unit="dollars").write("a third", 800_000)
    asking = priced(environ)
    asking.reserve(ledger, 40_000)
    with Ledger.open_file(tmp_path / "other.db") as other:
        with pytest.raises(BackendError, match=r"the monthly budget is spent: .*may cost"):
            priced(environ).reserve(other, 40_000)
        asking.settle(ledger)
        priced(environ).reserve(other, 40_000)


def test_dollars_of_a_refused_request_are_free(ledger: Ledger, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    asking = priced(environ)
    with pytest.raises(BackendError, match="may cost"):
        asking.reserve(ledger, 1_000_000)
    assert asking.dollars.total("another", 0) == 0


@pytest.mark.parametrize(
    ("yours", "variable", "limit"), [(3, 0, 3), (3, 9, 3), (3, 2, 2), (0, 2, 2), (0, 0, 0)]
)
def test_environment_only_lowers_the_dollars(
    ledger: Ledger, tmp_path: Path, yours: int, variable: int, limit: int
) -> None:
    (tmp_path / ".config" / "reflector").mkdir(parents=True)
    (tmp_path / ".config" / "reflector" / "config.toml").write_text(f"monthly_dollars = {yours}\n")
    environ = {"HOME": str(tmp_path), "REFLECTOR_MONTHLY_DOLLARS": str(variable)}
    spending_of(environ, unit="dollars").write("another", 5_000_000)
    with variables(environ):
        config = load_config(PROJECT, flags={"backend": "rules"})
        closed = Gate(config, PROJECT).closed(ledger)
    assert f"of ${limit} (setting" in closed if closed else not limit
