"""The `rules` backend on small sessions written by hand, each one way in which evidence decides."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reflector.playbook.bullet import Bullet
from reflector.reflection.backends.rules import RulesBackend
from reflector.reflection.protocol import Request
from reflector.reflection.rules.page import ALL_RULES, BY_EVENT
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


def judge(*messages: Any, advice: str = _ADVICE, cited: Sequence[str] = ("pat-001",)) -> dict[str, str]:
    flat = list(_flat(messages))
    bullets = tuple(Bullet(name, name[:3], advice) for name in cited)
    answer = RulesBackend().answer(Request("s", bullets, tuple(cited), lambda: iter(flat)))
    tags: list[dict[str, str]] = json.loads(answer.text)["bullet_tags"]
    assert [tag["name"] for tag in tags] == list(cited)
    return tags[0]


def tag(*messages: Any, advice: str = _ADVICE) -> str:
    return judge(*messages, advice=advice)["tag"]


CITED = says("As [pat-001] says, the record gets the branch name.")
GREEN = runs("pytest -q", "=== 12 passed in 0.4s ===")
RED = runs("pytest -q", "E   KeyError: 'branch'\n=== 1 failed, 11 passed in 0.4s ===", error=True)


# -- nothing ------------------------------------------------------------------------------------------------


def test_without_evidence_the_tag_is_neutral_and_says_so() -> None:
    assert judge(person("go"), CITED, edits()) == {"name": "pat-001", "tag": "neutral", "rationale": "no evidence"}


def test_a_window_that_cites_nothing_gets_no_tags() -> None:
    answer = RulesBackend().answer(Request("s", (Bullet("pat-001", "pat", "x"),), (), lambda: iter([])))
    assert json.loads(answer.text)["bullet_tags"] == []
    assert answer.model == "rules/2"


def test_reading_that_goes_well_proves_nothing_even_if_tests_pass_later() -> None:
    looked = says("[pat-001]: first read the store.")
    assert (
        tag(looked, reads(), says("Now the change."), edits(), GREEN, advice="Read a module before editing it.")
        == "neutral"
    )


def test_tidying_that_goes_well_proves_nothing() -> None:
    assert (
        tag(says("[pat-001]: remove the scratch file."), runs("rm scratch.py", ""), advice="Remove scratch files.")
        == "neutral"
    )


def test_a_new_task_says_nothing_about_the_last_one() -> None:
    assert tag(CITED, edits(), says("Done."), person("now add an export as csv"), says("Sure.")) == "neutral"


def test_what_stood_before_the_citation_is_no_evidence() -> None:
    assert tag(RED, GREEN, CITED) == "neutral"


def test_a_sidechain_is_no_evidence_for_the_main_chain() -> None:
    side = [says("Running the tests.", "a1"), *runs("pytest -q", "=== 1 failed in 1s ===", error=True, chain="a1")]
    assert tag(CITED, edits(), side) == "neutral"


# -- people -------------------------------------------------------------------------------------------------


def test_thanks_after_the_change_are_helpful() -> None:
    assert tag(CITED, edits(), says("Done."), person("works now, thanks!")) == "helpful"


def test_working_now_with_another_question_is_helpful() -> None:
    assert (
        tag(CITED, edits(), says("Done."), person("ok, it is working now, but now a question: what is HEAD?"))
        == "helpful"
    )


def test_asking_to_commit_alone_is_no_praise() -> None:
    assert tag(CITED, edits(), says("Done."), person("commit and push")) == "neutral"
    assert tag(CITED, edits(), GREEN, says("Done."), person("commit and push")) == "helpful"


def test_an_objection_beats_green_tests() -> None:
    verdict = judge(
        CITED, edits(), GREEN, says("All pass."), person("no, the branch name is wrong, I asked for the tag")
    )
    assert verdict["tag"] == "harmful"
    assert "branch name" in verdict["rationale"]


def test_a_polite_but_is_an_objection() -> None:
    assert tag(CITED, edits(), says("Done."), person("looks good but the branch name is far too long")) == "harmful"


def test_the_agents_concession_makes_a_plain_remark_an_objection() -> None:
    remark = person("a branch name can be deleted at any time")
    assert tag(CITED, edits(), says("Done."), remark, says("You're right, the branch name is not stable.")) == "harmful"
    assert tag(CITED, edits(), says("Done."), remark, says("Let me look.")) == "neutral"


def test_a_symptom_that_persists_is_harmful() -> None:
    assert tag(CITED, edits(), says("Fixed."), person("still the same error")) == "harmful"


def test_a_symptom_reported_long_after_the_topic_counts_if_it_names_it() -> None:
    later = [
        person("now write the changelog"),
        says("Done."),
        person("the branch name of a record is still not stored"),
    ]
    assert tag(CITED, edits(), says("Done."), later) == "harmful"
    other = [person("now write the changelog"), says("Done."), person("the changelog still has no date")]
    assert tag(CITED, edits(), says("Done."), other) == "neutral"


def test_a_problem_of_unclear_origin_takes_the_green_away_but_does_not_condemn() -> None:
    report = person("scrolling in the terminal widget still stutters on every long page when the mouse is used")
    assert tag(CITED, edits(), GREEN, says("Done."), report) == "neutral"
    assert tag(CITED, edits(), says("Done."), report) == "neutral"


def test_red_ci_right_after_the_push_speaks_against_the_change() -> None:
    shipped = [CITED, edits(), says("Done."), person("commit and push"), says("Pushed.")]
    assert tag(shipped) == "neutral"
    assert tag(shipped, person("CI failed")) == "harmful"


def test_an_objection_to_something_else_does_not_refute_running_the_tests() -> None:
    ran = [says("[pat-001]: run the tests."), *GREEN, says("All pass.")]
    assert (
        tag(
            ran,
            person("I was talking about the header colour of the invoice page"),
            advice="Run the tests after a change.",
        )
        == "helpful"
    )


def test_a_refusal_with_its_reason_is_harmful() -> None:
    assert tag(CITED, calls("Edit", file_path="a.py"), refuses("that belongs into the service layer")) == "harmful"


def test_an_interrupt_without_a_reason_waits_for_its_sequel() -> None:
    stopped = [CITED, calls("Edit", file_path="a.py"), refuses("")]
    assert tag(stopped, person("continue")) == "neutral"
    assert tag(stopped, person("why are you touching the store?")) == "harmful"


def test_approval_of_what_an_objection_made_of_it_does_not_save_the_advice() -> None:
    talk = [CITED, edits(), says("Done."), person("no, that's wrong"), says("Changed."), person("perfect, works now")]
    assert tag(talk) == "harmful"


def test_a_problem_that_was_reported_and_then_solved_is_neutral() -> None:
    talk = [CITED, edits(), says("Done."), person("still the same error"), says("Fixed."), person("works now")]
    assert tag(talk) == "neutral"


def test_an_objection_that_is_taken_back_is_neutral() -> None:
    talk = [
        CITED,
        edits(),
        says("Done."),
        person("no, that's wrong"),
        says("Hm?"),
        person("never mind, it was my cache"),
    ]
    assert tag(talk) == "neutral"


def test_work_after_a_notice_is_not_the_cited_step() -> None:
    notice = Message(0, "", "user", "injected", "", "", "<task-notification><task-id>a</task-id></task-notification>")
    assert tag(says("Waiting, as [pat-001] says."), notice, runs("frob", "error: boom", error=True)) == "neutral"


def test_a_half_success_is_neutral() -> None:
    assert (
        tag(CITED, edits(), GREEN, says("Done."), person("the branch name works now but the list is still blank"))
        == "neutral"
    )


# -- results ------------------------------------------------------------------------------------------------


def test_green_tests_after_the_change_are_helpful() -> None:
    assert tag(CITED, edits(), says("Now the tests."), GREEN) == "helpful"


def test_red_then_green_is_helpful() -> None:
    assert tag(CITED, edits(), RED, says("An import is missing."), edits(new="a = 3"), GREEN) == "helpful"


def test_red_that_stays_red_is_harmful() -> None:
    assert tag(CITED, edits(), says("Now the tests."), RED) == "harmful"


def test_the_same_error_again_is_harmful_and_says_so() -> None:
    verdict = judge(CITED, edits(), RED, says("Again."), edits(new="a = 3"), RED)
    assert verdict["tag"] == "harmful"
    assert "same error" in verdict["rationale"]


def test_a_failing_check_is_not_held_against_the_advice_to_check() -> None:
    assert tag(says("[pat-001]: run the tests."), RED, advice="Run the tests after a change.") == "neutral"


def test_a_wanted_failure_of_a_new_test_is_helpful() -> None:
    red = [says("[pat-001]: the failing test first."), *RED, says("It fails as expected. Now the code.")]
    assert tag(red, advice="Write a failing test first and run it.") == "helpful"


def test_failures_that_were_there_before_are_not_counted() -> None:
    assert tag(CITED, edits(), RED, says("This failure is pre-existing and unrelated to my change.")) == "neutral"


def test_green_here_and_red_there_is_neutral() -> None:
    lint = runs("ruff check .", "Found 2 errors.", error=True)
    assert tag(CITED, edits(), GREEN, says("Lint."), lint) == "neutral"


def test_slips_of_the_edit_tool_do_not_count() -> None:
    call = calls("Edit", file_path="/app/store.py")
    slip = ToolResult(call.calls[0].id, "Found 2 matches of the string to replace", True)
    slipped = [call, Message(0, "", "user", "tool", "", "", "", results=(slip,))]
    assert tag(CITED, slipped, edits(), GREEN) == "helpful"
    assert tag(CITED, slipped) == "neutral"


def test_a_command_the_advice_names_and_nobody_knows_is_harmful() -> None:
    tried = [says("[pat-001]"), *runs("wrap npm test", "error: unrecognized subcommand 'npm'", error=True)]
    worked = runs("npm test", "Tests:       9 passed, 9 total")
    assert tag(tried, worked, advice="Prefix commands with wrap .") == "harmful"
    assert tag(tried, worked, advice="Run the tests after a change.") == "helpful"


def test_an_unflagged_failure_of_the_act_itself_is_harmful() -> None:
    deploy = runs("ssh web1 'systemctl restart app'", "app.service: Failed with result 'exit-code'.")
    assert (
        tag(says("[pat-001]: restart it on the host."), deploy, advice="Restart the service on the host.") == "harmful"
    )


# -- the agent ----------------------------------------------------------------------------------------------


def test_an_edit_that_the_agent_undoes_is_harmful() -> None:
    assert tag(CITED, edits(old="a = 1", new="a = 2"), says("Hm."), edits(old="a = 2", new="a = 1")) == "harmful"


def test_a_restored_file_is_harmful() -> None:
    assert tag(CITED, edits(), says("That made it worse."), runs("git checkout -- /app/store.py", "")) == "harmful"


def test_a_cause_that_was_found_by_looking_is_helpful() -> None:
    looked = [says("[pat-001]: read the log first."), *reads("/var/app.log")]
    assert (
        tag(looked, says("Found the issue: the index is built too late."), advice="Read the log before guessing.")
        == "helpful"
    )


# -- the answer ---------------------------------------------------------------------------------------------


def test_several_citations_of_a_bullet_make_one_tag() -> None:
    again = says("Once more [pat-001].")
    assert (
        tag(CITED, edits(), GREEN, says("Done."), person("now the export"), again, edits("/app/export.py")) == "helpful"
    )


def test_citations_that_contradict_each_other_make_neutral() -> None:
    again = says("Once more [pat-001].")
    bad = [again, *edits("/app/export.py"), says("Done."), person("no, that's wrong")]
    assert tag(CITED, edits(), GREEN, says("Done."), person("now the export"), bad) == "neutral"


def test_tags_come_in_order_of_first_citation() -> None:
    judge(says("[pat-002] and [mis-001]"), edits(), GREEN, cited=("pat-002", "mis-001"))


def test_a_secret_and_control_characters_do_not_reach_the_rationale() -> None:
    key = "ghp_" + "A1b2" * 9
    verdict = judge(CITED, edits(), says("Done."), person(f"no, that's wrong, \x1b[31mthe branch is {key}\x07"))
    assert verdict["tag"] == "harmful"
    assert key not in verdict["rationale"]
    assert verdict["rationale"].isprintable()


def test_a_rationale_is_at_most_300_characters() -> None:
    assert len(judge(CITED, edits(), says("Done."), person("no, that's wrong. " * 60))["rationale"]) <= 300


_KNOWN = {rule.id for rule in ALL_RULES} | set(BY_EVENT)
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
    named = re.search(r" \(([\w+-]+)\): ", given_tag["rationale"])
    assert named is None or set(named[1].split("+")) <= _KNOWN
    assert all(unicodedata.category(character) != "Cc" for character in given_tag["rationale"])


# -- what the agent and its commands tell ---------------------------------------------------------


def test_a_command_that_failed_before_and_runs_now_is_helpful() -> None:
    before = runs("python load.py a.csv 2>&1 | tail -3", "KeyError: 'branch'\nTraceback (most recent call last):")
    now = runs("python load.py a.csv", "loaded 12 rows")
    assert tag(before, CITED, edits(), now, says("Done.")) == "helpful"
    assert tag(CITED, edits(), now, says("Done.")) == "neutral"


def test_praise_after_the_agent_undid_the_step_is_not_for_the_step() -> None:
    undone = edits(old="a = 2", new="a = 1")
    assert tag(CITED, edits(), says("Slower."), undone, says("Done otherwise."), person("nice")) == "harmful"
    assert tag(CITED, edits(), says("Done."), person("nice")) == "helpful"


def test_another_error_than_before_is_progress_and_neutral() -> None:
    run = runs("python push.py", "Error: DeviceTokenNotForTopic")
    assert tag(CITED, edits(), run, says("A different error now: the topic is wrong.")) == "neutral"
    assert tag(CITED, edits(), run, says("Which topic is it?")) == "harmful"


def test_a_pass_after_the_agent_went_another_way_is_not_the_advices_doing() -> None:
    red, green = runs("npm run build", "Build failed with 2 errors", error=True), runs("npm run build", "built in 3s")
    cited = says("[pat-001]: keep the branch name in a loader plugin.")
    assert tag(cited, edits(), red, says("A missing comma."), edits(), green) == "helpful"
    dropped = says("That doesn't work here. Let me try a different approach.")
    assert tag(cited, edits(), red, dropped, edits("/app/other.py"), green) == "harmful"
    missing = says("The loader is not installed here.")
    assert tag(cited, edits(), red, missing, edits("/app/other.py"), green) == "neutral"


def test_an_objection_that_shares_a_word_with_the_advice_beats_green_tests() -> None:
    cited = says("[pat-001]: the name goes into the record.")
    told = person("shouldnt the branch go into redis? we run eight workers and each of them will have its own")
    assert tag(cited, edits(), GREEN, says("Done."), told) == "harmful"


def test_a_question_about_another_place_is_neutral() -> None:
    assert tag(CITED, reads(), says("Here."), person("And where is the payment provider configured?")) == "neutral"
    assert tag(CITED, edits(), says("Done."), person("And where is the payment provider configured?")) == "neutral"
