"""How people's messages are read: the sentences are made up in the manner of real sessions."""

from __future__ import annotations

import pytest

from reflector.reflection.stances import content_words, read_reaction, read_stance


@pytest.mark.parametrize(
    ("text", "bearing"),
    [
        ("ok, it is working now, but now a question: who clears the cache?", "approves"),
        ("works now", "approves"),
        ("that fixed it, thanks. next: the footer", "approves"),
        ("perfect", "approves"),
        ("great! now the tests please", "approves"),
        ("lgtm, merge it", "approves"),
        ("yes, exactly, please build this", "approves"),
        ("jetzt funktioniert es, danke", "approves"),
        ("動きました。ありがとう", "approves"),
        ("commit and push", "builds_on"),
        ("go ahead", "builds_on"),
        ("yes do it", "builds_on"),
        ("looks good but the header is far too tall", "corrects"),
        ("nice, but can you make the font smaller?", "corrects"),
        ("why is the UI showing last week's orders?", "corrects"),
        ("no, the other table", "corrects"),
        ("I meant the settings page, not the profile", "corrects"),
        ("don't touch the migration", "corrects"),
        ("wait, why are you changing the schema", "corrects"),
        ("undo that", "corrects"),
        ("you forgot the changelog", "corrects"),
        ("不对，不要改这个文件", "corrects"),
        ("I still get the same error", "symptom"),
        ("the menu still overlaps the logo", "symptom"),
        ("CI failed", "symptom"),
        ("the export isn't working on mobile", "symptom"),
        ("hmm the page is blank now", "symptom"),
        ("geht leider immer noch nicht", "symptom"),
        ("всё равно не работает", "symptom"),
        ("the upload works now but the preview is still blank", "mixed"),
        ("continue", "continues"),
        ("try again", "continues"),
        ("what does the last column mean?", "asks"),
        ("should we also handle null?", "asks"),
        ("now add a settings page", "other"),
        ("can you also export it as csv", "other"),
        ("start the server in the background", "other"),
        ("make sure it works on windows", "other"),
        ("", "other"),
    ],
)
def test_a_message_is_read_for_what_it_says_about_the_work(text: str, bearing: str) -> None:
    assert read_stance(text).bearing == bearing


def test_a_pasted_stack_trace_alone_is_a_symptom() -> None:
    pasted = "```\nTraceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 'id'\n```"
    assert read_stance(pasted).bearing == "symptom"


def test_a_long_brief_with_hard_words_is_a_task() -> None:
    brief = "Implement the following plan:\n\n# Import\n\nRows must not be lost. " + "It should never fail again. " * 60
    assert not read_stance(brief).objects


def test_a_reason_for_a_refusal_is_an_objection_unless_it_says_go_on() -> None:
    assert read_stance("put it into the service layer", refused=True).objects
    assert not read_stance("continue", refused=True).objects


def test_no_as_an_answer_to_a_question_is_not_an_objection() -> None:
    assert read_stance("no", answers=False).objects
    assert not read_stance("no", answers=True).objects


def test_the_agents_first_words_tell_how_it_took_the_message() -> None:
    assert read_reaction("You're absolutely right, I should have asked.") == "concedes"
    assert read_reaction("Glad it works! Next I will …") == "glad"
    assert read_reaction("Let me look at the router.") == ""


def test_content_words_meet_across_plural_and_ing() -> None:
    assert content_words("buttons") == content_words("button")
    assert content_words("the and with") == frozenset()
