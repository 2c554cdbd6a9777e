"""Replies of a judge that are not answers. They count for nothing, are listed, and the question is
asked again until there is an answer.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from reflector.judges.protocol import MOST_QUESTIONS
from tests.conftest import first_fast, slow_except
from tests.judges.api import Api, answer, sound
from tests.road.agent import Agent
from tests.road.sessions import Session

HELPFUL = answer(("pat-001", "helpful"))
TAG = json.loads(HELPFUL)["bullet_tags"][0]
NO_ANSWERS = {
    "no JSON": "I cannot say.",
    "nothing": "",
    "blanks": " \n",
    "cut off": HELPFUL[:-40],
    "a bare list": json.dumps([TAG]),
    "no tags": '{"analysis": "It went well."}',
    "tags that are no list": '{"bullet_tags": {"pat-001": "helpful"}}',
    "a name that was not asked for": answer(("pat-001", "helpful"), ("pat-002", "neutral")),
    "a name of nobody": answer(("pat-999", "helpful")),
    "a name that is none": json.dumps({"bullet_tags": [TAG | {"name": "the first"}]}),
    "another word for a verdict": json.dumps({"bullet_tags": [TAG | {"tag": "good"}]}),
    "a turn that is no number": json.dumps({"bullet_tags": [TAG | {"turn": "3"}]}),
    "escape sequences": "\x1b]0;pwn\x07\x1b[2J\u202e",
}
_FAST = ("a name of nobody", "escape sequences")


def says(text: str) -> Any:
    """Return the API's answer with this text. `sound` would replace an empty text."""
    return sound(text) if text else sound(" ", content=[])


@pytest.fixture
def agent(agent: Agent, api: Api) -> Agent:
    """A project whose sessions a model judges, with one session that cites pat-001."""
    agent.environ |= api.environ(REFLECTOR_BACKEND="anthropic")
    agent.ended()
    return agent


@pytest.mark.parametrize("what", slow_except(_FAST, NO_ANSWERS))
def test_no_answer_is_asked_for_twice_more(agent: Agent, api: Api, what: str) -> None:
    api.else_ = says(NO_ANSWERS[what])
    for _ in range(MOST_QUESTIONS):
        ran = agent.call("drain", code=1)
        assert "\x1b" not in ran.err + ran.out
    assert "does not try again automatically" in ran.err
    for words in ("drain", "list"):
        agent.call(words)
    assert len(api.asked) == MOST_QUESTIONS
    (failure,) = agent.json("status", code=1)["failures"]
    assert (failure["stage"], failure["next_try"]) == ("parse", None)
    assert failure["command"] == "reflector reflect s-1"
    assert agent.json("status", code=1)["windows"] == {"failed": 1}
    assert (agent.events("bullet.tagged"), agent.counters()["pat-001"]) == ([], (0, 0))
    kept = [event["data"]["answer"] for event in agent.events("reflection.answered")]
    assert len(kept) == MOST_QUESTIONS
    assert {one["reading"] for one in agent.json("lab", "reparse")} == {"unreadable"}
    assert (agent.events("bullet.tagged"), agent.json("status", code=1)["windows"]) == (
        [],
        {"failed": 1},
    )
    api.else_ = sound(HELPFUL)
    agent.call("reflect", "s-1")
    assert (agent.json("status")["failures"], agent.counters()["pat-001"]) == ([], (1, 0))
    assert agent.call("verify").out == agent.call("rebuild", "--check").out == ""


@pytest.mark.parametrize(
    "text",
    first_fast(
        1,
        [
            '{"bullet_tags": []}',
            f"Here:\n```json\n{HELPFUL}\n```\nDone.",
            HELPFUL.replace('"pat-001"', '"[pat-001]"'),
        ],
    ),
)
def test_an_answer_is_asked_for_once(agent: Agent, api: Api, text: str) -> None:
    api.else_ = sound(text)
    for _ in range(2):
        agent.call("drain")
    assert (len(api.asked), agent.json("status")["windows"]) == (1, {"completed": 1})


def test_weaker_judge_leaves_the_session_to_a_model(agent: Agent, api: Api) -> None:
    api.else_ = says("This is not JSON.")
    agent.call("drain", code=1)
    agent.environ["REFLECTOR_BACKEND"] = "rules"
    agent.call("drain")
    (failure,) = agent.json("status", code=1)["failures"]
    assert failure["command"] == "reflector reflect s-1 --judge anthropic"
    assert "instead of anthropic, which did not answer" in agent.call("drain", "--retry-failed").out


def test_each_judge_is_asked_as_often(agent: Agent, api: Api) -> None:
    api.else_ = says("no")
    for _ in range(MOST_QUESTIONS + 1):
        agent.call("drain", code=None)
    agent.environ |= {"REFLECTOR_BACKEND": "fixtures", "REFLECTOR_FIXTURES": "answers.jsonl"}
    (agent.project / "answers.jsonl").write_text("")
    assert "does not contain an answer to this request" in agent.call("drain", code=1).err
    assert len(api.asked) == MOST_QUESTIONS


def test_an_earlier_failure_is_read_before_asking(agent: Agent, api: Api) -> None:
    """If a process died between the answer and its reading, the question is not sent twice."""
    api.else_ = says("no")
    assert agent.dies(2, "drain")
    agent.call("drain", code=1)
    assert len(api.asked) == 1


ADVICE = "# X\n\n- Run the linter with mise run lint before you push.\n- Keep answers short.\n"
WORDS = "Please run mise run lint before every push."


@pytest.fixture
def checked(tmp_path: Path, api: Api) -> Agent:
    """A project with a CLAUDE.md of two lines and two sessions."""
    agent = Agent.bare(tmp_path / "checked", api.environ())
    (agent.project / "CLAUDE.md").write_text(ADVICE)
    agent.commit_long_ago()
    for id in ("s-1", "s-2"):
        session = Session(id).user(WORDS).agent("Done.")
        for record in session.records:
            record["cwd"] = str(agent.project)
        session.write(agent.home / ".claude/projects/-x" / f"{id}.jsonl")
    return agent


def found(**parts: Any) -> str:
    tag = {
        "name": "oth-001",
        "relevant": True,
        "followed": "yes",
        "rationale": "x",
        "turn": 1,
        "quote": WORDS,
    }
    return json.dumps(
        {"analysis": "x", "bullet_tags": [tag | {"sure": "sure", "tag": "neutral"} | parts]}
    )


@pytest.mark.parametrize(
    "text",
    slow_except(
        [found()[:-40]],
        [
            "I cannot say.",
            "",
            found()[:-40],
            json.dumps(json.loads(found())["bullet_tags"]),
            found(name="oth-009"),
        ],
    ),
)
def test_check_never_calls_no_answer_unseen(checked: Agent, api: Api, text: str) -> None:
    api.else_ = says(text)
    for tries in range(1, MOST_QUESTIONS + 1):
        ran = checked.call("check", "--yes", code=1)
        assert (ran.err.count("not answered: "), len(api.asked)) == (2, 2 * tries)
        assert "Judges have read 0 sessions" in ran.err
        assert "not seen" not in ran.out
    report = checked.json("check", "--yes")
    assert (report["questions"], report["unanswered"], len(api.asked)) == (0, 2, 2 * MOST_QUESTIONS)
    assert [line["judged"]["sessions"] for line in report["lines"]] == [0, 0]
    assert "reflector check --retry-failed" in checked.call("check", "--yes").err
    failures = checked.json("status", code=1)["failures"]
    assert {one["command"] for one in failures} == {
        "reflector check --judge anthropic --retry-failed --yes"
    }
    assert "check of session s-1" in checked.call("status", code=1).out
    assert "check: parse:" in checked.call("show", "s-1").out
    assert checked.json("status", code=1)["windows"] == {"pending": 2}
    api.else_ = sound(found())
    checked.call("check", "--judge", "anthropic", "--retry-failed", "--yes")
    assert checked.json("status")["failures"] == []
    assert [one["judged"]["sessions"] for one in checked.json("check")["lines"]] == [2, 2]
    assert checked.call("verify").out == ""


def test_check_learns_nothing_from_no_answer(checked: Agent, api: Api) -> None:
    api.else_ = says('{"bullet_tags": [], "proposals": "none"}')
    ran = checked.call("check", "--learn", "--yes", code=1)
    assert "No judge looked for missing rules." in ran.err
    assert "Nothing is missing" not in ran.err
    api.else_ = sound('{"bullet_tags": [], "proposals": []}')
    assert ("The sessions do not show that a rule is missing.") in checked.call(
        "check", "--learn", "--yes"
    ).err


def test_rules_do_not_say_what_is_missing(agent: Agent, api: Api) -> None:
    agent.environ["REFLECTOR_BACKEND"] = "rules"
    path = Session("s-2").cites("pat-001").write(agent.home / "s-2.jsonl")
    agent.hands("SessionEnd", path)
    agent.environ["REFLECTOR_BACKEND"] = "anthropic"
    api.else_ = says("no")
    agent.call("drain", code=1)
    said = agent.call("reflect", "s-2", "--learn", "--judge", "rules").err
    assert (
        "No judge looked for missing rules: the judge rules cannot propose rules; choose a model "
        "with --judge." in said
    )


def test_a_model_proposes_the_first_bullet(tmp_path: Path, api: Api) -> None:
    agent = Agent.in_folder(tmp_path / "empty", {})
    agent.environ |= api.environ(REFLECTOR_BACKEND="anthropic", REFLECTOR_CURATE="true")
    proposal = {
        "kind": "add",
        "section": "pref",
        "text": "Say how the total is added up.",
        "why": "asked for",
    }
    proposal |= {"turn": 3, "quote": "that works. Thanks"}
    api.else_ = sound(json.dumps({"analysis": "x", "bullet_tags": [], "proposals": [proposal]}))
    agent.call("add", "pat", "Only for a ledger.")
    agent.call("remove", "pat-001", "--why", "not needed")
    agent.call("ingest", Session().cites("mis-001").write(agent.home / "s-1.jsonl"))
    assert len(api.asked) == 1
    assert [one["change"]["text"] for one in agent.json("review")["proposals"]] == [
        "Say how the total is added up."
    ]


@pytest.mark.slow
def test_check_leaves_a_window_as_it_was(checked: Agent, api: Api) -> None:
    transcripts = sorted((checked.home / ".claude/projects/-x").iterdir())
    checked.call("ingest", *transcripts)
    checked.call("review", "give-up", "s-1", "--why", "not of use")
    before = checked.json("status", code=None)["windows"]
    api.else_ = says("no")
    checked.call("check", "--yes", code=1)
    assert checked.json("status", code=1)["windows"] == before == {"skipped": 2}
    assert (
        checked.json("stats", "--as-of", str(checked.events()[-1]["position"]))["states"] == before
    )
    assert checked.call("verify").out == ""
