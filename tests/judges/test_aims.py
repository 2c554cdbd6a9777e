"""The aims of wishes, which stay the same in other words."""

import pytest

from reflector.judges.reading.aims import aims_of


@pytest.mark.parametrize(
    ("aim", "wishes"),
    [
        ("rg, not grep", ["No, use rg, not grep.", "don't use grep, use rg"]),
        ("shorter pr description", ["Keep the PR description short.", "The PR body is too long."]),
    ],
    ids=str,
)
def test_wishes_in_other_words_share_an_aim(aim: str, wishes: list[str]) -> None:
    assert all(aim in aims_of(wish) for wish in wishes)


@pytest.mark.parametrize(
    "text", ["Use the new page, not the old one.", "If no comments exist, add one.", "Go on."]
)
def test_text_of_another_form_has_no_aim(text: str) -> None:
    assert aims_of(text) == frozenset()
