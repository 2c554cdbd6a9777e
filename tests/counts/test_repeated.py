"""Your sentences that come again over sessions."""

import pytest

from reflector.counts.repeated import Sentence, repeated


def _rows(*words: str, sessions: int = 3) -> list[tuple[str, int]]:
    sentences = [
        Sentence(text, f"2026-11-{number:02d}T09:00:00Z", f"s-{number % sessions}")
        for number, text in enumerate(words, start=1)
    ]
    return [(row.newest.words, row.sessions) for row in repeated(sentences)]


def test_sentence_of_three_sessions_is_row() -> None:
    rows = _rows("Use pnpm, not npm.", "please use pnpm, not npm", "use pnpm, not npm!")
    assert rows == [("use pnpm, not npm!", 3)]


@pytest.mark.parametrize("sessions", [1, 2])
def test_sentence_of_fewer_sessions_is_none(sessions: int) -> None:
    assert _rows(*["Use pnpm, not npm."] * 5, sessions=sessions) == []


def test_sentences_that_differ_are_not_joined() -> None:
    assert _rows("Use pnpm, not npm.", "Never mock the database.", "Answer in the thread.") == []
