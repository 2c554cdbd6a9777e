"""Recall on your own transcripts: `python -m benchmarks.recall FOLDER`.

Each session gives one document and one query. The document is the last text of its agent, and the
query is the first text of its user. The only right answer is the document of the same session.
Queries about other subjects do not have a right answer, so nothing should be found for them. The
output is one JSON object without quotations. A session with too few words of its agent or user is
omitted.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path
from typing import Any

from reflector.embed.lessons.recall import Document, search
from reflector.transcripts.reading import read_messages

_ELSEWHERE = (
    "how long to boil an egg",
    "capital of Mongolia",
    "rhyme for the word orange",
    "sonata form in Haydn's late quartets",
    "pruning apple trees in winter",
    "offside rule in football",
    "symptoms of iron deficiency",
    "history of the Hanseatic League",
)
_WORDS = 40


def labelled(folder: Path) -> list[tuple[str, str, str]]:
    """Return (session, query, document) of every transcript below a folder that has both."""
    found = []
    for path in sorted(folder.rglob("*.jsonl")):
        try:
            messages = list(read_messages(path))
        except (OSError, ValueError):
            continue
        asked = next(
            (m.text for m in messages if m.origin == "human" and len(m.text.split()) >= 4), ""
        )
        said = next(
            (
                m.text
                for m in reversed(messages)
                if m.role == "assistant" and len(m.text.split()) >= 8
            ),
            "",
        )
        if asked and said:
            found.append(
                (
                    str(path.relative_to(folder)),
                    " ".join(re.findall(r"\w+", asked)[:_WORDS]),
                    said[:4_000],
                )
            )
    return found


def measure(pairs: list[tuple[str, str, str]]) -> dict[str, Any]:
    """Return recall@1, recall@5, precision@5, and how often an empty result is right."""
    documents = [Document("summary", name, text, text) for name, _, text in pairs]
    begun = time.perf_counter()
    found = [[one.document.id for one in search(documents, query, 5)] for _, query, _ in pairs]
    right = [name in ids for (name, _, _), ids in zip(pairs, found, strict=True)]
    first = [ids[:1] == [name] for (name, _, _), ids in zip(pairs, found, strict=True)]
    answered = sum(map(len, found))
    quiet = [not search(documents, query, 5) for query in _ELSEWHERE]
    return {
        "sessions": len(pairs),
        "recall@1": round(sum(first) / len(pairs), 3),
        "recall@5": round(sum(right) / len(pairs), 3),
        "precision@5": round(sum(right) / answered, 3) if answered else None,
        "nothing_where_nothing_fits": round(sum(quiet) / len(quiet), 3),
        "ms": round((time.perf_counter() - begun) * 1000 / (len(pairs) + len(quiet)), 2),
    }


def main() -> None:
    """Print the figures of a folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    pairs = labelled(arguments.folder)
    if not pairs:
        raise SystemExit(
            f"{arguments.folder} holds no transcript in which both sides said something"
        )
    print(json.dumps(measure(pairs), indent=1))


if __name__ == "__main__":
    main()
