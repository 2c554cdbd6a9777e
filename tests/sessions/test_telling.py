"""Lessons stand beside the bullets that a session is told at its start, and what was told is
recorded.
"""

import hashlib

from reflector.embed.lessons.recording import observe_outcome, record_lesson
from reflector.handover import MAX_TOLD, TOLD
from reflector.playbook.bullet import Bullet
from reflector.sessions.injection import (
    LESSONS,
    LIMIT,
    LessonBullet,
    render_injection,
    told_by_hook,
)
from tests.road.agent import Agent
from tests.road.sessions import Session

_FORM = "Advice:\n{key_points}\n"


def test_lessons_rank_among_bullets_within_the_limit() -> None:
    bullets = [Bullet(f"pat-{n:03}", "pat", "x" * 80) for n in range(200)]
    best, worst = (
        LessonBullet("a" * 32, LESSONS, "Look first", 3, 0),
        LessonBullet("b" * 32, LESSONS, "Guess " * 40, 0, 3),
    )
    told = render_injection([*bullets, best, worst], _FORM)
    assert "## LESSONS\n[lesson aaaaaaaa] Look first" in told.text
    assert told.text.index("aaaaaaaa") < told.text.index("pat-000")
    assert "bbbbbbbb" not in told.text
    assert len(told.json) <= LIMIT
    assert told.shown + told.left_out == 200


def _told(agent: Agent) -> list[tuple[str, str, list[str], list[str]]]:
    """(session, source, bullets, lessons) of each telling."""
    found = agent.events("advice.told")
    return [
        (e["session_id"], e["data"]["source"], e["data"]["bullets"], e["data"]["lessons"])
        for e in found
    ]


def _end(agent: Agent, session: Session) -> None:
    agent.hands("SessionEnd", session.write(agent.home / f"{session.id}.jsonl"), drain=True)


NAMES = ["pat-002", "pat-001", "mis-001"]


def test_start_repeated_in_a_transcript_is_recorded_once(
    agent: Agent,
) -> None:
    session = Session("s-1").starts(agent.hook("SessionStart")).cites("pat-001")
    _end(agent, session)
    _end(agent, session)
    (window,), (told,) = agent.events("session.recorded"), agent.events("advice.told")
    assert (told["target_id"], told["position"]) == (window["event_id"], window["position"] + 1)
    assert _told(agent) == [("s-1", "transcript", NAMES, [])]
    printed = agent.hook("SessionStart")
    # pat-001 helped meanwhile
    assert told["data"]["digest"] != hashlib.sha256(printed.strip().encode()).hexdigest()
    _end(agent, session.starts(printed).agent("Here again."))
    assert [one["data"]["digest"] for one in agent.events("advice.told")] == [
        told["data"]["digest"],
        hashlib.sha256(printed.strip().encode()).hexdigest(),
    ]


def test_telling_waits_for_a_message_and_skips_forks(
    agent: Agent,
) -> None:
    session = Session("s-1").agent("Hello.").starts(agent.hook("SessionStart"))
    _end(agent, session.user("/clear"))
    assert _told(agent) == []
    _end(agent, session.agent("I go on."))
    _end(agent, session.fork("s-2").agent("On my own from here."))
    assert _told(agent) == [("s-1", "transcript", NAMES, [])]


def test_the_same_lines_in_anybodys_words_tell_nothing(agent: Agent) -> None:
    printed = agent.call("export", "--format", "md").out
    session = (
        Session("s-1").user(f"Look:\n{printed}").agent(printed).runs("cat playbook.md", printed)
    )
    session.starts(printed, "PostToolUse").starts("Another hook's words").agent("I see.")
    _end(agent, session)
    assert len(agent.events("session.recorded")) == 1
    assert _told(agent) == []


def test_hooks_record_replaces_a_silent_transcript_once(
    agent: Agent,
) -> None:
    agent.hook("SessionStart", session_id="s-1")
    session = Session("s-1").user("/clear")
    _end(agent, session)
    assert _told(agent) == []  # the model got nothing yet
    _end(agent, session.cites("pat-001", None))
    agent.hook("SessionStart", session_id="s-1", source="compact")
    _end(agent, session.agent("Here again."))
    _end(agent, Session("s-2").cites("pat-001", None))
    assert _told(agent) == [("s-1", "hook", NAMES, [])]


def test_hooks_record_is_bounded_to_the_newest(agent: Agent) -> None:
    agent.hook("SessionStart", session_id="s-0")
    kept = agent.own / TOLD
    line = kept.read_bytes()
    kept.write_bytes(
        b"".join(line.replace(b"s-0", b"old-%d" % n) for n in range(MAX_TOLD // len(line)))
    )
    agent.hook("SessionStart", session_id="s-1")
    assert len(kept.read_bytes()) < MAX_TOLD
    assert told_by_hook(agent.project, "s-1")[0].bullets == tuple(NAMES)
    assert told_by_hook(agent.project, "old-0") == ()


def test_trusted_lesson_is_told_with_its_id(agent: Agent) -> None:
    agent.call("list")
    with agent.open_ledger() as ledger:
        id = record_lesson(ledger, "mistake", "Always add auth <system-reminder>", actor="engine")
        observe_outcome(ledger, id, "success", source="api")
    agent.call("add", "oth", "Something new")
    text = agent.hook("SessionStart")
    assert f"[lesson {id[:8]}] Always add auth &lt;system-reminder>" in text
    _end(agent, Session("s-1").starts(text).cites("pat-001"))
    assert _told(agent)[0][3] == [id]
    found = agent.json("show", id)
    assert found["times_applied"] == 1
    (told,) = [event for event in found["events"] if event["type"] == "advice.told"]
    assert (told["session_id"], told["data"]["via"], told["data"]["lessons"]) == (
        "s-1",
        "injection",
        [id],
    )
    for _ in range(3):
        agent.call("lessons", "outcome", id, "bad", "--why", "it was wrong")
    assert id[:8] not in agent.hook("SessionStart")
