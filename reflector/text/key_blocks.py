"""Private keys: from BEGIN to END, and the remains of a key that was cut.

Invariant: a key is recognised by its BEGIN, by its END, or by two whole lines of its body, so a cut
cannot hide it. Certificates and public keys, which their edges name, stay. Each stretch between two
edges is read once.
"""

from __future__ import annotations

import re
from itertools import pairwise

from reflector.text.lazy import lazy_pattern

MARKER = "[redacted:private-key]"

#: The marks that divide a text: the edges of PEM blocks, and keys that are already redacted.
_EDGE = lazy_pattern(r"-----(?P<edge>BEGIN|END) (?P<what>[A-Z0-9 ]{1,60})-----|\[redacted:")
#: The characters between the lines of a key: line breaks (real or escaped, more than once too),
#: quotes, and the line numbers that an agent's file reader adds.
_GAP = r"(?:\s|\\{1,4}[nrt]|[\"',>|]|[0-9]{1,6}[→\t:])"
_BODY = lazy_pattern(
    rf"{_GAP}*+(?:(?:Proc-Type|DEK-Info|Version|Comment):[^\n]{{0,120}}{_GAP}++)*+"
    rf"[A-Za-z0-9+/=]{{16,}}+(?:{_GAP}++[A-Za-z0-9+/=]{{16,}}+)*+(?:{_GAP}*+[A-Za-z0-9+/]{{0,"
    rf"63}}+={{1,2}})?"
)
#: The body before an END, letter by letter from its end: a last line, and the whole lines before
#: it.
_GAP_BACK = r"(?:\s|[nrt]\\{1,4}|[\"',>|]|[→\t:][0-9]{1,6})"
_LINE_BACK = r"(?:(?![nrt]\\)[A-Za-z0-9+/])"
_BODY_BACK = lazy_pattern(
    rf"{_GAP_BACK}*+(?P<last>={{0,2}}{_LINE_BACK}++)"
    rf"(?P<more>(?:{_GAP_BACK}++{_LINE_BACK}{{16,}}+)*+)"
)
#: Lines as wide as those of a key, two or more in a row, and the shorter one that ends them.
_WIDE = r"[A-Za-z0-9+/]{64,70}+(?![A-Za-z0-9+/=_-])"
_LINES = lazy_pattern(
    rf"(?:(?<![A-Za-z0-9+/=_\\-])|(?<=\\[nrt])){_WIDE}(?:{_GAP}++{_WIDE})++"
    rf"(?:{_GAP}++(?:[A-Za-z0-9+/]{{0,69}}+={{1,2}}|[A-Za-z0-9+/]{{16,63}}+(?![A-Za-z0-9+/=_-])))?"
)
_RUN = lazy_pattern(r"[A-Za-z0-9+/=]{16}")
_LINE = lazy_pattern(
    r"(\\(?:u[0-9a-fA-F]{4}|.))|(?=[0-9+/=]{0,80}[A-Za-z])[A-Za-z0-9+/=]{12,}+", re.DOTALL
)
_MAX_KEY = 32_768
_NOT_LETTERS = frozenset("0123456789+/")


def redact_keys(text: str) -> str:
    """Return `text` with every private key, or remains of one, replaced by
    `[redacted:private-key]`.
    """
    edges = list(_EDGE.finditer(text)) if "-----" in text else []
    if not edges and not _LINES.search(text):
        return text
    pieces: list[str] = []
    copied = 0
    for before, after in pairwise([None, *edges, None]):
        for start, end in _keys_between(text, before, after):
            pieces += [text[copied:start], _hidden(text[start:end])]
            copied = end
    return "".join(pieces) + text[copied:]


def _keys_between(
    text: str, before: re.Match[str] | None, after: re.Match[str] | None
) -> list[tuple[int, int]]:
    """Return the spans of keys between two edges, including an edge that belongs to a key. None
    instead of an edge is an end of the text.
    """
    start = before.end() if before else 0
    end = after.start() if after else len(text)
    begin = _edge(before, "BEGIN", private=True)
    close = _edge(after, "END", private=True)
    if begin and close and _is_body(text, start, end):
        return [(begin.start(), close.end())]
    if _edge(before, "BEGIN", private=False) or _edge(after, "END", private=False):
        return []
    spans: list[tuple[int, int]] = []
    if begin and (body := _BODY.match(text, start, end)):
        start = body.end()
        spans.append((begin.start(), start))
    tail: list[tuple[int, int]] = []
    if close and (length := _length_before_end(text, start, end)):
        end -= length
        tail.append((end, close.end()))
    lines = _LINES.finditer(text, start, end)
    return [*spans, *(match.span() for match in lines if _mixed(match[0])), *tail]


def _is_body(text: str, start: int, end: int) -> bool:
    """Return whether the text between the two edges of a private key contains a key."""
    return end - start <= _MAX_KEY and _RUN.search(text, start, end) is not None


def _length_before_end(text: str, start: int, end: int) -> int:
    """Return the number of characters before an END that are the body of its key; 0 for none."""
    body = _BODY_BACK.match(text[max(start, end - _MAX_KEY) : end][::-1])
    if body is None:
        return 0
    last = body["last"]
    if body["more"] or last.startswith("="):
        return body.end()
    is_word = len(last) < 12 or _NOT_LETTERS.isdisjoint(last)
    return 0 if is_word else body.end()


def _edge(edge: re.Match[str] | None, which: str, *, private: bool) -> re.Match[str] | None:
    """Return an edge if it is the BEGIN or END of a private key; of something else, if not
    `private`. None otherwise.
    """
    if edge is None or edge["edge"] != which:
        return None
    return edge if ("PRIVATE KEY" in edge["what"]) is private else None


def _mixed(lines: str) -> bool:
    """Return whether a first line is base64 with both cases and digits, because digests in hex and
    rows of letters are not keys.
    """
    line = lines[:64]
    has_both_cases = line.lower() != line != line.upper()
    return has_both_cases and any(map(str.isdigit, line))


def _hidden(block: str) -> str:
    """Return the replacement of a key; the quotes of a list or of a concatenation stay."""
    if '"' not in block:
        return MARKER
    return _LINE.sub(lambda line: line[1] or MARKER, block)
