"""What people ask for beyond the moment: "always run …", "remember that …", "don't … again", "no, use …".

Invariant: only a person's own words are heard, in the main conversation, outside quotations, code and pasted text. A
wish stands at the beginning of its sentence and says what it means by itself; what asks, tells or points ("never do
that") is passed over. Better a wish missed than a chore made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from reflector.playbook.admissible import text_fault
from reflector.text.secrets import found
from reflector.transcripts.message import Message

#: `standing` is meant for later sessions too; a `correction` is known to be only when a second session says the same.
Kind = Literal["standing", "correction"]

#: A longer message is a task, a plan or something pasted.
_MOST_CHARACTERS: Final = 1_200
_MOST_LINES: Final = 12
_MOST_SENTENCE: Final = 300
_FEWEST_WORDS: Final = 3

_LEAD: Final = (
    r"(?:(?:and|also|but|so|ok(?:ay)?|please|pls|btw|oh|hey|again|no|nope|wrong|actually|as always|as i said|then)\b"
    r"[ ,:!.-]*)*"
)
_VERB: Final = (
    r"(?:use|run|write|add|keep|put|make|ask|check|read|call|name|format|commit|test|start|prefer|do|be|look)"
)


@dataclass(frozen=True, slots=True)
class _Form:
    """One way to word a wish. `wish` of the expression is what is asked for, written with `before` in front."""

    id: str
    kind: Kind
    section: str
    before: str
    expression: re.Pattern[str]


def _form(id: str, section: str, before: str, expression: str, kind: Kind = "standing") -> _Form:
    return _Form(id, kind, section, before, re.compile(_LEAD + expression, re.IGNORECASE | re.DOTALL))


_FUTURE: Final = r"(?:from now on|going forward|for (?:the )?future(?: reference)?|for next time)[,:]? ?(?:please )?"
_TO_COME: Final = r"(?:in (?:the )?future|next time)[,:]? (?:please )?"
#: The first that fits.
FORMS: Final = (
    _form("never", "mis", "Never", r"(?:you (?:should|must) |we )?never (?P<wish>\w.+)"),
    _form(
        "not-again",
        "mis",
        "Don't",
        r"(?:do not|don['’]?t|stop) (?:ever )?(?P<wish>\w.+?)[ ,]+(?:again|any ?more|ever|every time)\W*",
    ),
    _form("dont-ever", "mis", "Don't", r"(?:do not|don['’]?t) ever (?P<wish>\w.+)"),
    _form("always", "pat", "Always", r"(?:you (?:should|must) |we )?always (?P<wish>\w.+)"),
    _form("remember-to", "pat", "", r"remember (?:also )?to (?P<wish>(?!be sure)\w.+)"),
    _form("remember", "ctx", "", r"remember(?:(?: also)?,? that|:| also| you| we) ?(?P<wish>\w.+)"),
    _form("keep-in-mind", "ctx", "", r"keep in mind(?: that|:|,)? ?(?P<wish>\w.+)"),
    _form("from-now-on", "pref", "", _FUTURE + r"(?P<wish>\w.+)"),
    _form("in-future", "pref", "", rf"{_TO_COME}(?P<wish>(?:always|never|don['’]?t|do not|{_VERB})\b.+)"),
    _form("prefer", "pref", "Prefer", r"(?:i|we) (?:(?:strongly|generally|usually|always) )?prefer (?P<wish>\w.+)"),
    _form("instead", "pref", "", rf"(?P<wish>{_VERB} [^.]+?(?:, not | instead of | rather than )\w.+)", "correction"),
    _form("no-use", "pref", "", r"(?P<wish>(?:use|run|we use|call) \w.+)", "correction"),
)
_CORRECTS: Final = re.compile(r"(?:no|nope|wrong|actually)\b[ ,.!:-]+", re.IGNORECASE)
#: A wish about what only the conversation says.
_POINTS: Final = re.compile(
    r"\b(?:this|that|it|these|those|them|here|there|above|below)\b"
    r"(?! (?:the|a|you|we|all|every|is|are|repo(?:sitory)?|project|code ?base|team|machine)\b)",
    re.IGNORECASE,
)
_MOMENTARY: Final = re.compile(
    r"\b(?:now|today|tomorrow|right away|for the moment|this (?:time|once)|just)\b", re.IGNORECASE
)
_QUOTED: Final = re.compile(r"\s*(?:>|\+|[-*•|#/]|\d+[.)]\s|```|~~~|\$ |[{}<\[])")
_FENCE: Final = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1[^\n]*$|^[ \t]*(?:```|~~~).*\Z", re.MULTILINE | re.DOTALL)
_SENTENCE: Final = re.compile(r"(?<=[.!?])[ \t]+(?=[\"'(\w])|\n+")


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asked for.

    text     as a bullet would say it
    section  a slug
    quote    the sentence, as it was written
    key      of the record that holds it, `number` tells it from others of the same record
    """

    kind: Kind
    form: str
    section: str
    text: str
    quote: str
    key: int
    number: int


def wishes(messages: Iterable[Message]) -> Iterator[Wish]:
    """Yield what a person asks for in some messages, in order. Texts that hold a secret are left out."""
    for message in messages:
        if message.role != "user" or message.origin not in ("human", "refusal") or message.chain:
            continue
        said = message.text.strip()
        if not said or len(said) > _MOST_CHARACTERS or said.count("\n") >= _MOST_LINES or found(said):
            continue
        number = 0
        for sentence in _sentences(said):
            if heard := _heard(sentence):
                form, text = heard
                yield Wish(form.kind, form.id, form.section, text, sentence, message.key, number)
                number += 1


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that are a person's own: no code, no quotation, no list."""
    plain = _FENCE.sub("\n", text)
    for line in plain.split("\n"):
        if line.strip() and not _QUOTED.match(line):
            yield from (part.strip() for part in _SENTENCE.split(line) if part.strip())


def _heard(sentence: str) -> tuple[_Form, str] | None:
    """Return the form of a wish and its text; None where a sentence is none."""
    if len(sentence) > _MOST_SENTENCE:  # of a long one the first clause may be a wish
        sentence = sentence.partition(", ")[0]
    if len(sentence) > _MOST_SENTENCE or sentence.endswith(("?", ":")):
        return None
    for form in FORMS:
        match = form.expression.fullmatch(sentence.rstrip())
        if match is None:
            continue
        if form.id == "no-use" and not _CORRECTS.match(sentence):
            continue
        wish = match["wish"].strip(" .!,;\"'")
        words = wish.split()
        if len(words) < _FEWEST_WORDS or _POINTS.search(" ".join(words[:6])) or _MOMENTARY.search(wish):
            return None
        text = f"{form.before} {wish}" if form.before else wish[0].upper() + wish[1:]
        text += "." if text[-1].isalnum() or text[-1] in "`\"')" else ""
        return None if text_fault(text) else (form, text)
    return None
