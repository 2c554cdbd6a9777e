"""The score of an answer that is not JSON: the one that it states, or else one by its words
(requirement E-07).

Invariant: a word counts with its clause. Denied praise is blame. Denied blame, praise that is only
wished for, and a question count nothing. Without a word that counts there is no score. A text is
read in linear time.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from reflector.quality.signals import rounded

#: `quality score: 0.9`, `**Quality**: 8/10`, `"quality_score": 0.9` in broken JSON.
_STATED = re.compile(
    r"""(?:\bquality(?:[ _-]?(?:score|rating))?|\boverall[ ](?:score|rating)
      |^[ \t*_#>"'-]{0,16}+(?:score|rating))\b
    [\s"'*_`]{0,8}+ (?:is|of|[=:])? [\s"'*_`(]{0,8}+
    (?P<score>-?\d{1,4}(?:\.\d{1,9})?)
    (?:\s?(?:/|out\ of|of)\s?(?P<most>\d{1,4})\b | \s?(?P<percent>%))?
    (?![\w/%]|\.\d)""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_COUNTED = re.compile(r"[ \t]{1,8}+[a-z]", re.IGNORECASE)
#: A key of an object: `"issues":` is not a statement about issues.
_KEY = re.compile(r'"\w++"\s*+:')
#: A line that begins with a small letter continues the line before; any other begins a sentence.
_WRAP = re.compile(r"\n[ \t]{0,40}+(?=[a-z])")
_SENTENCE = re.compile(r"([^.;:=!?\n–—]++)([.;:=!?\n–—]?)")
_WORD = re.compile(r"[\w'-]++|[,/]")
#: The score by whether a text blames and whether it praises.
_BY_WORDS = {(True, False): 0.3, (False, True): 0.8, (True, True): 0.4}

_BLAME = frozenset(
    "incorrect wrong missing incomplete fail fails failed inaccurate error errors issue issues "
    "problem "
    "problems except".split()
)
_PRAISE = frozenset("correct complete accurate good passes".split())
#: Words that are blame if they are denied, and never praise, because "passed" may be about an
#: argument of a function.
_BLAME_IF_DENIED = frozenset("pass passed right valid sufficient acceptable ok okay".split())

_OPINIONS = _PRAISE | _BLAME | _BLAME_IF_DENIED
_MOST_DENIALS = 8
#: Phrases and their replacements.
_READ_AS = (
    (
        re.compile(
            r"\bnot (?:only|just|merely|simply)\b|\b(?:no|without) (?:any "
            r")?(?:doubt|question)\b"
        ),
        "",
    ),
    (re.compile(r"\b(?:anything but|far from|less than|short of)\b"), "not"),
    (re.compile(r"\bfree (?:of|from)\b"), "without"),
    (re.compile(r"\bnot, [^,.;:!?\n]{1,60}, "), "not "),
)
#: Words that deny that a thing is there, as in "no test failed".
_ABSENCES = frozenset("no none nothing nobody without zero 0 lacks lacking".split())
#: Words that deny, each with the most words between it and the denied word.
_DENIALS = {
    **dict.fromkeys(
        ("not never cannot neither nor hardly barely scarcely doubt doubtful unlikely").split(), 6
    ),
    **dict.fromkeys(_ABSENCES, 5),
    **dict.fromkeys("partially partly half almost nearly".split(), 1),
}
#: Words that may be between "not" and the blame that it denies. Other words may not, because code
#: that does "not handle errors" may have errors.
_BETWEEN_NOT_AND_BLAME = frozenset(
    "a actually an any anything apparent appear appears are at all be been being cause clear "
    "completely "
    "contain contains detect detected else entirely find found had has have i identify identified "
    "introduce is it look looks major minor more necessarily notice noticed obvious other produce "
    "raise "
    "real really saw see seem seems seen serious show shows single spot spotted that the there "
    "this to "
    "was we were".split()
)
_JOINS = frozenset(", / and or any other".split())
#: Words that end the clause before them, and words before which "and" ends a clause.
_TURNS = frozenset("but however although though while whereas because so then".split())
_PREDICATES = frozenset("it is are was were they the this that all both everything".split())
#: Praise after one of the first words is a wish; after one of the second, only if "be" or "have"
#: follows.
_WISHES = frozenset("should must might if whether unless until need needs ought".split())
_WISHES_WITH_BE = frozenset("would could may".split())
#: `Errors: none`, `Correct? No.`
_NO = frozenset("no none nothing false 0 zero nil never".split())
_YES = frozenset("yes true".split())
_BEHIND_AN_ANSWER: Final[tuple[list[str], ...]] = ([], [","], ["found"], ["reported"])
_LONGEST_LABEL = 4


def score_in_words(text: str) -> float | None:
    """Return the score of an answer, from 0 to 1; None if the answer is not clear."""
    if (stated := _stated(text)) is not None:
        return stated
    opinions = set(_opinions(text))
    blames = False in opinions
    praises = True in opinions
    return _BY_WORDS.get((blames, praises))


def _stated(text: str) -> float | None:
    """Return the first score in the text; None if it contains none. A number above 1 needs its
    scale. The text "quality: 0 errors" does not contain one.
    """
    for match in _STATED.finditer(text):
        most = 100.0 if match["percent"] else float(match["most"] or 1)
        is_count = "." not in match[0] and most == 1 and _COUNTED.match(text, match.end())
        if most and float(match["score"]) <= most and not is_count:
            return max(rounded(float(match["score"]) / most), 0.0)
    return None


def _opinions(text: str) -> Iterator[bool]:
    """Yield True for each praise of a text, and False for each blame."""
    plain = _WRAP.sub(" ", _KEY.sub("", text).replace("’", "'")).lower()
    for pattern, instead in _READ_AS:
        plain = pattern.sub(instead, plain)
    sentences = [(_words(match[1]), match[2]) for match in _SENTENCE.finditer(plain)]
    for (words, end), (following, _) in pairwise([*sentences, ([], "")]):
        answer = following[0] if following and following[1:2] in _BEHIND_AN_ANSWER else ""
        is_asked = end == "?" or (end in (":", "=") and len(words) <= _LONGEST_LABEL)
        if is_asked and answer in _NO:  # it denies the sentence, so praise is blame
            yield from (False for word in words if word in _PRAISE | _BLAME_IF_DENIED)
        elif end != "?" or answer in _YES:
            yield from _opinions_in(words)


def _words(sentence: str) -> list[str]:
    stripped = (word.strip("_-'") for word in _WORD.findall(sentence))
    return [word for word in stripped if word]


def _opinions_in(words: Sequence[str]) -> Iterator[bool]:
    """Yield the opinions of a sentence, each with the meaning that its clause gives it."""
    clause = _Clause()
    for index, word in enumerate(words):
        if word not in _OPINIONS:
            clause.read(words, index)
        elif (opinion := clause.opinion(words, index)) is not None:
            yield opinion


@dataclass(slots=True)
class _Clause:
    """The part of a clause that was read.

    denials  places of the words that deny, until they have denied an opinion
    denied   the last opinion (praise is True) if it was denied and only joins follow it, as in "no
             errors or problems"
    is_wish  whether praise is only wished for
    """

    denials: deque[int] = field(default_factory=lambda: deque(maxlen=_MOST_DENIALS))
    denied: bool | None = None
    is_wish: bool = False

    def read(self, words: Sequence[str], index: int) -> None:
        """Read a word that is not an opinion."""
        word = words[index]
        following = words[index + 1] if index + 1 < len(words) else ""
        if word in _TURNS or (word in ("and", "or") and following in _PREDICATES):
            self.denials.clear()
            self.denied = None
            self.is_wish = False
        elif word == ",":
            self.denials.clear()
            self.is_wish = False
        elif word in _DENIALS or word.endswith("n't"):
            self.denials.append(index)
        elif word in _WISHES or (word in _WISHES_WITH_BE and following in ("be", "have")):
            self.is_wish = True
        elif word not in _JOINS:
            self.denied = None

    def opinion(self, words: Sequence[str], index: int) -> bool | None:
        """Return the opinion of a word in its clause: True for praise, False for blame, None for
        neither.
        """
        is_praise = words[index] not in _BLAME
        is_denied = self._is_denied(words, index, is_praise=is_praise)
        self.denials.clear()
        self.denied = is_praise if is_denied else None
        if is_denied:
            return False if is_praise else None
        says_nothing = words[index] in _BLAME_IF_DENIED or (is_praise and self.is_wish)
        return None if says_nothing else is_praise

    def _is_denied(self, words: Sequence[str], index: int, *, is_praise: bool) -> bool:
        """Return whether an opinion is denied. Blame that is denied twice remains blame, as in "not
        without errors".
        """
        reaching = [
            words[at] for at in self.denials if _reaches(words, at, index, is_praise=is_praise)
        ]
        first = [word for word in reaching if word != "nor"]  # "neither … nor" is one denial
        if not first:
            return bool(reaching) or self.denied is is_praise
        return is_praise or len(first) % 2 == 1


def _reaches(words: Sequence[str], at: int, index: int, *, is_praise: bool) -> bool:
    """Return whether the denying word at a place is close enough to an opinion to deny it."""
    most = _DENIALS.get(words[at], _DENIALS["not"])
    if index - at - 1 > most:
        return False
    between = words[at + 1 : index]
    others = [
        word for word in between if word not in _BETWEEN_NOT_AND_BLAME and word not in _DENIALS
    ]
    if is_praise or not others:
        return True
    # "No test failed" denies the blame; "without handling errors" and "does not handle errors" do
    # not.
    return words[at] in _ABSENCES and not any(word.endswith("ing") for word in others)
