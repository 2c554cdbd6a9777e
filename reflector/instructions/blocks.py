"""The pieces of a Markdown text, line by line: list items, numbered steps, table rows, sentences,
headings, and commands in fences of a shell.

Invariant: a piece has the line number of its first line. A wrapped line belongs to the piece before
it. Comments, front matter, table heads and fences of other languages are not pieces.

It reads files that users write, without a CommonMark parser, because loading one takes longer than
reading any instruction file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from reflector.text.lazy import lazy_pattern
from reflector.text.words import is_unspaced

_FRONT_MATTER = lazy_pattern(r"\A\ufeff?---[ \t]*\r?\n(?:.*\n)*?---[ \t]*\r?(?:\n|\Z)")
_FENCE = lazy_pattern(r"(`{3,}|~{3,})[ \t]*([^`\s]*)[^`]*")
_HEADING = lazy_pattern(r"(#{1,6})[ \t]+(.*)")
_ITEM = lazy_pattern(r"(?:[-*+•]|(\d{1,9})[.)、])(?:[ \t]+(?:\[[ xX]\][ \t]+)?(.*)|)")
_UNDERLINE = lazy_pattern(r"=+|-+")
_RULER = lazy_pattern(r"([-*_])(?:[ \t]*\1){2,}")
_DELIMITER = lazy_pattern(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?")
_CELL = lazy_pattern(r"(?<!\\)\|")
_QUOTE = lazy_pattern(r"\A(?:>[ \t]?)+")
#: A line that begins a new sentence although the previous sentence did not end.
_LABELLED = lazy_pattern(r"\*\*|[A-Z][A-Z ]+:|[❌✅⚠🚫]")
#: The end of a sentence in a paragraph. A full stop before a small letter does not end one.
_END = lazy_pattern(r"[.!?][\"')\]*_]*[ ]+(?=[^\sa-zß-öø-ÿа-яё])|[。！？។][」』）”\"*]*[ ]*|\n")
_ABBREVIATION = lazy_pattern(r"(?:e\.g|i\.e|etc|vs|ca|resp|ej|p\. ?ex)\.\s+\Z", re.I)
_SHELLS = frozenset(("", "bash", "sh", "shell", "zsh", "console", "shell-session", "powershell"))
_EMPHASIS = "*_ \t"
_COLONS = (":", "：")


class Form(StrEnum):
    """The form of a piece."""

    HEADING = "heading"
    ITEM = "item"
    STEP = "step"
    ROW = "row"
    SENTENCE = "sentence"
    COMMAND = "command"
    CODE = "code"


#: Forms that end with their line, so that no following line belongs to them.
_CLOSED = (Form.HEADING, Form.ROW, Form.COMMAND, Form.CODE)
_OPENING = (Form.SENTENCE, Form.ITEM, Form.STEP)


@dataclass(slots=True)
class Block:
    """A list item, row, heading, command, paragraph or sentence.

    number    the line at which it begins, from 1
    headings  the headings above it, the highest first
    level     the number of list items around it
    lead_in   the words that introduce it: a sentence or item that ends with a colon, a table head
    lines     its lines with their numbers
    marker    the column of the marker of a list item
    opens     whether it introduces others
    """

    number: int
    form: Form
    headings: tuple[str, ...]
    level: int
    lead_in: str = ""
    lines: list[tuple[int, str]] = field(default_factory=list)
    marker: int = -1
    opens: bool = False
    _introduction: str | None = None

    @property
    def text(self) -> str:
        between = "\n" if self.form == Form.COMMAND else " "
        return between.join(line.strip() for _, line in self.lines).strip()

    @property
    def introduction(self) -> str:
        """The words that introduce the next blocks; "" if it does not end with a colon."""
        if self._introduction is None:
            is_one = _introduces(self.lines[-1][1]) and self.form in _OPENING
            sentences = _sentences(self.lines) if is_one else ()
            self._introduction = "".join(text for _, text in [*sentences][-1:])
        return self._introduction


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a text, in the order of their lines."""
    reader = _Reader(text)
    reader.read()
    return reader.blocks


def pieces_of(text: str) -> Iterator[Block]:
    """Yield the blocks of a text, each paragraph as its sentences. Code of other languages is
    omitted.
    """
    for block in blocks_of(text):
        if block.form == Form.SENTENCE:
            *others, last = _sentences(block.lines)
            for sentence in others:
                yield replace(block, number=sentence[0], lines=[sentence], opens=False)
            yield replace(block, number=last[0], lines=[last])
        elif block.form != Form.CODE and block.text:
            yield block


class _Reader:
    """Reads the lines of a text into blocks."""

    def __init__(self, text: str) -> None:
        front = _FRONT_MATTER.match(text)
        self._skipped = text.count("\n", 0, front.end()) if front else 0
        self._lines = text.splitlines()
        self.blocks: list[Block] = []
        self._headings: dict[int, str] = {}
        #: The open list items, the outermost first, and the block that a line continues.
        self._items: list[Block] = []
        self._current: Block | None = None
        self._is_after_blank = True
        self._lead_in = ""
        #: The head of the current table.
        self._head: str | None = None
        self._in_comment = False

    def read(self) -> None:
        at = self._skipped
        while at < len(self._lines):
            at = self._read_line(at) + 1

    def _read_line(self, at: int) -> int:
        """Read a line, and return the index of the last line that belongs to it."""
        line = self._lines[at].expandtabs(4)
        indent = len(line) - len(line.lstrip())
        content = _unquoted(line)
        if self._is_comment(content) or not content:
            self._close()
            return at
        if fence := _FENCE.fullmatch(content):
            self._leave(indent)
            return self._read_fence(at, fence[1], fence[2].lower())
        if heading := _HEADING.fullmatch(content):
            self._read_heading(at, len(heading[1]), heading[2].rstrip("# \t"))
        elif self._is_underline(content):
            self._underline(1 if content[0] == "=" else 2)
        elif _RULER.fullmatch(content):
            self._close()
            self._items.clear()
        elif self._is_item(content):
            self._read_item(at, indent, content)
        elif "|" in content and self._is_row(at, content):
            self._read_row(at, indent, content)
        elif indent >= 4 and self._is_after_blank and not self._items:
            self._add_command(at, content, [])
        else:
            self._read_text(at, indent, content + "  " * line.endswith("  "))
        self._is_after_blank = False
        return at

    def _is_comment(self, content: str) -> bool:
        """Return whether a line is a part of a comment. Agents do not get comments."""
        is_comment = self._in_comment or content.startswith("<!--")
        self._in_comment = is_comment and "-->" not in content
        return is_comment

    def _leave(self, indent: int) -> None:
        """Leave the list items that do not contain a line with this indent."""
        while self._items and indent <= self._items[-1].marker:
            self._items.pop()

    def _close(self) -> None:
        self._current = None
        self._head = None
        self._is_after_blank = True

    def _read_heading(self, at: int, level: int, title: str) -> None:
        self._close()
        self._items.clear()
        self._lead_in = ""
        self._headings = {key: self._headings[key] for key in self._headings if key < level}
        self._add(at, Form.HEADING, title)
        self._headings[level] = title.strip(_EMPHASIS)

    def _is_underline(self, content: str) -> bool:
        block = self._current
        may_be_title = block is not None and block.form == Form.SENTENCE and len(block.lines) == 1
        return may_be_title and _UNDERLINE.fullmatch(content) is not None

    def _underline(self, level: int) -> None:
        """Turn the line before into a heading."""
        title = self.blocks.pop()
        self._read_heading(title.number - 1, level, title.text)

    def _is_item(self, content: str) -> bool:
        """Return whether a line begins a list item. In a paragraph, only the number 1 does, because
        a sentence may be wrapped before any other number.
        """
        item = _ITEM.fullmatch(content)
        if item is None:
            return False
        is_in_paragraph = self._current is not None and not self._items
        return not is_in_paragraph or item[1] in (None, "1")

    def _read_item(self, at: int, indent: int, content: str) -> None:
        """Begin a list item. The item around it introduces it, else the text before the list."""
        item = _ITEM.fullmatch(content)
        assert item is not None
        self._head = None
        if not self._items:
            self._lead_in = self._lead_in_now()
        self._leave(indent)
        parent = self._items[-1] if self._items else None
        lead_in = self._lead_in
        if parent is not None:
            parent.opens = True
            lead_in = parent.introduction or parent.lead_in
        block = self._add(at, Form.STEP if item[1] else Form.ITEM, item[2] or "", lead_in)
        block.marker = indent
        self._items.append(block)

    def _lead_in_now(self) -> str:
        """Return the text before a list, a table or a fence, if it is an introduction."""
        before = self.blocks[-1] if self.blocks else None
        if before is None or not before.introduction:
            return ""
        before.opens = True
        return before.introduction

    def _is_row(self, at: int, content: str) -> bool:
        """Return whether a line is in a table, or is the head of a table."""
        return self._head is not None or self._is_head(at, content)

    def _is_head(self, at: int, content: str) -> bool:
        """Return whether a line is the head of a table. One may follow the last row of another."""
        following = _unquoted(self._lines[at + 1]) if at + 1 < len(self._lines) else ""
        is_above_delimiter = "|" in following and _DELIMITER.fullmatch(following) is not None
        return is_above_delimiter and not _DELIMITER.fullmatch(content)

    def _read_row(self, at: int, indent: int, content: str) -> None:
        if self._head is None or self._is_head(at, content):
            self._leave(indent)
            lead_in = self._lead_in_now()
            self._close()
            self._head = " ".join(filter(None, (lead_in, _cells(content))))
        elif not _DELIMITER.fullmatch(content):
            self._add(at, Form.ROW, _cells(content), self._head)

    def _read_text(self, at: int, indent: int, line: str) -> None:
        """Add a line of prose to the current block. Without one, or if nested items
        follow that block, the line begins a sentence of its own.
        """
        self._head = None
        if self._current is None:
            self._leave(indent)
            self._current = self._items[-1] if self._items else None
        if self._current is None:
            self._add(at, Form.SENTENCE, line)
        elif self._current is not self.blocks[-1]:
            self._add(at, Form.SENTENCE, line, self._current.introduction)
        else:
            self._current.lines.append((at + 1, line))

    def _read_fence(self, at: int, mark: str, language: str) -> int:
        """Read a fence, and return the index of its last line.

        In a shell's fence each command is a block, together with the comments directly before it.
        After a backslash the command continues on the next line; a comment there is omitted. Of any
        other language only the first line is read, as code.
        """
        lead_in = self._lead_in_now()
        self._close()
        lines, end = self._fenced(at, mark)
        if language not in _SHELLS:
            self._add(at, Form.CODE, "".join(lines[:1]))
            return end
        comments: list[tuple[int, str]] = []
        is_continued = False
        for index, line in enumerate(lines, at + 1):
            if not line:
                comments.clear()
                is_continued = False
            elif line.startswith(("#", "//", "REM ")):
                comments.append((index + 1, line))
            else:
                if is_continued:
                    self.blocks[-1].lines.append((index + 1, line))
                else:
                    self._add_command(index, line, comments, lead_in)
                comments.clear()
                is_continued = line.endswith("\\")
        return end

    def _fenced(self, at: int, mark: str) -> tuple[list[str], int]:
        """Return the lines in a fence, and the index of the line that ends it: the closing line,
        or the last line of the block quote that contains the fence.
        """
        is_quoted = self._lines[at].lstrip().startswith(">")
        lines: list[str] = []
        for end in range(at + 1, len(self._lines)):
            line = self._lines[end].strip()
            if is_quoted:
                if not line.startswith(">"):
                    return lines, end - 1
                line = _unquoted(line)
            if line.startswith(mark) and not line.strip(mark[0]):
                return lines, end
            lines.append(line)
        return lines, len(self._lines)

    def _add_command(
        self, at: int, line: str, comments: list[tuple[int, str]], lead_in: str = ""
    ) -> None:
        block = self._add(at, Form.COMMAND, line, lead_in)
        block.lines[:0] = comments
        block.number = block.lines[0][0]

    def _add(self, at: int, form: Form, line: str, lead_in: str = "") -> Block:
        """Add a block that begins with a line, and return it. Text below continues it, unless its
        form is always one line.
        """
        number = at + 1
        headings = tuple(self._headings[level] for level in sorted(self._headings))
        block = Block(number, form, headings, len(self._items), lead_in, [(number, line)])
        self.blocks.append(block)
        self._current = None if form in _CLOSED else block
        return block


def _unquoted(line: str) -> str:
    """Return a line without the marks of the block quotes that contain it."""
    return _QUOTE.sub("", line.strip(), count=1).strip()


def _introduces(text: str) -> bool:
    return text.rstrip(_EMPHASIS).endswith(_COLONS)


def _cells(row: str) -> str:
    """Return the cells of a table row, without the bars at its ends."""
    cells = [cell.strip() for cell in _CELL.split(row.strip().removeprefix("|").removesuffix("|"))]
    return " | ".join(cells)


def _sentences(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a paragraph, each with its line."""
    starts: list[int] = []
    whole = ""
    for at, (_, line) in enumerate(lines):
        if at:
            whole += "\n" if _is_break(lines[at - 1][1], line) else " "
        starts.append(len(whole))
        whole += line.strip()
    begin = 0
    for end in [*_ends(whole), len(whole)]:
        if sentence := whole[begin:end].strip():
            yield lines[bisect_right(starts, begin) - 1][0], sentence
        begin = end


def _ends(paragraph: str) -> Iterator[int]:
    for match in _END.finditer(paragraph):
        if not _ABBREVIATION.search(paragraph, max(0, match.end() - 12), match.end()):
            yield match.end()


def _is_break(line: str, following: str) -> bool:
    """Return whether a sentence ends at the end of a line, regardless of its last character."""
    if line.endswith(("  ", "\\")) or _LABELLED.match(following):
        return True
    return is_unspaced(line.rstrip()[-1:])
