"""Advice in Markdown: what people wrote into CLAUDE.md, AGENTS.md and rules, an agent's memory
files, and playbooks as text.

Invariant: nothing is passed over in silence. A list item is a piece of advice, and so are the
numbered steps of one list, and a line such as `[pat-001] helpful=7 harmful=1 :: Run the tests
first.`; where `every` piece is wanted, so is a sentence of a paragraph or a heading that tells to
do something. Everything else is left out, with its line and its first words in a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from reflector.text.words import count, is_unspaced

from .admissible import MAX_TEXT
from .document import Loaded, Parser, load
from .names import is_name, section_of

if TYPE_CHECKING:
    from markdown_it.token import Token

#: A bullet as prompts show it, with the counters of any playbook.
_LINE = re.compile(
    r"\s*(?:[-*+] )?\[([\w.-]{1,64})\] helpful=(\d{1,9}) harmful=(\d{1,9})(?: neutral=\d+)? :: (.+)"
)
_NAMED = re.compile(r"\[([\w.-]{1,64})\] (.+)", re.DOTALL)
_FRONT = re.compile(r"\A---\r?\n(.*?)\n---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_MEMORY = re.compile(
    r"^\s*type:\s*[\"']?(user|feedback|project|reference)[\"']?\s*$",
    re.MULTILINE,
)
_HEADING = re.compile(r"\s*#{1,6}\s+(.+?)\s*#*\s*")
_BOX = re.compile(r"\A\[[ xX]\] ")
_ONLY_A_LINK = re.compile(r"!?\[[^\]]*\]\([^)]*\)[.:]?|@\S+|https?://\S+")
#: The section that a title of somebody else's means, by its words; the first that fits.
_GUESSES = (
    (
        "mis",
        re.compile(
            r"mistake|avoid|don.?t|do not|never|pitfall|gotcha|warning|caution|anti.?pattern"
            r"|避免|禁止|错误|錯誤|注意|陷阱|間違い|ห้าม|ระวัง|ຫ້າມ|ລະວັງ|ហាម|ប្រយ័ត្ន",
            re.I,
        ),
    ),
    (
        "pref",
        re.compile(
            r"prefer|style|convention|tone|format|naming|communicat"
            r"|风格|風格|格式|命名|偏好|规约|規約|スタイル|รูปแบบ|สไตล์|ຮູບແບບ|រចនាបថ",
            re.I,
        ),
    ),
    (
        "ctx",
        re.compile(
            r"context|architect|overview|about|structure|setup|environment|command|layout|stack"
            r"|架构|架構|结构|結構|背景|概述|概要|环境|環境|命令|構成|コマンド|โครงสร้าง|ภาพรวม|คำสั่ง|ໂຄງສ້າງ|ຄຳສັ່ງ"
            r"|រចនាសម្ព័ន្ធ|ពាក្យបញ្ជា",
            re.I,
        ),
    ),
    (
        "pat",
        re.compile(
            r"pattern|approach|practice|strateg|workflow|guideline|rule|test|how to|process"
            r"|规则|規則|规范|規範|测试|測試|流程|指南|ルール|テスト|手順|กฎ|ทดสอบ|ขั้นตอน|ກົດ|ທົດສອບ|ຂັ້ນຕອນ|វិធាន"
            r"|ច្បាប់|សាកល្បង",
            re.I,
        ),
    ),
)
#: The section of each type of Claude Code's memory files.
_OF_MEMORY = {"user": "pref", "feedback": "pref", "project": "ctx", "reference": "ctx"}
#: Titles of numbered lists whose items are no steps of one way to work.
_NO_STEPS = re.compile(
    r"rule|guideline|principle|convention|规则|規則|规范|規範|约定|規約|规约|原则|原則|ルール|กฎ|ກົດ|វិធាន|ច្បាប់",
    re.I,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\w\"'`(*])|(?<=[。！？។])\s*(?=.)")
#: What tells to do something: a word that binds, or a verb in front.
_BINDS = re.compile(
    (
        r"\b(?:must|should|shall|always|never|do not|don['’]t|avoid|prefer|make sure|ensure|have "
        r"to|has to|only)\b"
    ),
    re.I,
)
#: The same of scripts without spaces.
_BINDS_UNSPACED = (
    "必须|必須|务必|務必|应该|應該|应当|應當|不要|不得|不能|不可|禁止|避免|切勿|请勿|請勿|始终|始終|总是|總是"
    "|しない|すること|ください|べき|必ず|なければならない|禁止|常に"
    "|ต้อง|ห้าม|อย่า|ควร|เสมอ|โปรด|กรุณา|ຕ້ອງ|ຫ້າມ|ຢ່າ|ຄວນ|ສະເໝີ|ກະລຸນາ|ត្រូវ|កុំ|ហាម|គួរ|ជានិច្ច"
    "|សូម"
)
_ASKS = re.compile(
    r"\W*(?:please "
    r")?(?:use|run|write|add|keep|put|make|ask|check|read|call|name|format|commit|test|start|do"
    r"|be|look|"
    r"update|follow|create|build|document|fix|handle|import|include|install|leave|log|match|merge"
    r"|move|open|place|push|"
    r"remove|rename|replace|return|set|store|treat|try|validate|verify|wrap|explain|answer|stop"
    r"|wait)\b(?!:)",
    re.I,
)
_MAX_LINES = 8
_LISTS = ("bullet_list_open", "ordered_list_open")

#: A line's number, and a text that begins there.
_Text = tuple[int, str]
_MAX_CHARACTERS = 60


def is_markdown(raw: bytes) -> bool:
    """Return whether a file is read as text: JSON begins with a brace or a bracket that no
    bullet has.
    """
    start = raw.removeprefix(b"\xef\xbb\xbf").lstrip()[:200].decode("utf-8", "replace")
    return not start.startswith("{") and not (start.startswith("[") and not _NAMED.match(start))


def load_any(raw: bytes, taken: Iterable[str] = (), first: int = 0) -> Loaded:
    """Read somebody's file of advice, JSON or text. Never raises for its content."""
    return (
        load_markdown(raw, taken, first)
        if is_markdown(raw)
        else load(raw, taken, first, foreign=True)
    )


def load_markdown(
    raw: bytes | str, taken: Iterable[str] = (), first: int = 0, *, every: bool = False
) -> Loaded:
    """Read the advice in a text; `taken` and `first` as for `load`, `every` as the module says.
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
    _Blocks(parser, body, _OF_MEMORY[kind[1]] if kind else None, every).read()
    if not parser.entries and not parser.problems:
        parser.problem("the file", "holds no bullet", "", "write each bullet as an item of a list")
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


class _Blocks:
    """The blocks of a Markdown text: its lists, each with the section that the headings above mean,
    and its paragraphs.

    memory  the section of a memory file, whose paragraphs are advice too
    every   whether the sentences of other files are read that ask for something
    """

    def __init__(self, parser: Parser, text: str, memory: str | None, every: bool) -> None:
        from markdown_it import MarkdownIt

        self._tokens = MarkdownIt("commonmark").enable("table").parse(text)
        self._parser = parser
        self._memory = memory
        self._every = every
        #: The sections that the present headings mean, by their levels; the title of the last one.
        self._sections: dict[int, str | None] = {}
        self._title = ""
        #: What is left out, by its kind.
        self._omitted: dict[str, list[_Text]] = {}

    def read(self) -> None:
        """Give the advice to the parser, and note what is left out."""
        at = 0
        while at < len(self._tokens):
            at = self._read_block(at) + 1
        for kind, texts in self._omitted.items():
            _note_omitted(self._parser, kind, texts)

    def _read_block(self, at: int) -> int:
        """Read the block that begins with a token. Return the index of its last token; of a block
        that may hold others, that of the first.
        """
        token = self._tokens[at]
        line = token.map[0] + 1 if token.map else 0
        is_outer = token.level == 0
        match token.type:
            case "heading_open":
                self._read_heading(line, int(token.tag[1]), self._tokens[at + 1].content)
            case "bullet_list_open" | "ordered_list_open":
                return self._read_list(at)
            case "paragraph_open" if self._memory:
                self._take(line, self._tokens[at + 1].content, self._memory)
            case "paragraph_open" if self._every and is_outer:
                self._read_sentences(line, self._tokens[at + 1].content)
            case kind if is_outer and kind in _LEFT_OUT:
                self._omit(_LEFT_OUT[kind], line, _first_words(self._tokens, at))
        return at

    def _read_heading(self, line: int, level: int, title: str) -> None:
        above = {number: self._sections[number] for number in self._sections if number < level}
        self._title = title
        self._sections = above | {level: section_meant(title)}
        if self._every and _asks(title):
            self._take(line, title, self._sections[level] or "oth")

    def _read_list(self, at: int) -> int:
        end = _end_of(self._tokens, at)
        items = list(_items(self._tokens[at : end + 1]))
        section = self._memory or self._section()
        may_be_steps = section not in ("mis", "pref") and not _NO_STEPS.search(self._title)
        if may_be_steps and self._tokens[at].type == "ordered_list_open":
            items = _steps(items)
        for line, text in items:
            self._take(line, text, section)
        return end

    def _read_sentences(self, line: int, paragraph: str) -> None:
        for sentence in _SENTENCE.split(" ".join(paragraph.split())):
            if _asks(sentence):
                self._take(line, sentence, self._section())
            else:
                self._omit("not an instruction", line, sentence)

    def _section(self) -> str:
        """Return the section that the nearest heading means which means one."""
        meant = [section for _, section in sorted(self._sections.items()) if section]
        return meant[-1] if meant else "oth"

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


def _asks(sentence: str) -> bool:
    """Return whether a sentence of three words or more tells to do something."""
    if count(sentence) <= 2:
        return False
    if _BINDS.search(sentence) or _ASKS.match(sentence):
        return True
    return is_unspaced(sentence) and re.search(_BINDS_UNSPACED, sentence) is not None


_LEFT_OUT = {
    "paragraph_open": "paragraphs",
    "fence": "code blocks",
    "code_block": "code blocks",
    "table_open": "tables",
    "blockquote_open": "quotations",
}


def _first_words(tokens: list[Token], start: int) -> str:
    """Return the first text in the block that begins at `start`, "" for an empty one."""
    block = tokens[start : _end_of(tokens, start) + 1]
    return next((token.content for token in block if token.content), "")


def _end_of(tokens: list[Token], start: int) -> int:
    """Return the index of the token that closes the one at `start`."""
    depth = 0
    for at in range(start, len(tokens)):
        depth += tokens[at].nesting
        if depth == 0:
            return at
    return len(tokens) - 1


def _items(tokens: list[Token]) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each item of a list. What is nested belongs to its item; below "Tests:"
    each stands for itself, with that word before it.
    """
    at = 1
    while at < len(tokens) - 1:
        if tokens[at].type != "list_item_open":
            at += 1
            continue
        end = _end_of(tokens, at)
        line, _ = tokens[at].map or (0, 0)
        starts = (i for i in range(at, end) if tokens[i].type in _LISTS)
        nested = next(starts, end)
        own = _words(tokens[at:nested])
        if nested < end and own.endswith(":"):
            items = list(_items(tokens[nested : _end_of(tokens, nested) + 1]))
            is_ordered = tokens[nested].type == "ordered_list_open"
            for below, text in _steps(items) if is_ordered else items:
                yield below, f"{own} {text}"
        else:
            rest = [_words([token]) for token in tokens[nested:end]]
            yield line + 1, " ".join([own, *rest]).strip()
        at = end + 1


def _steps(items: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the items of a numbered list as one, where there are several and none is a bullet
    with a name.
    """
    if len(items) < 2 or any(_NAMED.fullmatch(text) for _, text in items):
        return items
    whole = " ".join(f"{number}. {text}" for number, (_, text) in enumerate(items, start=1))
    return [(items[0][0], whole)] if len(whole) <= MAX_TEXT else items


def _words(tokens: Iterable[Token]) -> str:
    inline = [token for token in tokens if token.type == "inline"]
    return " ".join(" ".join(token.content.split()) for token in inline).strip()


def section_meant(title: str) -> str | None:
    """Return the section that a heading means, None where nobody can say."""
    plain = title.strip().strip("*_`")
    guesses = (slug for slug, words in _GUESSES if words.search(plain))
    return section_of(plain) or next(guesses, None)


def _shortened(text: str) -> str:
    """Return the first words of a text; of a long one without spaces its first characters."""
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
    parser.notes.append(f"left out: {kind} ({', '.join(shown)}{more})")
