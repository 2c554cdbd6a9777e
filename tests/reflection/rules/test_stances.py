"""How people's messages are read: the sentences are made up in the manner of real sessions."""

from __future__ import annotations

import pytest

from reflector.reflection.rules.topics import content_words
from reflector.reflection.rules.user_reaction import read_reaction, read_stance


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
        ("I still get the same error", "symptom"),
        ("the menu still overlaps the logo", "symptom"),
        ("CI failed", "symptom"),
        ("the export isn't working on mobile", "symptom"),
        ("hmm the page is blank now", "symptom"),
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


def test_a_quote_keeps_the_spelling_of_the_person() -> None:
    stance = read_stance("ok. thats wrong, the tables dont match")
    assert stance.objects
    assert stance.quote == "thats wrong, the tables dont match"


@pytest.mark.parametrize(
    "text",
    [
        "the error page is great. the success one is too much",
        "the status filter is kept, the date range isn't",
        "zoom is right now but the menu still overlaps the logo",
    ],
)
def test_praise_for_one_part_and_a_fault_of_another_is_mixed(text: str) -> None:
    assert read_stance(text).bearing == "mixed"


def test_content_words_meet_across_plural_and_ing() -> None:
    assert content_words("buttons") == content_words("button")
    assert content_words("the and with") == frozenset()


OBJECTIONS = [
    "why is it showing the default avatar even when I uploaded one",
    "The modal should close when I click outside, it doesn't",
    "I don't think we need a new table for this, just add a column",
    "this seems overly complicated, can't we just use a set?",
    "you didn't run the linter",
    "you removed the comments, put them back",
    "please don't create new files for this",
    "That's a lot of code for a simple thing",
    "Why do we need this wrapper?",
    "hmm not sure I like this. could we do it without the extra class",
    "I think this is the wrong approach. The parser should own this.",
    "we should not depend on the cwd here",
    "isn't that what the config is for?",
    "it's still failing on CI",
    "nope, same thing",
    "Nothing happens when I click",
    "I'm getting a 404 now",
    "Now I get: Module not found",
    "the dev server crashes with EADDRINUSE",
    "the colors are wrong in dark mode",
    "the margin is still too big",
    "not working",
    "doesn't work",
    "did not work",
    "it broke the build",
    "Didn't we already have a helper for that?",
    "wait what? why did you delete that",
    "I asked for tabs not spaces",
    "That is not what the spec says",
    "The tests you wrote don't actually test anything",
    "stop adding comments everywhere",
    "no need for a fallback here",
    "Let's not do that, keep it simple",
    "this should be in the service not the controller",
    "I'd rather not add a dependency",
    "we don't want to break existing users",
    "you should have used the existing hook",
    "Use pnpm, not npm",
    "please use pnpm not npm",
    "I told you to use pnpm",
    "are you sure that's right? the docs say otherwise",
    "The icon is not centered",
    "The button is cut off on small screens",
    "I see two headers now",
    "The list is empty",
    "I can't log in anymore",
    "login is broken now",
    "that didn't help",
    "Sigh. That's not it.",
    "Have you actually looked at the screenshot?",
    "But the file doesn't exist",
    "But that means users lose their data?",
    "hm, this feels hacky",
    "can we do this without regex?",
    "there is a bug in what you did: negative numbers",
    "You are using the old API",
    "that's the old API",
    "You're overthinking this",
    "Too verbose. Shorten it.",
    "way too long",
    "Please simplify",
    "That's wrong",
    "that is incorrect",
    "actually no, let's keep the old behaviour",
    "Actually, I want it on the left",
    "I want it on the left instead",
    "not quite, the total should include tax",
    "almost, but the date format is wrong",
    "Looks better but still not aligned",
    "I don't understand why you changed this file",
    "what is this file doing here?",
    "what happened to the sidebar?",
    "where did my changes go?",
    "Why so many files?",
    "why not just use the existing endpoint?",
    "why not just reuse X",
    "shouldn't this be a POST?",
    "wouldn't it be better to cache this?",
    "Isn't there a simpler way?",
    "do we really need this?",
    "is this really necessary?",
    "Don't you think that's excessive",
    "Please revert your last change",
    "go back to the previous version",
    "The review bot says the null check is missing",
    "reviewer complained about naming",
    "The PR review found two issues",
    "CI is red",
    "pipeline failed",
    "build fails on windows",
    "tests are failing",
    "lint is failing",
    "there are type errors",
    "there's an error in the console: X is undefined",
    "it throws when the list is empty",
    "seems like it isn't picking up the env var",
    "it looks like the hook isn't firing",
    "the hook didn't fire",
    "It's not updating after save",
    "It doesnt update",
    "nothing changed",
    "I see no difference",
    "still nothing",
    "no dice",
    "that's not how it works",
    "this makes no sense",
    "I think you misunderstood",
    "you got it backwards",
    "you keep making the same mistake",
    "omg no",
    "remove that, we don't need it",
    "we don't need this",
    "I don't want that",
    "never commit without asking",
    "why did you commit?",
    "you were not supposed to push",
    "I said don't push",
    "did I ask you to do this?",
    "Who asked for a refactor?",
    "thats way too complicated for a health check",
    "isnt this what the cache is for?",
    "nah revert, I liked it better before",
    "it was better before",
    "hmm now every title got huge",
    "just the pricing page please",
    "leave the other tests as they are",
    "we never mock the network in here, use the fake server",
    "this repo always uses tabs",
    "i only wanted the label changed",
    "put the old icon back",
    "make the border gray, not blue",
    "it used to work before the refactoring",
    "FATAL ERROR: heap limit reached, giving up\n 1: 0xb7a940 node::Abort()",
    "where's the save button?",
]
TASKS = [
    "add a dark mode toggle",
    "now let's work on the settings page",
    "can you also export the type?",
    "ok next: write the docs",
    "what does this function do?",
    "how do I run this?",
    "let's add tests for the parser",
    "Please create a PR description",
    "update the readme too",
    "I also need a way to delete items",
    "we need to support multiple users",
    "the app should have a login page with email and password",
    "create a function that returns the first missing number",
    "please review the code in src/",
    "search for all usages of foo",
    "what is the difference between A and B?",
    "now implement step 2",
    "continue with phase 3",
    "let's move on to the next task",
    "Read the file docs/plan.md",
    "rename it to utils.ts",
    "bump the version",
    "Explain how the auth works",
    "show me the diff",
    "list all open issues",
    "can you check the logs",
    "run the tests",
    "run the app",
    "start the server",
    "what's next?",
    "what else is missing?",
    "are there any other places that use this?",
    "is it possible to add caching?",
    "do we have tests for this?",
    "I want to add a feature where users can share links",
    "Add error handling for the case when the API is down",
    "handle the missing file case",
    "make the button wrong-click safe",
    "if the user is not logged in, redirect to /login",
    "the user should not be able to delete others' posts",
    "1",
    "2",
    "option B",
    "both",
    "use the first one",
    "A",
    "Let me think about it",
    "Here is the log file: /tmp/a.log",
    "I have a CSV with 3 columns",
    "check out branch foo",
    "pull latest",
    "write a commit message",
    "We have an issue where the sync is slow. Investigate.",
    "Users report that the page doesn't load. Investigate.",
    "help me debug why the cron is not running",
    "Fix issue #123",
    "look at issue 45 and propose a fix",
    "merge main into this branch",
    "what about windows?",
    "what about tests?",
    "how about the other endpoint?",
    "also do it for the admin page",
    "one more thing: sort by date",
    "another thing: the footer needs a link",
    "I'd like to also see the total",
    "could you add a comment there",
    "maybe add a cache",
    "and also the header",
    "let's discuss the design first",
    "ultrathink about this",
    "think harder",
    "füge eine Spalte mit dem Datum hinzu",
    "schreibe Tests für den Parser",
    "ajoute une colonne avec la date",
    "écris les tests",
    "agrega una columna con la fecha",
    "escribe las pruebas",
    "adicione uma coluna com a data",
    "escreva os testes",
    "aggiungi una colonna con la data",
    "scrivi i test",
    "добавь колонку с датой",
    "напиши тесты",
    "日付の列を追加してください",
    "テストを書いてください",
    "ログイン画面を作成して",
    "添加一个日期列",
    "写测试",
    "帮我实现登录功能",
    "날짜 열을 추가해줘",
    "테스트를 작성해줘",
    "And where is the mail server configured?",
    "where are the translations stored?",
    "where is the button component defined?",
    "where did the 404 page come from?",
    "how many tests are failing now?",
    "which tests failed?",
    "what is missing for the release?",
    "are there any errors in the log?",
    "wait, how does this handle nulls?",
    "why would that be slow?",
    "why do we need the lock here?",
    "why did you use a map?",
    "did you run the tests?",
    "explain why that works",
    "ok now the metrics endpoint",
    "whats the url again",
]
APPROVALS = [
    "nice",
    "great",
    "awesome, thanks",
    "that did it",
    "yep works",
    "works like a charm",
    "all good now",
    "ok good",
    "great, commit this",
    "perfect. now do the same for the other page",
    "looks great",
    "love it",
    "ok cool",
    "excellent work",
    "beautiful",
    "good, push it",
    "yes this is what I wanted",
    "that's better",
    "much better",
    "ok thats fixed",
    "fixed!",
    "sweet",
    "it's working now",
    "now it works",
    "Thank you so much",
    "that's exactly it",
    "confirmed, it works",
    "great job! Let's move on to X",
    "that worked",
    "it worked!",
    "this is great",
    "ok I tested it and it works fine",
    "Tested, all good",
    "good catch",
    "good find",
    "makes sense, go ahead",
    "I like option 2, let's do that",
    "ok do it",
    "yes please",
    "yes go",
    "approved",
    "ok, ship it",
    "LGTM",
    "nice, that's much cleaner",
    "ahh yes that was it",
    "now do the same thing for invoices",
    "feels instant now",
    "way smoother than before, merge it",
    "ok that works now, but a question: why did the first version work?",
    "works. now the docs",
    "the layout is right now",
    "ci is green",
    "I can see it now",
]


@pytest.mark.parametrize("text", OBJECTIONS)
def test_an_objection_or_a_symptom_is_heard(text: str) -> None:
    stance = read_stance(text)
    assert stance.objects
    assert stance.strength >= 2


@pytest.mark.parametrize("text", TASKS)
def test_a_task_a_question_or_an_answer_is_no_verdict(text: str) -> None:
    stance = read_stance(text)
    assert stance.bearing in ("other", "asks", "continues") or stance.strength < 2


@pytest.mark.parametrize("text", APPROVALS)
def test_approval_is_heard(text: str) -> None:
    assert read_stance(text).bearing in ("approves", "builds_on")
