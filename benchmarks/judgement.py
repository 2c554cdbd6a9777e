"""How often a backend is right on labelled sessions.

    python -m benchmarks.judgement FOLDER… --judge rules

Invariant: a label is not counted on the source that decided it. `rules` are measured as they are,
and again without each source in turn. Then only findings count that are right nine times of ten on
the other sources. Points that a reader chose because they could be judged are never mixed with
points drawn at random.

A FOLDER contains `labels.jsonl`, `playbook.json` and `transcripts/`. It is not a part of the
project, because the sessions are other users'. A backend that costs money (`anthropic`, `agent`,
with your own settings) prints its price first and asks you. Its answers are kept in the file of
`--answers`. An answer in that file is not asked for again, and `--judge fixtures` replays it. The
last line is the value for the setting `judge_measured`.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from reflector.config import BACKENDS, ConfigError, load_config
from reflector.judges.answers import parse_answer
from reflector.judges.backends.anthropic import PRICES
from reflector.judges.backends.fixtures import Recording, read_fixtures, request_sha256
from reflector.judges.evidence import grounds
from reflector.judges.protocol import Backend, BackendError, Request
from reflector.judges.registry import backend_of
from reflector.judges.rules.findings import FINDINGS
from reflector.playbook.document import load
from reflector.prices import Usage, cost
from reflector.transcripts.agents.claude_code import ClaudeCode
from reflector.transcripts.message import Message
from reflector.transcripts.reading import read_messages

TAGS = ("helpful", "harmful", "neutral")
WORDS = ("sure", "likely", "unsure")
#: The approximate tokens of an answer for each bullet, and for the analysis.
TOKENS_A_BULLET, TOKENS_OF_ANALYSIS = 150, 300


@dataclass(frozen=True)
class Case:
    """A labelled citation as a backend judged it.

    word   how sure a model is, "" for another backend
    fault  the reason why a model's verdict does not count and is neutral; "" if it counts
    found  the findings of `rules`
    """

    source: str
    sampling: str
    label: str
    said: str
    word: str = ""
    fault: str = ""
    found: tuple[str, ...] = ()


@dataclass(frozen=True)
class Session:
    """A labelled transcript: the question about it, and its rows of labels."""

    request: Request
    rows: list[dict[str, Any]]


def sessions_of(folder: Path) -> Iterator[Session]:
    """Yield the labelled transcripts of a folder."""
    bullets = {
        bullet.name: bullet for bullet in load((folder / "playbook.json").read_bytes()).bullets
    }
    by_transcript: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        by_transcript[row["transcript"]].append(row)
    for name, rows in by_transcript.items():
        cited = tuple(row["bullet"] for row in rows)
        messages = partial(list[Message], _messages(folder / "transcripts" / name))
        playbook = tuple(bullets[one] for one in cited)
        yield Session(Request(name, playbook, cited, messages, ClaudeCode.agent), rows)


def _messages(path: Path) -> list[Message]:
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(lzma.decompress(path.read_bytes()))
        file.flush()
        return list(read_messages(file.name))


def judged(backend: Backend, session: Session) -> list[Case]:
    """Return the citations of a session as a backend judges them.

    A model's verdict only counts with its evidence, however sure the model is.

    Raises: BackendError.
    """
    request = session.request
    answer = backend.answer(request)
    tags = [
        tag for tag in parse_answer(answer.text).tags if tag.malformed is None and tag.tag in TAGS
    ]
    advice = [bullet.text for bullet in request.playbook]
    rests = (
        grounds(tags, request.messages(), request.cited, advice, WORDS) if backend.quotes else {}
    )
    by_name = {tag.name: tag for tag in tags}
    judgement: Any = answer.meta.get("judgement") or {"bullets": {}}
    cases = []
    for row in session.rows:
        tag = by_name.get(row["bullet"])
        fault = (
            rests[tag.index].fault
            if tag is not None and tag.index in rests and tag.tag != "neutral"
            else ""
        )
        said = tag.tag if tag is not None and tag.tag and not fault else "neutral"
        word = (tag.sure or "") if tag is not None else ""
        found = tuple(judgement["bullets"].get(row["bullet"], ()))
        cases.append(Case(row["group"], row["sampling"], row["label"], said, word, fault, found))
    return cases


def price(backend: Any, sessions: Sequence[Session]) -> str:
    """Return a text with the price of a model's answers about these sessions."""
    client = backend.client.of(ClaudeCode.agent)
    given = sum(backend.prompt(session.request).tokens + client.overhead for session in sessions)
    answers = sum(TOKENS_OF_ANALYSIS + TOKENS_A_BULLET * len(session.rows) for session in sessions)
    model = getattr(client, "settings", client).model
    known = cost(PRICES, model, Usage(given, answers))
    dollars = (
        f"about {known:.2f} USD with {model}"
        if known is not None
        else "the price of its model is not known"
    )
    return (
        f"{len(sessions)} questions: about {given:,} tokens to read and {answers:,} to answer, "
        f"{dollars}"
    )


# -- the results -----------------------------------------------------------------------------------


def left_out(cases: Sequence[Case]) -> list[Case]:
    """Return the cases of `rules`, each judged by the findings that hold on the other sources."""
    kept: dict[str, set[str]] = {}
    for source in {case.source for case in cases}:
        others = [case for case in cases if case.source != source]
        kept[source] = {
            name
            for name in FINDINGS
            if (share := _share(others, name)) is not None and share >= 0.9
        }
    again = []
    for case in cases:
        sides = {FINDINGS[name].side for name in case.found if name in kept[case.source]}
        said = sides.pop() if len(sides) == 1 and case.said != "neutral" else "neutral"
        again.append(Case(case.source, case.sampling, case.label, said, found=case.found))
    return again


def _share(cases: Sequence[Case], name: str) -> float | None:
    """Return how often the label agreed with a finding's side; None if the finding never
    appeared.
    """
    labels = [case.label for case in cases if name in case.found]
    return labels.count(FINDINGS[name].side) / len(labels) if labels else None


def interval(right: int, given: int) -> str:
    """Return a share with the 95 % interval of Wilson."""
    if not given:
        return "-"
    share, z = right / given, 1.96
    middle = (share + z * z / (2 * given)) / (1 + z * z / given)
    reach = (
        z
        * math.sqrt(share * (1 - share) / given + z * z / (4 * given * given))
        / (1 + z * z / given)
    )
    return f"{right}/{given} = {share:.2f} ({middle - reach:.2f}–{middle + reach:.2f})"


def report(title: str, cases: Sequence[Case]) -> Iterator[str]:
    """Yield precision and recall of some cases, as rows of a table."""
    for side in TAGS[:2]:
        given = [case.label for case in cases if case.said == side]
        wanted = sum(case.label == side for case in cases)
        right = given.count(side)
        yield (
            f"| {title} ({len(cases)}) | {side} | {interval(right, len(given))} | "
            f"{interval(right, wanted)} |"
        )


def tables(cases: Sequence[Case], *, by_rules: bool) -> Iterator[str]:
    """Yield every table about some cases."""
    parts: dict[str, Callable[[Case], bool]] = {
        "all": lambda _: True,
        "chosen points": lambda case: case.sampling == "chosen",
        "random points": lambda case: case.sampling == "random",
    }
    yield "| points | verdict | right of said | found of labelled |\n|---|---|--:|--:|"
    for title, belongs in parts.items():
        yield from report(title, [case for case in cases if belongs(case)])
    if by_rules:
        yield from report("all, each source left out in turn", left_out(cases))
    random = [case for case in cases if case.sampling == "random"]
    wrong = sum(case.said not in ("neutral", case.label) for case in random)
    yield f"\nFalse verdicts at random points: {interval(wrong, len(random))}.\n"
    yield "| source | helpful | harmful | neutral | said helpful, right | said harmful, right |"
    yield "|---|--:|--:|--:|--:|--:|"
    for source in sorted({case.source for case in cases}):
        own = [case for case in cases if case.source == source]
        labels = Counter(case.label for case in own)
        said = [[case.label for case in own if case.said == side] for side in TAGS[:2]]
        rights = [
            (f"{len(given)}, {given.count(side)}") for side, given in zip(TAGS, said, strict=False)
        ]
        yield (
            f"| {source} | {' | '.join(str(labels[tag]) for tag in TAGS)} | {' | '.join(rights)} |"
        )
    if by_rules:
        yield "\n| finding | side | right of found | sources |\n|---|---|--:|--:|"
        for name, finding in FINDINGS.items():
            among = [case for case in cases if name in case.found]
            sources = len({case.source for case in among})
            right = sum(case.label == finding.side for case in among)
            yield f"| {name} | {finding.side} | {interval(right, len(among))} | {sources} |"
        return
    dropped = Counter(case.fault for case in cases if case.fault)
    yield (
        "\nVerdicts without evidence: "
        f"{', '.join(f'{count} {fault}' for fault, count in dropped.items()) or 'none'}."
    )
    shares = []
    yield "\n| word | right of said |\n|---|--:|"
    for word in WORDS:
        given = [
            case.label == case.said
            for case in cases
            if case.word == word and case.said != "neutral"
        ]
        yield f"| {word} | {interval(sum(given), len(given))} |"
        shares += [f"{word}={100 * sum(given) // len(given)}"] if given else []
    yield f'\njudge_measured = "{" ".join(shares)}"'


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.judgement", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--judge", choices=[*BACKENDS], default="rules")
    parser.add_argument("--limit", type=int, help="ask about so many transcripts of each folder")
    parser.add_argument(
        "--answers", type=Path, default=Path("judgement-answers.jsonl"), help="keeps the answers"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before a model is asked")
    given = parser.parse_args(arguments)
    for folder in given.folders:
        if not (folder / "labels.jsonl").is_file():
            print(
                f"{folder} has no labels.jsonl; name the folder of the judged citations",
                file=sys.stderr,
            )
            return 2
    sessions = [one for folder in given.folders for one in islice(sessions_of(folder), given.limit)]
    flags = {"backend": given.judge} | (
        {"fixtures": str(given.answers)} if given.judge == "fixtures" else {}
    )
    try:
        backend = backend_of(load_config(Path(), flags=flags))
        known = read_fixtures(given.answers) if given.answers.is_file() and backend.is_model else {}
        left = (
            [one for one in sessions if request_sha256(one.request) not in known]
            if backend.is_model
            else []
        )
        if left:
            print(price(backend, left))
            if not given.yes and input("Ask? [y/N] ").strip().lower() != "y":
                return 1
        cases = _answered(backend, sessions, known, given.answers)
    except (ConfigError, BackendError) as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(tables(cases, by_rules=given.judge == "rules")))
    return 0


def _answered(
    backend: Backend, sessions: Sequence[Session], known: Mapping[str, str], answers: Path
) -> list[Case]:
    """Return the cases of every session. For a session whose question fails, print a line and
    return no cases.
    """
    asked = Recording(backend, answers) if backend.is_model else backend
    replay = backend_of(
        load_config(Path(), flags={"backend": "fixtures", "fixtures": str(answers)})
    )
    cases = []
    for session in sessions:
        try:
            cases += judged(
                replay if known and request_sha256(session.request) in known else asked, session
            )
        except BackendError as error:
            print(f"{session.request.session_id}: {error}", file=sys.stderr)
    return cases


if __name__ == "__main__":
    sys.exit(main())
