"""The `rules` backend on small sessions written by hand, each one way in which evidence decides."""

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
    call = ToolCall(str(given), tool, given)
    return Message(0, "", "assistant", "model", chain, "", "", calls=(call,))


def runs(command: str, text: str, *, error: bool = False, chain: str = "") -> list[Message]:
    call = calls("Bash", chain, command=command)
    result = ToolResult(call.calls[0].id, text, error)
    return [call, Message(0, "", "user", "tool", chain, "", "", results=(result,))]


def edits(file: str = "/app/store.py", old: str = "a = 1", new: str = "a = 2", chain: str = "") -> list[Message]:
    call = calls("Edit", chain, file_path=file, old_string=old, new_string=new)
    result = ToolResult(call.calls[0].id, f"The file {file} has been updated.", False)
    return [call, Message(0, "", "user", "tool", chain, "", "", results=(result,))]


def reads(file: str = "/app/store.py") -> list[Message]:
    call = calls("Read", file_path=file)
    return [call, Message(0, "", "user", "tool", "", "", "", results=(ToolResult(call.calls[0].id, "1 a = 1", False),))]


def person(text: str) -> Message:
    return Message(0, "", "user", "human", "", "", text)


def refuses(reason: str) -> Message:
    return Message(0, "", "user", "refusal", "", "", reason)


def _flat(messages: Any) -> Iterator[Message]:
    for message in messages:
        if isinstance(message, Message):
            yield message
        else:
            yield from _flat(message)


def judge(
    *messages: Any, advice: str = _ADVICE, cited: Sequence[str] = ("pat-001",), precision: int = 85
) -> dict[str, str]:
    answer = answered(*messages, advice=advice, cited=cited, precision=precision)
    tags: list[dict[str, str]] = json.loads(answer.text)["bullet_tags"]
    assert [tag["name"] for tag in tags] == list(cited)
    return tags[0]


def answered(*messages: Any, advice: str = _ADVICE, cited: Sequence[str] = ("pat-001",), precision: int = 85) -> Answer:
    flat = list(_flat(messages))
    bullets = tuple(Bullet(name, name[:3], advice) for name in cited)
    return RulesBackend(precision).answer(Request("s", bullets, tuple(cited), lambda: iter(flat)))


def found(*messages: Any, advice: str = _ADVICE) -> set[str]:
    """The findings about pat-001."""
    weighed: Any = answered(*messages, advice=advice).meta["judgement"]
    return set(weighed["bullets"]["pat-001"]["found"])


def tag(*messages: Any, advice: str = _ADVICE) -> str:
    return judge(*messages, advice=advice)["tag"]


CITED = says("As [pat-001] says, the record gets the branch name.")
GREEN = runs("pytest -q", "=== 12 passed in 0.4s ===")
RED = runs("pytest -q", "E   KeyError: 'branch'\n=== 1 failed, 11 passed in 0.4s ===", error=True)


DONE = says("Done.")
TESTED = [CITED, edits(), says("Now the tests."), GREEN, DONE]


# -- nothing ------------------------------------------------------------------------------------------------


def test_without_evidence_the_tag_is_neutral_and_says_so() -> None:
    assert judge(person("go"), CITED, edits()) == {"name": "pat-001", "tag": "neutral", "rationale": "no evidence"}


def test_a_window_that_cites_nothing_gets_no_tags() -> None:
    answer = RulesBackend().answer(Request("s", (Bullet("pat-001", "pat", "x"),), (), lambda: iter([])))
    assert json.loads(answer.text)["bullet_tags"] == []
    assert answer.model == "rules/4"


def test_looking_and_tidying_that_go_well_prove_nothing() -> None:
    looked = [says("[pat-001]: first read the store."), reads(), says("Now the change."), edits(), GREEN]
    assert tag(looked, advice="Read a module before editing it.") == "neutral"
    tidied = [says("[pat-001]: remove the scratch file."), runs("rm scratch.py", "")]
    assert tag(tidied, advice="Remove scratch files.") == "neutral"


def test_a_new_task_says_nothing_about_the_last_one() -> None:
    assert tag(CITED, edits(), DONE, person("add an export as csv"), says("Sure.")) == "neutral"


def test_what_stood_before_the_citation_is_no_evidence() -> None:
    assert tag(person("no, that is wrong"), RED, GREEN, CITED) == "neutral"


def test_a_sidechain_is_no_evidence_for_the_main_chain() -> None:
    side = [says("Running the tests.", "a1"), *runs("pytest -q", "=== 1 passed in 1s ===", chain="a1")]
    assert found(CITED, edits(), side) == {"silence"}


def test_advice_that_was_named_to_be_declined_is_neutral_whatever_follows() -> None:
    declined = says("Contrary to [pat-001] the record gets the tag.")
    assert tag(declined, edits(), DONE, person("no, the branch name is wrong, revert it")) == "neutral"


# -- people -------------------------------------------------------------------------------------------------


def test_praise_of_the_change_is_helpful() -> None:
    assert tag(CITED, edits(), DONE, person("works now, thanks!")) == "helpful"
    assert tag(CITED, edits(), DONE, person("ok, it is working now, but now a question: what is HEAD?")) == "helpful"


def test_praise_after_the_step_failed_or_was_replaced_is_for_what_came_of_it() -> None:
    failed = runs("ssh web1 'systemctl restart app'", "app.service: Failed with result 'exit-code'.")
    assert "accepted" not in found(says("[pat-001]: restart."), failed, DONE, person("great"))
    replaced = [CITED, edits(new="b = 22222"), says("Hm."), edits(old="b = 22222", new="c = 3"), DONE]
    assert found(replaced, person("great")) == {"replaced"}


def test_behind_a_question_mark_nothing_is_praise() -> None:
    assert found(CITED, edits(), DONE, person("do you think that is a good idea?")) == set()
    assert found(CITED, edits(), DONE, person("make sure that it works")) == set()


def test_having_it_committed_accepts_the_work_and_more_so_when_tests_passed() -> None:
    assert found(CITED, edits(), DONE, person("commit and push")) == {"accepted"}
    assert tag(TESTED, person("commit and push")) == "helpful"


def test_a_go_ahead_before_the_first_word_only_lets_the_work_go_on() -> None:
    proposed = [CITED, person("yes, go ahead"), edits(), GREEN, DONE]
    assert found(proposed) == {"agreed", "silence", "check-passed"}
    assert tag(CITED, person("ok")) == "neutral"


def test_an_objection_beats_green_tests_and_is_quoted() -> None:
    verdict = judge(TESTED, person("no, the branch name is wrong, I asked for the tag"))
    assert verdict["tag"] == "harmful"
    assert "branch name" in verdict["rationale"]


def test_an_objection_that_names_nothing_of_the_advice_condemns_only_with_several_signs() -> None:
    assert tag(CITED, edits(), DONE, person("this isn't on the page")) == "neutral"
    assert found(CITED, edits(), DONE, person("this isn't on the page")) == {"objects"}
    assert tag(CITED, edits(), DONE, person("no, still the same error, revert that")) == "harmful"


def test_the_agents_concession_makes_a_plain_remark_an_objection() -> None:
    remark = person("a branch can be deleted at any time")
    assert tag(CITED, edits(), DONE, remark, says("You're right, the branch name is unstable.")) == "harmful"
    assert tag(CITED, edits(), DONE, remark, says("Let me look.")) == "neutral"


def test_a_no_to_what_the_agent_asked_is_no_objection() -> None:
    assert found(CITED, says("Shall I also add the tag?"), person("no")) == set()


def test_an_objection_does_not_refute_advice_to_check_that_it_does_not_name() -> None:
    ran = [says("[pat-001]: run the tests."), *GREEN, says("All pass.")]
    told = person("I meant the header of the invoice page, it isn't blue")
    assert found(ran, told, advice="Run the tests after a change.") == {"objects-elsewhere", "advice-to-check"}
    assert tag(ran, told, advice="Run the tests after a change.") == "neutral"


def test_advice_that_begins_with_a_read_is_judged_by_the_change_that_it_asks_for() -> None:
    advice = "Store the branch name with each record."
    assert "advice-to-look" not in found(CITED, reads(), says("Now."), edits(), GREEN, advice=advice)
    assert "check-passed" in found(CITED, reads(), says("Now."), edits(), GREEN, advice=advice)


def test_a_doubt_before_it_works_is_not_harmful() -> None:
    talk = [TESTED, person("Are you sure?"), says("Yes."), person("ok now it works"), says("Good."), person("commit")]
    assert tag(talk) == "helpful"


def test_a_later_objection_counts_if_it_names_the_advice() -> None:
    later = [DONE, person("write the changelog"), DONE]
    assert "objects-later" in found(CITED, edits(), later, person("the branch is still not stored"))
    assert "objects-later" not in found(CITED, edits(), later, person("the changelog still has no date"))


def test_a_later_word_beats_an_earlier_green() -> None:
    assert tag(TESTED, person("write the changelog"), DONE, person("commit")) == "helpful"
    later = [person("write the changelog"), DONE, person("no, the branch is still wrong"), DONE, person("commit")]
    assert tag(TESTED, later) == "neutral"


def test_a_refusal_with_its_reason_is_an_objection() -> None:
    call = calls("Edit", file_path="a.py")
    assert "objects" in found(CITED, call, refuses("that belongs into the service layer"))
    assert tag(CITED, call, refuses("not the branch name, use the commit")) == "harmful"


def test_an_interrupt_without_a_reason_waits_for_its_sequel() -> None:
    stopped = [CITED, calls("Edit", file_path="a.py"), refuses("")]
    assert tag(stopped, person("continue")) == "neutral"
    assert tag(stopped, person("why are you touching the branch? revert that")) == "harmful"


@pytest.mark.parametrize(
    "words",
    [
        "좋아요, 이제 커밋해 주세요",
        "да, но это не то, что я просил",
        "podle mě je to příliš staré, použij novější",
        "太好了，谢谢",
    ],
)
def test_no_green_stands_against_words_that_are_not_read(words: str) -> None:
    assert tag(TESTED) == tag(TESTED, person("show me the diff")) == "helpful"
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


# -- results ------------------------------------------------------------------------------------------------


def test_the_first_test_after_the_change_speaks_for_it() -> None:
    assert "check-passed" in found(CITED, edits(), says("Now the tests."), GREEN)
    assert tag(CITED, edits(), says("Now the tests."), GREEN, person("show me the diff")) == "helpful"


def test_failed_first_then_passed_is_not_the_steps_doing() -> None:
    mended = [CITED, edits(), says("Tests."), RED, says("An import is missing."), edits(new="a = 3"), GREEN]
    assert found(mended) == {"silence"}


def test_what_was_red_before_and_is_green_now_is_its_own_proof() -> None:
    assert {"own-check", "check-passed"} <= found(RED, CITED, edits(), GREEN)
    before = runs("python load.py a.csv 2>&1 | tail -3", "Traceback (most recent call last):\nKeyError: 'branch'")
    now = runs("python load.py a.csv", "loaded 12 rows")
    assert "own-check" in found(before, CITED, edits(), now, DONE)
    assert found(CITED, edits(), now, DONE) == {"silence"}


def test_a_mend_that_was_not_enough_proves_nothing() -> None:
    assert "own-check" not in found(RED, CITED, edits(), says("Tests."), RED, says("More."), edits(new="a = 3"), GREEN)


def test_that_a_change_compiles_proves_little() -> None:
    assert found(CITED, edits(), says("Types."), runs("npx tsc --noEmit", "")) == {"silence"}
    assert "own-check" in found(CITED, edits(), runs("npx tsc --noEmit", ""))


def test_green_here_and_red_there_proves_nothing() -> None:
    lint = runs("ruff check .", "Found 2 errors.", error=True)
    assert found(CITED, edits(), GREEN, says("Lint."), lint) == found(CITED, edits(), lint) == {"silence"}


def test_commands_that_went_through_speak_where_nobody_does() -> None:
    pushed = [says("[pat-001]: push the branch."), runs("git push", "main -> main"), DONE]
    assert found(pushed) == {"silence", "went-through"}
    assert judge(pushed)["tag"] == "helpful"
    assert "went-through" not in found(pushed, person("add an export as csv"))
    assert "went-through" not in found(pushed, RED)


def test_a_step_that_also_changes_or_looks_did_not_only_go_through() -> None:
    for other in (edits(), reads()):
        assert "went-through" not in found(CITED, other, runs("git push", "main -> main"), DONE)


def test_a_call_that_has_no_answer_did_not_go_through() -> None:
    assert "went-through" not in found(CITED, runs("git push", "main -> main"), calls("Bash", command="git tag v1"))


def test_failures_that_were_expected_or_older_are_left_out() -> None:
    older = [CITED, edits(), says("Tests."), RED, says("This failure is pre-existing and unrelated to my change.")]
    assert "check-passed" in found(older, GREEN)


def test_slips_of_the_edit_tool_do_not_count() -> None:
    call = calls("Edit", file_path="/app/store.py")
    slip = ToolResult(call.calls[0].id, "Found 2 matches of the string to replace", True)
    slipped = [call, Message(0, "", "user", "tool", "", "", "", results=(slip,))]
    assert "check-passed" in found(CITED, slipped, edits(), GREEN)
    assert found(CITED, slipped) == {"silence"}


def test_a_push_proves_nothing_about_the_change() -> None:
    assert found(CITED, edits(), runs("git push", "1a2b..3c4d main -> main")) == {"silence"}


def test_work_after_a_notice_is_not_the_cited_step() -> None:
    notice = Message(0, "", "user", "injected", "", "", "<task-notification><task-id>a</task-id></task-notification>")
    waited = [CITED, edits(), notice, runs("npx tsc --noEmit", "")]
    assert found(waited) == {"silence"}


# -- the answer ---------------------------------------------------------------------------------------------


def test_several_citations_of_a_bullet_make_one_tag() -> None:
    again = says("Once more [pat-001].")
    assert tag(TESTED, person("commit"), again, edits("/app/export.py")) == "helpful"


def test_citations_that_contradict_each_other_make_neutral() -> None:
    bad = [says("Once more [pat-001]."), *edits("/app/export.py"), DONE, person("no, that branch is wrong")]
    others = [message for number in range(5) for message in (person(f"write part {number}"), DONE)]
    assert tag(TESTED, person("commit"), others, bad) == "neutral"


def test_tags_come_in_order_of_first_citation() -> None:
    judge(says("[pat-002] and [mis-001]"), edits(), GREEN, cited=("pat-002", "mis-001"))


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


def test_a_rationale_is_at_most_300_characters() -> None:
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
