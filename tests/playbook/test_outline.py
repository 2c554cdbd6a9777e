"""A Markdown text without some of its rules."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from reflector.playbook.markdown import load_markdown
from reflector.playbook.outline import Outline

TEXT = """---
title: x
---
# Shop

Text.

## Git

- Never force-push.
- Run the linter
  before you commit.

## Tests

- Tests:
  - Write them first.
  - Keep them fast.

1. Read the log.
2. Open an issue.
"""
PIECES = (
    "- Never force-push.\n",
    "- Run the linter\n  before you commit.\n",
    "* Use tabs, please.\n\n",
    "- Tests:\n  - Write them first.\n  - Keep them fast.\n",
    "1. Read the log.\n2. Open an issue.\n",
    "## Git\n",
    "# Shop\n\n",
    "Some words of a paragraph.\n",
    "Setext title\n===\n",
    "```\n- not a rule\n```\n",
    "| a | b |\n|---|---|\n| x | y |\n",
    "\n",
    "- [ ] Ask before a release.\r\n",
)


def rules_of(text: str) -> dict[int, str]:
    """The rules of a text, by line."""
    loaded = load_markdown(text)
    lines = {name: int(place.split()[1]) for name, place in loaded.places.items()}
    return {lines[bullet.name]: bullet.text for bullet in loaded.bullets}


@pytest.mark.parametrize(
    ("number", "heading"), [(6, "Shop"), (10, "Git"), (18, "Tests"), (4, ""), (1, "")]
)
def test_heading_is_the_nearest_above(number: int, heading: str) -> None:
    assert Outline(TEXT).heading(number) == heading


@pytest.mark.parametrize(
    ("numbers", "gone"),
    [
        ({10}, {10}),
        ({11}, {11, 12}),
        ({10, 11}, {8, 9, 10, 11, 12, 13}),
        ({17}, {17}),
        ({17, 18}, {16, 17, 18, 19}),
        ({20}, {20, 21}),
    ],
)
def test_rule_goes_with_all_of_its_lines(numbers: set[int], gone: set[int]) -> None:
    rules = rules_of(TEXT)
    rest = Outline(TEXT).without_rules({number: rules[number] for number in numbers})
    lines = TEXT.splitlines(keepends=True)
    kept = [line for number, line in enumerate(lines, 1) if number not in gone]
    assert rest.split() == "".join(kept).split()
    assert "\n\n\n" not in rest


@given(st.lists(st.sampled_from(PIECES)).map("".join), st.data())
def test_text_keeps_the_other_rules_and_their_bytes(text: str, data: st.DataObject) -> None:
    rules = rules_of(text)
    chosen = data.draw(st.sets(st.sampled_from(sorted(rules)))) if rules else set()
    rest = Outline(text).without_rules({number: rules[number] for number in chosen})
    left = Counter(rules.values())
    left.subtract(rules[number] for number in chosen)
    assert Counter(rules_of(rest).values()) == +left
    position = 0
    for line in rest.splitlines(keepends=True):
        position = text.index(line, position) + len(line)


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_nothing_removed_changes_no_byte(text: str) -> None:
    assert Outline(text).without_rules({}) == text
