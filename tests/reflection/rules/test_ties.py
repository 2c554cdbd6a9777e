"""What ties evidence to a cited step: a plan is not proved by its tests, nor refuted by the next task."""

from __future__ import annotations

import json

from reflector.playbook.bullet import Bullet
from reflector.reflection.backends.rules import RulesBackend
from reflector.reflection.protocol import Request
from reflector.reflection.rules.outcomes import read_result
from reflector.reflection.rules.steps import read_call
from reflector.reflection.rules.user_reaction import read_stance
from reflector.transcripts.message import Message, ToolCall, ToolResult
from tests.reflection.rules.test_rules import CITED, GREEN, edits, person, reads, runs, says, tag


def tags(advice: dict[str, str], *messages: Message | list[Message]) -> dict[str, str]:
    flat = [one for part in messages for one in (part if isinstance(part, list) else [part])]
    bullets = tuple(Bullet(name, "pat", text) for name, text in advice.items())
    answer = RulesBackend().answer(Request("s", bullets, tuple(advice), lambda: iter(flat)))
    return {given["name"]: given["tag"] for given in json.loads(answer.text)["bullet_tags"]}


# -- several pieces of advice at once -------------------------------------------------------------------------

PLAN = {
    "pat-001": "Keep response envelopes stable.",
    "pat-002": "Round prices in the cart.",
    "pat-003": "Cover rounding with tests.",
}
PLANNED = says("Plan: envelope as it is [pat-001], rounding [pat-002], tests [pat-003].")
ROUNDED = [*edits("/app/cart.py"), *runs("pytest tests/test_cart.py -q", "=== 4 passed in 0.1s ===")]


def test_a_green_speaks_for_the_planned_advice_whose_words_it_bears() -> None:
    assert tags(PLAN, PLANNED, ROUNDED, says("Done.")) == {
        "pat-001": "neutral",
        "pat-002": "helpful",
        "pat-003": "helpful",
    }


def test_words_that_all_planned_advice_shares_tie_nothing() -> None:
    plan = {"pat-001": "Log each cart.", "pat-002": "Lock each cart."}
    planned = says("Plan: [pat-001] and [pat-002].")
    assert tags(plan, planned, ROUNDED, says("Done.")) == {"pat-001": "neutral", "pat-002": "neutral"}


def test_an_objection_to_one_of_them_takes_the_green_of_the_others_away() -> None:
    said = person("hmm no, prices must not be rounded at all")
    judged = tags(PLAN, PLANNED, ROUNDED, says("Done."), said, says("Removing it."))
    assert judged["pat-002"] == "harmful"
    assert judged["pat-001"] == judged["pat-003"] == "neutral"


def test_praise_of_one_and_refusal_of_another_meet_each_by_its_name() -> None:
    plan = {"pat-001": "Group handlers by resource.", "pat-002": "Add a registry for plugins."}
    proposed = says("I'd group the handlers by resource [pat-001] and add a plugin registry [pat-002]. OK?")
    said = person("I like the handlers grouped by resource but please no registry")
    assert tags(plan, proposed, said) == {"pat-001": "helpful", "pat-002": "harmful"}


# -- what people say ------------------------------------------------------------------------------------------


def test_politeness_before_the_next_task_praises_no_step() -> None:
    advice = "Read a module before editing it."
    looked = [says("[pat-001]: the store first."), *reads(), *edits(), says("Done.")]
    assert tag(looked, person("great. next the footer"), advice=advice) == "neutral"
    assert tag(CITED, edits(), says("Done."), person("thanks. can you look at the footer")) == "neutral"
    assert tag(CITED, edits(), GREEN, says("Done."), person("thanks. can you look at the footer")) == "helpful"


def test_praise_of_a_find_covers_the_look_that_made_it() -> None:
    looked = [says("[pat-001]: the query plan first."), *reads(), says("It scans the whole table.")]
    assert tag(looked, person("ah good call, add an index"), advice="Read the query plan first.") == "helpful"


def test_ok_accepts_only_what_was_asked() -> None:
    advice = "Keep choices in the url."
    summary = [*edits(), says("Done; choices are kept in the url [pat-001].")]
    assert tag(summary, person("ok now the same for invoices"), advice=advice) == "neutral"


def test_an_announced_next_thing_is_no_symptom_of_the_last() -> None:
    for said in ("ok next: the readme still says 3.8", "the totals on the report are also wrong for may"):
        assert not read_stance(said).objects, said


def test_a_change_of_plans_is_no_objection_to_the_advice() -> None:
    assert tag(CITED, edits(), person("hold on, talked to the team, we don't need it after all. drop it")) == "neutral"


def test_an_error_that_is_gone_is_no_complaint() -> None:
    assert read_stance("the error is gone").bearing == "approves"
    assert read_stance("the header is gone").objects


def test_ignoring_a_thing_takes_no_objection_back() -> None:
    assert read_stance("ok ignore that one. push").rule != "takes-back"
    assert read_stance("ignore that, it works").rule == "takes-back"


def test_no_difference_is_said_of_the_last_step_whatever_it_names() -> None:
    said = person("no difference, still takes 3 sec on my phone")
    assert tag(CITED, edits(), GREEN, says("Done."), said) == "harmful"


def test_what_a_person_calls_the_agents_is_found_after_the_topic() -> None:
    later = [person("rename the footer link"), *edits("/app/footer.html"), says("Renamed.")]
    said = person("the page is slower and it's even worse since your branch column")
    assert tag(CITED, edits(), says("Done."), later, said) == "harmful"


def test_approval_of_what_replaced_the_step_does_not_clear_it() -> None:
    corrected = [person("still off by one"), says("I'll split the text instead."), *edits(old="a = 2", new="a = 3")]
    assert tag(CITED, edits(), says("Done."), corrected, says("Done."), person("yes, works now")) == "harmful"


def test_a_question_mark_in_an_address_asks_nothing() -> None:
    done = [CITED, *edits(), says("Done: `GET /records?branch=main&limit=5`.")]
    assert tag(done, person("no, the branch must not be in the address")) == "harmful"


# -- what checks say ------------------------------------------------------------------------------------------


def test_that_a_change_compiles_proves_little() -> None:
    built = runs("npm run build", "vite v5 building for production...\n✓ built in 3.2s")
    assert tag(CITED, edits(), built) == "neutral"
    assert tag(CITED, edits(), built, advice="Import icons one by one to keep the build small.") == "helpful"


def test_a_list_of_places_is_no_clean_bill() -> None:
    step = read_call(ToolCall("1", "Bash", {"command": "uvx vulture src"}))
    assert read_result(step, ToolResult("1", "src/a.py:30: unused function 'f'", False)).ending == "silent"


def test_the_failed_command_inside_a_longer_one_is_the_same_try() -> None:
    fails = runs("curl -s localhost:8000/records", "curl: (7) Failed to connect to localhost", error=True)
    works = runs("serve & sleep 2; curl -s localhost:8000/records", '{"branch":"main"}')
    assert tag(CITED, edits(), fails, says("The server was down."), works, says("It answers.")) == "helpful"


def test_red_tests_that_name_nothing_of_the_step_do_not_condemn_it() -> None:
    red = runs("pytest -q", "FAILED tests/test_mail.py::test_footer - assert 1 == 2\n=== 1 failed, 9 passed ===")
    assert tag(CITED, edits(), says("Now the tests."), red, says("One is left.")) == "neutral"


def test_an_unrelated_failure_is_no_red_phase() -> None:
    red = runs("pytest -q", "FAILED tests/test_mail.py::test_footer - assert 1 == 2\n=== 1 failed, 9 passed ===")
    done = says("One failure, unrelated: the footer names the year.")
    assert tag(says("[pat-001]"), edits(), red, done, advice="Share validation rules.") == "neutral"


def test_a_detail_done_instead_does_not_drop_the_advice() -> None:
    red = runs("pytest -q", "ImportError: cannot import name 'x' (circular import)\n=== 1 error ===", error=True)
    fixed = [says("A circular import; passing plain values instead."), *edits(new="a = 4"), *GREEN]
    assert tag(CITED, edits(), red, fixed) == "helpful"


def test_tests_say_nothing_about_how_commits_are_made() -> None:
    assert tag(CITED, edits(), GREEN, advice="Make a commit per step.") == "neutral"


def test_files_named_to_git_checkout_are_restored_and_branches_are_not() -> None:
    def kind(command: str) -> str:
        return read_call(ToolCall("1", "Bash", {"command": command})).kind

    assert kind("git checkout package.json package-lock.json && npm ci") == "revert"
    assert kind("git checkout release-2") != "revert"
