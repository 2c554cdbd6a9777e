"""The form of your sentences: the ones that may be requests."""

import pytest

from reflector.counts.sentences import requests
from reflector.transcripts.speakers import own_sentences


@pytest.mark.parametrize(
    "sentence",
    [
        "Use the old port.",
        "please don't add comments that restate the code",
        "trunk is off limits for you",
        "always run the tests, in every package",
        "以后注释都用英文写",
        "add type hints to every function.",
        "Good, but add a docstring to each function",
        "Every function needs type hints",
        "all endpoints must check the role",
        "document every public class",
        "Write a changelog entry for all fixes",
        "I never want to see comments that repeat the code",
    ],
)
def test_wish_is_a_request(sentence: str) -> None:
    assert requests(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "use the new client in this file",
        "Write a script that lists all users without an email.",
        "don't commit yet",
        "add a log line to every function in src/cart.py",
        "add a button to each of these rows",
        "now put a title on every page",
        "Does every function need type hints?",
        "fix all broken links",
        "show the total for each user",
        "Every test needs two seconds now.",
        "no new dependency for this",
        "このファイルだけ変更してください",
        "interesting, jest never tells you about that",
        "the old team never wrote tests",
        "I always forget how it works",
    ],
)
def test_order_at_hand_or_report_is_no_request(sentence: str) -> None:
    assert not requests(sentence)


def test_abbreviation_ends_no_sentence() -> None:
    text = "Names, comments etc. always in English, e.g. in tests. Go on."
    assert [*own_sentences(text)] == [
        "Names, comments etc. always in English, e.g. in tests.",
        "Go on.",
    ]
