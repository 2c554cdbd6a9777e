"""The `rules` backend on small sessions written by hand: a row for each way in which evidence decides."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.playbook.bullet import Bullet
from reflector.reflection.backends.rules import RulesBackend
from reflector.reflection.protocol import Answer, Request
from reflector.reflection.rules.findings import FINDINGS
from reflector.reflection.rules.people import read_remark
from reflector.reflection.rules.wordings import all_wordings
from reflector.transcripts.message import Message, ToolCall, ToolResult

_ADVICE = "Store the branch name with each record."


def says(text: str, chain: str = "") -> Message:
    return Message(0, "", "assistant", "model", chain, "", text)


def calls(tool: str, chain: str = "", **given: Any) -> Message:
    return Message(0, "", "assistant", "model", chain, "", "", calls=(ToolCall(str(given), tool, given),))


def done(call: Message, text: str, *, error: bool = False, chain: str = "") -> list[Message]:
    result = ToolResult(call.calls[0].id, text, error)
    return [call, Message(0, "", "user", "tool", chain, "", "", results=(result,))]


def runs(command: str, text: str, *, error: bool = False, chain: str = "") -> list[Message]:
    return done(calls("Bash", chain, command=command), text, error=error, chain=chain)


def edits(file: str = "/app/store.py", old: str = "a = 1", new: str = "a = 2") -> list[Message]:
    call = calls("Edit", file_path=file, old_string=old, new_string=new)
    return done(call, f"The file {file} has been updated.")


def reads(file: str = "/app/store.py") -> list[Message]:
    return done(calls("Read", file_path=file), "1 a = 1")


def person(text: str) -> Message:
    return Message(0, "", "user", "human", "", "", text)


def refuses(reason: str) -> Message:
    return Message(0, "", "user", "refusal", "", "", reason)


def _flat(messages: Any) -> Iterator[Message]:
    for message in messages:
        yield from [message] if isinstance(message, Message) else _flat(message)


def judge(*messages: Any, **given: Any) -> dict[str, str]:
    tags: list[dict[str, str]] = json.loads(answered(*messages, **given).text)["bullet_tags"]
    return tags[0]


def answered(
    *messages: Any,
    advice: str = _ADVICE,
    cited: Sequence[str] = ("pat-001",),
    precision: int = 85,
    wrong_counts: bool = False,
) -> Answer:
    flat = list(_flat(messages))
    bullets = tuple(Bullet(name, name[:3], advice) for name in cited)
    return RulesBackend(precision, wrong_counts=wrong_counts).answer(
        Request("s", bullets, tuple(cited), lambda: iter(flat))
    )


def found(*messages: Any, advice: str = _ADVICE) -> set[str]:
    """The findings about pat-001."""
    weighed: Any = answered(*messages, advice=advice).meta["judgement"]
    return set(weighed["bullets"]["pat-001"]["found"])


CITED = says("As [pat-001] says, the record gets the branch name.")
GREEN = runs("pytest -q", "=== 12 passed in 0.4s ===")
RED = runs("pytest -q", "E   KeyError: 'branch'\n=== 1 failed, 11 passed in 0.4s ===", error=True)


DONE = says("Done.")
TESTED = [CITED, edits(), says("Now the tests."), GREEN, DONE]


#: What follows a citation of the advice, and what comes of it: the tag, findings that are there (+) and are not (-), or
#: exactly these findings (=).
Case = tuple[list[Any], str] | tuple[list[Any], str, str]
_TO_TEST, _TO_READ, _TO_TIDY = (
    "Run the tests after a change.",
    "Read a module before editing it.",
    "Remove scratch files.",
)
_PUSH = runs("git push", "main -> main")
_TYPES = runs("npx tsc --noEmit", "")
_BRANCH_IS_WRONG = person("no, the branch is still wrong")
_LINT = runs("ruff check .", "Found 2 errors.", error=True)
_LOAD = runs("python load.py a.csv", "loaded 12 rows")
_SLIPPED = done(calls("Edit", file_path="/app/store.py"), "Found 2 matches of the string to replace", error=True)
_REFUSED = [CITED, calls("Edit", file_path="a.py")]
_CHANGED = [CITED, edits(), DONE]
_RAN_TESTS = [says("[pat-001]: run the tests."), *GREEN, says("All pass.")]
_ABOUT_ELSE = person("I meant the header of the invoice page, it isn't blue")
_DELETED = person("a branch can be deleted at any time")
_FAILED_LOAD = runs("python load.py a.csv 2>&1 | tail -3", "Traceback (most recent call last):\nKeyError: 'branch'")
_OLDER = [CITED, edits(), says("Tests."), RED, says("This failure is pre-existing and unrelated to my change.")]
_RESTART = [
    says("[pat-001]: restart."),
    runs("ssh web1 'systemctl restart app'", "app.service: Failed with result 'x'."),
]
_REPLACED = [CITED, edits(new="b = 22222"), says("Hm."), edits(old="b = 22222", new="c = 3"), DONE, person("great")]
_DOUBTED = [TESTED, person("Are you sure?"), says("Yes."), person("ok now it works"), says("Good."), person("commit")]
_CHANGELOG = [person("write the changelog"), DONE]

CASES: dict[str, Case] = {
    # Nothing.
    "no evidence": ([person("go"), CITED, edits()], "neutral"),
    "looking went well": ([says("[pat-001]: read."), reads(), says("Now."), edits(), GREEN], "neutral", _TO_READ),
    "tidying went well": ([says("[pat-001]: remove it."), runs("rm scratch.py", "")], "neutral", _TO_TIDY),
    "a new task": ([_CHANGED, person("add an export as csv"), says("Sure.")], "neutral"),
    "before the citation": ([person("no, that is wrong"), RED, GREEN, CITED], "neutral"),
    "on a sidechain": (
        [CITED, edits(), says("Tests.", "a1"), *runs("pytest -q", "=== 1 passed in 1s ===", chain="a1")],
        "= silence",
    ),
    "declined": (
        [says("Contrary to [pat-001] the record gets the tag."), edits(), DONE, person("no, the branch is wrong")],
        "neutral",
    ),
    # People.
    "praise": ([_CHANGED, person("works now, thanks!")], "helpful"),
    "praise and a question": ([_CHANGED, person("ok, it is working now, but a question: what is HEAD?")], "helpful"),
    "praise after a failure": ([_RESTART, DONE, person("great")], "- accepted", "Store the branch name."),
    "praise of what replaced the step": (_REPLACED, "= replaced"),
    "a question is no praise": ([_CHANGED, person("do you think that is a good idea?")], "="),
    "a condition is no praise": ([_CHANGED, person("make sure that it works")], "="),
    "to be committed": ([_CHANGED, person("commit and push")], "= accepted"),
    "a go-ahead first": ([CITED, person("yes, go ahead"), edits(), GREEN, DONE], "= agreed silence check-passed"),
    "a go-ahead alone": ([CITED, person("ok")], "neutral"),
    "an objection after green": ([TESTED, person("no, the branch name is wrong, I asked for the tag")], "harmful"),
    "one sign without the topic": ([_CHANGED, person("this isn't on the page")], "neutral"),
    "one sign is found": ([_CHANGED, person("this isn't on the page")], "= objects"),
    "several signs": ([_CHANGED, person("no, still the same error, revert that")], "harmful"),
    "conceded": ([_CHANGED, _DELETED, says("You're right, the branch name is unstable.")], "harmful"),
    "not conceded": ([_CHANGED, _DELETED, says("Let me look.")], "neutral"),
    "a no that answers": ([CITED, says("Shall I also add the tag?"), person("no")], "="),
    "an objection elsewhere": ([_RAN_TESTS, _ABOUT_ELSE], "= objects-elsewhere advice-to-check", _TO_TEST),
    "a read before the change": ([CITED, reads(), says("Now."), edits(), GREEN], "+ check-passed - advice-to-look"),
    "a doubt before it works": (_DOUBTED, "helpful"),
    "a later objection": ([_CHANGED, _CHANGELOG, person("the branch is still not stored")], "+ objects-later"),
    "a later objection elsewhere": ([_CHANGED, _CHANGELOG, person("the changelog has no date")], "- objects-later"),
    "a later acceptance": ([TESTED, _CHANGELOG, person("commit")], "helpful"),
    "a later word": ([TESTED, _CHANGELOG, _BRANCH_IS_WRONG, DONE, person("commit")], "neutral"),
    "a refusal": ([_REFUSED, refuses("that belongs into the service layer")], "+ objects"),
    "a refusal of the advice": ([_REFUSED, refuses("not the branch name, use the commit")], "harmful"),
    "an interrupt and its sequel": ([_REFUSED, refuses(""), person("continue")], "neutral"),
    "an interrupt and its reason": ([_REFUSED, refuses(""), person("why the branch? revert that")], "harmful"),
    "green": ([TESTED], "helpful"),
    # Results.
    "red, then green": ([CITED, edits(), says("T."), RED, says("Mend."), edits(new="a = 3"), GREEN], "= silence"),
    "red before, green now": ([RED, CITED, edits(), GREEN], "+ own-check check-passed"),
    "a command that failed before": ([_FAILED_LOAD, CITED, edits(), _LOAD, DONE], "+ own-check"),
    "a command that never failed": ([CITED, edits(), _LOAD, DONE], "= silence"),
    "a mend that was not enough": (
        [RED, CITED, edits(), says("Tests."), RED, says("More."), edits(new="a = 3"), GREEN],
        "- own-check",
    ),
    "it compiles": ([CITED, edits(), says("Types."), _TYPES], "= silence"),
    "the step compiles": ([CITED, edits(), _TYPES], "+ own-check"),
    "green here, red there": ([CITED, edits(), GREEN, says("Lint."), _LINT], "= silence"),
    "red in the step": ([CITED, edits(), _LINT], "= silence"),
    "went through": ([says("[pat-001]: push."), _PUSH, DONE], "= silence went-through"),
    "went through and somebody speaks": ([says("[pat-001]: push."), _PUSH, DONE, person("add csv")], "- went-through"),
    "went through and then red": ([says("[pat-001]: push."), _PUSH, DONE, RED], "- went-through"),
    "went through with a change": ([CITED, edits(), _PUSH, DONE], "- went-through"),
    "went through with a look": ([CITED, reads(), _PUSH, DONE], "- went-through"),
    "a call without an answer": ([CITED, _PUSH, calls("Bash", command="git tag v1")], "- went-through"),
    "an older failure": ([_OLDER, GREEN], "+ check-passed"),
    "a slip of the edit tool": ([CITED, _SLIPPED, edits(), GREEN], "+ check-passed"),
    "a push of a change": ([CITED, edits(), runs("git push", "1a2b..3c4d main -> main")], "= silence"),
    # Several citations.
    "cited again": ([TESTED, person("commit"), says("Once more [pat-001]."), edits("/app/export.py")], "helpful"),
    "cited again, and wrong": (
        [
            [TESTED, person("commit")],
            [[person(f"write part {number}"), DONE] for number in range(5)],
            [says("Once more [pat-001]."), edits("/app/export.py"), DONE, person("no, that branch is wrong")],
        ],
        "neutral",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_follows_a_citation_decides(case: Case) -> None:
    messages, expected, advice = case if len(case) == 3 else (*case, _ADVICE)
    if expected[0] not in "=+-":
        assert judge(*messages, advice=advice)["tag"] == expected
        return
    names, sign = found(*messages, advice=advice), ""
    if expected[0] == "=":
        assert names == set(expected.split()[1:])
        return
    for word in expected.split():
        sign = word if word in "+-" else sign
        assert word in "+-" or (word in names) == (sign == "+")


def test_a_rationale_says_why_and_quotes_and_without_a_citation_there_is_none() -> None:
    assert judge(CITED, edits())["rationale"] == "no evidence"
    assert "branch name" in judge(TESTED, person("no, the branch name is wrong, I asked for the tag"))["rationale"]
    assert judge(says("[pat-002] and [mis-001]"), edits(), cited=("pat-002", "mis-001"))["name"] == "pat-002"
    nothing = answered(cited=())
    assert (json.loads(nothing.text)["bullet_tags"], nothing.model) == ([], "rules/4")


@pytest.mark.parametrize("place", [0, 4, 6])
def test_what_the_agent_calls_wrong_is_not_helpful_and_harmful_by_that_alone_only_where_a_person_says_so(
    place: int,
) -> None:
    helped = [*TESTED, person("Perfect, that works. Commit it."), DONE]
    assert judge(helped, says("[mis-001 wrong: no]"), cited=("pat-001", "mis-001"))["tag"] == "helpful"
    helped.insert(place, says("[pat-001 wrong: the records are numbered]"))
    said = 'the agent said it was wrong: "the records are numbered"'
    for wrong_counts, tag in ((False, "neutral"), (True, "harmful")):
        assert judge(helped, wrong_counts=wrong_counts) == {"name": "pat-001", "rationale": said, "tag": tag}
    objected = judge(CITED, edits(), DONE, _BRANCH_IS_WRONG, says("[pat-001 wrong: the records are numbered]"))
    assert (objected["tag"], objected["rationale"][:8]) == ("harmful", "a person")


@pytest.mark.parametrize(
    "words",
    ["좋아요, 이제 커밋해 주세요", "да, но это не то, что я просил", "podle mě je to příliš staré", "太好了，谢谢"],
)
def test_no_green_stands_against_words_that_are_not_read(words: str) -> None:
    assert judge(TESTED, person(words))["rationale"] == "a person's words are not in English"


@pytest.mark.parametrize(
    "words", ["commit", "show me the diff", "option 3", "/src/a.ts:3", "123", "add csv export to it"]
)
def test_short_and_technical_messages_are_english(words: str) -> None:
    assert read_remark(words).kind != "unread"


def test_pasted_text_is_not_read_as_the_persons_words() -> None:
    log = "```\nthat is wrong, revert it\n```"
    assert read_remark(f"here is the page\n{log}").signs == ()
    assert read_remark("look\nTypeError: x is not a function").signs == ("pasted-error",)
    assert read_remark("doesnt work").signs == ("negates",)


def test_a_stricter_policy_says_less_and_the_estimates_stay() -> None:
    told = person("why is the branch there?")
    loose, strict = (answered(CITED, edits(), DONE, told, precision=share) for share in (75, 99))
    assert [json.loads(one.text)["bullet_tags"][0]["tag"] for one in (loose, strict)] == ["harmful", "neutral"]
    weighed: list[Any] = [one.meta["judgement"] for one in (loose, strict)]
    assert [one["precision"] for one in weighed] == [75, 99]
    assert weighed[0]["bullets"] == weighed[1]["bullets"]


def test_a_secret_and_control_characters_do_not_reach_the_rationale() -> None:
    key = "ghp_" + "A1b2" * 9
    verdict = judge(CITED, edits(), DONE, person(f"no, that's wrong, \x1b[31mthe branch is {key}\x07"))
    assert verdict["tag"] == "harmful"
    assert key not in verdict["rationale"]
    assert verdict["rationale"].isprintable()
    assert len(judge(CITED, edits(), DONE, person("no, that branch is wrong. " * 60))["rationale"]) <= 300


_KNOWN = {row.id for row in all_wordings()} | set(FINDINGS)
_KNOWN |= {"praises", "mixed", "ships", "refused", "pasted-error", "replaced", "no-complaint", "ran", "flagged-error"}
_texts = st.text(max_size=80) | st.sampled_from(["no, that's wrong", "works now", "[pat-001]", "Let me revert this"])
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
def test_the_same_messages_give_the_same_bytes_and_always_one_bounded_tag(messages: list[Message]) -> None:
    request = Request("s", (Bullet("pat-001", "pat", _ADVICE),), ("pat-001",), lambda: iter([CITED, *messages]))
    answer = RulesBackend().answer(request)
    assert answer == RulesBackend().answer(request)
    (given_tag,) = json.loads(answer.text)["bullet_tags"]
    assert given_tag["tag"] in ("helpful", "harmful", "neutral")
    assert len(given_tag["rationale"]) <= 300
    named = re.search(r" \(([\w, -]+)\): ", given_tag["rationale"])
    assert named is None or set(named[1].split(", ")) <= _KNOWN
    assert all(unicodedata.category(character) != "Cc" for character in given_tag["rationale"])


@pytest.mark.parametrize("piece", [" ", "[", "(", "<a ", "a.", "/a", "' \"", "\n", "ok, ", "and now ", "cat <<A\n"])
def test_a_huge_monotonous_text_costs_no_more_than_a_long_one(piece: str) -> None:
    # A reading that is quadratic takes minutes, which the suite's time limit for each test ends.
    huge = piece * (1_000_000 // len(piece))
    judge(CITED, runs(huge, huge), says(huge), edits(old=huge, new="b"), person(huge), calls("Bash", command=huge))
