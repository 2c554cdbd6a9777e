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
from typing import TYPE_CHECKING, Final

from reflector.text.words import count, is_unspaced

from .admissible import MAX_TEXT
from .document import Loaded, Parser, load
from .names import is_name, section_of

if TYPE_CHECKING:
    from markdown_it.token import Token

#: A bullet as prompts show it, with the counters of any playbook.
_LINE: Final = re.compile(
    r"\s*(?:[-*+] )?\[([\w.-]{1,64})\] helpful=(\d{1,9}) harmful=(\d{1,9})(?: neutral=\d+)? :: (.+)"
)
_NAMED: Final = re.compile(r"\[([\w.-]{1,64})\] (.+)", re.DOTALL)
_FRONT: Final = re.compile(r"\A---\r?\n(.*?)\n---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_MEMORY: Final = re.compile(
    r"^\s*type:\s*[\"']?(user|feedback|project|reference)[\"']?\s*$",
    re.MULTILINE,
)
_HEADING: Final = re.compile(r"\s*#{1,6}\s+(.+?)\s*#*\s*")
_BOX: Final = re.compile(r"\[[ xX]\] ")
_ONLY_A_LINK: Final = re.compile(r"!?\[[^\]]*\]\([^)]*\)[.:]?|@\S+|https?://\S+")
#: The section that a title of somebody else's means, by its words; the first that fits.
_GUESSES: Final = (
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
_OF_MEMORY: Final = {"user": "pref", "feedback": "pref", "project": "ctx", "reference": "ctx"}
#: Titles of numbered lists whose items are no steps of one way to work.
_NO_STEPS: Final = re.compile(
    r"rule|guideline|principle|convention|规则|規則|规范|規範|约定|規約|规约|原则|原則|ルール|กฎ|ກົດ|វិធាន|ច្បាប់",
    re.I,
)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?=[\w\"'`(*])|(?<=[。！？។])\s*(?=.)")
#: What tells to do something: a word that binds, or a verb in front.
_BINDS: Final = re.compile(
    (
        r"\b(?:must|should|shall|always|never|do not|don['’]t|avoid|prefer|make sure|ensure|have "
        r"to|has to|only)\b"
    ),
    re.I,
)
#: The same of scripts without spaces.
_BINDS_UNSPACED: Final = (
    "必须|必須|务必|務必|应该|應該|应当|應當|不要|不得|不能|不可|禁止|避免|切勿|请勿|請勿|始终|始終|总是|總是"
    "|しない|すること|ください|べき|必ず|なければならない|禁止|常に"
    "|ต้อง|ห้าม|อย่า|ควร|เสมอ|โปรด|กรุณา|ຕ້ອງ|ຫ້າມ|ຢ່າ|ຄວນ|ສະເໝີ|ກະລຸນາ|ត្រូវ|កុំ|ហាម|គួរ|ជានិច្ច"
    "|សូម"
)
_ASKS: Final = re.compile(
    r"\W*(?:please "
    r")?(?:use|run|write|add|keep|put|make|ask|check|read|call|name|format|commit|test|start|do"
    r"|be|look|"
    r"update|follow|create|build|document|fix|handle|import|include|install|leave|log|match|merge"
    r"|move|open|place|push|"
    r"remove|rename|replace|return|set|store|treat|try|validate|verify|wrap|explain|answer|stop"
    r"|wait)\b(?!:)",
    re.I,
)
_MOST_LINES: Final = 8
_MOST_WORDS: Final = 60


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
    body = text[: head.start()] + "\n" * head[0].count("\n") + text[head.end() :] if head else text
    _read_blocks(parser, body, _OF_MEMORY[kind[1]] if kind else None, every)
    if not parser.entries and not parser.problems:
        parser.problem("the file", "holds no bullet", "", "write each bullet as an item of a list")
    return parser.loaded("markdown")


def _read_lines(parser: Parser, lines: list[str]) -> None:
    """Read a playbook as text: its titles, and its bullets line by line."""
    section, left = "oth", list[tuple[int, str]]()
    for number, line in enumerate(lines, start=1):
        if found := _LINE.fullmatch(line):
            name, helpful, harmful, text = found.groups()
            entry = {"text": text.strip(), "helpful": int(helpful), "harmful": int(harmful)}
            # The ids of other systems are not names of ours.
            parser.entry(
                f"line {number}", section, entry | ({"name": name} if is_name(name) else {})
            )
        elif title := _HEADING.fullmatch(line):
            section = section_meant(title[1]) or "oth"
        elif line.strip():
            left.append((number, line))
    _note_left(parser, "lines", left)


def _read_blocks(parser: Parser, text: str, memory: str | None, every: bool) -> None:
    """Read the items of lists, each with the section that the headings above it mean.

    A memory file's section is that of its type, and its paragraphs are advice too; of other files,
    where `every` piece is wanted, the sentences that tell to do something.
    """
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    sections: dict[int, str | None] = {}
    left: dict[str, list[tuple[int, str]]] = {}
    at, title = 0, ""

    def meant() -> str:
        found = [section for _, section in sorted(sections.items()) if section]
        return found[-1] if found else "oth"

    while at < len(tokens):
        token = tokens[at]
        line = token.map[0] + 1 if token.map else 0
        if token.type == "heading_open":
            level = int(token.tag[1])
            sections = {above: section for above, section in sections.items() if above < level}
            title = tokens[at + 1].content
            sections[level] = section_meant(title)
            if every and _tells(title):
                _take(parser, line, title, sections[level] or "oth", left)
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            end = _end_of(tokens, at)
            items, section = list(_items(tokens[at : end + 1])), memory or meant()
            if token.type == "ordered_list_open" and not (
                section in ("mis", "pref") or _NO_STEPS.search(title)
            ):
                items = _steps(items)
            for where, item in items:
                _take(parser, where, item, section, left)
            at = end
        elif token.type == "paragraph_open" and memory:
            _take(parser, line, tokens[at + 1].content, memory, left)
        elif token.type == "paragraph_open" and token.level == 0 and every:
            for sentence in _SENTENCE.split(" ".join(tokens[at + 1].content.split())):
                if _tells(sentence):
                    _take(parser, line, sentence, meant(), left)
                else:
                    left.setdefault("sentences", []).append((line, sentence))
        elif token.level == 0 and (what := _LEFT_OUT.get(token.type)):
            left.setdefault(what, []).append((line, _first_words(tokens, at)))
        at += 1
    for what, lines in left.items():
        _note_left(parser, what, lines)


def _tells(sentence: str) -> bool:
    if count(sentence) <= 2:
        return False
    is_told = _BINDS.search(sentence) or _ASKS.match(sentence)
    return bool(is_told or (is_unspaced(sentence) and re.search(_BINDS_UNSPACED, sentence)))


_LEFT_OUT: Final = {
    "paragraph_open": "paragraphs",
    "fence": "code blocks",
    "code_block": "code blocks",
    "table_open": "tables",
    "blockquote_open": "quotations",
}


def _first_words(tokens: list[Token], start: int) -> str:
    """Return the first text in the block that begins at `start`, "" for an empty one."""
    return next(
        (
            tokens[at].content
            for at in range(start, _end_of(tokens, start) + 1)
            if tokens[at].content
        ),
        "",
    )


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
        end, span = _end_of(tokens, at), tokens[at].map or [0, 0]
        nested = next(
            (
                i
                for i in range(at, end)
                if tokens[i].type in ("bullet_list_open", "ordered_list_open")
            ),
            end,
        )
        own = _words(tokens[at:nested])
        if nested < end and own.endswith(":"):
            below = list(_items(tokens[nested : _end_of(tokens, nested) + 1]))
            for line, text in (
                _steps(below) if tokens[nested].type == "ordered_list_open" else below
            ):
                yield line, f"{own} {text}"
        else:
            yield (
                span[0] + 1,
                " ".join([own, *(_words([one]) for one in tokens[nested:end])]).strip(),
            )
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
    return " ".join(" ".join(one.content.split()) for one in tokens if one.type == "inline").strip()


def _take(
    parser: Parser, line: int, text: str, section: str, left: dict[str, list[tuple[int, str]]]
) -> None:
    text = (
        _BOX.sub("", " ".join(text.split()), count=1)
        if _BOX.match(text)
        else " ".join(text.split())
    )
    named = _NAMED.fullmatch(text)
    if named is not None and is_name(named[1]):
        parser.entry(f"line {line}", section, {"name": named[1], "text": named[2]})
    elif count(text) < 2 or _ONLY_A_LINK.fullmatch(text):
        left.setdefault("single words and links", []).append((line, text))
    else:
        parser.entry(f"line {line}", section, {"text": text})


def section_meant(title: str) -> str | None:
    """Return the section that a heading means, None where nobody can say."""
    plain = title.strip().strip("*_`")
    return section_of(plain) or next(
        (slug for slug, words in _GUESSES if words.search(plain)), None
    )


def _shortened(text: str) -> str:
    """Return the first words of a text; of a long one without spaces its first characters."""
    line = " ".join(text.split())
    if len(line) <= _MOST_WORDS:
        return line
    end = line.rfind(" ", 0, _MOST_WORDS - 1)
    return f"{line[:end]} …" if end > 0 else f"{line[: _MOST_WORDS - 1]}…"


def _note_left(parser: Parser, what: str, lines: Sequence[tuple[int, str]]) -> None:
    if lines:
        shown = [f'line {number} "{_shortened(text)}"' for number, text in lines]
        more = f", and {len(lines) - _MOST_LINES:,} more" if len(lines) > _MOST_LINES else ""
        parser.notes.append(f"left out: {what} ({', '.join(shown[:_MOST_LINES])}{more})")
