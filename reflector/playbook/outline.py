"""Removes some rules from a Markdown text.

Invariant: `without_rules` removes whole lines and changes no other byte. It removes list items,
numbered steps and table rows, the lines that only introduced them, headings without any remaining
text, and blank lines that met at a cut. A blank line replaces a cut if the paragraph or
underlined heading below it would otherwise join the text above.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from reflector.instructions.blocks import Block, Form, blocks_of

_REMOVABLE = (Form.ITEM, Form.STEP, Form.ROW)
#: The head of a table and the line below it.
_HEAD_LINES = 2


class Outline:
    """A Markdown text and its parts; lines are counted from 1."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._blocks = blocks_of(text)

    def removable(self, numbers: Collection[int]) -> set[int]:
        """Return those of the lines `numbers` whose rules can be removed from the text.

        Such a line begins a list item, step or row, and every block in its rule is removed with it.
        A step can be removed only together with all steps of its numbered list.
        """
        chosen = {
            block.number
            for block in self._blocks
            if block.number in numbers and block.form in _REMOVABLE
        }
        # If a block stays, the blocks around it and the steps beside it must stay, too. So the
        # check is repeated until no more block stays.
        while True:
            staying = {
                block.number
                for at, block in enumerate(self._blocks)
                if block.number in chosen
                and any(nested.number not in chosen for nested in self._nested(at))
            }
            for steps in self._numbered_lists():
                if not steps <= chosen:
                    staying |= steps & chosen
            if not staying:
                return chosen
            chosen -= staying

    def _numbered_lists(self) -> Iterator[set[int]]:
        """Yield the lines of the steps of each numbered list."""
        steps: dict[int, set[int]] = {}
        for block in self._blocks:
            for level in [level for level in steps if level > block.level]:
                yield steps.pop(level)
            if block.form == Form.STEP:
                steps.setdefault(block.level, set()).add(block.number)
            elif block.level in steps:
                yield steps.pop(block.level)
        yield from steps.values()

    def without_rules(self, numbers: Collection[int]) -> str:
        """Return the text without the rules that begin at these lines."""
        gone = self._lines_of(numbers)
        headings = [block for block in self._blocks if block.form == Form.HEADING]
        for at in reversed(range(len(headings))):
            section = self._section(headings, at)
            own = range(headings[at].number, headings[at].number + 1)
            rest = [number for number in section if number not in gone and number not in own]
            is_cut = not gone.isdisjoint(section)
            if is_cut and not any(map(self._has_text, rest)):
                gone.update(own)
                gone.update(number for number in rest if self._is_underline(number, own))
        return "".join(self._kept(gone))

    def _nested(self, at: int) -> Iterator[Block]:
        """Yield the blocks in a list item."""
        for block in self._blocks[at + 1 :]:
            if block.form == Form.HEADING or block.level <= self._blocks[at].level:
                return
            yield block

    def _lines_of(self, numbers: Collection[int]) -> set[int]:
        """Return the lines of rules, and of the items and table heads that only lead to them."""
        gone: set[int] = set()
        for at in reversed(range(len(self._blocks))):  # an item comes after the items in it
            block = self._blocks[at]
            lines = {number for number, _ in block.lines}
            nested = list(self._nested(at))
            is_emptied = block.opens and nested and all(each.number in gone for each in nested)
            if block.form in _REMOVABLE and (block.number in numbers or is_emptied):
                gone |= lines
        return gone | self._heads_without_rows(gone)

    def _heads_without_rows(self, gone: Collection[int]) -> set[int]:
        """Return the lines of the table heads that have no remaining row.

        Rows on consecutive lines are one table, and its head is before the first row. The line 0
        ends the last table.
        """
        heads: set[int] = set()
        first = previous = 0
        is_empty = False
        rows = [block.number for block in self._blocks if block.form == Form.ROW]
        for number in [*rows, 0]:
            if number != previous + 1:
                if is_empty:
                    heads.update(range(first - _HEAD_LINES, first))
                first = number
                is_empty = True
            is_empty = is_empty and number in gone
            previous = number
        return heads

    def _section(self, headings: list[Block], at: int) -> range:
        """Return the lines from a heading to the next one of its level."""
        heading = headings[at]
        after = (
            other.number
            for other in headings[at + 1 :]
            if len(other.headings) <= len(heading.headings)
        )
        return range(heading.number, next(after, len(self._lines) + 1))

    def _is_underline(self, number: int, heading: range) -> bool:
        """Return whether a line is the underline that makes the line above it a heading."""
        return number == heading.stop and not self._lines[number - 1].strip().strip("=-")

    def _kept(self, gone: Collection[int]) -> Iterator[str]:
        """Yield the remaining lines. Of the blank lines around a cut, only those before it stay."""
        joining = {block.number for block in self._blocks if self._may_join(block)}
        is_after_cut = False
        is_blank_before = True
        blank: list[str] = []
        for number, line in enumerate(self._lines, start=1):
            if number in gone:
                is_after_cut = True
            elif self._has_text(number):
                yield from blank
                if is_after_cut and not is_blank_before and number in joining:
                    yield "\n"
                blank = []
                yield line
                is_after_cut = is_blank_before = False
            elif not (is_after_cut and is_blank_before):
                blank.append(line)
                is_blank_before = True
        if not is_after_cut:
            yield from blank

    def _may_join(self, block: Block) -> bool:
        """Return whether a block would join a text directly above it: a paragraph or a heading
        that only its underline shows.
        """
        if block.form == Form.HEADING:
            return not self._lines[block.number - 1].lstrip().startswith("#")
        return block.form == Form.SENTENCE

    def _has_text(self, number: int) -> bool:
        return bool(self._lines[number - 1].strip())
