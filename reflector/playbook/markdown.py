"""Advice in Markdown: CLAUDE.md, AGENTS.md and rules, an agent's memory files, and playbooks as
text.

Invariant: nothing is skipped without a note. A list item is a piece of advice, and so are the
numbered steps of one list, and a line such as `[pat-001] helpful=7 harmful=1 :: Run the tests
first.`. Everything else is omitted, and a note has its line and its first words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from reflector.instructions.blocks import Block, Form, blocks_of
from reflector.text.lazy import lazy_pattern
from reflector.text.words import count

from .admissible import MAX_TEXT
from .document import Loaded, Parser, load
from .names import is_name, section_of

#: A bullet as prompts show it, with the counters of any playbook.
_LINE = lazy_pattern(
    r"\s*(?:[-*+] )?\[([\w.-]{1,64})\] helpful=(\d{1,9}) harmful=(\d{1,9})(?: neutral=\d+)? :: (.+)"
)
_NAMED = lazy_pattern(r"\[([\w.-]{1,64})\] (.+)", re.DOTALL)
_FRONT = lazy_pattern(r"\A---\r?\n(.*?)\n---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_MEMORY = lazy_pattern(
    r"^\s*type:\s*[\"']?(user|feedback|project|reference)[\"']?\s*$",
    re.MULTILINE,
)
_HEADING = lazy_pattern(r"\s*#{1,6}\s+(.+?)\s*#*\s*")
_BOX = lazy_pattern(r"\A\[[ xX]\] ")
_ONLY_A_LINK = lazy_pattern(r"!?\[[^\]]*\]\([^)]*\)[.:]?|@\S+|https?://\S+")
#: The section that a foreign title means, by its words; the first match counts.
_GUESSES = (
    (
        "mis",
        lazy_pattern(
            r"mistake|avoid|don.?t|do not|never|pitfall|gotcha|warning|caution|anti.?pattern"
            r"|避免|禁止|错误|錯誤|注意|陷阱|間違い|ห้าม|ระวัง|ຫ້າມ|ລະວັງ|ហាម|ប្រយ័ត្ន",
            re.I,
        ),
    ),
    (
        "pref",
        lazy_pattern(
            r"prefer|style|convention|tone|format|naming|communicat"
            r"|风格|風格|格式|命名|偏好|规约|規約|スタイル|รูปแบบ|สไตล์|ຮູບແບບ|រចនាបថ",
            re.I,
        ),
    ),
    (
        "ctx",
        lazy_pattern(
            r"context|architect|overview|about|structure|setup|environment|command|layout|stack"
            r"|架构|架構|结构|結構|背景|概述|概要|环境|環境|命令|構成|コマンド|โครงสร้าง|ภาพรวม|คำสั่ง|ໂຄງສ້າງ|ຄຳສັ່ງ"
            r"|រចនាសម្ព័ន្ធ|ពាក្យបញ្ជា",
            re.I,
        ),
    ),
    (
        "pat",
        lazy_pattern(
            r"pattern|approach|practice|strateg|workflow|guideline|rule|test|how to|process"
            r"|规则|規則|规范|規範|测试|測試|流程|指南|ルール|テスト|手順|กฎ|ทดสอบ|ขั้นตอน|ກົດ|ທົດສອບ|ຂັ້ນຕອນ|វិធាន"
            r"|ច្បាប់|សាកល្បង",
            re.I,
        ),
    ),
)
#: The section of each type of Claude Code's memory files.
_OF_MEMORY = {"user": "pref", "feedback": "pref", "project": "ctx", "reference": "ctx"}
#: Titles of numbered lists whose items are not steps of one procedure.
_NO_STEPS = lazy_pattern(
    r"rule|guideline|principle|convention|规则|規則|规范|規範|约定|規約|规约|原则|原則|ルール|กฎ|ກົດ|វិធាន|ច្បាប់",
    re.I,
)
_MAX_LINES = 8

#: A line's number, and a text that begins there.
_Text = tuple[int, str]
_MAX_CHARACTERS = 60


def is_markdown(raw: bytes) -> bool:
    """Return whether a file is read as text. JSON begins with a brace, or with a bracket that does
    not begin a named bullet.
    """
    start = raw.removeprefix(b"\xef\xbb\xbf").lstrip()[:200].decode("utf-8", "replace")
    is_json = start.startswith("{") or (start.startswith("[") and not _NAMED.match(start))
    return not is_json


def load_any(raw: bytes, taken: Iterable[str] = (), first: int = 0) -> Loaded:
    """Read a foreign file of advice, JSON or text. Never raises for its content."""
    return (
        load_markdown(raw, taken, first)
        if is_markdown(raw)
        else load(raw, taken, first, foreign=True)
    )


def load_markdown(raw: bytes | str, taken: Iterable[str] = (), first: int = 0) -> Loaded:
    """Read the advice in a text; `taken` and `first` are those of `load`.

    Never raises for its content.
    """
    parser = Parser(set(taken), first, foreign=True)
    text = parser.decode(raw)
    if text is None:
        return parser.loaded("unreadable")
    lines = text.splitlines()
    if any(map(_LINE.fullmatch, lines)):
        _read_lines(parser, lines)
        return parser.loaded("text")
    head = _FRONT.match(text)
    kind = _MEMORY.search(head[1]) if head else None
    body = without_front_matter(text)
    _Advice(parser, body, _OF_MEMORY[kind[1]] if kind else None).read()
    if not parser.entries and not parser.problems:
        parser.problem("the file", "does not contain a rule", "", "write each rule as a list item")
    return parser.loaded("markdown")


def without_front_matter(text: str) -> str:
    """Return a text with blank lines in the place of its front matter."""
    head = _FRONT.match(text)
    return "\n" * head[0].count("\n") + text[head.end() :] if head else text


def _read_lines(parser: Parser, lines: list[str]) -> None:
    """Read a playbook as text: its titles, and its bullets line by line."""
    section = "oth"
    omitted: list[_Text] = []
    for number, line in enumerate(lines, start=1):
        if bullet := _LINE.fullmatch(line):
            name, helpful, harmful, text = bullet.groups()
            entry = {"text": text.strip(), "helpful": int(helpful), "harmful": int(harmful)}
            if is_name(name):  # the ids of other systems are not names of ours
                entry["name"] = name
            parser.entry(f"line {number}", section, entry)
        elif title := _HEADING.fullmatch(line):
            section = section_meant(title[1]) or "oth"
        elif line.strip():
            omitted.append((number, line))
    _note_omitted(parser, "lines", omitted)


class _Advice:
    """The advice in the blocks of a text: its lists, and its paragraphs if it is a memory file. The
    headings above a list give its section.

    memory  the section of a memory file; None for any other text
    """

    def __init__(self, parser: Parser, text: str, memory: str | None) -> None:
        self._blocks = blocks_of(text)
        self._parser = parser
        self._memory = memory
        #: The omitted texts, by kind.
        self._omitted: dict[str, list[_Text]] = {}

    def read(self) -> None:
        """Give the advice to the parser, and note the omitted texts."""
        for is_list, group in groupby(self._blocks, key=_is_in_list):
            blocks = list(group)
            if is_list:
                self._read_list(blocks)
            else:
                self._read_others(blocks)
        for kind, texts in self._omitted.items():
            _note_omitted(self._parser, kind, texts)

    def _read_list(self, blocks: Sequence[Block]) -> None:
        """Read the items of lists. The numbered steps of a list are one rule, unless its title is
        about mistakes, style or rules.
        """
        for form, group in groupby(_trees(blocks), key=lambda tree: tree[0].form):
            trees = list(group)
            section = self._memory or _section(trees[0][0].headings)
            title = trees[0][0].headings[-1:]
            may_be_steps = section not in ("mis", "pref") and not any(map(_NO_STEPS.search, title))
            items = [item for tree in trees for item in _items(tree)]
            if may_be_steps and form == Form.STEP:
                items = _steps(items)
            for line, text in items:
                self._take(line, text, section)

    def _read_others(self, blocks: Sequence[Block]) -> None:
        """Read the blocks between lists: take the paragraphs of a memory file, and note the others.

        A code block or a table is one text, noted with its first line.
        """
        kind_before = None
        for block in blocks:
            kind = _LEFT_OUT.get(block.form)
            is_continued = kind == kind_before and kind != "paragraphs"
            if block.form == Form.SENTENCE and self._memory:
                self._take(block.number, block.text, self._memory)
            elif kind and not is_continued:
                self._omit(kind, block.number, block.text)
            kind_before = kind

    def _take(self, line: int, written: str, section: str) -> None:
        text = _BOX.sub("", " ".join(written.split()), count=1)
        named = _NAMED.fullmatch(text)
        if named is not None and is_name(named[1]):
            entry = {"name": named[1], "text": named[2]}
            self._parser.entry(f"line {line}", section, entry)
        elif count(text) < 2 or _ONLY_A_LINK.fullmatch(text):
            self._omit("single words and links", line, text)
        else:
            self._parser.entry(f"line {line}", section, {"text": text})

    def _omit(self, kind: str, line: int, text: str) -> None:
        self._omitted.setdefault(kind, []).append((line, text))


_LEFT_OUT = {
    Form.SENTENCE: "paragraphs",
    Form.COMMAND: "code blocks",
    Form.CODE: "code blocks",
    Form.ROW: "tables",
}
_ITEMS = (Form.ITEM, Form.STEP)


def _is_in_list(block: Block) -> bool:
    return block.level > 0 or block.form in _ITEMS


def _section(headings: Iterable[str]) -> str:
    """Return the section of the nearest heading that means one, else `oth`."""
    return next(filter(None, map(section_meant, reversed([*headings]))), "oth")


def _trees(blocks: Sequence[Block]) -> list[list[Block]]:
    """Return each item of the outermost level with the blocks in it."""
    trees: list[list[Block]] = []
    for block in blocks:
        if not trees or block.level <= trees[0][0].level:
            trees.append([])
        trees[-1].append(block)
    return trees


def _items(tree: Sequence[Block]) -> list[_Text]:
    """Return the advice of an item, together with its nested blocks. Below an item such as
    "Tests:", each nested item is advice of its own, with that word before it.
    """
    item, *inner = tree
    own = " ".join(item.text.split())
    nested = [block for block in inner if block.form in (*_ITEMS, Form.SENTENCE)]
    if not own.endswith(":") or not any(block.form in _ITEMS for block in nested):
        return [(item.number, " ".join([own, *(block.text for block in nested)]).strip())]
    trees = _trees(nested)
    items = [each for below in trees for each in _items(below)]
    if trees[0][0].form == Form.STEP:
        items = _steps(items)
    return [(line, f"{own} {text}") for line, text in items]


def _steps(items: list[_Text]) -> list[_Text]:
    """Return the items of a numbered list as one item. Return them unchanged if there is only one,
    if one is a bullet with a name, or if the whole is too long.
    """
    if len(items) < 2 or any(_NAMED.fullmatch(text) for _, text in items):
        return items
    whole = " ".join(f"{number}. {text}" for number, (_, text) in enumerate(items, start=1))
    return [(items[0][0], whole)] if len(whole) <= MAX_TEXT else items


def section_meant(title: str) -> str | None:
    """Return the section that a heading means; None if its words fit none."""
    plain = title.strip().strip("*_`")
    guesses = (slug for slug, words in _GUESSES if words.search(plain))
    return section_of(plain) or next(guesses, None)


def _shortened(text: str) -> str:
    """Return the first words of a text, or the first characters of a long one without spaces."""
    line = " ".join(text.split())
    if len(line) <= _MAX_CHARACTERS:
        return line
    end = line.rfind(" ", 0, _MAX_CHARACTERS - 1)
    return f"{line[:end]} …" if end > 0 else f"{line[: _MAX_CHARACTERS - 1]}…"


def _note_omitted(parser: Parser, kind: str, texts: Sequence[_Text]) -> None:
    if not texts:
        return
    shown = [f'line {number} "{_shortened(text)}"' for number, text in texts[:_MAX_LINES]]
    more = f", and {len(texts) - _MAX_LINES:,} more" if len(texts) > _MAX_LINES else ""
    parser.notes.append(f"omitted: {kind} ({', '.join(shown)}{more})")
