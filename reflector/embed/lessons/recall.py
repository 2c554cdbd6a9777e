"""Finding again what was learned: bullets, lessons and summaries, by their words.

Invariant: the answer depends on the texts and the query alone, so both engines and every machine
give the same one. The index is built in memory from the live texts of one state of the ledger:
nothing to keep in step, nothing left behind by a redaction. Where nothing fits well enough, the
answer is empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from reflector.embed.lessons.book import BACKGROUND, lesson_book
from reflector.ledger.as_of import Past
from reflector.ledger.sqlite_file import sqlite_module
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet, best_first
from reflector.project import Project, find_project
from reflector.text.words import searchable, sought, words_of

#: The least part of a query's words, weighted by how rare each is, that a text must hold.
LEAST_WORDS: Final = 0.3
_MAX_QUERY: Final = 2_000


@dataclass(frozen=True, slots=True)
class Document:
    """A live text. `kind` is bullet or the lesson's kind; `id` a bullet's name or a lesson's id;
    `text` is told, and `searched` holds its background too.
    """

    kind: str
    id: str
    text: str
    searched: str


@dataclass(frozen=True, slots=True)
class Found:
    """A document that fits, and how well, from 0 to 1: `words` is the share of the query's words,
    None where it was not found so; `cosine` is 1 where it has these in their order and no other,
    else None; `score` is the larger one.
    """

    document: Document
    score: float
    words: float | None
    cosine: float | None


def recall(query: str, k: int = 5, *, of: Ledger | Past | None = None) -> list[Found]:
    """Return the `k` bullets and lessons that fit a query best, the best first; [] where none fits.

    of  the ledger, or a moment of one; None is the ledger of the project of the working folder, as
        `lessons recall` finds it. A project without a ledger has nothing to find.
    Raises LedgerError; ConfigError for a project's settings.
    """
    if of is not None:
        return search(documents(of), query, k)
    project = Project.at(find_project())
    if not project.has_ledger():
        return []
    with project.open_ledger() as ledger:
        return search(documents(ledger), query, k)


def documents(of: Ledger | Past) -> list[Document]:
    """Return the live texts: bullets, and lessons that may be told and are not bullets by now.
    Raises LedgerError.
    """
    found = [Document("bullet", one.name, one.text, one.text) for one in of.bullets()]
    live = {one.id for one in found}
    for one in lesson_book(of):
        if one.is_tellable and one.bullet not in live:
            background = (str(one.data.get(name) or "") for name in BACKGROUND)
            searched = "\n".join(filter(None, (one.text, *background, one.task, *one.tags)))
            found.append(Document(one.kind, one.id, one.text, searched))
    return found


def bullets_about(bullets: Iterable[Bullet], query: str) -> list[Bullet]:
    """Return the bullets that fit a query by their words, the best first; all of them for a
    query without words.
    """
    ranked = sorted(bullets, key=best_first)
    if not words_of(query):
        return ranked
    among = [Document("bullet", one.name, one.text, f"{one.name} {one.text}") for one in ranked]
    named = {one.name: one for one in ranked}
    return [named[found.document.id] for found in search(among, query, len(among))]


def search(among: Sequence[Document], query: str, k: int = 5) -> list[Found]:
    """Return the `k` documents that fit a query best, the best first; [] where none fits well
    enough.
    """
    query = query[:_MAX_QUERY].encode("utf-8", "replace").decode()
    shares, said = _by_words(among, query), words_of(query)
    equal = {n: 1.0 for n, one in enumerate(among) if said and words_of(one.text) == said}
    found = [
        Found(among[n], score, shares.get(n), equal.get(n))
        for n, score in {**equal, **shares, **equal}.items()
    ]
    return found[: max(0, k)]


def _by_words(among: Sequence[Document], query: str) -> dict[int, float]:
    """Return the share of the query's words that each fitting document holds, the best by BM25
    first.

    A word weighs as much as it is rare, and one that no document holds as much as the rarest.
    """
    asked = sought(query)
    if not asked or not among:
        return {}
    with closing(sqlite_module().connect(":memory:")) as index:
        index.execute(
            "CREATE VIRTUAL TABLE text USING fts5(body, tokenize = 'porter unicode61 "
            "remove_diacritics 2')"
        )
        rows = ((number, searchable(one.searched)) for number, one in enumerate(among, start=1))
        index.executemany("INSERT INTO text (rowid, body) VALUES (?, ?)", rows)
        match = "SELECT rowid FROM text WHERE text MATCH ?"
        holding = {
            one: {row[0] for row in index.execute(match, (_either(one.any_of),))} for one in asked
        }
        weights = {
            one: math.log(1 + len(among) / (len(held) or 1)) / one.parts
            for one, held in holding.items()
        }
        either = _either(dict.fromkeys(word for one in asked for word in one.any_of))
        ranked = index.execute(f"{match} ORDER BY bm25(text), rowid", (either,)).fetchall()
    whole = math.fsum(weights.values())
    shares = {
        n: math.fsum(weights[one] for one in asked if n in holding[one]) / whole for (n,) in ranked
    }
    return {number - 1: round(share, 6) for number, share in shares.items() if share >= LEAST_WORDS}


def _either(words: Iterable[str]) -> str:
    return " OR ".join(f'"{word}"' for word in words)
