"""One word for the words that mean the same."""

import pytest

from reflector.text.synonyms import stem, usual_word


@pytest.mark.parametrize(
    ("words", "usual"), [("uses utilise preferred", "use"), ("deleting removed", "remov")]
)
def test_words_with_one_meaning_become_one(words: str, usual: str) -> None:
    assert {usual_word(word) for word in words.split()} == {usual}


@pytest.mark.parametrize("word", ["important", "class", "this", "bus"])
def test_word_without_an_ending_stays(word: str) -> None:
    assert stem(word) == word
