"""Rules about the message of a commit: its length, its beginning, and words that it must not have.

Invariant: a message that a command does not contain, such as one from a file or a variable, breaks
no rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from reflector.text.lazy import lazy_pattern

LONG_SUBJECT = "long subject"
NO_KEY = "subject without a key"
NO_TYPE = "subject without a type"
WORD = "word of a message"

_COMMIT = lazy_pattern(r"\bcommits?\b", re.IGNORECASE)
#: A rule about the titles of pull requests, whose form is that of commits.
_OF_REQUESTS = lazy_pattern(
    r"(?!.*(?<!conventional )(?<!conventional-)\bcommits?\b(?!.org))"
    r".*\b(?:PRs?|pull requests?|merge requests?|titles?)\b",
    re.IGNORECASE | re.DOTALL,
)
_LENGTH = lazy_pattern(
    r"\b(?:titles?|subjects?|messages?|summar(?:y|ies)|(?:first|header) lines?|headlines?)\b"
    r"[^.;]*?(?:under|below|at most|max(?:imum)?(?: of)?|no more than|not exceed|within|up to|<=?|≤"
    r"|(?:less|fewer|shorter|longer) than)[ \t]*(?P<most>\d{1,5})[ \t-]*char",
    re.IGNORECASE,
)
_BEGINS = lazy_pattern(r"\b(?:start|begin|prefix|lead)\w*\b", re.IGNORECASE)
_KEY = lazy_pattern(r"`\W?(?P<key>[A-Z][A-Z\d]+-(?:\d+|[X#N]+))\b")
_CONVENTIONAL = lazy_pattern(r"\bconventional[- ]commits?\b(?! types? of)", re.IGNORECASE)
#: Types of commits in a row: "feat:, fix: or chore:".
_TYPES = lazy_pattern(
    r"(?<![\w/.-])(?P<first>[a-z]{2,10})(?:\([\w*]*\))?:[`\"']*(?:,? (?:or|and) |, ?| / ?|/)[`\"']*"
    r"[a-z]{2,10}(?:\([\w*]*\))?:(?!\w)"
)
_AGAINST = lazy_pattern(
    r"\b(?:never|not|no|avoid|without|unless|except|instead)\b|n['’]t\b", re.IGNORECASE
)
_CREDIT = lazy_pattern(
    r"\b(?:never|not|no|avoid)\b[^.;]*\b(?:mention|referenc|credit|attribut)\w*\b[^.;]*?"
    r"\b(?P<name>Claude)\b[^.;]*",
    re.IGNORECASE,
)
_TRAILER = lazy_pattern(r"\bco-?author", re.IGNORECASE)
#: Subjects that git writes.
_MADE_BY_GIT = lazy_pattern(r"(?:Merge|Revert|fixup!|squash!|amend!) ")


class _Kind(NamedTuple):
    """A kind of rules about messages.

    shown    its name on a page, with the token's text for {}
    breaks   returns whether a message, with its first line, breaks a rule with this text
    """

    shown: str
    breaks: Callable[[str, str, str], bool]


def _has_word(word: str, _: str, message: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", message, re.IGNORECASE) is not None


_KINDS: Mapping[str, _Kind] = {
    LONG_SUBJECT: _Kind(
        "wrote a title of more than {} characters",
        lambda most, subject, _: len(subject) > int(most),
    ),
    NO_KEY: _Kind(
        "wrote a title without a key such as `{}`",
        lambda _, subject, __: re.match(r"\W?[A-Z][A-Z\d]+-\d+", subject) is None,
    ),
    NO_TYPE: _Kind(
        "wrote a title without a type such as `{}`",
        lambda _, subject, __: re.match(r"\w+(?:\([^()]*\))?!?: \S", subject) is None,
    ),
    WORD: _Kind("wrote a message with `{}`", _has_word),
}
FORMS = frozenset(_KINDS)


def subjects_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text and the form of each token of a rule about messages of commits."""
    if not _COMMIT.search(text) or _OF_REQUESTS.match(text):
        return
    for length in _LENGTH.finditer(text):
        yield length["most"], LONG_SUBJECT
    is_plain = not _AGAINST.search(text)
    key = _KEY.search(text)
    if key and is_plain and _BEGINS.search(text):
        yield key["key"], NO_KEY
    types = _TYPES.search(text) if _BEGINS.search(text) else None
    if is_plain and (types or _CONVENTIONAL.search(text)):
        yield f"{types['first'] if types else 'fix'}: …", NO_TYPE
    credit = _CREDIT.search(text)
    if credit and _COMMIT.search(credit[0]):
        yield credit["name"], WORD
    trailer = _TRAILER.search(text)
    if trailer and _AGAINST.search(text[: trailer.start()]):
        yield "Co-Authored-By", WORD


def shown(form: str, text: str) -> str:
    """Return the name of a token about messages as a page shows it."""
    return _KINDS[form].shown.format(text)


def is_broken_by(form: str, text: str, message: str) -> bool:
    """Return whether the message of a commit breaks a rule with such a token."""
    subject = message.strip().partition("\n")[0].strip()
    is_written = subject != "" and not _MADE_BY_GIT.match(subject) and "$" not in subject
    return is_written and _KINDS[form].breaks(text, subject, message)
