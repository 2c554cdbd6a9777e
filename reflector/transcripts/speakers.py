"""The speaker of a text that a transcript has under its user's name. Pure; for every reader.

Clients put words of other sessions, agents, chats, web pages, hooks and terminals under the name of
their user, in tags of their own. `speakers.tsv` lists these tags for each client, with the version
that used them. A reader may name those of its agent instead (`Conversation.tags`).

Invariant: a tag of any client is recognised in the transcripts of every other client. If a whole
text is inside an unlisted tag, its speaker is unknown. So a tag that a later client adds can hide a
user's words, but never makes another's words a user's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from reflector.text.lazy import lazy_pattern
from reflector.transcripts.message import Origin


class Speech(NamedTuple):
    """The speaker of a text, and the speaker's own words."""

    origin: Origin
    words: str


class ClientText(NamedTuple):
    """One row of `speakers.tsv`.

    kind  of the text. version: of the client from which its rows were taken. beside: tags that it
          puts around, before or into the words that the user typed. instead: tags that begin a text
          without words of the user. opening: an expression for the beginning of such a text without
          a tag
    """

    client: str
    kind: str
    text: str


@cache
def client_texts() -> list[ClientText]:
    """Return the texts that clients write under their user's name."""
    from reflector.transcripts.readers import built_in_readers  # readers import this module

    rows = Path(__file__).with_name("speakers.tsv").read_text("utf-8").splitlines()[1:]
    readers = built_in_readers()
    return [
        *(ClientText(*row.split("\t")) for row in rows),
        *(ClientText(reader.name, "beside", reader.tags) for reader in readers if reader.tags),
    ]


def _texts_of(kind: str) -> list[str]:
    return [row.text for row in client_texts() if row.kind == kind]


#: The longest attributes of a tag, and the longest name: a longer text after `<` is not a tag.
_ATTRIBUTES = r"(?:\s(?:[^<>\"']|\"[^\"<]{0,1000}\"|'[^'<]{0,1000}'){0,1000})?"
_NAME = r"[A-Za-z][\w:.-]{0,80}"


def _tags(lists: Iterable[str]) -> re.Pattern[str]:
    names = sorted(set(" ".join(lists).split()), key=len, reverse=True)
    return re.compile(rf"<({'|'.join(map(re.escape, names))}){_ATTRIBUTES}\s?(/?)>", re.IGNORECASE)


class _Patterns(NamedTuple):
    """Patterns of the texts of clients, and of tags in general.

    beside   the tags beside a user's words, `any` all tags of clients
    instead  the beginnings of a text without words of the user
    opened   the beginning of any element, `pasted` one at the beginning of a line
    mark     any tag
    """

    beside: re.Pattern[str]
    any: re.Pattern[str]
    instead: re.Pattern[str]
    opened: re.Pattern[str]
    pasted: re.Pattern[str]
    mark: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    """Return the patterns. They are compiled on demand, because this takes longer than a short
    command.
    """
    beside = _texts_of("beside")
    instead = _texts_of("instead")
    tags_instead = " ".join(instead).split()
    beginnings = (
        rf"<(?:{'|'.join(map(re.escape, tags_instead))})(?![\w-])",
        *_texts_of("opening"),
    )
    opened = rf"<({_NAME}){_ATTRIBUTES}\s?(/?)>"
    return _Patterns(
        _tags(beside),
        _tags(beside + instead),
        re.compile("|".join(beginnings), re.IGNORECASE),
        re.compile(opened),
        re.compile(rf"^[ \t]*{opened}", re.MULTILINE),
        re.compile(rf"</?{_NAME}{_ATTRIBUTES}\s?/?>"),
    )


#: Lines that are a quotation, a list, code or output.
_FOREIGN_LINE = lazy_pattern(r"\s*(?:>|\+|[-*•|#/]|\d+[.)]\s|```|~~~|\$ |[{}<\[])")
_FENCED = lazy_pattern(
    r"^[ \t]*(```|~~~).*?^[ \t]*\1[^\n]*$|^[ \t]*(?:```|~~~).*\Z",
    re.MULTILINE | re.DOTALL,
)
#: The end of a sentence, but not that of an abbreviation.
_SENTENCE_END = lazy_pattern(
    r"(?<=[.!?])(?<!\b[ei]\.[ge]\.)(?<!\b(?:etc|usw|bzw)\.)(?<!\bvs\.)[ \t]+(?=[\"'(\w])"
    r"|(?<=[。！？])|\n+"
)


def spoken(text: str) -> Speech:
    """Return the speaker and the words of a text, if no flag of its record names the speaker.

    The words of the user are returned without the client's additions. Other texts are returned
    unchanged.
    """
    patterns = _patterns()
    typed = without(text, patterns.beside).strip()
    if not typed or patterns.instead.match(typed):
        return Speech("injected", text)
    typed = without(typed, patterns.any).strip()
    if not typed:
        return Speech("injected", text)
    return Speech("unknown", text) if tag_around(typed) else Speech("human", typed)


def tag_around(text: str) -> str:
    """Return the first tag of a text that is completely inside tags; "" if a part of it is
    outside.
    """
    text = text.strip()
    first_tag = ""
    position = 0
    element = _patterns().opened
    while position < len(text):
        opened = element.match(text, position)
        if opened is None:
            return ""
        first_tag = first_tag or opened[1]
        is_empty = opened[2] != ""
        end = opened.end() if is_empty else _end_of(text, opened)
        if end < 0:
            # The tag never ends. A client writes its own tag on a separate line, but a user writes
            # one into a sentence.
            next_character = text[opened.end() : opened.end() + 1]
            return first_tag if next_character in ("", "\n", "\r") else ""
        position = len(text) - len(text[end:].lstrip())
    return first_tag


def _end_of(text: str, opened: re.Match[str]) -> int:
    """Return the position after the end of the element that a tag opens; -1 without an end."""
    tags = re.compile(rf"<(/?){re.escape(opened[1])}(?![\w:.-])[^<>]{{0,4000}}>")
    depth = 1
    for tag in tags.finditer(text, opened.end()):
        if not tag[0].endswith("/>"):
            depth += -1 if tag[1] else 1
        if not depth:
            return tag.end()
    return -1


def without(text: str, tags: re.Pattern[str]) -> str:
    """Return a text without the elements of these tags.

    tags  matches an opening tag; its first group is the name, its second "/" for an empty element

    A tag without an end stays, because it is a word of its writer.
    """
    # A pattern that looks for each end would be quadratic in a text full of beginnings.
    pieces: list[str] = []
    unclosed: set[str] = set()
    position = 0
    search_from = 0
    while start := tags.search(text, search_from):
        search_from = start.end()
        if not start[2]:
            end_tag = f"</{start[1]}>"
            end = -1 if end_tag in unclosed else text.find(end_tag, search_from)
            if end < 0:
                unclosed.add(end_tag)
                continue
            search_from = end + len(end_tag)
        pieces.append(text[position : start.start()])
        position = search_from
    return "".join([*pieces, text[position:]]) if pieces else text


def inner(text: str) -> str:
    """Return a text without tags, with each run of white space as one space."""
    return " ".join(_patterns().mark.sub(" ", text).split())


def outside_tags(text: str) -> str:
    """Return the user's words outside tags that begin a line, because a pasted text is not the
    user's wish.
    """
    return without(text, _patterns().pasted)


def own_sentences(text: str) -> Iterator[str]:
    """Yield the user's own sentences in a text. Code, quotations, tagged text and lists are
    omitted.
    """
    plain = outside_tags(_FENCED.sub("\n", text))
    for line in plain.split("\n"):
        if line.strip() and not _FOREIGN_LINE.match(line):
            parts = (part.strip() for part in _SENTENCE_END.split(line))
            yield from filter(None, parts)


def speaker_of(texts: Iterable[str]) -> Speech:
    """Return the speaker and the words of a record with several texts.

    The words of the user have priority over those of an unknown speaker. Both have priority over
    the client's additions.
    """
    speeches = [spoken(text) for text in texts]
    origins = {speech.origin for speech in speeches}
    origin: Origin = "injected"
    if "human" in origins:
        origin = "human"
    elif "unknown" in origins:
        origin = "unknown"
    return Speech(origin, "\n".join(words for speaker, words in speeches if speaker == origin))
