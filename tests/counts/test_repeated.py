"""Your sentences that come again over sessions."""

import pytest

from reflector.counts.repeated import Repeated, Sentence, repeated


def _repeated(*words: str, sessions: int = 3) -> list[Repeated]:
    sentences = [
        Sentence(text, f"2026-11-{number:02d}T09:00:00Z", f"s-{number % sessions}")
        for number, text in enumerate(words, start=1)
    ]
    return repeated(sentences)


def _rows(*words: str, sessions: int = 3) -> list[tuple[str, int]]:
    rows = _repeated(*words, sessions=sessions)
    return [(next(iter(row.said.values())), len(row.said)) for row in rows]


def test_sentence_of_three_sessions_is_row() -> None:
    rows = _rows("Use the old port.", "please use the old port", "use the old port!")
    assert rows == [("use the old port!", 3)]


@pytest.mark.parametrize("sessions", [1, 2])
def test_sentence_of_fewer_sessions_is_none(sessions: int) -> None:
    assert _rows(*["Use the old port."] * 5, sessions=sessions) == []


@pytest.mark.parametrize(
    ("words", "sessions"),
    [
        (("Use pnpm, not npm.", "pnpm instead of npm please, I said that before"), 2),
        (
            (
                "please don't add comments that restate the code",
                "Stop adding comments that only repeat what the code says.",
                "no comments that just describe the next line",
            ),
            3,
        ),
        (
            (
                "Please keep the PR description short, two sentences at most.",
                "The PR body is too long again.",
                "Please write shorter PR descriptions, I keep saying this.",
            ),
            3,
        ),
        (
            (
                "show me the diff before committing, always",
                "always show me the diff before committing",
                "show me the diff before you commit",
            ),
            3,
        ),
        (("no emojis in commits", "never use emojis", "and without emoji please"), 3),
        (
            (
                "add type hints to every function.",
                "Every function needs type hints",
                "Good, but add type hints to each function",
            ),
            3,
        ),
        (("stop mocking the store", "never mock the store", "don't mock the store in tests"), 3),
        (
            (
                "Commit titles always go like `fix(ext/web): ...` please.",
                "From now on use conventional commit titles, with the crate.",
                "Every commit subject should follow the conventional style.",
            ),
            3,
        ),
        (
            (
                "Please never touch things outside the task, keep the diff small.",
                "Don't clean up unrelated code while you are in a file.",
                "I always want only what the issue asks for, no extra refactoring.",
                "I didn't ask you to rename it",
                "Keep your changes minimal.",
                "never change code that is not part of the issue",
            ),
            6,
        ),
    ],
)
def test_same_aim_in_other_words_is_row(words: tuple[str, ...], sessions: int) -> None:
    assert _rows(*words, sessions=sessions) == [(words[-1], sessions)]


@pytest.mark.parametrize(
    "words",
    [
        ("no comments in tests", "no emojis in tests", "no mocks in tests"),
        ("don't touch the parser", "don't rename the parser", "don't split the parser"),
        ("if no comments exist, go on", "it has no comments", "no longer needed"),
        ("Open a PR when done", "commit and push", "open a pull request"),
        (
            "Squash the commits and give it a conventional title.",
            "We don't use conventional commits here.",
            "The commit messages from the bot look like fix(deps): bump",
        ),
        (
            "There are no unrelated changes in the diff.",
            "Don't fix the unrelated code yet.",
            "The parser reads only what the request needs.",
        ),
    ],
)
def test_other_aims_and_orders_are_no_row(words: tuple[str, ...]) -> None:
    assert _rows(*words) == []


def test_sentences_that_differ_are_not_joined() -> None:
    assert _rows("Use pnpm, not npm.", "Never mock the database.", "Answer in the thread.") == []


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        (
            "tests",
            (
                "Every fix needs a test.",
                "you never write a test",
                "Never merge a fix without a test.",
            ),
        ),
        (
            "documentation",
            (
                "Always update the changelog.",
                "you didn't update the docs",
                "From now on update the readme with every release.",
            ),
        ),
        (
            "a run of the checks",
            (
                "Always run the linter before you push.",
                "Whenever you change something, run the unit tests.",
                "Never say you are done without having run the test suite.",
            ),
        ),
        (
            "a question first",
            (
                "Ask me before you add a dependency.",
                "Never add a dependency to the tests without asking me.",
                "Please always check with me before you push.",
            ),
        ),
    ],
)
def test_requests_of_one_topic_are_one_row(topic: str, words: tuple[str, ...]) -> None:
    [row] = _repeated(*words)
    assert (row.topic, [*row.said.values()]) == (topic, [*words][::-1])


@pytest.mark.parametrize(
    "words",
    [
        ("the tests are green", "Test the door.", "which tests ran?"),
        ("Never add a test user.", "always create a test page", "each job needs a test database"),
        ("commit 3f2a91c0 broke it", "The commit is there.", "but don't commit"),
        (
            "good, add a test for this case and push",
            "write a spec test that shows it",
            "Always ask me before you add a dependency to the tests.",
        ),
        (
            "Never run the tests in parallel.",
            "Whenever I run the tests it hangs.",
            "Did you run the tests?",
        ),
        ("you can push without asking", "Always merge without asking.", "ask me first"),
        (
            "Never push this without asking.",
            "Always ask me before you merge, for this branch.",
            "Whenever you rename a page in this PR, check with me first.",
        ),
        (
            "The dialog should always ask first.",
            "It never deletes a page without asking.",
            "My script always asks you, ask first or not.",
        ),
        ("make it shorter", "the function is too long", "keep it concise here"),
        ("Never add tests to the core.", "Always add tests, as the page says?", "Add tests now."),
    ],
)
def test_mention_of_a_topic_asks_for_nothing(words: tuple[str, ...]) -> None:
    assert _repeated(*words) == []


def test_fork_of_a_session_repeats_nothing() -> None:
    at = "2026-11-01T09:00:00Z"
    forks = [Sentence("Add a test.", at, f"s-{number}") for number in range(3)]
    assert repeated(forks) == []


@pytest.mark.parametrize(
    "words",
    [
        "src/index.ts:64: add a test for it",
        "no changes added to commit but you can use add",
        "Use file names and line numbers to reference the changes in it.",
    ],
)
def test_pasted_line_repeats_nothing(words: str) -> None:
    assert _repeated(words, words, words) == []
