"""From what a session says to a wish and a proposal: by rules, and by a model that reads the
reflection.
"""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from reflector.curator.listening import wishes
from reflector.transcripts.message import Message
from tests.conftest import first_fast
from tests.judges.api import Api, answer, sound
from tests.road.agent import Agent
from tests.road.sessions import Session

WISH = "Always run the linter before you push."


def take(agent: Agent, session: Session) -> str:
    return agent.call("ingest", session.write(agent.project.parent / f"{session.id}.jsonl")).err


def waiting(agent: Agent) -> list[tuple[str, str]]:
    return [(one["origin"], one["change"]["text"]) for one in agent.json("review")["proposals"]]


def test_wish_becomes_one_proposal_with_its_quote(agent: Agent) -> None:
    session = Session("s-1").user(f"Fix the cart. {WISH}").agent("Done.")
    assert "1 proposal waits for your decision" in take(agent, session)
    take(agent, session)
    take(agent, session.fork("s-2"))
    (proposal,) = agent.json("review")["proposals"]
    assert (proposal["origin"], proposal["trust"], proposal["actor"]) == (
        "rules",
        "person",
        "rules",
    )
    (quote,) = proposal["evidence"]
    assert (quote["text"], quote["by"], quote["session"]) == (WISH, "person", "s-1")
    assert len(agent.events("wish.heard")) == 1
    assert agent.call("verify").out == ""


@pytest.mark.slow
def test_killed_intake_still_proposes_the_wish_once(
    tmp_path: Path,
) -> None:
    ends: list[list[str]] = []
    for appends in count(1):
        folder = tmp_path / str(appends)
        folder.mkdir()
        agent = Agent.in_folder(folder)
        path = (
            Session("s-1")
            .cites("pat-001", "harmful")
            .user(WISH)
            .agent("Done.")
            .write(folder / "s-1.jsonl")
        )
        killed = agent.dies(appends, "ingest", path)
        agent.call("ingest", path)
        ends.append([event["event_id"] for event in agent.events()])
        assert waiting(agent) == [("rules", WISH)]
        if not killed:
            break
    assert len(ends) > 3
    assert all(end == ends[-1] for end in ends)


def test_correction_is_proposed_after_a_second_session(agent: Agent) -> None:
    take(agent, Session("s-1").user("No, use pnpm instead of npm.").agent("Done."))
    take(
        agent,
        Session("s-1")
        .user("No, use pnpm instead of npm.")
        .user("No, use pnpm instead of npm.")
        .agent("Done."),
    )
    assert waiting(agent) == []
    take(agent, Session("s-2").user("Please use pnpm rather than npm").agent("Done."))
    (proposal,) = agent.json("review")["proposals"]
    assert [quote["session"] for quote in proposal["evidence"]] == ["s-1", "s-2"]


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ("No, use rg, not grep.", "rg instead of grep please, I said so", "Use rg, not grep."),
        (
            "please don't add comments that restate the code",
            "again: no comments that describe the next line",
            "Don't add comments that restate the code.",
        ),
        (
            "The PR body is too long again.",
            "Please keep the PR description short.",
            "Keep the PR description short.",
        ),
        (
            "Don't clean up unrelated code while you are in a file.",
            "Keep your changes minimal.",
            "Don't clean up unrelated code while you are in a file.",
        ),
        (
            "Also, write commit messages in the imperative.",
            "And write commit messages in the imperative, as I said.",
            "Write commit messages in the imperative.",
        ),
    ],
)
def test_wish_in_other_words_is_proposed(agent: Agent, first: str, second: str, text: str) -> None:
    take(agent, Session("s-1").user("Fix it.").agent("Done.").user(first).agent("Ok."))
    assert waiting(agent) == []
    take(agent, Session("s-2").user("Fix it.").agent("Done.").user(second).agent("Ok."))
    assert waiting(agent) == [("rules", text)]


def test_aim_of_waiting_proposal_is_proposed_once(agent: Agent) -> None:
    take(agent, Session("s-1").user("Never touch code outside the task.").agent("Done."))
    take(agent, Session("s-2").user("I always want only what the issue asks for.").agent("Done."))
    assert waiting(agent) == [("rules", "Never touch code outside the task.")]
    assert len(agent.events("wish.heard")) == 2


def test_wish_with_same_words_is_proposed_once(agent: Agent) -> None:
    wishes_said = (
        "Always show me the diff before you commit.",
        "always show me the diff before committing",
        "From now on, before you commit, show me the diff.",
    )
    for number, words in enumerate(wishes_said):
        take(agent, Session(f"s-{number}").user(words).agent("Done."))
    assert waiting(agent) == [("rules", wishes_said[0])]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            "PREFER running specific tests over running the entire test suite",
            "don't run the complete suite again",
        ),
        (
            "Start Python with `uv run`, never with bare `python`.",
            "From now on always start Python through `uv run`, never bare `python`.",
        ),
    ],
)
def test_wish_that_a_file_has_is_not_proposed(agent: Agent, rule: str, words: str) -> None:
    (agent.project / "AGENTS.md").write_text(f"- Keep functions short.\n- {rule}\n")
    take(agent, Session("s-1").user(words).agent("Done."))
    assert waiting(agent) == []
    assert len(agent.events("wish.heard")) == 1


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("Use rg, not grep", ("No, use rg, not grep.", "rg instead of grep please")),
        ("Be brief.", ("The PR body is too long again.", "your PR body is too long")),
    ],
)
def test_answered_or_unfit_wish_is_not_proposed(
    agent: Agent, rule: str, said: tuple[str, str]
) -> None:
    agent.call("add", "pat", rule)
    for number, words in enumerate(said):
        take(agent, Session(f"s-{number}").user(words).agent("Done."))
    assert waiting(agent) == []
    assert len(agent.events("wish.heard")) == 2


def test_wish_that_the_playbook_has_is_not_proposed(agent: Agent) -> None:
    agent.call("add", "pref", "Make sure that you always run the linter before you push")
    take(agent, Session("s-1").user(WISH).agent("Done."))
    assert waiting(agent) == []
    assert len(agent.events("wish.heard")) == 1


def test_wish_for_a_removed_bullet_proposes_its_return(
    agent: Agent,
) -> None:
    take(agent, Session("s-1").user(WISH).agent("Done."))
    (proposal,) = agent.json("review")["proposals"]
    agent.call("review", "approve", proposal["id"])
    agent.call("remove", "pat-003")
    take(agent, Session("s-2").user(WISH).agent("Done."))
    (proposal,) = agent.json("review")["proposals"]
    assert (proposal["change"]["kind"], proposal["change"]["name"]) == ("restore", "pat-003")
    agent.call("review", "approve", proposal["id"])
    assert agent.counters()["pat-003"] == (0, 0)


@pytest.mark.parametrize("wish", [WISH, "Remember that the parrot lives in parrots.py."])
def test_repeated_wish_keeps_its_undone_proposal(agent: Agent, wish: str) -> None:
    take(agent, Session("s-1").user(wish).agent("Done."))
    (proposal,) = agent.json("review")["proposals"]
    agent.call("review", "approve", proposal["id"])
    agent.call("undo")
    take(agent, Session("s-2").user(wish).agent("Done."))
    assert [one["id"] for one in agent.json("review")["proposals"]] == [proposal["id"]]


@pytest.fixture
def curated(agent: Agent, api: Api) -> Agent:
    """A project whose model is also the curator."""
    agent.environ = {"REFLECTOR_BACKEND": "anthropic", "REFLECTOR_CURATE": "true", **api.environ()}
    return agent


def proposing(*entries: dict[str, Any]) -> str:
    return json.dumps({**json.loads(answer(("pat-001", "helpful"))), "proposals": list(entries)})


_QUOTED = {"turn": 1, "quote": "The total is wrong when a coupon"}
ADD = {
    "kind": "add",
    "section": "ctx",
    "text": ("The cart's tests need Redis."),
    "why": "They failed.",
    **_QUOTED,
}
SEAMS = "Split functions at seams."
NEW = {
    "kind": "supersede",
    "name": "pat-002",
    "section": "pat",
    "text": SEAMS,
    "why": "Too small.",
    **_QUOTED,
}


def test_judging_answer_also_proposes_changes(curated: Agent, api: Api) -> None:
    agents_own = {"turn": 2, "quote": "I change how the cart adds up"}
    api.does = [
        sound(proposing(ADD, NEW | agents_own, {"kind": "remove", "name": "pat-001", **_QUOTED}))
    ]
    take(curated, Session("s-1").cites("pat-001"))
    assert curated.counters()["pat-001"] == (1, 0)
    (asked,) = api.asked
    assert "Propose what the playbook lacks" in asked.text
    added, superseding = curated.json("review")["proposals"]
    assert (added["origin"], added["trust"], added["reason"]) == ("model", "person", "They failed.")
    assert (superseding["change"]["names"], superseding["trust"]) == (["pat-002"], "tool")
    curated.call("drain")
    assert (len(api.asked), len(curated.json("review")["proposals"])) == (1, 2)
    assert curated.call("verify").out == curated.call("rebuild", "--check").out == ""
    # new words take the place and the evidence of the old ones
    curated.call("review", "approve", superseding["id"])
    counters = curated.counters()
    assert "pat-002" not in counters
    assert counters["pat-003"] == (3, 1)


def test_sentence_of_a_wish_is_not_proposed_again(curated: Agent, api: Api) -> None:
    quoted = {"turn": 3, "quote": WISH.removesuffix(".")}
    api.does = [sound(proposing(ADD | {"text": "Use Redis 7 in tests."}, ADD | quoted))]
    take(curated, Session("s-1").cites("pat-001").user(WISH).agent("Ok."))
    assert waiting(curated) == [("rules", WISH), ("model", "Use Redis 7 in tests.")]


@pytest.mark.parametrize(
    "entry",
    first_fast(
        2,
        [
            {"kind": "add"},
            ADD | {"quote": "nobody said this"},
            ADD | {"turn": 2},
            ADD | {"text": "x" * 501},
        ],
    ),
)
def test_proposal_without_its_quote_costs_no_tag(curated: Agent, api: Api, entry: Any) -> None:
    api.does = [sound(proposing(entry))]
    take(curated, Session("s-1").cites("pat-001"))
    assert curated.counters()["pat-001"] == (1, 0)
    assert curated.json("review")["proposals"] == []
    assert curated.call("verify").out == ""
    assert curated.json("status")["failures"] == []


def test_listening_and_curating_follow_the_persons_settings_alone(agent: Agent, api: Api) -> None:
    agent.environ = {"REFLECTOR_BACKEND": "anthropic", "REFLECTOR_WISHES": "false", **api.environ()}
    api.does = [sound(answer(("pat-001", "helpful")))]
    take(agent, Session("s-1").cites("pat-001").user(WISH))
    assert (len(api.asked), agent.events("wish.heard")) == (1, [])
    (agent.claude / "reflector.toml").write_text("curate = true\n")
    refusal = "`curate` is true, which only your own settings may contain"
    assert refusal in agent.call("list", code=2).err


def said(text: str, **fields: Any) -> list[tuple[str, str, str]]:
    message = Message(
        7, "u", "user", fields.pop("origin", "human"), fields.pop("chain", ""), "", text
    )
    return [(wish.form.kind, wish.form.section, wish.text) for wish in wishes([message])]


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        (
            "Please always run the linter before you push.",
            ("standing", "pat", "Always run the linter before you push."),
        ),
        ("never commit straight to main", ("standing", "mis", "Never commit straight to main.")),
        (
            "We never mock the database in this repo",
            ("standing", "mis", "Never mock the database in this repo."),
        ),
        (
            "Don't touch the generated files again!",
            ("standing", "mis", "Don't touch the generated files."),
        ),
        (
            "Remember that staging uses Postgres 15.",
            ("standing", "ctx", "Staging uses Postgres 15."),
        ),
        ("and remember to update the changelog", ("standing", "pat", "Update the changelog.")),
        ("Keep in mind that CI has no network", ("standing", "ctx", "CI has no network.")),
        (
            "From now on, write commit messages in English",
            ("standing", "pref", "Write commit messages in English."),
        ),
        (
            "in future always quote paths in shell scripts, put it into CLAUDE.md",
            ("standing", "pref", "Always quote paths in shell scripts."),
        ),
        (
            "never push to main, and please add this to the rules",
            ("standing", "mis", "Never push to main."),
        ),
        (
            "always quote the name of a folder, add it to PATH",
            ("standing", "pat", "Always quote the name of a folder, add it to PATH."),
        ),
        ("Next time, run `make demo` first", ("standing", "pref", "Run `make demo` first.")),
        (
            "I prefer short answers without headings",
            ("standing", "pref", "Prefer short answers without headings."),
        ),
        (
            "I always want only what the issue asks for",
            ("standing", "pref", "Prefer only what the issue asks for."),
        ),
        (
            "Commit titles always go like `fix(x): ...` please.",
            ("standing", "pref", "Commit titles always go like `fix(x): ...` please."),
        ),
        (
            "don't create .md files unless I ask for one",
            ("standing", "pref", "Don't create .md files unless I ask for one."),
        ),
        (
            "whatever the task, start on a new branch",
            ("standing", "pref", "Whatever the task, start on a new branch."),
        ),
        (
            "Bitte grundsätzlich kürzere Antworten",
            ("standing", "pref", "Bitte grundsätzlich kürzere Antworten."),
        ),
        ("No, use pnpm instead of npm.", ("correction", "pref", "Use pnpm instead of npm.")),
        ("Always 合并前更新依赖。", ("standing", "pat", "Always 合并前更新依赖.")),
        ("先看代码。Never 直接修改生成的文件！", ("standing", "mis", "Never 直接修改生成的文件.")),
        (
            "yes. you should always wait with the commit, so that was right",
            ("standing", "pat", "Always wait with the commit."),
        ),
        (
            "Wrong: run make check before anything",
            ("correction", "pref", "Run make check before anything."),
        ),
    ],
)
def test_a_wish_is_heard_in_its_common_forms(text: str, wish: tuple[str, str, str]) -> None:
    assert said(text) == [wish]
    assert said(f"Fix the cart. {text}") == [wish]


@pytest.mark.parametrize(
    "text",
    [
        "Do you remember which service we configured?",
        "as far as I can remember the steps were complete",
        "Never do that.",
        "Always-visible links in the header",
        "The hook never writes to stdout.",
        "always write the new field now",
        "use tabs here instead of this",
        "Run the tests.",
        "Write the messages in the imperative.",
        "use buttons with icons on this page",
        "Write tests in Go for this.",
        "I always want to see the page",
        "Every request should return 200.",
        "no new dependency for this one",
        "use the new client in this file instead of requests",
        "The crash may come back in the future.",
        "whenever a user clicks, close the dialog",
        "> always run the linter before you push",
        "- never commit straight to main",
        "```\nalways run the linter first\n```",
        "Always run the linter with sk-ant-api03-" + "a1B2" * 24,
        "Plan:\n" + "line\n" * 12 + "Always run the linter first",
        "x" * 1200 + ". Always run the linter first",
    ],
)
def test_question_report_or_quotation_is_no_wish(text: str) -> None:
    assert said(text) == []


@pytest.mark.parametrize("origin", ["injected", "tool", "summary"])
def test_words_of_others_are_no_wish(origin: str) -> None:
    assert said("Always run the linter before you push.", origin=origin) == []


def test_only_the_user_of_the_main_conversation_wishes() -> None:
    wish = "Always run the linter before you push."
    assert said(wish, chain="agent-1") == []
    assert said(wish, origin="refusal") != []
    assert list(wishes([Message(7, "u", "assistant", "model", "", "", wish)])) == []
