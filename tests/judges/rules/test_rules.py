"""The `rules` backend on small sessions written by hand: a row for each way in which evidence
decides.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from reflector.judges.protocol import Answer, Request
from reflector.judges.reading.people import read_remark
from reflector.judges.reading.wordings import all_wordings
from reflector.judges.rules.findings import FINDINGS, VERSION
from reflector.judges.rules.judge import RulesBackend
from reflector.playbook.bullet import Bullet
from reflector.transcripts.citations import CALLED_WRONG
from reflector.transcripts.message import Message
from tests.building import calls, edits, person, reads, refuses, runs, says
from tests.conftest import first_fast

_ADVICE = "Store the branch name with each record."


def _flat(messages: Any) -> Iterator[Message]:
    for message in messages:
        yield from [message] if isinstance(message, Message) else _flat(message)


def judge(*messages: Any, **given: Any) -> dict[str, str]:
    tags: list[dict[str, str]] = json.loads(answered(*messages, **given).text)["bullet_tags"]
    return tags[0]


def answered(
    *messages: Any, advice: str = _ADVICE, cited: Sequence[str] = ("pat-001",), **how: bool
) -> Answer:
    flat = list(_flat(messages))
    bullets = tuple(Bullet(name, name[:3], advice) for name in cited)
    return RulesBackend(**how).answer(Request("s", bullets, tuple(cited), lambda: iter(flat)))


def found(*messages: Any, advice: str = _ADVICE) -> set[str]:
    """The findings about pat-001."""
    weighed: Any = answered(*messages, advice=advice).meta["judgement"]
    return set(weighed["bullets"]["pat-001"])


CITED = says("As [pat-001] says, the record gets the branch name.")
GREEN = runs("pytest -q", "=== 12 passed in 0.4s ===")
RED = runs("pytest -q", "E   KeyError: 'branch'\n=== 1 failed, 11 passed in 0.4s ===", error=True)

DONE = says("Done.")
TESTED = [CITED, edits(), says("Now the tests."), GREEN, DONE]

#: What follows a citation, and the verdict or the findings that come of it; the advice, if it is
#: another. `= NAME` expects exactly these findings, `=` alone expects none, and a word without `=`
#: expects the verdict.
Case = tuple[list[Any], str] | tuple[list[Any], str, str]
_CHANGED = [CITED, edits(), DONE]
_REFUSED = [CITED, calls("Edit", file_path="a.py")]
_PUSH = runs("git push", "main -> main")
_LINT = runs("ruff check .", "Found 2 errors.", error=True)
_LOAD = runs("python load.py a.csv", "loaded 12 rows")
_FAILED_LOAD = runs(
    "python load.py a.csv 2>&1 | tail -3",
    "Traceback (most recent call last):\nKeyError: 'branch'",
)
_RESTART = runs("ssh web1 'systemctl restart app'", "app.service: Failed with result 'x'.")
_BRANCH_IS_WRONG = person("no, the branch name is wrong")
_FORBIDS = "Never store the branch name with a record."
_MISTAKE = "Storing the branch name with each record."

CASES: dict[str, Case] = {
    # Nothing.
    "no evidence": ([person("go"), CITED, edits()], "="),
    "a new task": ([_CHANGED, person("add an export as csv"), says("Sure.")], "="),
    "before the citation": ([person("no, that is wrong"), RED, GREEN, CITED], "="),
    "on a sidechain": (
        [RED, CITED, edits(), DONE, *runs("pytest -q", "=== 1 passed in 1s ===", chain="a1")],
        "=",
    ),
    "declined": (
        [says("Contrary to [pat-001] the record gets the tag."), edits(), DONE, _BRANCH_IS_WRONG],
        "neutral",
    ),
    # A person wants the opposite.
    "the opposite": ([_CHANGED, person("please don't store the branch")], "= opposed"),
    "the opposite of another part": ([_CHANGED, person("don't touch the header")], "="),
    "no to a question of the agent": (
        [_CHANGED, says("Shall I tag it?"), person("nope, that is for later"), person("commit")],
        "= accepted",
    ),
    "for and against": ([_CHANGED, person("don't store the name, but keep the branch")], "="),
    "asks why": ([_CHANGED, person("why do you store the branch at all?")], "= opposed"),
    "behind a preposition": ([_CHANGED, person("don't write the log for the branch")], "="),
    "one without the other": ([_CHANGED, person("don't commit a branch without its record")], "="),
    ("the opposite of a prohibition"): (
        [_CHANGED, person("no, the url of the branch is old")],
        "=",
        _FORBIDS,
    ),
    # A person reports a fault.
    "a fault": ([_CHANGED, person("the branch is still not there")], "= faulty"),
    "a fault elsewhere": ([_CHANGED, person("the header is still not blue")], "="),
    "a fault of this": (
        [_CHANGED, person("This still fails. Each branch is there twice.")],
        "= faulty",
    ),
    "a fault that may be": ([_CHANGED, person("show a message if the branch is missing")], "="),
    "a question about a fault": ([_CHANGED, person("which branch is missing?")], "="),
    "a fault of the agent": ([_CHANGED, person("you still do not use the branch")], "="),
    "a fault later": (
        [_CHANGED, person("add csv"), DONE, person("I don't see the branch")],
        "= faulty",
    ),
    "a fault much later": ([_CHANGED, *[reads()] * 21, person("I don't see the branch")], "="),
    "a fault after acceptance": (
        [_CHANGED, person("great"), DONE, person("I don't see the branch")],
        "= faulty",
    ),
    "a fault of what is forbidden": ([_CHANGED, person("the branch is broken")], "=", _FORBIDS),
    # A person takes it back, or refuses it.
    "undone": ([_CHANGED, person("please revert that")], "= undone"),
    "undone because it does harm": (
        [_CHANGED, person("Undo that, the branch name makes this slower.")],
        "= undone",
    ),
    "the advised thing undone": ([_CHANGED, person("undo the branch names")], "= opposed undone"),
    "undone because it breaks something": (
        [_CHANGED, person("No, that is wrong: branch names break the export. Remove them.")],
        "= faulty undone",
    ),
    "undone with another bullet": (
        [says("[pat-001] and [pat-002]"), edits(), DONE, person("please revert that")],
        "=",
    ),
    "a refusal": ([_REFUSED, refuses("that belongs into the service layer")], "= refused"),
    "a refusal for its own sake": (
        [_REFUSED, refuses("the branch name and the record, please")],
        "neutral",
    ),
    ("a refusal of something later"): (
        [_CHANGED, reads(), reads(), refuses("use the service layer")],
        "=",
    ),
    "an interrupt and its sequel": ([_REFUSED, refuses(""), person("continue")], "="),
    "conceded": (
        [_CHANGED, person("a branch can be deleted"), says("You're right, it is unstable.")],
        "=",
    ),
    # It failed, and fails.
    "red, red and red": ([RED, CITED, edits(), RED, edits(), RED], "="),
    "red, red and green": ([RED, CITED, edits(), DONE, RED, edits(), GREEN], "="),
    "red and red": ([RED, CITED, edits(), RED], "="),
    # Acceptance.
    "praise": ([_CHANGED, person("works now, thanks!")], "= accepted"),
    "praise and a question": (
        [_CHANGED, person("ok, it is working now, but a question: what is HEAD?")],
        "= accepted",
    ),
    "to be committed": ([_CHANGED, person("commit and push")], "= accepted"),
    "a doubt before it works": (
        [_CHANGED, person("Are you sure?"), says("Yes."), person("ok now it works")],
        "helpful",
    ),
    "a question is no praise": ([_CHANGED, person("do you think that is a good idea?")], "="),
    "a condition is no praise": ([_CHANGED, person("make sure that it works")], "="),
    "praise of two": (
        [says("[pat-001] and [pat-002]"), edits(), DONE, person("Perfect, thanks")],
        "=",
    ),
    "praise of two in a row": (
        [_CHANGED, says("[pat-002]"), edits(), DONE, person("Perfect, thanks")],
        "=",
    ),
    "praise of each in turn": (
        [says("[pat-002]"), DONE, person("Perfect"), _CHANGED, person("Perfect")],
        "= accepted",
    ),
    "praise after a failure": ([CITED, _RESTART, DONE, person("great")], "="),
    "praise of words": ([CITED, person("great")], "= accepted"),
    "praise of a look": ([CITED, reads(), person("great")], "="),
    "praise of an answer": ([person("what does [pat-001] mean?"), CITED, person("thanks")], "="),
    "praise of an explanation": (
        [person("explain [pat-001]"), reads(), CITED, reads(), person("great")],
        "=",
    ),
    "praise of work after a question": (
        [person("can you add the name?"), _CHANGED, person("great")],
        "= accepted",
    ),
    "a go-ahead and praise": (
        [CITED, person("yes, go ahead"), edits(), DONE, person("great")],
        "= accepted",
    ),
    "a go-ahead first": (
        [CITED, person("ok"), edits(), DONE, person("don't store the branch")],
        "= opposed",
    ),
    "an objection first": ([_CHANGED, person("no, use the tag"), DONE, person("commit")], "="),
    # Results.
    "red before, green now": ([RED, CITED, edits(), GREEN], "= mended"),
    "green before, green now": ([GREEN, TESTED], "="),
    "a mend that was not enough": (
        [RED, CITED, edits(), says("T."), RED, says("M."), edits(), GREEN],
        "=",
    ),
    "green here, red there": ([RED, CITED, edits(), GREEN, says("Lint."), _LINT], "="),
    "nothing was changed": ([RED, CITED, GREEN, DONE, person("and now csv")], "="),
    "green, and an objection": (
        [RED, TESTED, person("that is not what I asked for, use the tag")],
        "=",
    ),
    "a command that failed before": ([_FAILED_LOAD, CITED, edits(), _LOAD, DONE], "= mended"),
    "a command that never failed": ([CITED, edits(), _LOAD, DONE], "="),
    "went through": ([says("[pat-001]: load."), _LOAD, DONE], "= went-through"),
    ("went through and somebody speaks"): (
        [says("[pat-001]: load."), _LOAD, DONE, person("add csv")],
        "=",
    ),
    "went through and then red": ([says("[pat-001]: load."), _LOAD, DONE, RED], "="),
    "a page went through": (
        [says("[pat-001]: ask."), runs("curl -s https://a.example", "all is well"), DONE],
        "=",
    ),
    "a check and a file": (
        [says("[pat-001]: test."), runs("pytest; cat a.md", "3 passed in 1s"), DONE],
        "=",
    ),
    "a push as ever": ([says("[pat-001]: push."), _PUSH, DONE], "="),
    "a push after a failure": (
        [_FAILED_LOAD, says("[pat-001]: push."), _PUSH, DONE],
        "= went-through",
    ),
    "went through with a change": ([CITED, edits(), _PUSH, DONE], "="),
    "a call without an answer": ([CITED, _PUSH, calls("Bash", command="git tag v1")], "="),
    # One side alone.
    "both sides": (
        [RED, TESTED, person("and csv"), DONE, person("and pdf too"), DONE, _BRANCH_IS_WRONG],
        "neutral",
    ),
    "cited again": (
        [RED, TESTED, person("commit"), says("Once more [pat-001]."), edits("/app/export.py")],
        "helpful",
    ),
    "cited again, and wrong": (
        [
            [TESTED, person("commit")],
            [[person(f"write part {number}"), DONE] for number in range(5)],
            [says("Once more [pat-001]."), edits("/app/export.py"), DONE, _BRANCH_IS_WRONG],
        ],
        "neutral",
    ),
}


def test_each_finding_has_a_case() -> None:
    named = {
        word
        for _, expected, *_ in CASES.values()
        if expected[0] == "="
        for word in expected[1:].split()
    }
    assert sorted(named) == sorted(FINDINGS), "add a case to CASES in this file"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_follows_a_citation_decides(case: Case) -> None:
    messages, expected, advice = case if len(case) == 3 else (*case, _ADVICE)
    if expected[0] == "=":
        assert found(*messages, advice=advice) == set(expected.split()[1:])
    else:
        assert judge(*messages, advice=advice)["tag"] == expected


_DB = "Don't mock the database in repository tests: use the `db` fixture."
REPEATED = {
    "No, don't mock the database. We use the db fixture.": _DB,
    "No, don't mock the database!": "Don't mock the database in repository tests",
    (
        "You didn't run make test before the commit, as the rule says"
    ): "Always run make test before you commit",
    "No. I told you: never add a dependency without asking me": (
        "Never add a dependency without asking me"
    ),
    "No, use cents, not floats": "Use integers in cents for prices, never floats",
    "That's way too long. Keep answers short.": "Keep answers short",
    "No! the orders table is append-only, write a compensating row": (
        "The orders table is append-only"
    ),
    "why did you add a dependency without asking?": "Ask before adding a dependency",
}


@pytest.mark.parametrize("words", REPEATED)
def test_objection_that_repeats_the_advice_means_unfollowed(words: str) -> None:
    said = judge(
        CITED, edits(), DONE, person(words), says("You're right, sorry."), advice=REPEATED[words]
    )
    assert (said["tag"], said["followed"], words in said["rationale"]) == ("neutral", "no", True)
    other = judge(CITED, edits(), DONE, person(words), advice="Name each branch after its issue.")
    assert (other["tag"], other.get("followed")) == ("neutral", None)


@pytest.mark.parametrize(
    ("words", "followed"),
    [
        ("No, missing branch names break the build", "no"),
        ("No, branch names break the build", None),
        ("No, branch names clutter the record", None),
    ],
)
def test_objection_that_blames_the_advice_repeats_nothing(words: str, followed: str | None) -> None:
    assert judge(CITED, edits(), DONE, person(words)).get("followed") == followed


def test_mistake_that_was_made_is_not_wrong_advice() -> None:
    cited = [says("As [mis-001] says."), edits(), DONE, person("the branch is broken")]
    assert judge(*cited, advice=_MISTAKE, cited=("mis-001",))["tag"] == "neutral"


def test_rationale_quotes_its_reason_and_needs_a_citation() -> None:
    assert judge(CITED, edits())["rationale"] == "no evidence"
    said = 'the user reported a fault in the work (faulty, fault): "no, the branch name is wrong"'
    assert judge(TESTED, _BRANCH_IS_WRONG)["rationale"] == said
    assert (
        judge(says("[pat-002] and [mis-001]"), edits(), cited=("pat-002", "mis-001"))["name"]
        == "pat-002"
    )
    nothing = answered(cited=())
    assert (json.loads(nothing.text)["bullet_tags"], nothing.model) == ([], VERSION)


@pytest.mark.parametrize("place", [0, 4, 6])
def test_agents_objection_is_harmful_only_if_configured(
    place: int,
) -> None:
    helped = [*TESTED, person("Perfect, that works. Commit it."), DONE]
    assert (
        judge(helped, says("[mis-001 wrong: no]"), cited=("pat-001", "mis-001"))["tag"] == "helpful"
    )
    helped.insert(place, says("[pat-001 wrong: the records are numbered]"))
    said = 'the agent said that the rule was wrong: "the records are numbered"'
    for wrong_counts, tag in ((False, "neutral"), (True, "harmful")):
        assert judge(helped, wrong_counts=wrong_counts) == {
            "name": "pat-001",
            "rationale": said,
            "tag": tag,
        }
    objected = judge(
        CITED, edits(), DONE, _BRANCH_IS_WRONG, says("[pat-001 wrong: the records are numbered]")
    )
    assert (objected["tag"], objected["rationale"][:8]) == ("harmful", "the user")


_FOREIGN = [
    "좋아요, 이제 커밋해 주세요",
    "да, но это не то, что я просил",
    "podle mě je to příliš staré",
    "geht nicht",
    "да",
]


@pytest.mark.parametrize("words", _FOREIGN)
def test_green_run_proves_nothing_against_foreign_words(words: str) -> None:
    assert found(RED, TESTED) == {"mended"}
    assert found(RED, TESTED, person(words)) == set()


@pytest.mark.parametrize(
    "words", ["commit", "show me the diff", "nice", "123", "add csv export to it", "doesnt work"]
)
def test_short_and_technical_messages_are_english(words: str) -> None:
    assert read_remark(words).kind != "unread"


def test_pasted_text_is_not_the_users_word() -> None:
    log = "```\nthat is wrong, revert it\n```"
    assert read_remark(f"here is the page\n{log}").signs == ()
    assert read_remark("look\nTypeError: x is not a function").signs == ()


def test_rationale_omits_a_quote_without_whole_words() -> None:
    rejected = says(f"[pat-001 wrong: {'x' * 200}]")
    assert judge(rejected, edits())["rationale"] == CALLED_WRONG


def test_rationale_contains_no_secret_or_control_character() -> None:
    key = "ghp_" + "A1b2" * 9
    verdict = judge(
        CITED, edits(), DONE, person(f"no, the branch is wrong, it should not be \x1b[31m{key}\x07")
    )
    assert verdict["tag"] == "harmful"
    assert key not in verdict["rationale"]
    assert verdict["rationale"].isprintable()
    assert (
        len(judge(CITED, edits(), DONE, person("no, that branch is wrong. " * 60))["rationale"])
        <= 300
    )


_KNOWN = {row.id for row in all_wordings()} | set(FINDINGS)
_KNOWN |= {"no-complaint", "ran", "flagged-error"}
_texts = st.text(max_size=80) | st.sampled_from(
    ["no, that's wrong", "works now", "[pat-001]", "Let me revert this"]
)
_messages = st.lists(
    st.one_of(
        st.builds(says, _texts),
        st.builds(person, _texts),
        st.builds(refuses, _texts),
        st.sampled_from([*GREEN, *RED, *edits(), *reads()]),
        st.builds(lambda text, bad: runs("npm test", text, error=bad)[1], _texts, st.booleans()),
    ),
    max_size=12,
)


@given(_messages)
def test_equal_messages_give_one_equal_bounded_tag(
    messages: list[Message],
) -> None:
    request = Request(
        "s", (Bullet("pat-001", "pat", _ADVICE),), ("pat-001",), lambda: iter([CITED, *messages])
    )
    answer = RulesBackend().answer(request)
    assert answer == RulesBackend().answer(request)
    (given_tag,) = json.loads(answer.text)["bullet_tags"]
    assert given_tag["tag"] in ("helpful", "harmful", "neutral")
    assert len(given_tag["rationale"]) <= 300
    named = re.search(r" \(([\w, -]+)\): ", given_tag["rationale"])
    assert named is None or set(named[1].split(", ")) <= _KNOWN
    assert all(unicodedata.category(character) != "Cc" for character in given_tag["rationale"])


@pytest.mark.parametrize(
    "piece",
    first_fast(
        2, [" ", "[", "(", "<a ", "a.", "/a", "' \"", "\n", "ok, ", "and now ", "cat <<A\n"]
    ),
)
def test_huge_monotonous_text_costs_like_a_long_one(piece: str) -> None:
    # A reading that is quadratic takes minutes, which the suite's time limit for each test ends.
    huge = piece * (1_000_000 // len(piece))
    judge(
        CITED,
        runs(huge, huge),
        says(huge),
        edits(old=huge, new="b"),
        person(huge),
        calls("Bash", command=huge),
    )
