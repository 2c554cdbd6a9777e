"""The aims of wishes, which stay the same in other words: none of a thing, a shorter thing, an act
that is forbidden, or one thing in place of another.

Invariant: a text of another form has no aim. Two texts with the same aim ask for the same, so an
aim names its thing. A word of the trade alone is not a thing, but beside its folder it is. A
`joint` aim needs several ideas in one wish, in any of seven languages. The other wordings are
English.
"""

from __future__ import annotations

from functools import lru_cache

from reflector.judges.reading.wordings import expression, wordings, words_of
from reflector.text.synonyms import usual_word

#: Words for the same thing that mean something else in other texts.
_SAME_THING = {"body": "description", "reply": "answer", "response": "answer", "emojis": "emoji"}


@lru_cache(maxsize=1024)
def aims_of(text: str) -> frozenset[str]:
    """Return the aims of a text, such as "no comment" or "rg, not grep". An aim has a space, which
    a word does not have.
    """
    plain = text.replace("’", "'")
    is_wished = expression("wished").match(plain) is not None
    return frozenset(
        row.says.format_map({name: _thing(words) for name, words in match.groupdict().items()})
        for row in wordings("aim", *["joint"] * is_wished)
        if row.may_be_in(plain)
        for match in row.expression.finditer(plain)
        if not any(_is_common(match[name]) for name in match.groupdict() if name != "subject")
    )


def is_choice(aim: str) -> bool:
    """Return whether an aim names a thing to use and one to avoid."""
    return ", not " in aim


def _is_common(words: str) -> bool:
    return words_of("common").issuperset(words.lower().split())


def _thing(words: str) -> str:
    """Return the name of a thing, with one word for all that mean the same."""
    name = words.lower().replace("pull request", "pr").removesuffix("()").lstrip(".")
    return " ".join(usual_word(_SAME_THING.get(word, word)) for word in name.split())
