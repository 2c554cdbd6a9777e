"""Words without their endings, and one word for those that mean the same.

Invariant: only the endings of number and tense are cut. A word of another meaning is never the
same, so that texts with the same words give the same advice.
"""

from __future__ import annotations

_GROUPS = (
    "use utilize utilise employ leverage prefer favor favour implement",
    "with using via",
    "run execute",
    "remove delete",
    "check verify confirm double-check",
    "folder directory",
    "repo repository",
    "docs documentation",
    "config configuration",
    "database db",
    "change modify edit alter",
    "start begin",
    "keep maintain",
    "large big",
    "entire whole complete full",
    "descriptive meaningful",
    "dependency dep",
    "parameter param",
    "app application",
)
#: Endings of number or tense, and their replacements.
_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ied", "y"), ("ed", ""), ("s", ""))


def usual_word(word: str) -> str:
    """Return the usual one of the words that mean the same, without its ending."""
    return _SAME.get(stem(word), stem(word))


def stem(word: str) -> str:
    """Return a word without the ending of its number or tense. No other ending is cut, so
    `important` does not become `import`.
    """
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    for ending, new in _ENDINGS:
        root = word.removesuffix(ending)
        if root != word and _is_root(root) and not word.endswith(("ss", "us", "is")):
            word = root + new
            is_doubled = word[-1] == word[-2] and word[-1] not in "lsz"
            if is_doubled and ending in ("ing", "ed"):
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _is_root(root: str) -> bool:
    return len(root) >= 3 and not set(root).isdisjoint("aeiouy")


_SAME = {stem(word): stem(group.split()[0]) for group in _GROUPS for word in group.split()}
