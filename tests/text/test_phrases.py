"""A number with its noun."""

import pytest

from reflector.text.phrases import counted, named


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (0, "rule", "0 rules"),
        (1, "rule", "1 rule"),
        (2_000, "rule", "2,000 rules"),
        (1, "delivery", "1 delivery"),
        (3, "hook delivery", "3 hook deliveries"),
        (3, "day", "3 days"),
    ],
)
def test_noun_agrees_with_its_number(number: int, noun: str, words: str) -> None:
    assert counted(number, noun) == words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the ledger is locked", "reflector: the ledger is locked"),
        ("reflector could not read it", "reflector could not read it"),
        ("reflectors are here", "reflector: reflectors are here"),
    ],
)
def test_message_names_the_program_once(text: str, shown: str) -> None:
    assert named(text) == shown
