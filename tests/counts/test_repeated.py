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
        (("no emojis in commits", "never use emojis", "and without emoji please"), 3),
        (("stop mocking the store", "never mock the store", "don't mock the store in tests"), 3),
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
                "should we add some more tests too?",
                "Did you write a test?",
                "This lacks unit tests.",
            ),
        ),
        (
            "tests",
            (
                "can we add at least one test?",
                "can you add an explicit test for this?",
                "please write another test",
            ),
        ),
        (
            "less duplicated code",
            (
                "Any chance we can consolidate this code?",
                "is this function duplicated in utils",
                "That is, this section is duplicated.",
            ),
        ),
        (
            "a question first",
            ("ask me before you add one", "not without asking", "please ask first next time"),
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
        ("Add a test user.", "create a test page", "add one test file"),
        ("commit 3f2a91c0 broke it", "The commit is there.", "but don't commit"),
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
