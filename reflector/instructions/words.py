"""The words by which a rule is recognised, read from `words.tsv`.

Invariant: a word counts as a whole word in lower case. A piece of Chinese, Japanese, Korean,
Thai, Lao or Khmer counts wherever it is in a text, because words have other ends there.

| Group | Meaning |
|---|---|
| binding, binding_pairs | words that bind, and two such words in a row |
| asking, asking_starts, asking_ends | verbs that ask, at the beginning of a clause or at an end |
| before_verb | words that may be before such a verb |
| when | first words of a clause that restricts a rule |
| refusing | first words of a prohibition without a verb |
| all, limiting | words of a sentence about all cases, or only about some |
| occasions | words that say when to run a command |
| describing, being, opening | verbs and first words of a description |
| romance, nouns | words of languages in which a first infinitive asks, and nouns like infinitives |
| german | words of German, in which an infinitive at the end asks |
| rules, likely, facts, commands | words in headings of rules, of pages that often hold rules, … |
| notes | words in headings of any of these |
| agents | words in titles of whole files for agents |
| programs | programs between which a rule may choose |
| hints | words in headings of help with a problem, and of permissions |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from reflector.text.lazy import lazy_pattern

_OF_PIECES = frozenset("zh ja ko th lo km".split())
#: A letter of these languages. Most texts do not have any.
_UNSPACED = lazy_pattern("[\u0e00-\u17ff\u3040-\ud7a3]")


@dataclass(slots=True)
class Group:
    """Words with the same meaning."""

    words: set[str] = field(default_factory=set)
    pieces: list[str] = field(default_factory=list)

    def is_in(self, text: str, words: Iterable[str]) -> bool:
        """Return whether a text or its words contain a word of the group."""
        if not self.words.isdisjoint(words):
            return True
        return _UNSPACED.search(text) is not None and any(piece in text for piece in self.pieces)


def _groups() -> dict[str, Group]:
    groups: defaultdict[str, Group] = defaultdict(Group)
    text = Path(__file__).with_name("words.tsv").read_text(encoding="utf-8")
    for line in text.splitlines()[1:]:
        name, languages, listed = line.split("\t")
        group = groups[name]
        if _OF_PIECES.isdisjoint(languages.split()):
            group.words.update(listed.split())
        else:
            group.pieces.extend(listed.split())
    return dict(groups)


GROUPS = _groups()
