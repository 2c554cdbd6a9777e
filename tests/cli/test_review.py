"""`reflector review`: your verdicts on citations, which replace those of others."""

import random

import pytest

from tests.conftest import first_fast
from tests.road.agent import Agent
from tests.road.sessions import Session

#: What a verdict counts: helpful, harmful.
WORTH = {"helpful": (1, 0), "harmful": (0, 1), "neutral": (0, 0)}


@pytest.fixture
def agent(agent: Agent) -> Agent:
    """A project with a citation that nothing decided, and two that are."""
    cited = [("pat-001", None), ("mis-001", "helpful"), ("pat-001", "harmful")]
    sessions = (Session(f"s-{number}").cites(*each) for number, each in enumerate(cited))
    agent.call("ingest", *(each.write(agent.home / f"{each.id}.jsonl") for each in sessions))
    return agent


def verdict(agent: Agent, session: str, name: str, tag: str, *more: str, code: int = 0) -> str:
    """Give a verdict; what is printed on stderr."""
    return agent.call("review", name, tag, "--session", session, *more, code=code).err


def undecided(agent: Agent, *words: str) -> list[tuple[str, str, str | None]]:
    rows = agent.json("review", *words)["citations"]
    return [(row["session_id"], row["name"], row["verdict"]) for row in rows]


def test_retracted_session_does_not_wait(agent: Agent) -> None:
    agent.call("undo", "s-0", "--why", "a test run")
    assert undecided(agent) == []
    last = agent.events("evidence.retracted")[-1]["position"]
    agent.call("undo", str(last), "--why", "it was none")
    assert undecided(agent) == [("s-0", "pat-001", "neutral")]


def test_verdict_counts_until_it_is_undone(agent: Agent) -> None:
    verdict(agent, "s-0", "pat-001", "helpful", "--why", "it found the bug")
    assert undecided(agent) == []
    assert agent.counters()["pat-001"] == (1, 1)
    assert "it found the bug" in agent.call("blame", "pat-001").out
    (tag,) = [one for one in agent.events("bullet.tagged") if one["actor"] == "human"]
    agent.call("undo", tag["event_id"], "--why", "a slip")
    verdict(agent, "s-0", "pat-001", "harmful")
    assert agent.counters()["pat-001"] == (0, 2)
    assert agent.call("verify").out == agent.call("rebuild", "--check").out == ""


@pytest.mark.parametrize(
    "seed",
    first_fast(
        1, [14, 25, 43, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(60))]
    ),
)
def test_your_last_verdict_is_the_session_s(agent: Agent, seed: int) -> None:
    chance, said = random.Random(seed), []
    session, at_first = (
        Session("s-9").cites("mis-001", chance.choice([None, "helpful", "harmful"])),
        (1, 0),
    )
    agent.call("ingest", session.write(agent.home / "s-9.jsonl"))
    for _ in range(8):
        what, tag = (
            chance.choice(["window", "verdict", "undo"]),
            chance.choice(["helpful", "harmful", "neutral"]),
        )
        if what == "window":
            session.cites("mis-001", tag)
            agent.call("ingest", session.write(agent.home / "s-9.jsonl"))
        elif what == "verdict":
            verdict(agent, "s-9", "mis-001", tag)
            tags = [one for one in agent.events("bullet.tagged") if one["actor"] == "human"]
            said.append((tags[-1]["event_id"], tag))
        elif said:
            agent.call("undo", said.pop()[0])
        helpful, harmful = (
            now - then for now, then in zip(agent.counters()["mis-001"], at_first, strict=True)
        )
        assert (helpful, harmful) == WORTH[said[-1][1]] if said else helpful + harmful <= 1
    assert agent.call("verify").out == agent.call("rebuild", "--check").out == ""


def test_changed_verdict_is_shown_and_comes_back(agent: Agent) -> None:
    assert ("s-1", "mis-001", "helpful") in undecided(agent, "list")
    assert verdict(agent, "s-1", "mis-001", "harmful").splitlines()[0] == (
        "Your verdict on mis-001 in session s-1: harmful."
    )
    assert agent.counters()["mis-001"] == (0, 1)
    assert "your verdict is: harmful" in agent.call("blame", "mis-001").out
    assert "All counting policies give the same totals" in agent.call("stats", "--doubles").out
    verdict(agent, "s-1", "mis-001", "neutral")
    at = agent.events("evidence.retracted")[-1]["position"]
    assert f"mis-001 harmful (retracted at position {at})" in agent.call("show", "mis-001").out
    said = agent.events("bullet.tagged")[-1]["event_id"]
    taken = agent.json("undo", said, "--why", "a slip")["changes"]
    assert agent.counters()["mis-001"] == (0, 1)
    agent.call("undo", str(taken[0]["position"]), "--why", "it was right")
    assert agent.counters()["mis-001"] == (0, 0)


def test_one_key_gives_a_verdict(agent: Agent) -> None:
    agent.counted("pat-002", None, id="s-4")
    ran = agent.call("review", keys="zhs")
    assert "1 of 2  citation that needs a verdict  pat-002, session s-4, " in ran.out
    assert "rule    Keep functions small." in ran.out
    assert "agent   “As [pat-002] says, I change how the cart adds up its total." in ran.out
    assert ran.err.count("Undo: reflector undo ") == 1
    assert "1 decision recorded; 1 still to decide." in ran.err
    assert agent.counters()["pat-002"] == (4, 1)


@pytest.mark.parametrize(("key", "counters"), [("x", (0, 2)), ("n", (0, 1))])
def test_each_key_has_its_verdict(agent: Agent, key: str, counters: tuple[int, int]) -> None:
    agent.call("review", keys=key)
    assert agent.counters()["pat-001"] == counters
    assert undecided(agent) == []


def test_verdict_is_recorded_before_the_next_key(agent: Agent) -> None:
    agent.counted("pat-002", None, id="s-4")
    assert "1 decision recorded; 1 still to decide." in agent.call("review", keys="h").err
    assert agent.counters()["pat-002"] == (4, 1)


def test_key_u_undoes_the_last_decision(agent: Agent) -> None:
    ran = agent.call("review", keys="uhq")
    assert "You have not decided anything yet." in ran.err
    agent.call("undo")
    agent.counted("pat-002", None, id="s-4")
    ran = agent.call("review", keys="huxq")
    assert ran.out.count("1 of 2") == 2
    assert agent.counters()["pat-002"] == (3, 2)


def test_key_m_shows_the_whole_evidence(agent: Agent) -> None:
    session = Session("s-5").user("Fix it.").agent("As [pat-002] says.").user("w" * 999)
    agent.call("ingest", session.agent("Done.").write(agent.home / "s-5.jsonl"))
    shown = agent.call("review", keys="mq").out
    brief, _, whole = shown.partition("> m")
    assert ("w" * 999 in brief, "w" * 999 in whole) == (False, True)


def test_evidence_includes_the_resumed_session(agent: Agent) -> None:
    session = Session("s-5").user("Fix it.").agent("As [pat-002] says, I keep it small.")
    agent.call("ingest", session.write(agent.home / "s-5.jsonl"))
    session.user("fine, but next time use the library").agent("Done.")
    agent.call("ingest", session.write(agent.home / "s-5.jsonl"))
    shown = agent.call("review", keys="mq").out
    assert "resumed " in shown
    assert "you     “fine, but next time use the library”" in shown
    assert "      you  fine, but next time use the library" in shown


def test_list_without_a_terminal_names_the_commands(agent: Agent) -> None:
    ran = agent.call("review")
    assert "pat-001  s-0" in ran.out
    assert "To decide: reflector review NAME helpful|harmful|neutral --session SESSION" in ran.err
    agent.call("review", "pat-001", "neutral", "--session", "s-0")
    assert agent.call("review").err == "Nothing is waiting for you.\n"
    assert agent.call("review", keys="").err == "Nothing is waiting for you.\n"


def test_session_limits_the_queue(agent: Agent) -> None:
    agent.counted("pat-002", None, id="s-4")
    assert undecided(agent, "--session", "s-4") == [("s-4", "pat-002", "neutral")]
    assert "1 of 1" in agent.call("review", "--session", "s-4", keys="q").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    first_fast(
        3,
        [
            ("2f4dbbf8", "reflector review approve 2f4dbbf8, or reflector review reject 2f4dbbf8"),
            ("pat-001", "reflector review pat-001 helpful|harmful|neutral --session SESSION"),
            ("pat-001 helpful --session x", "session 'x' is not recorded"),
            ("pat-001 helpful --session s", "matches several sessions: s-0, s-1, s-2"),
            ("pat-001 helpful", "--session"),
            ("pat-009 harmful --session s-0", "Did you mean pat-002?"),
            ("approv 3fa2", "Did you mean 'approve'?"),
        ],
    ),
)
def test_usage_error_names_the_way_out(agent: Agent, arguments: str, words: str) -> None:
    assert words in agent.call("review", *arguments.split(), code=2).err


def test_error_shows_that_the_session_does_not_cite(agent: Agent) -> None:
    assert "session s-0 does not cite mis-001" in verdict(
        agent, "s-0", "mis-001", "harmful", code=2
    )


def test_error_shows_that_the_rule_is_gone(agent: Agent) -> None:
    agent.call("remove", "pat-001")
    assert "verdicts on pat-001 no longer count" in verdict(
        agent, "s-0", "pat-001", "harmful", code=2
    )


def test_error_shows_that_the_judge_is_not_done(agent: Agent, tmp_path: object) -> None:
    agent.environ |= {"REFLECTOR_BACKEND": "fixtures", "REFLECTOR_FIXTURES": f"{tmp_path}/none"}
    session = Session("s-5").cites("pat-002", None).write(agent.home / "s-5.jsonl")
    agent.call("ingest", session, code=1)
    assert "session s-5 is not judged yet" in verdict(agent, "s-5", "pat-002", "harmful", code=2)
    agent.call("review", "give-up", "s-5", "--why", "the key is gone")
    verdict(agent, "s-5", "pat-002", "harmful")
    assert agent.counters()["pat-002"] == (3, 2)


def test_error_shows_that_the_session_is_out(agent: Agent) -> None:
    agent.call("undo", "s-0", "--why", "a test run")
    assert "session s-0 does not count" in verdict(agent, "s-0", "pat-001", "harmful", code=2)


def test_your_verdict_replaces_one_of_unfollowed_rule(agent: Agent) -> None:
    session = Session("s-9").user("Fix it.").agent("As [pat-002] says, I do it.")
    session.user("No! I told you: keep functions small.").agent("Sorry.")
    agent.call("ingest", str(session.write(agent.project.parent / "s-9.jsonl")))
    assert "Followed in 0 of 1" in agent.call("blame", "pat-002").out
    agent.call("review", "pat-002", "harmful", "--session", "s-9")
    assert "Followed in" not in agent.call("blame", "pat-002").out
    agent.call("undo")
    assert "Followed in 0 of 1" in agent.call("blame", "pat-002").out
