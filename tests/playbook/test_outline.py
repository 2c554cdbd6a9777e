"""A Markdown text without some of its rules."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from reflector.instructions.blocks import blocks_of
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
TABLE = "| a | b |\n|---|---|\n| x | y |\n"
PIECES = (
    "- Never force-push.\n",
    "- Run the linter\n  before you commit.\n",
    "* Use tabs, please.\n\n",
    "- Tests:\n  - Write them first.\n  - Keep them fast.\n",
    "1. Read the log.\n2. Open an issue.\n",
    "## Git\n",
    "# Shop\n\n",
    "Some words of a paragraph.\n\n",
    "Setext title\n===\n",
    "```\n- not a rule\n```\n",
    TABLE,
    "\n",
    "- [ ] Ask before a release.\r\n",
)


def rules_of(text: str) -> dict[int, str]:
    """The units of a text that are items, steps or rows, by line."""
    return {
        block.number: block.text
        for block in blocks_of(text)
        if block.form in ("item", "step", "row") and block.text
    }


@pytest.mark.parametrize("below", ["Some words.\n", "Setext title\n===\nWords.\n"])
def test_text_below_a_cut_stays_apart(below: str) -> None:
    text = f"- Run the linter.\n{TABLE}{below}"
    assert Outline(text).without_rules({4}) == f"- Run the linter.\n\n{below}"


def test_table_directly_below_another_stays_whole() -> None:
    assert Outline(TABLE + TABLE).without_rules({3}) == TABLE
    assert Outline(TABLE + TABLE).removable({4}) == set()


@pytest.mark.parametrize(
    ("numbers", "gone"),
    [
        ({10}, {10}),
        ({11}, {11, 12}),
        ({10, 11}, {8, 9, 10, 11, 12, 13}),
        ({17}, {17}),
        ({17, 18}, {16, 17, 18, 19}),
        ({20}, {20}),
        ({20, 21}, {20, 21}),
    ],
)
def test_rule_goes_with_all_of_its_lines(numbers: set[int], gone: set[int]) -> None:
    rest = Outline(TEXT).without_rules(numbers)
    lines = TEXT.splitlines(keepends=True)
    kept = [line for number, line in enumerate(lines, 1) if number not in gone]
    assert rest.split() == "".join(kept).split()
    assert "\n\n\n" not in rest


def test_an_item_that_leads_to_a_rest_stays() -> None:
    assert Outline(TEXT).removable({16, 17}) == {17}


def test_numbered_steps_go_or_stay_together() -> None:
    assert Outline(TEXT).removable({10, 20}) == {10}
    assert Outline(TEXT).removable({20, 21}) == {20, 21}


def test_a_table_without_rows_loses_its_head() -> None:
    table = "Words.\n\n| a | b |\n|---|---|\n| x | y |\n| p | q |\n"
    assert Outline(table).without_rules({5, 6}) == "Words.\n"
    assert Outline(table).without_rules({5}) == table.replace("| x | y |\n", "")


@given(st.lists(st.sampled_from(PIECES)).map("".join), st.data())
def test_text_keeps_the_other_rules_and_their_bytes(text: str, data: st.DataObject) -> None:
    rules = rules_of(text)
    drawn = data.draw(st.sets(st.sampled_from(sorted(rules)))) if rules else set()
    chosen = Outline(text).removable(drawn)
    rest = Outline(text).without_rules(chosen)
    left = Counter(rules.values())
    left.subtract(rules[number] for number in chosen)
    missing = +left - Counter(rules_of(rest).values())
    assert set(missing) <= {"Tests:"}
    position = 0
    for line in rest.splitlines(keepends=True):
        position = text.index(line, position) + len(line)


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_nothing_removed_changes_no_byte(text: str) -> None:
    assert Outline(text).without_rules(set()) == text
