"""Ways in which sessions turn that are easily misread. All are made up; some vary sessions of the benchmark."""

from __future__ import annotations

import pytest

from reflector.reflection.rules.user_reaction import read_stance
from tests.reflection.rules.test_rules import CITED, GREEN, calls, edits, judge, person, refuses, runs, says, tag

_BROKEN = "src/store.rs:9: error[E0308]: mismatched types\nerror: could not compile `store`"


def test_advice_that_was_named_to_be_declined_is_neutral_whatever_follows() -> None:
    declined = says("[pat-001] does not apply here, these records are temporary. A plain list it is.")
    assert tag(declined, edits(), GREEN, says("Done."), person("perfect, thanks")) == "neutral"


def test_a_failed_step_that_the_agent_left_is_harmful_though_the_end_was_praised() -> None:
    left = says("The two formats don't mix. Keeping the names in their own table instead.")
    broken = runs("cargo build", _BROKEN, error=True)
    built = runs("cargo build", "    Finished `dev` profile target(s) in 2s")
    told = [CITED, edits(), broken, left, edits("/app/table.py"), built, says("Built."), person("ok good")]
    assert tag(*told) == "harmful"


def test_the_same_error_again_and_a_replaced_text_are_harmful_though_it_runs_in_the_end() -> None:
    broken = runs("python load.py", "ValueError: branch is empty", error=True)
    told = [broken, CITED, edits(old="a = 1", new="a = branch()"), broken, says("Still empty.")]
    told += [edits(old="a = branch()", new="a = head()"), runs("python load.py", "loaded 3")]
    assert tag(*told) == "harmful"


def test_praise_does_not_cover_a_call_that_was_stopped() -> None:
    started = [CITED, *runs("npm run preview", ""), refuses(""), person("leave it, I have one open")]
    assert tag(*started, edits(), says("Changed."), person("works")) == "neutral"


def test_a_green_is_taken_away_when_a_person_had_the_text_rewritten() -> None:
    told = [CITED, edits(old="a = 1", new="a = branch()"), GREEN, says("Done.")]
    told += [person("the nightly job has its own checkout"), edits(old="a = branch()", new="a = env()")]
    assert tag(*told) == "neutral"


def test_a_mixed_message_meets_the_part_that_it_blames() -> None:
    mixed = person("the export is fine. the branch name in each record has to be the remote one")
    assert tag(CITED, edits(), GREEN, says("Done."), mixed) == "harmful"


def test_a_push_proves_nothing_about_the_change() -> None:
    pushed = runs("git push", "To example.org:a/b\n   1..2  main -> main")
    assert tag(CITED, edits(), pushed, says("Pushed.")) == "neutral"


def test_a_lint_error_in_another_file_does_not_condemn_a_change() -> None:
    other = runs("mypy app", "app/old.py:8: error: Missing return\nFound 1 error in 1 file", error=True)
    assert tag(CITED, edits(), other, says("Done.")) == "neutral"


def test_of_several_bullets_cited_together_each_is_judged_by_its_own_part() -> None:
    cited = says("[pat-001] The tests run after it.")
    undone = edits(old="a = 2", new="a = 1")
    told = [cited, edits(), GREEN, says("Done."), person("why did you change it?"), says("You're right."), undone]
    assert judge(*told, advice="Run the tests after each change.")["tag"] == "helpful"


@pytest.mark.parametrize(
    ("text", "bearing"),
    [
        ("is this honestly a good idea?", "other"),
        ("do you really think six dialogs are a good idea?", "corrects"),
        ("fourth time today: constants go to the top", "corrects"),
        ("one class per field feels like a lot", "corrects"),
        ("callbacks bit us before", "corrects"),
        ("could we stick to the style of the other modules", "corrects"),
        ("please no globals though", "corrects"),
        ("hangs just like before", "symptom"),
        ("oh that's nice to use, ship it", "approves"),
        ("good that you asked", "approves"),
        ("nice that it didn't stop the server", "approves"),
        ("the summary line is really handy", "approves"),
        ("👍", "approves"),
        ("works. but we drop that api next week, so replace it with the stream", "mixed"),
    ],
)
def test_hurried_remarks_are_read_as_a_person_would(text: str, bearing: str) -> None:
    found = read_stance(text).bearing
    assert (found in ("other", "asks")) if bearing == "other" else found == bearing


@pytest.mark.parametrize("piece", [" ", "[", "(", "<a ", "a.", "/a", "' \"", "\n", "ok, ", "and now ", "cat <<A\n"])
def test_a_huge_monotonous_text_costs_no_more_than_a_long_one(piece: str) -> None:
    # A reading that is quadratic takes minutes, which the suite's time limit for each test ends.
    huge = piece * (1_000_000 // len(piece))
    judge(CITED, runs(huge, huge), says(huge), edits(old=huge, new="b"), person(huge), calls("Bash", command=huge))
