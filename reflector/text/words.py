"""The words of a text, in scripts with and without spaces between words. The latter are Chinese,
Japanese, Thai, Lao, Khmer, Burmese and Tibetan.

Invariant: a text without such letters is divided at its white space, or into runs of word
characters. In the others a piece is a letter with its marks (a cluster). A gram is two successive
clusters, or three in Katakana, Thai and Lao. There is no segmentation, so no dictionary, model or
version decides the words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class _Script(NamedTuple):
    """Scripts without spaces.

    letters  the class of their letters
    marks    the class of the marks on them
    gram     the number of clusters in a gram
    word     about the number of clusters in a word
    """

    letters: str
    marks: str
    gram: int
    word: int


_SCRIPTS = (
    # Thai and Lao write vowels beside the consonants, so a cluster is less than a syllable.
    _Script(
        (
            "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd\u0ec0-\u0ec6"
            "\u0edc-\u0edf"
        ),
        "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece",
        gram=3,
        word=5,
    ),
    # Khmer
    _Script("\u1780-\u17b3\u17d7\u17dc", "\u17b4-\u17d3\u17dd", gram=2, word=2),
    # Katakana: each run is one foreign word, however long it is
    _Script("\u30a1-\u30fa\u30fc-\u30ff\uff66-\uff9f", "", gram=3, word=40),
    # Han, Hiragana
    _Script(
        (
            "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-"
            "\ufad9\U00020000-\U0003fffd"
        ),
        "\u3099\u309a\ufe00-\ufe0f",
        gram=2,
        word=2,
    ),
    # Burmese
    _Script(
        "\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-"
        "\u1081\u108e"
        "\ua9e0-\ua9e4\ua9e6-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a\uaa7e\uaa7f",
        "\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-"
        "\u108d\u108f"
        "\u109a-\u109d\ua9e5\uaa7b-\uaa7d",
        gram=2,
        word=2,
    ),
    # Tibetan
    _Script(
        "\u0f00\u0f40-\u0f6c\u0f88-\u0f8c",
        "\u0f18\u0f19\u0f35\u0f37\u0f39\u0f3e\u0f3f\u0f71-\u0f84\u0f86\u0f87\u0f8d-\u0fbc",
        gram=2,
        word=2,
    ),
)
_LETTERS = "".join(script.letters for script in _SCRIPTS)
_MARKS = "".join(script.marks for script in _SCRIPTS)
#: Characters that belong to the letter before them: marks, and the consonants that Khmer and
#: Burmese write below it.
_ATTACHED = f"(?:[\u17d2\u1039][{_LETTERS}]|[{_MARKS}\u200c\u200d])*"
_CLUSTER = f"[{_LETTERS}]{_ATTACHED}"
#: A letter or digit of a script with spaces, and the underscore.
SPACED = rf"[^\W{_LETTERS}]"

#: Compiled when a text first needs them, because most texts are ASCII.
_LETTER = f"[{_LETTERS}]"
_PIECE = rf"{_CLUSTER}|{SPACED}+"
#: The group of a match is the script.
_RUNS = [f"((?:[{script.letters}]{_ATTACHED})+)" for script in _SCRIPTS]
_RUN = "|".join([*_RUNS, f"{SPACED}+"])
#: A space without width, which some authors write between the words of these scripts.
_NO_WIDTH = "\u200b"


def is_unspaced(text: str) -> bool:
    """Return whether a text has a letter of a script without spaces between words."""
    return not text.isascii() and re.search(_LETTER, text) is not None


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation. For scripts without spaces,
    these are the clusters.
    """
    return re.findall(_PIECE if is_unspaced(text) else r"\w+", _plain(text))


def terms(text: str) -> list[str]:
    """Return the pieces between white space, as they are written; a piece with clusters is divided
    into its words.
    """
    pieces: list[str] = []
    for piece in text.split():
        pieces += words_of(piece) if is_unspaced(piece) else [piece]
    return pieces


def clusters(piece: str) -> list[str]:
    """Return a piece of a text without white space, divided into its clusters and the parts between
    them.
    """
    if not is_unspaced(piece):
        return [piece]
    return list(filter(None, re.split(f"({_CLUSTER})", piece.replace(_NO_WIDTH, ""))))


def grams(text: str) -> set[str]:
    """Return the grams of a text in scripts without spaces. Other scripts have none."""
    runs = [_grams(run, script.gram) for run, script in _runs(text) if script]
    return set[str]().union(*runs)


def count(text: str) -> int:
    """Return the number of words in a text; it is approximate for scripts without spaces."""
    return sum(_count(piece) if is_unspaced(piece) else 1 for piece in text.split())


def context_tokens(text: str) -> int:
    """Return the approximate number of context tokens that a text takes.

    Four characters of English are one token, and each character of a script without spaces is one.
    The published tokenizers of OpenAI and of Claude 2 give these numbers of tokens a character: 0.7
    to 0.9 for Chinese and Japanese, 0.4 to 1.8 for Thai, 0.6 to 2.8 for Khmer.
    """
    unspaced = 0 if text.isascii() else sum(map(len, re.findall(f"[{_LETTERS}{_MARKS}]+", text)))
    return unspaced - (unspaced - len(text)) // 4


class Sought(NamedTuple):
    """A word of a query, or a cluster of its text without spaces.

    any_of  the word, or the grams with the cluster; a text must contain one of these
    parts   about how many such clusters are one word; 1 for a word
    """

    any_of: tuple[str, ...]
    parts: int


def sought(query: str) -> list[Sought]:
    """Return the words of a query, without duplicates. A text contains a cluster if it contains a
    gram with the cluster.
    """
    parts: list[Sought] = []
    for run, script in _runs(query):
        if script is None:
            parts.append(Sought((run[0],), 1))
            continue
        size = script.gram
        keys = [_key(gram) for gram in _grams(run, size)]
        for at in range(len(run)):
            # A gram with the cluster begins at it, or up to `size - 1` clusters before it.
            keys_with_cluster = keys[max(0, at - size + 1) : at + 1]
            parts.append(Sought(tuple(keys_with_cluster), size))
    return list(dict.fromkeys(parts))


def searchable(text: str) -> str:
    """Return a text for an index of words. Its grams of each size, as words, replace the text
    without spaces.
    """
    if not is_unspaced(text):
        return text
    keys: list[str] = []
    for run, script in _runs(text):
        if script is None:
            keys += run
            continue
        for size in range(1, min(script.gram, len(run)) + 1):
            keys += map(_key, _grams(run, size))
    return " ".join(keys)


def _key(gram: str) -> str:
    """Return a gram as an ASCII word, because no index divides such a word at marks, and no stemmer
    shortens it.
    """
    return f"u{int.from_bytes(gram.encode('utf-32-be', 'replace'))}"


def _plain(text: str) -> str:
    """Return a text in lower case. In a script without spaces, the usual letters replace letters of
    other widths.
    """
    if not is_unspaced(text):
        return text.casefold()
    return unicodedata.normalize("NFKC", text.replace(_NO_WIDTH, "")).casefold()


def _runs(text: str) -> Iterator[tuple[list[str], _Script | None]]:
    """Yield each run of clusters with its script, and each other word with None."""
    for match in re.finditer(_RUN if is_unspaced(text) else r"\w+", _plain(text)):
        if match.lastindex:
            yield re.findall(_CLUSTER, match[0]), _SCRIPTS[match.lastindex - 1]
        else:
            yield [match[0]], None


def _grams(run: Sequence[str], size: int) -> list[str]:
    size = min(size, len(run))
    return ["".join(run[at : at + size]) for at in range(len(run) - size + 1)]


def _count(piece: str) -> int:
    number = sum(-(-len(run) // script.word) if script else 1 for run, script in _runs(piece))
    return max(1, number)
