"""How often a model's prompt contains the deciding record of a labelled citation.

    python -m benchmarks.coverage FOLDER

Invariant: a label only counts if the deciding record itself is one of the prompt's turns. The turn
must contain the record's first 160 characters, or the last 50 of a tool's answer, after secrets
were removed. A prompt asks about a transcript as at a session's end: about all its citations at
once, within N tokens, including template and bullets.

With --uncited, the citations are removed, and the question is that of `reflector check`.

FOLDER is one of `benchmarks.judgement`. A label without a deciding record (`evidence_uuid`) is
ignored.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.judgement import Session, interval, sessions_of
from reflector.judges.excerpt import compose
from reflector.judges.prompts import read_template
from reflector.playbook.bullet import sections_text
from reflector.resources import resource_dir
from reflector.text.bounds import visible
from reflector.text.secrets import redact
from reflector.transcripts.citations import CITED
from reflector.transcripts.message import Message

WHOSE = {"human": "people", "refusal": "people", "tool": "tools", "model": "the agent"}


def seen(session: Session, tokens: int, *, uncited: bool) -> Iterator[tuple[str, bool]]:
    """Yield for each label with a deciding record the kind of its speaker, and whether a prompt of
    N tokens shows the words.
    """
    asked, name = session.request, "check.txt" if uncited else "reflector.txt"
    if uncited:
        given = asked.messages
        asked = replace(asked, cited=(), messages=lambda: map(_without_citations, given()))
    template = read_template(name, resource_dir("prompts") / name)
    prompt = compose(template, sections_text(asked.playbook), asked.cited, asked.messages, tokens)
    lines = {line.partition(",")[0]: _plain(line) for line in prompt.text.split("\n")}
    records = {
        message.uuid: (number, message) for number, message in enumerate(asked.messages(), 1)
    }
    for row in session.rows:
        if row["evidence_uuid"]:
            number, message = records[row["evidence_uuid"]]
            line = lines.get(f'{{"turn": {number}', "")
            told = any(
                _plain(json.dumps(one, ensure_ascii=False)[1:-1]) in line for one in _words(message)
            )
            yield WHOSE.get(message.origin, "others"), bool(line) and told


def _without_citations(message: Message) -> Message:
    return message._replace(
        text=CITED.sub("", message.text), thinking=CITED.sub("", message.thinking)
    )


def _words(message: Message) -> list[str]:
    """Return the words that identify a record: of its text, or else of each answer or call; [""]
    without any.
    """
    if message.text:
        return [redact(visible(message.text))[:160]]
    arguments = [str(next(iter(call.input.values()), ""))[:50] for call in message.calls]
    return [redact(visible(result.text))[-50:] for result in message.results] or arguments or [""]


def _plain(text: str) -> str:
    return text.replace("&lt;", "<")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coverage", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--tokens",
        default="8000,16000,32000,95000",
        help="sizes of the prompt, with commas between",
    )
    parser.add_argument(
        "--uncited", action="store_true", help=("without citations, as `reflector check` asks")
    )
    given = parser.parse_args(arguments)
    if not (given.folder / "labels.jsonl").is_file():
        print(
            f"{given.folder} has no labels.jsonl; name the folder of the judged citations",
            file=sys.stderr,
        )
        return 2
    sessions = list(sessions_of(given.folder))
    print(
        "| tokens | shown, of labels with a deciding record | not shown, by whose words "
        "|\n|--:|--:|---|"
    )
    for tokens in map(int, given.tokens.split(",")):
        found = [
            one for session in sessions for one in seen(session, tokens, uncited=given.uncited)
        ]
        missing = Counter(whose for whose, told in found if not told)
        lost = ", ".join(f"{count} of {whose}" for whose, count in sorted(missing.items())) or "–"
        print(f"| {tokens:,} | {interval(len(found) - missing.total(), len(found))} | {lost} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
