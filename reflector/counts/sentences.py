"""The form of your sentences: the ones that instruct or may repeat a rule, and their topics.

Invariant: a few short expressions read the form, and a sentence of an unknown form counts nothing.
English, Chinese, Japanese, Spanish and Portuguese are read.
"""

from __future__ import annotations

import re

from reflector.counts.tokens import tokens_of
from reflector.judges.reading.aims import aims_of
from reflector.judges.reading.wordings import expression, matches_in, wordings
from reflector.text.lazy import lazy_pattern
from reflector.transcripts.message import Message
from reflector.transcripts.speakers import own_sentences

#: A longer message is a task or a pasted text, and a longer sentence is not a remark.
_MOST_CHARACTERS = 4_000
_MOST_SENTENCE_CHARACTERS = 300

_FILLERS = r"(?:(?:no|ok|and|also|but|so|again|hey|well|hmm|now|wait)[,:]? +)*"
_INSTRUCTS = lazy_pattern(
    _FILLERS + r"(?:please +)?(?:(?:you|we) (?:should|must|need to|have to) |always|never"
    r"|do ?n[o'’]t|stop|avoid|make sure|ensure|remember|prefer|use|keep|put|run|write|answer|reply"
    r"|check|test|commit|only|instead|from now on|going forward|in (?:the )?future|next time"
    r"|(?:whenever|every ?time) you|(?:show|ask|tell|let|give|explain|read|review)\b.*\bbefore)\b"
    r"|.*(?:, not |\binstead of\b|\brather than\b|\bnever\b|\balways\b)"
    r"|不要|别|請|请|必须|务必|应该|先|用|使用|禁止"
    r"|.*(?:ください|して(?:ね)?[。！]?$|しないで|すること|禁止|不要)"
    r"|(?:por favor,? )?(?:no |nunca |siempre |usa |utiliza |evita |não |sempre |use |evite )",
    re.IGNORECASE,
)
_COMPLAINS = lazy_pattern(
    r"(?:no[,.]? +)?(?:why (?:did|do|are|is|have)|(?:did|have|do|are)(?:n['’]t| not)? you"
    r"|you (?:\w+ )?(?:did|have|are|forgot|missed|never|still)\b)|为什么|なぜ|どうして|por qu[eé]",
    re.IGNORECASE,
)
_WISH = r"['’ ]*(?:d like|want|need|prefer|said|told|asked|would|do ?n['’o]t want)"
_REPORTS = lazy_pattern(
    rf"[\"“⏺⎿❯$]|\W*{_FILLERS}(?:I(?!{_WISH})\b"
    r"|(?:it|its|this|that|these|there|here|the|an?|my|which|where|how|is|are|does|you can)\b"
    r"|we (?:have|had|are|were|did)\b|(?:have|take) a look|look at|what|looks?\b|seems?\b"
    r"|\d|at |\.\.)",
    re.IGNORECASE,
)
_AGAINST = lazy_pattern(
    r"(?<![\w-])(?:never|not|no|avoid|stop|don['’]?t|nunca|não|evit\w+)\b|n['’]t\b|不|别|禁止|ない|ません",
    re.IGNORECASE,
)
_OPEN = ("?", "？", ":", "：")


def sentences_of(message: Message) -> list[str]:
    """Return the sentences of a message that may be remarks; none if the message is a task or a
    pasted text.
    """
    if len(message.text) > _MOST_CHARACTERS:
        return []
    sentences = own_sentences(message.text)
    return [sentence for sentence in sentences if len(sentence) <= _MOST_SENTENCE_CHARACTERS]


def instructs(sentence: str) -> bool:
    """Return whether a sentence has the form of an instruction."""
    return not sentence.endswith(_OPEN) and _INSTRUCTS.match(sentence) is not None


def requests(sentence: str) -> bool:
    """Return whether a sentence asks for something that you may ask for again. An order for the
    task at hand does not.
    """
    plain = sentence.replace("’", "'")
    if expression("at-hand").search(plain):
        return False
    if aims_of(sentence):
        return may_repeat(sentence)
    is_order = instructs(sentence) and not expression("recounts").match(plain)
    is_general = expression("of-each").match(plain) is not None
    return is_order or is_general or bool(lasting_topics_of(sentence))


def topics_of(sentence: str) -> list[str]:
    """Return the topics of the things that a rule or a sentence asks for, such as "tests". If it
    forbids something with the word in it, it does not ask for the topic.
    """
    plain = sentence.replace("’", "'")
    return [
        row.says
        for row, match in matches_in(wordings("ask"), plain)
        if is_reminder(sentence) or not _forbids(plain[: match.end()])
    ]


def lasting_topics_of(sentence: str) -> list[str]:
    """Return the topics of a sentence that asks for something each time. An order for the task at
    hand, such as "add a test for this case", has none.
    """
    return topics_of(sentence) if is_reminder(sentence) or _is_lasting(sentence) else []


def _is_lasting(sentence: str) -> bool:
    if sentence.endswith(_OPEN) or _REPORTS.match(sentence):
        return False
    plain = sentence.replace("’", "'")
    return bool(expression("lasting").search(plain)) and not expression("at-hand").search(plain)


def _forbids(text: str) -> bool:
    """Return whether a text speaks against its end. Two negations, as in "never … without", ask."""
    return len(expression("against").findall(text)) % 2 == 1


def is_reminder(sentence: str) -> bool:
    """Return whether a sentence says that something was asked for and not done."""
    return expression("omits").search(sentence.replace("’", "'")) is not None


def may_repeat(sentence: str) -> bool:
    """Return whether a sentence may repeat a rule. A question, a report or a lead-in does not; a
    complaint, such as "why did you …?", does, and so does a report with an aim.
    """
    if _COMPLAINS.match(sentence):
        return True
    if sentence.endswith(_OPEN):
        return False
    return _REPORTS.match(sentence) is None or bool(aims_of(sentence))


def speaks_against(sentence: str, token: str) -> bool:
    """Return whether a sentence speaks against a token. A reminder speaks for it."""
    if is_reminder(sentence):
        return False
    negated = {each.text: each.negated for each in tokens_of(sentence)}
    return negated.get(token, _AGAINST.search(sentence) is not None)
