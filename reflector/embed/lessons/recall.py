"""Searches bullets, lessons and summaries by their words.

Invariant: the result depends only on the texts and the query, so both engines and every machine
give the same one. The index is built in memory from the live texts of one state of the ledger. So
nothing has to be kept in step, and no index contains a redacted text. If no text matches well
enough, the result is empty.

Programs use `reflector.recall`; `lessons recall`, `list WORDS` and the MCP server use the parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from reflector.embed.lessons.book import BACKGROUND, lesson_book
from reflector.ledger.as_of import Past
from reflector.ledger.sqlite_file import sqlite_module
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet, best_first
from reflector.project import Project, find_project
from reflector.text.words import searchable, sought, words_of

#: The minimum part of a query's words that a text must contain. Rare words weigh more.
LEAST_WORDS = 0.3
_MAX_QUERY_CHARACTERS = 2_000
_Bullet = TypeVar("_Bullet", bound=Bullet)
_CREATE_INDEX = (
    "CREATE VIRTUAL TABLE text USING fts5(body, tokenize = 'porter unicode61 remove_diacritics 2')"
)


@dataclass(frozen=True, slots=True)
class Document:
    """A live text.

    kind      bullet, or the lesson's kind
    id        the bullet's name, or the lesson's id
    text      the advice itself
    searched  the text with its background
    """

    kind: str
    id: str
    text: str
    searched: str


@dataclass(frozen=True, slots=True)
class Found:
    """A document that fits a query.

    score   how well it fits, from 0 to 1: the larger of the two others
    words   the share of the query's words that it contains; None if it was not found by its words
    cosine  1 if it has exactly the query's words in their order; else None
    """

    document: Document
    score: float
    words: float | None
    cosine: float | None


def recall(query: str, k: int = 5, *, of: Ledger | Past | None = None) -> list[Found]:
    """Return the `k` bullets and lessons that fit a query best, the best first; [] if none fits.

    of  the ledger, or a moment of one; None for the ledger of the project in the working folder. A
        project without a ledger does not have texts.

    Raises:
        LedgerError: the ledger cannot be read.
        ConfigError: the project's settings are wrong.
    """
    if of is not None:
        return search(documents(of), query, k)
    project = Project.at(find_project())
    if not project.has_ledger():
        return []
    with project.open_ledger() as ledger:
        return search(documents(ledger), query, k)


def documents(source: Ledger | Past) -> list[Document]:
    """Return the live texts of a ledger, now or at an earlier moment: bullets, and lessons that may
    be shown and are not bullets yet.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    bullets = source.bullets()
    texts = [Document("bullet", bullet.name, bullet.text, bullet.text) for bullet in bullets]
    live = {bullet.name for bullet in bullets}
    for lesson in lesson_book(source):
        if lesson.is_tellable and lesson.bullet not in live:
            background = [str(lesson.data.get(name) or "") for name in BACKGROUND]
            searched = filter(None, (lesson.text, *background, lesson.task, *lesson.tags))
            texts.append(Document(lesson.kind, lesson.id, lesson.text, "\n".join(searched)))
    return texts


def bullets_about(bullets: Iterable[_Bullet], query: str) -> list[_Bullet]:
    """Return the bullets whose words fit a query, the best first; all bullets for a query without
    words.
    """
    ranked = sorted(bullets, key=best_first)
    if not words_of(query):
        return ranked
    texts = [
        Document("bullet", bullet.name, bullet.text, f"{bullet.name} {bullet.text}")
        for bullet in ranked
    ]
    by_name = {bullet.name: bullet for bullet in ranked}
    return [by_name[found.document.id] for found in search(texts, query, len(texts))]


def search(texts: Sequence[Document], query: str, k: int = 5) -> list[Found]:
    """Return the `k` documents that fit a query best, the best first; [] if none fits well
    enough.
    """
    query = query[:_MAX_QUERY_CHARACTERS].encode("utf-8", "replace").decode()
    query_words = words_of(query)
    equal: dict[int, float] = {}
    if query_words:
        same = [index for index, text in enumerate(texts) if words_of(text.text) == query_words]
        equal = dict.fromkeys(same, 1.0)
    shares = _shares_of_words(texts, query)
    scores = {**equal, **shares, **equal}  # equal texts first, whatever their share
    fitting = [
        Found(texts[index], score, shares.get(index), equal.get(index))
        for index, score in scores.items()
    ]
    return fitting[: max(0, k)]


def _shares_of_words(texts: Sequence[Document], query: str) -> dict[int, float]:
    """Return the share of the query's words in each fitting document, by the document's index. The
    best document by BM25 comes first.

    A rare word weighs more. A word that no document contains weighs as much as the rarest one.
    """
    terms = sought(query)
    if not terms or not texts:
        return {}
    with closing(sqlite_module().connect(":memory:")) as index:
        index.execute(_CREATE_INDEX)
        rows = ((number, searchable(text.searched)) for number, text in enumerate(texts))
        index.executemany("INSERT INTO text (rowid, body) VALUES (?, ?)", rows)

        def matches(alternatives: Iterable[str]) -> list[int]:
            match = " OR ".join(f'"{word}"' for word in alternatives)
            best = "SELECT rowid FROM text WHERE text MATCH ? ORDER BY bm25(text), rowid"
            return [number for (number,) in index.execute(best, (match,))]

        holding = {term: set(matches(term.any_of)) for term in terms}
        every_word = dict.fromkeys(word for term in terms for word in term.any_of)
        ranked = matches(every_word)
    weights = {
        term: math.log(1 + len(texts) / (len(numbers) or 1)) / term.parts
        for term, numbers in holding.items()
    }
    whole = math.fsum(weights.values())
    shares = {}
    for number in ranked:
        weight = math.fsum(weights[term] for term in terms if number in holding[term])
        if weight / whole >= LEAST_WORDS:
            shares[number] = round(weight / whole, 6)
    return shares
