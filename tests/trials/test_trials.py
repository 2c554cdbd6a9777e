"""A trial in a project: who is told what, what is said of it, and what `verify` finds; and `trial
run`: tasks done with and without advice, by an agent that is a script.
"""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from reflector.audit.stats import weeks
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.exchange.merge import merge_ledger
from reflector.exchange.transfer import exported as lines_of, load_ledger
from reflector.ledger.as_of import Past
from reflector.ledger.canonical import genesis, next_chain, sealed
from reflector.ledger.rows import Anchor, Stored
from reflector.ledger.store import Ledger
from reflector.mistakes import Mistake
from reflector.proof.verify import verify_opening
from reflector.sessions.intake import Source, take_in
from reflector.trials import trial as of_sessions
from reflector.trials.draw import is_withheld
from reflector.trials.outcome import Outcome, outcome_event
from reflector.trials.plan import plan
from reflector.trials.tasks import Run, pairs, perform, sign_test, tasks_in
from reflector.trials.trial import (
    current_status,
    missing_outcomes,
    sessions as sessions_of,
    start,
    stop,
    trial_findings,
)
from tests.conftest import examples, first_fast, slow_except
from tests.ledger.events import added, window
from tests.proof.forger import forging
from tests.road.agent import Agent
from tests.road.sessions import Session

KEY = "pl1:" + "5a" * 32


@given(st.text(min_size=1), st.integers(1, 999_999))
def test_arm_follows_from_key_and_session(root: str, share: int) -> None:
    drawn = blake2b(
        root.encode("utf-8", "surrogatepass"), digest_size=8, key=bytes.fromhex(KEY[4:])
    ).digest()
    assert is_withheld(KEY, share, root) == (
        int.from_bytes(drawn, "big") / 2**64 < share / 1_000_000
    )


# -- what sessions are told
# ------------------------------------------------------------------------------------------


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    agent = Agent.in_folder(tmp_path)
    agent.call("add", "pref", "Answer in French.")
    return agent


def sessions_by_arm(agent: Agent, count: int = 12) -> dict[bool, list[str]]:
    """Return sessions by whether the trial that was opened last draws them to go without."""
    opened = agent.events("trial.opened")[-1]
    found: dict[bool, list[str]] = {True: [], False: []}
    for number in range(count):
        found[is_withheld(opened["data"]["key"], opened["data"]["share"], f"s-{number}")].append(
            f"s-{number}"
        )
    return found


def told(
    agent: Agent, session: str, source: str = "startup", event: str = "SessionStart", **more: Any
) -> set[str]:
    return set(
        re.findall(
            r"\[(\w+-\d+)\] helpful=", agent.hook(event, source=source, session_id=session, **more)
        )
    )


ALL = {"pat-001", "pat-002", "mis-001", "pref-001"}


@pytest.mark.parametrize(
    ("options", "pinned", "without"),
    first_fast(
        1,
        [
            (("mis-001",), [], ALL - {"mis-001"}),
            ((), ["pat-002"], {"pat-002"}),
            ((), [], set()),
        ],
    ),
)
def test_each_arm_is_consistent_at_every_start(
    agent: Agent, options: tuple[str, ...], pinned: list[str], without: set[str]
) -> None:
    (agent.claude / "reflector.toml").write_text(f"pinned = {json.dumps(pinned)}\n")
    agent.call("trial", "start", "--yes", *options)
    arms = sessions_by_arm(agent)
    assert all(arms.values())
    for withheld, sessions in arms.items():
        wanted = without if withheld else ALL
        assert {frozenset(told(agent, session)) for session in sessions} == {frozenset(wanted)}
        assert told(agent, sessions[0], "resume") == told(agent, sessions[0], "compact") == wanted
        assert told(agent, sessions[0], event="SubagentStart", agent_id="a-1") == wanted
    agent.call("trial", "stop")
    assert told(agent, arms[True][0]) == ALL
    assert not [
        path.name
        for path in agent.own.glob("*")
        if path.name in ("trial.txt", "injection-without.txt")
    ]


def test_fork_goes_by_what_its_original_was_told(agent: Agent, tmp_path: Path) -> None:
    agent.call("trial", "start", "--yes")
    for original, name in (({"pat-001"}, "f-1"), (set(), "f-2")):
        assert told(agent, name, "fork") == set()
        session = Session("s-0")
        for one in original:
            session.starts(f"[{one}] helpful=0 harmful=0 :: Write the failing test first.")
        path = session.user("Fix it.").agent("Done.").fork(name).write(tmp_path / f"{name}.jsonl")
        assert bool(told(agent, name, "compact", transcript_path=str(path))) == bool(original)


def test_changed_playbook_is_rendered_for_both_arms(
    agent: Agent,
) -> None:
    agent.call("trial", "start", "--yes")
    arms = sessions_by_arm(agent)
    agent.call("add", "ctx", "The shop is in Lyon.")
    agent.playbook.write_text(
        agent.playbook.read_text().replace("Keep functions small.", "Keep modules small.")
    )
    assert (told(agent, arms[True][0]), told(agent, arms[False][0])) == (set(), ALL | {"ctx-001"})
    assert "Keep modules small." in agent.hook("SessionStart", session_id=arms[False][0])


def test_start_line_is_equal_in_both_arms(agent: Agent) -> None:
    agent.call("trial", "start", "--yes")
    arms, lines = sessions_by_arm(agent), set()
    agent.environ["CLAUDE_ENV_FILE"] = "x"
    for sessions in arms.values():
        lines.add(json.loads(agent.hook("SessionStart", session_id=sessions[0]))["systemMessage"])
    assert lines == {"playbook: 4 rules · a trial runs"}
    doctor = " ".join(agent.call("doctor", code=None).out.split())
    assert "50% of sessions do not get the playbook" in doctor
    assert "trial     no result yet: 0 of the 40 sessions" in agent.call("status").out


def test_stale_note_is_removed_and_broken_withholds_nothing(agent: Agent) -> None:
    (agent.own / "trial.txt").write_bytes(b"pl1:00 500000 9 *\n")
    agent.call("drain")
    assert not (agent.own / "trial.txt").exists()
    agent.call("trial", "start", "--yes")
    whole = (agent.own / "trial.txt").read_bytes()
    for note in (b"", b"\xff", b"pl1:zz 500000 9 *\n", b"pl1:00\n", whole.replace(b" *", b"")):
        (agent.own / "trial.txt").write_bytes(note)
        assert told(agent, sessions_by_arm(agent)[True][0]) in (ALL, set())


def test_rules_in_agent_files_are_exempt(
    agent: Agent,
) -> None:
    (agent.project / "CLAUDE.md").write_text("Rules:\n* keep functions  SMALL!\n")
    assert "pat-002 is shown in every session" in agent.call("trial", "start", "--yes").err
    (opened,) = agent.events("trial.opened")
    assert opened["data"]["exempt"] == ["pat-002"]
    assert told(agent, sessions_by_arm(agent)[True][0]) == {"pat-002"}
    assert "a trial is already running" in agent.call("trial", "start", "--yes", code=2).err
    agent.call("trial", "stop")
    assert "is also in" in agent.call("trial", "start", "pat-002", "--yes", code=2).err
    agent.call("remove", *sorted(ALL - {"pat-002"}))
    assert ("a trial cannot withhold any rule, because each rule is pinned") in agent.call(
        "trial", "start", "--yes", code=2
    ).err
    agent.call("mirror", "AGENTS.md")
    assert (
        "always reads AGENTS.md, and this file contains the whole playbook"
        in agent.call("trial", "start", "--yes", code=2).err
    )


def test_long_trial_needs_yes_without_a_terminal(agent: Agent) -> None:
    assert "more than half a year: add --yes" in agent.call("trial", "start", code=2).err
    assert agent.events("trial.opened") == []
    assert "no trial is running" in agent.call("trial", "stop", code=2).err
    assert agent.json("trial", "status") is None
    assert "has not had a trial" in agent.call("trial", "status").err


# -- where a trial decides
# -------------------------------------------------------------------------------------------


def exported(agent: Agent, folder: Path) -> Path:
    file = folder / "ledger.ndjson"
    file.write_text(agent.call("export", "--format", "ndjson").out)
    return file


def withholds(agent: Agent, arms: dict[bool, list[str]]) -> bool:
    """Return whether the sessions that a trial drew go without on a machine, where all others
    are told.
    """
    assert all(told(agent, session) for session in arms[False])
    answers = {bool(told(agent, session)) for session in arms[True]}
    assert len(answers) == 1
    return answers == {False}


@pytest.mark.parametrize("way", slow_except(["merged"], ["merged", "loaded", "forward"]))
def test_imported_trial_withholds_nothing(agent: Agent, tmp_path: Path, way: str) -> None:
    other = Agent.bare(tmp_path / "other")
    if way == "merged":
        other.call("add", "oth", "Use the other machine's cache.")
    elif way == "forward":
        other.call("import", exported(agent, tmp_path))
    agent.call("trial", "start", "--yes")
    arms = sessions_by_arm(agent)
    id = agent.json("trial", "status")["id"]
    file = exported(agent, tmp_path)
    (line,) = [
        line for line in other.call("import", file).err.splitlines() if "trial" in line.lower()
    ]
    reason = "was started in another ledger, so it does not withhold rules in this ledger"
    assert f"trial {id[:8]} {reason}" in line
    assert ("reflector trial start" if way == "merged" else "reflector ledger take") in line
    assert "trial" not in other.call("import", file, code=None).err.replace(id, "")
    assert not withholds(other, arms)
    assert withholds(agent, arms)
    assert other.json("trial", "status")["state"] == "elsewhere"
    assert (
        "in another ledger, and withholds nothing in this project"
        in other.call("trial", "status").out
    )
    assert "in another ledger, and withholds nothing in this project" in other.call("status").out
    assert "a trial runs" not in other.call("doctor", code=None).out
    assert id[:8] in other.call("trial", "stop", code=2).err
    assert other.call("verify").out == ""
    other.call("trial", "start", "--yes")
    assert other.json("trial", "status")["state"] == "open"
    assert withholds(other, sessions_by_arm(other))


@pytest.mark.parametrize("way", first_fast(1, ["take", "restore"]))
def test_moved_ledger_goes_on_with_its_trial(agent: Agent, tmp_path: Path, way: str) -> None:
    agent.call("trial", "start", "--yes")
    arms = sessions_by_arm(agent)
    other = Agent.bare(tmp_path / "other")
    if way == "take":
        other.call("import", exported(agent, tmp_path))
        told_of = other.call("ledger", "take", "--yes").err
    else:
        agent.call("ledger", "backup", tmp_path / "backup.db")
        told_of = other.call("ledger", "restore", tmp_path / "backup.db").err
    assert "in this project: 50% of sessions start without the playbook" in told_of
    assert withholds(other, arms)
    other.call("trial", "stop")
    assert not withholds(other, arms)


def test_ledger_put_back_goes_on_with_its_trial(agent: Agent) -> None:
    agent.call("trial", "start", "--yes")
    arms = sessions_by_arm(agent)
    shutil.rmtree(agent.state)
    agent.call("ledger", "take", "--yes")
    assert withholds(agent, arms)


def test_trial_of_a_named_ledger_decides_for_all(agent: Agent, tmp_path: Path) -> None:
    """`ledger_url` names one ledger for several projects or people, and its trial is theirs."""
    other = Agent.in_folder(tmp_path / "other")
    for one in (agent, other):
        one.environ["REFLECTOR_LEDGER_URL"] = f"sqlite:///{tmp_path}/shared.db"
    agent.call("add", "ctx", "The shop is in Lyon.")
    agent.call("trial", "start", "--yes")
    other.call("add", "ctx", "The shop has a cellar.")
    assert withholds(other, sessions_by_arm(agent))


def test_trial_compares_sessions_of_its_own_ledger(
    tmp_path: Path, settle: Callable[[], None]
) -> None:
    settle()
    with (
        Ledger.open_file(tmp_path / "a.db") as ledger,
        Ledger.open_file(tmp_path / "b.db") as other,
    ):
        ledger.append([added("pat-001")])
        load_ledger(other, [*lines_of(ledger)])
        began = opened(ledger)
        for machine, numbers in ((ledger, range(5)), (other, range(10, 17))):
            machine.append([event for number in numbers for event in ended(number, began=began)])
        for one, two in ((ledger, other), (other, ledger)):
            lines = [*lines_of(two)]
            merge_ledger(one, lambda lines=lines: lines)  # type: ignore[misc]
        for machine in (ledger, other):
            found = current_status(machine)
            assert found.told.sessions + found.without.sessions == 5
        stop(ledger)
        assert trial_findings(ledger) == []


def test_last_window_of_all_ledgers_decides(ledger: Ledger) -> None:
    began = datetime(2025, 11, 1, tzinfo=UTC)
    with Ledger.open("sqlite://") as other:
        other.append(ended(1, began=began, tests="fails"))
        lines = [*lines_of(other)]
    ledger.append(ended(2, root="s-1", began=began, tests="passes"))
    merge_ledger(ledger, lambda: lines)
    (session,) = sessions_of(ledger)
    assert session.facts["tests"] == "passes"


def test_earlier_trial_compares_sessions_of_all_ledgers(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, settle: Callable[[], None]
) -> None:
    monkeypatch.setattr(of_sessions, "_STOP", of_sessions._STOP_OF_ALL)
    began = opened(ledger)
    settle()
    with Ledger.open("sqlite://") as other:
        other.append([event for number in range(7) for event in ended(number, began=began)])
        lines = [*lines_of(other)]
    merge_ledger(ledger, lambda: lines)
    monkeypatch.undo()
    found = current_status(ledger)
    assert found.unsettled + found.told.sessions + found.without.sessions == 7


# -- what a trial says
# -----------------------------------------------------------------------------------------------


def ended(
    number: int,
    *,
    root: str | None = None,
    began: datetime,
    actor: str = "hook:SessionEnd",
    **facts: Any,
) -> list[NewEvent]:
    """Return the events of a session that ended."""
    session = f"s-{number}"
    recorded = replace(window(number, session, keys=[number]), actor=actor)
    came = Outcome(began=began.isoformat(), ended=began.isoformat(), turns=2, words=1, **facts)
    return [recorded, outcome_event(recorded, root or session, came)]


@pytest.fixture
def settle(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Settle each outcome at once instead of after a day."""
    return lambda: monkeypatch.setattr(of_sessions, "SETTLES", timedelta(0))


def opened(ledger: Ledger, **more: Any) -> datetime:
    given = {"bullets": [], "exempt": [], "share": 0.5, "outcome": "correction-free"} | more
    start(ledger, **given)
    return datetime.fromisoformat(current_status(ledger).opened_at) + timedelta(seconds=1)


def test_trial_compares_drawn_sessions_in_a_sentence(
    ledger: Ledger, settle: Callable[[], None]
) -> None:
    assert current_status(ledger) is None
    began = opened(ledger)
    (trial,) = ledger.events(types=[ev.TRIAL_OPENED])
    draw = Random(3)
    good = {True: 0, False: 0}
    for number in range(160):
        withheld = is_withheld(trial.data["key"], 500_000, f"s-{number}")
        bad = draw.random() < (0.75 if withheld else 0.15)
        good[withheld] += not bad
        ledger.append(ended(number, began=began, corrections=int(bad)))
    before = current_status(ledger)
    assert (before.unsettled, before.verdict) == (160, "early")
    left_out = [
        *ended(900, began=began - timedelta(days=1)),
        *ended(901, began=began, actor="ingest"),
        *ended(902, began=began, root="s-1", corrections=1),
    ]
    ledger.append(left_out)
    settle()
    found = current_status(ledger)
    assert (found.told.sessions + found.without.sessions, found.unsettled) == (160, 0)
    # s-1 and its fork are one
    assert abs(found.told.good - good[False]) + abs(found.without.good - good[True]) <= 1
    assert (found.verdict, (found.low or 0) > 0) == ("helps", True)
    assert re.fullmatch(r"helps by \d+ percentage points \(between \d+ and \d+\)", found.sentence)
    closed = stop(ledger)
    assert (closed, closed.state, closed.sentence) == (
        current_status(ledger),
        "closed",
        found.sentence,
    )
    assert trial_findings(ledger) == []
    with pytest.raises(Mistake, match=r"no trial is running.*`reflector trial plan`"):
        stop(ledger)


def test_an_outcome_is_settled_after_a_day(ledger: Ledger, settle: Callable[[], None]) -> None:
    began = opened(ledger)
    ledger.append(ended(1, began=began))
    settle()
    ledger.append(ended(2, began=began, root="s-1", corrections=1))
    found = current_status(ledger)
    assert (found.told.good + found.without.good, found.told.sessions + found.without.sessions) == (
        1,
        1,
    )


def test_the_clock_of_a_trial_is_now(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    began = opened(ledger)
    ledger.append(ended(1, began=began))
    monkeypatch.setattr(of_sessions, "SETTLES", timedelta(microseconds=1))
    head = ledger.head().position
    assert [current_status(ledger, upto=upto).unsettled for upto in (None, head)] == [0, 1]
    assert stop(ledger).unsettled == 0
    assert current_status(ledger).unsettled == 0
    assert trial_findings(ledger) == []


@pytest.mark.parametrize("day", ["2020-01-01", "2990-01-01"])
def test_a_chosen_time_of_a_result_is_found(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, day: str
) -> None:
    opened(ledger)
    monkeypatch.setattr(of_sessions, "later_than", lambda _: f"{day}T00:00:00.000000Z")
    stop(ledger)
    assert [finding.code for finding in trial_findings(ledger)] == ["trial"]


def test_chosen_key_of_an_own_trial_is_found(ledger: Ledger) -> None:
    opened(ledger)
    (trial,) = ledger.events(types=[ev.TRIAL_OPENED])
    chosen = ev.NewEvent(ev.TRIAL_OPENED, "c" * 32, {**trial.data, "key": KEY}, ev.HUMAN)
    ledger.append([chosen], tx=ledger.draw())
    assert [finding.position for finding in trial_findings(ledger)] == [2]


def test_plan_and_report_know_the_same_sessions(ledger: Ledger) -> None:
    now = datetime.now(UTC)
    ledger.append(ended(1, began=now))
    silent = window(2, "s-2", keys=[2])
    outcome = Outcome(began=now.isoformat(), ended=now.isoformat(), turns=1)
    ledger.append([silent, outcome_event(silent, "s-2", outcome)])
    known = sum(week.sum("known") for week in weeks(ledger, Past(ledger)))
    assert (plan(ledger).known, known) == (0.5, 1)


@pytest.mark.slow
def test_plan_uses_own_sessions_and_dilutes_rare_bullets(
    ledger: Ledger,
) -> None:
    now = datetime.now(UTC)
    for number in range(60):
        ledger.append(
            ended(
                number,
                began=now - timedelta(days=28 - number / 2),
                corrections=int(number % 3 == 0),
            )
        )
    found = plan(ledger)
    assert (found.sessions, found.rate, found.known) == (60, 0.667, 1.0)
    assert 13 < found.weekly < 16
    halves = {one.points: one.weeks for one in found.lengths}
    assert (halves[5] is None and halves[10] is None) or halves[10] > 40
    assert 10 < halves[20] < 17
    assert 5 < halves[30] < 9
    assert found.is_long is False
    assert all(one.weeks is None for one in plan(ledger, bullets=["pat-009"]).lengths)


# -- what verify finds
# -----------------------------------------------------------------------------------------------


def test_chosen_key_and_unfounded_result_are_found(
    ledger: Ledger, settle: Callable[[], None]
) -> None:
    began = opened(ledger)
    ledger.append([event for number in range(50) for event in ended(number, began=began)])
    settle()
    (trial,) = ledger.events(types=[ev.TRIAL_OPENED])
    forged = {
        "verdict": "helps",
        "told": {"sessions": 30, "good": 30},
        "without": {"sessions": 20, "good": 1},
    }
    data = forged | {
        "difference": "0.9000",
        "interval": {"low": "0.5", "high": "1"},
        "sessions": "0" * 64,
    }
    ledger.append(
        [NewEvent(ev.TRIAL_CLOSED, identity("x"), data, "human", target_id=trial.event_id)]
    )
    chosen = dict(trial.data or {}) | {"key": KEY}
    ledger.append([NewEvent(ev.TRIAL_OPENED, identity("y"), chosen, "human")])
    assert [one.message.partition(",")[0] for one in trial_findings(ledger)] == [
        "the recorded result of the trial differs from the result that reflector computes from "
        "the trial's sessions",
        "the trial's key does not match the event before the trial",
    ]


def test_history_gets_outcomes_of_earlier_versions(agent: Agent, tmp_path: Path) -> None:
    with agent.open_ledger() as ledger:
        path = Session("s-1").user("Fix it.").agent("Done.").write(tmp_path / "t.jsonl")
        took = take_in(ledger, Source(path, "ingest"))
        recorded = ledger.event(took.event_id or "")
        data = dict(recorded.data or {}) | {"agent": "earlier"}
        ledger.append(
            [
                NewEvent(
                    recorded.type, identity("earlier"), data, "hook:SessionEnd", session_id="s-2"
                )
            ]
        )
        ((window, came),) = missing_outcomes(ledger)
        assert (window.session_id, came.data["root"], came.data["turns"]) == ("s-2", "s-2", 1)
        ledger.append([came])
        assert list(missing_outcomes(ledger)) == []
        path.unlink()
        assert [one.root for one in sessions_of(ledger)] == ["s-1", "s-2"]


# -- a campaign
# ------------------------------------------------------------------------------------------


def rewritten(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change a ledger's events, and compute every hash, position and table anew: all that a
    forger can do.
    """
    with forging(path) as connection:
        name, origin = connection.execute("SELECT name, origin FROM playbook").fetchone()
        columns = ", ".join(Stored._fields)
        stored = map(
            Stored._make, connection.execute(f"SELECT {columns} FROM event ORDER BY position")
        )
        rows = [row._asdict() for row in stored]
        change(rows)
        connection.execute("DELETE FROM event")
        chain = genesis(name, origin)
        for position, row in enumerate(rows, start=1):
            row["position"] = position
            row["data"], row["data_hash"] = sealed(json.loads(row["data"]))
            _, meta_hash = sealed(json.loads(row["meta"]))
            row["chain"] = chain = next_chain(
                chain, tuple(row.values())[:10], row["data_hash"], meta_hash
            )
            values = ",".join("?" * len(row))
            connection.execute(
                f"INSERT INTO event (playbook_id, {columns}) VALUES (1, {values})",
                tuple(row.values()),
            )
        connection.execute("UPDATE playbook SET position = ?, chain = ?", (len(rows), chain))
    with Ledger.open_file(path) as ledger:
        ledger.rebuild()


def removed(rows: list[dict[str, Any]], draw: Random) -> None:
    session = draw.choice([row["session_id"] for row in rows if row["type"] == ev.SESSION_OUTCOME])
    rows[:] = [row for row in rows if row["session_id"] != session]


def added_one(rows: list[dict[str, Any]], draw: Random) -> None:
    of = [row for row in rows if row["session_id"] == "s-0"]
    new = [dict(row, session_id="s-new", event_id=f"{draw.getrandbits(128):032x}") for row in of]
    new[1]["target_id"] = new[0]["event_id"]
    new[1]["data"] = new[1]["data"].replace('"s-0"', '"s-new"')
    at = draw.randrange(3, len(rows) - 12)
    rows[at:at] = [dict(row, recorded_at=rows[at - 1]["recorded_at"]) for row in new]


def reassigned(rows: list[dict[str, Any]], draw: Random) -> None:
    row = draw.choice([row for row in rows if row["type"] == ev.SESSION_OUTCOME])
    row["data"] = row["data"].replace(f'"{row["session_id"]}"', f'"other-{draw.random()}"')


def another_outcome(rows: list[dict[str, Any]], draw: Random) -> None:
    row = draw.choice([row for row in rows if row["type"] == ev.SESSION_OUTCOME][:-6])
    data = json.loads(row["data"])
    row["data"] = json.dumps(data | {"corrections": 1 - data["corrections"]})


def another_rule(rows: list[dict[str, Any]], draw: Random) -> None:
    (row,) = [row for row in rows if row["type"] == ev.TRIAL_OPENED]
    change = draw.choice(
        [{"share": draw.randrange(10**5, 4 * 10**5)}, {"outcome": "kept"}, {"exempt": ["pat-001"]}]
    )
    row["data"] = json.dumps(
        json.loads(row["data"]) | change | {"until": f"20{draw.randrange(30, 99)}-01-01T00:00:00Z"}
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Anchor]]:
    """A ledger with a trial of 30 sessions, and the heads that were noted at its start and twice
    since.
    """
    path = tmp_path_factory.mktemp("kept") / "ledger.db"
    anchors = []
    with Ledger.open_file(path) as ledger:
        ledger.append([added("pat-001")])
        began = opened(ledger)
        for numbers in (range(0), range(15), range(15, 30)):
            for number in numbers:
                ledger.append(ended(number, began=began, corrections=number % 2))
            head = ledger.head()
            anchors.append(Anchor(head.position, head.chain))
    return path, anchors


@pytest.mark.parametrize(
    "how", first_fast(2, [removed, added_one, reassigned, another_outcome, another_rule])
)
def test_change_before_an_anchor_is_found_with_it(
    kept: tuple[Path, list[Anchor]],
    tmp_path: Path,
    how: Callable[[list[dict[str, Any]], Random], None],
) -> None:
    path, anchors = kept
    for seed in range(examples(20)):
        copy = tmp_path / f"{seed}.db"
        shutil.copy(path, copy)
        rewritten(copy, lambda rows, seed=seed: how(rows, Random(seed)))  # type: ignore[misc]
        found = verify_opening(lambda copy=copy: Ledger.open_file(copy), *anchors).findings  # type: ignore[misc]
        assert [one.code for one in found], (how.__name__, seed)
        assert verify_opening(lambda copy=copy: Ledger.open_file(copy)).findings == ()  # type: ignore[misc]


def test_honest_growing_ledger_passes(kept: tuple[Path, list[Anchor]], tmp_path: Path) -> None:
    path, anchors = kept
    for seed in range(examples(100)):
        copy, draw = tmp_path / f"{seed}.db", Random(seed)
        shutil.copy(path, copy)
        with Ledger.open_file(copy) as ledger:
            for number in range(100, 100 + draw.randrange(4)):
                ledger.append(ended(number, began=datetime.now(UTC), corrections=draw.randrange(2)))
            if draw.random() < 0.5:
                stop(ledger)
                ledger.append(ended(200, began=datetime.now(UTC)))
            assert trial_findings(ledger) == []
        assert verify_opening(lambda copy=copy: Ledger.open_file(copy), *anchors).findings == ()  # type: ignore[misc]


#: Does what CLAUDE.md says, notes its arm, and costs two cents.
SCRIPT = """\
grep -q "failing test" CLAUDE.md 2>/dev/null && touch test_first \
    && echo with >> "$ARMS" || echo without >> "$ARMS"
grep -q "total" && echo "$PROMPT" >> "$ARMS" && test -f cart.py && echo '{"total_cost_usd": 0.02}'
"""


@pytest.fixture
def tasked(tmp_path: Path) -> Agent:
    tasked = Agent.in_folder(tmp_path)
    for name, passes in (("one", "test -f test_first"), ("two", "test -f cart.py")):
        task = tmp_path / "tasks" / name
        (task / "files").mkdir(parents=True)
        (task / "prompt.md").write_text("Fix the total.")
        (task / "check").write_text(passes)
        (task / "files" / "cart.py").write_text("")
    tasked.environ["ARMS"] = str(tmp_path / "arms")
    return tasked


def test_each_task_is_compared_with_and_without(tasked: Agent, tmp_path: Path) -> None:
    run = ["trial", "run", tmp_path / "tasks", SCRIPT]
    assert "allowed this command and these files: add --yes" in tasked.call(*run, code=2).err
    told = tasked.call(*run, "--yes").out
    assert "one/check: test -f test_first" in told
    arms = (tmp_path / "arms").read_text().splitlines()
    assert arms[::2] == ["with", "without", "without", "with"] * 2
    assert set(arms[1::2]) == {"Fix the total."}
    rows = [line.split() for line in told.splitlines() if line.startswith("with")]
    assert [(row[0], row[1], row[3]) for row in rows] == [
        ("with", "4/4", "0.08"),
        ("without", "2/4", "0.08"),
    ]
    assert (
        "4 pairs of runs: with the advice, 2 were better and 0 were worse. If the advice had no "
        "effect, 50.0% of such trials would show this difference or a larger one."
    ) in told
    assert tasked.events("session.recorded") == []
    again = tasked.call(*run).out  # the same commands are agreed to
    assert "one/check" not in again
    (tmp_path / "tasks" / "one" / "check").write_text("true")
    assert "add --yes" in tasked.call(*run, code=2).err


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbftest -f cart.py", b"test -f cart.py\r\n"], ids=["mark", "line ends"]
)
@pytest.mark.usefixtures("tasked")
def test_check_saved_on_windows_runs(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tasks" / "one" / "check").write_bytes(content)
    runs = perform(tasks_in(tmp_path / "tasks")[:1], "true", "Be quick.")
    assert all(run.passed for run in runs)


def test_one_bullet_or_a_file_is_compared_alone(tasked: Agent, tmp_path: Path) -> None:
    run = ["trial", "run", tmp_path / "tasks", SCRIPT, "--yes"]
    assert "with the advice, 0 were better and 0 were worse" in tasked.call(*run, "pat-002").out
    (tmp_path / "rules.md").write_text("Begin with a failing test.")
    assert (
        "with the advice, 2 were better and 0 were worse"
        in tasked.call(*run, tmp_path / "rules.md").out
    )
    assert "does not have a rule 'pat-777'" in tasked.call(*run, "pat-777", code=2).err
    empty = tmp_path / "empty.md"
    empty.write_text("")
    assert f"{empty} is empty" in tasked.call(*run, empty, code=2).err
    assert (
        "does not contain a task"
        in tasked.call("trial", "run", tmp_path / "home", "true", code=2).err
    )


@pytest.mark.slow
@pytest.mark.usefixtures("tasked")
def test_slow_attempt_fails_and_its_processes_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reflector.trials.tasks._LONGEST", 0.2)
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    runs = perform(
        tasks_in(tmp_path / "tasks")[:1], f"sleep 600 > {tmp_path}/held & sleep 600", "Be quick."
    )
    assert [one.passed for one in runs] == [False] * 4
    os.set_blocking(held, True)
    assert os.read(held, 1) == b""  # when nobody holds it any more
    os.close(held)


@pytest.mark.parametrize(
    ("better", "worse", "chance"), [(0, 0, 1.0), (5, 0, 0.0625), (1, 1, 1.0), (9, 1, 22 / 1024)]
)
def test_sign_test_is_exact_and_two_sided(better: int, worse: int, chance: float) -> None:
    assert sign_test(better, worse) == sign_test(worse, better) == pytest.approx(chance)


def test_a_pair_is_one_run_of_each_arm() -> None:
    passed = [True, False, False, False, False, True, True, True]
    runs = [
        Run(told, ok, 1.0, None)
        for told, ok in zip([True, False, False, True] * 2, passed, strict=True)
    ]
    assert pairs(runs) == (1, 1)


def test_a_changed_task_file_asks_again(tasked: Agent, tmp_path: Path) -> None:
    script = tmp_path / "tasks" / "one" / "files" / "run.sh"
    script.parent.mkdir(exist_ok=True)
    script.write_text("true")
    run = ["trial", "run", tmp_path / "tasks", "true"]
    assert re.search(r"^ +[0-9a-f]{16} +one/files/run\.sh$", tasked.call(*run, "--yes").out, re.M)
    tasked.call(*run)
    for change in (lambda: script.write_text(f"touch {tmp_path}/ran"), lambda: script.chmod(0o755)):
        change()
        assert "add --yes" in tasked.call(*run, code=2).err
        assert not (tmp_path / "ran").exists()
        tasked.call(*run, "--yes")


def test_a_changed_script_of_the_command_asks_again(tasked: Agent, tmp_path: Path) -> None:
    script = tasked.project / "agent.sh"
    script.write_text("true")
    run = ["trial", "run", tmp_path / "tasks", f"sh {script}"]
    assert str(script) in tasked.call(*run, "--yes").out
    tasked.call(*run)
    script.write_text("false")
    assert "add --yes" in tasked.call(*run, code=2).err


@pytest.mark.parametrize(
    ("name", "content", "said"),
    first_fast(
        3,
        [
            ("prompt.md", b"\xff", "is not UTF-8"),
            ("check", b"\xff", "is not UTF-8"),
            ("prompt.md", b"a\0b", "contains a NUL character"),
            ("prompt.md", b"a" * 300_000, "has more than 100,000 bytes"),
            ("prompt.md", None, "is a symbolic link"),
            ("files/secret", None, "is a symbolic link"),
        ],
    ),
)
def test_a_strange_task_file_is_refused(
    tasked: Agent, tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    (tmp_path / "secret").write_text("PRIVATE")
    path = tmp_path / "tasks" / "one" / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if content is None:
        path.symlink_to(tmp_path / "secret")
    else:
        path.write_bytes(content)
    told = tasked.call(
        "trial",
        "run",
        tmp_path / "tasks",
        f"cat > {tmp_path}/sent",
        "--yes",
        code=None,
    )
    assert told.code in (1, 2)
    assert f"one/{name}" in told.err
    assert said in told.err
    assert not (tmp_path / "sent").exists()
