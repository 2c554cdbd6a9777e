"""What came of a session: the facts of its records, the same with and without a playbook."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, strategies as st

from reflector.events import event as ev
from reflector.ledger.store import Ledger
from reflector.sessions.intake import Source, take_in
from reflector.transcripts.message import Message, ToolResult
from reflector.transcripts.reading import read_messages
from reflector.trials.outcome import OUTCOMES, Outcome, joined_facts, read_outcome
from reflector.trials.placebo import placebo_text
from tests.building import calls, done, edits, person, reads, refuses, runs, says
from tests.road.sessions import Session


def came(*said: Any) -> dict[str, Any]:
    """Return the facts of these messages that differ from those of nothing."""
    found = asdict(read_outcome(_flat(said)))
    return {name: value for name, value in found.items() if value != getattr(Outcome(), name)}


def _flat(said: Any) -> Iterator[Message]:
    for one in said:
        yield from (one if isinstance(one, list) else [one])


BEGUN = [person("Fix the total of the cart."), says("It is fixed.")]
STOPS = Message(0, "", "user", "refusal", "", "", "")
REFUSED = refuses("No, never delete the build.")._replace(
    results=(ToolResult("1", "", is_error=True),)
)
CASES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "nobody says a word after the answer": (BEGUN, {"turns": 1}),
    ("a first word cannot object to what is to come"): (
        [person("No, it is still broken.")],
        {"turns": 1},
    ),
    "a person objects": (
        [*BEGUN, person("No, that is wrong, the total is still broken.")],
        {"turns": 2, "words": 1, "corrections": 1, "last": "objects"},
    ),
    "a no that answers a question is none": (
        [*BEGUN, says("Shall I push it?"), person("No.")],
        {"turns": 2, "words": 1, "last": "other"},
    ),
    "a person is content": (
        [*BEGUN, person("Perfect, thanks!")],
        {"turns": 2, "words": 1, "approvals": 1, "last": "approves"},
    ),
    "words that cannot be read are no correction": (
        [*BEGUN, person("Die Liste der Kunden braucht noch eine Suche.")],
        {"turns": 2, "unread": 1, "last": "unread"},
    ),
    "a person objects in another language": (
        [*BEGUN, person("Das ist nicht richtig, die Summe stimmt immer noch nicht.")],
        {"turns": 2, "words": 1, "corrections": 1, "last": "objects"},
    ),
    ("an interruption without a word"): (
        [*BEGUN, STOPS],
        {"turns": 1, "interruptions": 1, "last": "interrupts"},
    ),
    "a call is refused with a reason": (
        [*BEGUN, calls("Bash", command="rm -r build"), REFUSED],
        {"turns": 1, "words": 1, "corrections": 1, "refusals": 1, "last": "objects"},
    ),
    "the last run of the tests counts": (
        [*BEGUN, runs("pytest", "2 failed in 1s", error=True), runs("pytest", "3 passed in 1s")],
        {"turns": 1, "tests": "passes"},
    ),
    "the last run of the build counts": (
        [
            *BEGUN,
            runs("npm run build", "built in 3s"),
            runs("npm run build", "error TS2304: no name", error=True),
        ],
        {"turns": 1, "build": "fails"},
    ),
    "work is thrown away": (
        [*BEGUN, runs("git checkout -- cart.py", "")],
        {"turns": 1, "reverts": 1},
    ),
    "a file counts once, and reading it is no change": (
        [
            *BEGUN,
            edits("/app/cart.py"),
            edits("/app/cart.py"),
            edits("/app/tax.py"),
            reads("/app/rest.py"),
        ],
        {"turns": 1, "files": 2},
    ),
    "what a subagent does is not said by a person": (
        [
            *BEGUN,
            done(
                calls("Bash", "side", command="pytest"), "1 failed in 1s", error=True, chain="side"
            ),
        ],
        {"turns": 1},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_came_of_a_session(case: str) -> None:
    messages, facts = CASES[case]
    assert came(*messages) == facts


@pytest.mark.parametrize("case", CASES)
def test_citations_and_names_do_not_change_an_outcome(case: str) -> None:
    """Of the agent's words and of the person's: both stand in one arm's transcripts alone."""
    messages, facts = CASES[case]
    cited = [
        one._replace(
            text=(f"{one.text} [pat-001] [pat-002 wrong: it did not help] [lesson 8caa5bfa]")
        )
        if one.origin in ("model", "human")
        else one
        for one in _flat(messages)
    ]
    assert came(*cited) == facts


@pytest.mark.parametrize(
    "words",
    [
        "please don't add comments that restate the code",
        "again: no comments that describe the next line",
        "No, use the service account, not my own.",
        "actually, use rg rather than grep",
        "use uv, not pip",
        "Please keep the PR description short.",
        "Please write shorter PR descriptions, I keep saying this.",
        "Move that import to the top of the file, please.",
        "roll that back, the migration is not idempotent",
        "you changed the public API, I didn't ask for that",
        "this should have been a warning, not an error",
        "you committed without the linter again",
        "hmm, still seeing the popup",
        "why not sorted()?",
        "you did two, the third is a stub",
        "you're looking at the wrong place",
        "you don't need to explore, I gave you the file",
        "way overengineered",
        "that's cheating, restructure the hook",
        "we already have a helper, take moment out again",
        "lose the emojis",
        "we don't use cron on that host",
        "I'd rather keep the old name",
        "that doesn't even compile",
        "leave that file alone",
        "centered in the card, not on the page",
        "Use clock.now() there, not datetime.now().",
        "`clock.now()`, not `datetime.now()`",
        "Single quotes in TypeScript.",
        "British English, please.",
        "please only touch the css",
        "shouldn't that be async?",
        "nice, but that's a hack",
        "your regex also matches emails with spaces",
        "thats papering over it",
        "mach das rückgängig",
        "no, ese puerto no",
        "that was right before, now it is wrong",
        "stop, that was right and you broke it",
        "そうじゃなくて、元に戻してください",
    ],
)
def test_words_about_the_work_correct_it(words: str) -> None:
    assert came(*BEGUN, person(words))["corrections"] == 1


@pytest.mark.parametrize(
    "words",
    [
        "no, go ahead",
        "ok, no more changes, open a PR",
        "not sure, I think so",
        "don't worry about the warnings",
        "Run it again, please.",
        "can you remove the popup again?",
        "let's use redis instead of memcached for the sessions",
        "Please update the readme. Show what the program does. Avoid jargon.",
        "no worries, go on",
        "no complaints from my side, merge it",
        "I was wrong about the cache, go on",
        "then remove it",
        "what is wrong with the old one?",
        "Look at the tabs in the header.",
        "Is the page in English?",
        "The page is ready. Take the red one, not the blue one.",
        "another thing: the footer links are broken on mobile",
        "nein, passt schon",
        "you should never push without asking, so that was right",
        "right, you did not touch the lockfile, that was good",
        "good call, we never mock here",
        "好的,接下来做列表页",
    ],
)
def test_consent_and_new_task_correct_nothing(words: str) -> None:
    assert "corrections" not in came(*BEGUN, person(words))


def test_aim_that_answers_a_question_corrects_nothing() -> None:
    facts = came(*BEGUN, says("Which one shall I use?"), person("use uv, not pip"))
    assert "corrections" not in facts


def test_no_to_an_offer_corrects_nothing() -> None:
    offer = says("I can also remove the old fields if you'd like.")
    assert "corrections" not in came(*BEGUN, offer, person("no, leave them in"))


def test_session_is_good_by_the_trials_rule() -> None:
    good = {
        name: [
            rule(asdict(Outcome(**bad)))
            for bad in ({}, {"corrections": 1}, {"tests": "fails"}, {"reverts": 1})
        ]
        for name, rule in OUTCOMES.items()
    }
    assert good == {
        "correction-free": [True, False, True, True],
        "tests-green": [True, True, False, True],
        "kept": [True, True, True, False],
    }


def outcomes(ledger: Ledger) -> list[tuple[str | None, Any]]:
    return [(one.session_id, one.data) for one in ledger.events(types=[ev.SESSION_OUTCOME])]


def test_each_root_window_has_an_outcome(ledger: Ledger, tmp_path: Path) -> None:
    session = Session("s-1").user("Fix the total.").agent("Done.")
    path = session.write(tmp_path / "t.jsonl")
    for _ in range(2):
        take_in(ledger, Source(path, "SessionEnd"))
    session.user("No, that is wrong, the total is still broken.").agent("I see.").write(path)
    take_in(ledger, Source(path, "SessionEnd"))
    sub = Session("s-1", agent_id="a-1").agent("Looked.").write(tmp_path / "sub.jsonl")
    take_in(ledger, Source(sub, "SubagentStop", session_id="s-1", agent_id="a-1"))
    found = outcomes(ledger)
    assert [(id, data["root"], data["turns"], data["corrections"]) for id, data in found] == [
        ("s-1", "s-1", 1, 0),
        ("s-1", "s-1", 1, 1),
    ]
    whole = joined_facts(data for _, data in found)
    assert (whole["turns"], whole["corrections"], whole["last"]) == (2, 1, "objects")
    assert whole["began"] == found[0][1]["began"] < whole["ended"] == found[1][1]["ended"]


@pytest.mark.parametrize(
    ("known", "is_noted", "root"), [(True, False, "s-1"), (True, True, "s-1"), (False, True, None)]
)
def test_fork_belongs_to_its_original_session(
    ledger: Ledger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    known: bool,
    is_noted: bool,
    root: str | None,
) -> None:
    monkeypatch.setattr("reflector.sessions.intake.is_fork", lambda _, id: is_noted and id == "s-2")
    session = Session("s-1").user("Fix the total.").agent("Done.")
    original, fork = (
        session.write(tmp_path / "1.jsonl"),
        session.fork("s-2").user("And the tax?").agent("Done, too."),
    )
    if known:
        take_in(ledger, Source(original, "SessionEnd"))
    take_in(ledger, Source(fork.write(tmp_path / "2.jsonl"), "SessionEnd"))
    take_in(
        ledger, Source(session.user("Thanks, perfect!").write(tmp_path / "1.jsonl"), "SessionEnd")
    )
    assert {id: data["root"] for id, data in outcomes(ledger)} == {"s-1": "s-1", "s-2": root}


ADVICE = """This project keeps a playbook.

[pat-001] helpful=4 harmful=0 :: No, that is wrong, never do it. Undo it, the tests fail.
"""
CITATIONS = st.sampled_from(
    ["", "[pat-001]", "[pat-001, mis-002]", "[pat-001 wrong: no, undo it]", "[lesson 8caa5bfa]"]
)
TALK = st.lists(
    st.tuples(
        st.sampled_from(
            ["Fix it.", "No, that is wrong, undo it.", "No.", "Thanks!", "Das ist nicht richtig."]
        ),
        st.sampled_from(["It is fixed.", "Shall I push it?", "I ran the tests. Is it right?"]),
        st.sampled_from(["3 passed in 1s", "2 failed in 1s", ""]),
        CITATIONS,
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


@given(TALK, st.sampled_from(["", ADVICE, placebo_text(900)]))
def test_shown_text_and_citations_change_no_outcome(
    talk: list[tuple[str, str, str, str, bool]], shown: str
) -> None:
    """Pairs of transcripts that differ in nothing else."""

    def outcome(*, is_shown: bool) -> Outcome:
        session = Session("s-1")
        if is_shown:
            session.starts(shown)
        for asked, answer, result, citation, is_first in talk:
            words = [answer, citation][:: -1 if is_first else 1] if is_shown else [answer]
            session.user(asked).agent(" ".join(filter(None, words)))
            if result:
                session.runs("pytest", result, is_error="failed" in result)
        with TemporaryDirectory() as folder:
            path = session.write(Path(folder) / "s-1.jsonl")
            found = read_outcome(read_messages(path))
        return replace(found, began=None, ended=None)

    assert outcome(is_shown=True) == outcome(is_shown=False)
