"""The strings that are looked for before a pattern is tried lose nothing that the pattern matches."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.reflection.rules.needles import Needles
from reflector.reflection.rules.page import ALL_RULES
from reflector.reflection.rules.table import found

#: Words of the rules' own examples, so that drawn texts come close to what the patterns match.
_WORDS = sorted({word for rule in ALL_RULES for word in f"{rule.example} {rule.counter}".split()})
_PIECES = st.one_of(
    st.sampled_from(_WORDS),
    st.sampled_from([rule.example for rule in ALL_RULES]),
    st.sampled_from(["İ", "ı", "ſ", "K", "ẞ", "Σ", "ς", "🔴", "✅", "\n", "’", "1", "."]),
)


@given(st.lists(_PIECES, max_size=12), st.sampled_from([str, str.upper, str.lower, str.title, str.swapcase]))
def test_what_a_rule_matches_is_never_passed_over(pieces: list[str], spelled: type[str]) -> None:
    text = spelled(" ".join(pieces))
    for rule in ALL_RULES:
        flags = re.MULTILINE | (0 if rule.reads == "result" else re.IGNORECASE)
        expression = re.compile(rule.pattern, flags)
        plain = expression.search(text) if rule.place == "anywhere" else expression.match(text)
        assert (found(rule, text) is None) == (plain is None)
        if expression.search(text):
            assert not Needles(rule.pattern, flags).missing(text)


def test_most_rules_are_passed_over_without_trying_their_patterns() -> None:
    text = "Reading the parser before the values of its records are joined."
    tried = [rule.id for rule in ALL_RULES if not Needles(rule.pattern, re.IGNORECASE).missing(text)]
    assert len(tried) < len(ALL_RULES) / 4


@pytest.mark.parametrize(
    ("pattern", "text", "missing"),
    [
        (r"(?:un)?related\b", "unrelated", False),
        (r"(?:un)?related\b", "relate", True),
        (r"a?b*c+", "xyz", True),
        (r"a?b*c+", "c", False),
        (r"(?:fail|err)(?:ed|or)", "failor", False),
        (r"(?:fail|err)(?:ed|or)", "fail error", False),
        (r"(?:fail|err)(?:ed|or)", "fail or", True),
        (r"(?=now)\w+", "then", False),
        (r"(?<!x)y|z", "y", False),
        (r"\d+ of \d+", "3 off 4", True),
        (r"(?:|a)", "", False),
        (r"(?i:A)b", "ab", False),
        (r"(\w)\1", "aa", False),
        (r"[ab]c", "bc", False),
        (r"[^a]c", "bc", False),
        (r"(?>ab)c", "abc", False),
        (r"x{2,3}", "xx", False),
        (r"x{2,3}", "y", True),
    ],
)
def test_the_strings_of_a_pattern_stand_in_whatever_it_matches(pattern: str, text: str, missing: bool) -> None:
    assert Needles(pattern).missing(text) is missing
    assert not (missing and re.search(pattern, text))


def test_every_letter_that_a_pattern_takes_for_another_is_found() -> None:
    letters = {letter.lower() for rule in ALL_RULES if rule.reads != "result" for letter in rule.pattern}
    letters = {letter for letter in letters if letter.isalpha()}
    expression = re.compile("[" + re.escape("".join(sorted(letters))) + "]", re.IGNORECASE)
    needles = {letter: Needles(re.escape(letter), re.IGNORECASE) for letter in letters}
    alike = 0
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if not expression.match(character):
            continue
        for letter in letters:
            if re.match(re.escape(letter), character, re.IGNORECASE):
                alike += 1
                assert not needles[letter].missing(character), (letter, character)
    assert alike > len(letters)
