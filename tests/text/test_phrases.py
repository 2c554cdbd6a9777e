"""Numbers and messages in words."""

import pytest

from reflector.text.phrases import counted, named, short_number


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
    ("number", "shown"),
    [(1 / 3, "0.333"), (12.34, "12.3"), (999.7, "1,000"), (1000, "1,000"), (123_456.7, "123,457")],
)
def test_large_number_keeps_its_digits(number: float, shown: str) -> None:
    assert short_number(number) == shown


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
