"""The tokens and dollars of one counted verdict, before and after a change of the code.

    python -m benchmarks.verdict_price FOLDER… --answers FILE --before REVISION

A FOLDER contains labelled sessions, as for `benchmarks.judgement`, or transcripts. The answers are
those that `judgement` keeps. Nothing is sent. Both versions compose and measure the prompts, and
read the recorded answers by their own rules. Three cases are added up:

- each session ends long after its citations;
- each session ends directly after its last citation, and is resumed;
- a day of 40 sessions and 20 questions. 20 of the sessions, at random places, cite a rule.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.judgement import TAGS, sessions_of
from reflector.config import Config
from reflector.judges.answers import parse_answer
from reflector.judges.backends.anthropic import PRICES
from reflector.judges.backends.fixtures import read_fixtures, request_sha256
from reflector.judges.evidence import grounds
from reflector.judges.excerpt import estimate_tokens
from reflector.judges.model import Client, ModelBackend, Reply
from reflector.judges.protocol import Prompt, Request
from reflector.playbook.document import load
from reflector.prices import Usage, cost
from reflector.transcripts.agents.claude_code import ClaudeCode
from reflector.transcripts.citations import citations_of
from reflector.transcripts.message import Message
from reflector.transcripts.reading import read_messages

#: A model of the measured class.
_MODEL = "claude-fable-5-1"
_ROOT = Path(__file__).parent.parent
_QUESTIONS_A_DAY = 20
_DAYS = 200
_MOST_RULES = 25


@dataclass(frozen=True)
class Question:
    """A question about a session, as one version of the code asks it.

    constant  the tokens of its first text, which is cached from the second question on
    early     the tokens of the part that ends at the last citation, 0 if the version sends none
    verdicts  the counted verdicts of the recorded answer
    """

    tokens: int
    constant: int
    answer: int
    early: int
    verdicts: int


@dataclass(frozen=True)
class Total:
    """The sum of several questions."""

    questions: float = 0
    tokens: float = 0
    cached: float = 0
    dollars: float = 0
    verdicts: float = 0


class _Nobody(Client):
    """A client that sends nothing."""

    async def send(self, texts: Sequence[str]) -> Reply:
        raise NotImplementedError("prompts are only composed here, and nothing is sent")


# -- one version of the code -----------------------------------------------------------------------


def measured(folders: Sequence[Path], answers: Path | None, limit: int) -> Iterator[Question]:
    """Yield the questions about the sessions of some folders, composed by the imported code."""
    recorded = read_fixtures(answers) if answers else {}
    backend = ModelBackend("agent", _Nobody(), None, limit)
    for request in _requests(folders):
        prompt = backend.prompt(request)
        text = recorded.get(request_sha256(request), "") if request.cited else ""
        until = _until_last_citation(request)
        is_sent_early = bool(request.cited) and not _is_too_early(until)
        yield Question(
            prompt.tokens,
            _constant(prompt),
            estimate_tokens(text),
            backend.prompt(until).tokens if is_sent_early else 0,
            _counted(request, text),
        )


def _requests(folders: Sequence[Path]) -> Iterator[Request]:
    """Yield the sessions of some folders. A session without citations gets the first rules of the
    labelled folders.
    """
    labelled = [folder for folder in folders if (folder / "labels.jsonl").is_file()]
    rules = [
        bullet
        for folder in labelled
        for bullet in load((folder / "playbook.json").read_bytes()).bullets
    ]
    for folder in labelled:
        for session in sessions_of(folder):
            yield session.request
    for folder in (folder for folder in folders if folder not in labelled):
        for path in sorted(folder.glob("*.jsonl")):
            yield Request(
                path.name, tuple(rules[:_MOST_RULES]), (), _reading(path), ClaudeCode.agent
            )


def _reading(path: Path) -> Callable[[], list[Message]]:
    return lambda: list(read_messages(path))


def _until_last_citation(request: Request) -> Request:
    """Return the question about the part of a session that ends with its last citation."""
    names = set(request.cited)
    messages = list(request.messages())
    places = [
        place
        for place, message in enumerate(messages)
        if not names.isdisjoint(citations_of(message))
    ]
    part = messages[: places[-1] + 1] if places else messages
    return replace(request, messages=lambda: part)


def _is_too_early(request: Request) -> bool:
    """Return whether this version does not send a part in which nothing follows a citation."""
    try:
        from reflector.reflection.window import is_followed
    except ImportError:  # an earlier version sent each part
        return False
    return not is_followed(request.messages(), request.cited)


def _counted(request: Request, text: str) -> int:
    """Return the number of verdicts in an answer that count by this version's rules."""
    if not text:
        return 0
    tags = [tag for tag in parse_answer(text).tags if tag.malformed is None and tag.tag in TAGS[:2]]
    advice = [bullet.text for bullet in request.playbook]
    rests = grounds(tags, request.messages(), request.cited, advice, _counting_words())
    return len({tag.name for tag in tags if not rests[tag.index].fault} & set(request.cited))


def _counting_words() -> frozenset[str]:
    config: Any = Config()
    try:
        from reflector.judges.measured import counting_words
    except ImportError:  # an earlier version had no measured models
        return frozenset(config.trusted)
    return counting_words(config, {"backend": "agent", "model": _MODEL})


def _constant(prompt: Prompt) -> int:
    return min(estimate_tokens(prompt.before), prompt.tokens)


# -- both versions ---------------------------------------------------------------------------------


def _asked(words: Sequence[str], code: Path) -> list[Question]:
    """Return the questions as the code of a folder asks them."""
    environ = os.environ | {"PYTHONPATH": str(code), "XDG_CONFIG_HOME": "/nonexistent"}
    command = [sys.executable, __file__, "--measure", *words]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return [Question(**json.loads(line)) for line in done.stdout.splitlines()]


def total(questions: Sequence[Question], *, resumed: bool = False) -> Total:
    """Add up questions by list price, all within minutes of each other. With `resumed`, each
    session is also asked about at its last citation.
    """
    early = [question for question in questions if resumed and question.early]
    asked = [(question.tokens, question) for question in questions]
    asked += [(question.early, question) for question in early]
    dollars = sum(
        float(cost(PRICES, _MODEL, Usage(tokens - each.constant, each.answer, each.constant)) or 0)
        for tokens, each in asked
    )
    return Total(
        len(asked),
        sum(tokens for tokens, _ in asked),
        sum(each.constant for _, each in asked),
        dollars,
        sum(question.verdicts for question in questions),
    )


def day(citing: Sequence[Question], other: Sequence[Question], *, cited_first: bool) -> Total:
    """Return the mean of days of 20 sessions that cite and 20 others, in a random order."""
    drawn = random.Random(48)
    days = []
    for _ in range(_DAYS):
        sessions = [(True, each) for each in drawn.sample(citing, _QUESTIONS_A_DAY)]
        sessions += [(False, each) for each in drawn.choices(other, k=_QUESTIONS_A_DAY)]
        drawn.shuffle(sessions)
        if cited_first:
            sessions.sort(key=lambda session: not session[0])
        days.append(total([each for _, each in sessions[:_QUESTIONS_A_DAY]]))
    means = {
        name: statistics.fmean(getattr(each, name) for each in days) for name in asdict(Total())
    }
    return Total(**means)


def row(title: str, found: Total) -> str:
    """Return a total as a row of a table."""
    verdicts = found.verdicts or float("nan")
    return (
        f"| {title} | {found.questions:,.0f} | {found.tokens:,.0f} | {found.cached:,.0f} | "
        f"{found.dollars:,.2f} | {found.verdicts:,.0f} | {found.tokens / verdicts:,.0f} | "
        f"{found.dollars / verdicts:,.2f} |"
    )


def tables(versions: dict[str, list[Question]], citing: int) -> Iterator[str]:
    """Yield the table of both versions. The first questions are those of labelled sessions."""
    yield (
        "| case | questions | prompt tokens | of these cached | dollars | verdicts | "
        "tokens a verdict | dollars a verdict |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for version, questions in versions.items():
        labelled = questions[:citing]
        yield row(f"whole sessions, {version}", total(labelled))
        yield row(f"ended at the citation, {version}", total(labelled, resumed=True))
        if len(labelled) >= _QUESTIONS_A_DAY and questions[citing:]:
            found = day(labelled, questions[citing:], cited_first=version == "after")
            yield row(f"a day, {version}", found)
    for version, questions in versions.items():
        if others := [question.tokens for question in questions[citing:]]:
            yield (
                f"\n{len(others)} sessions without citations, {version}: "
                f"{statistics.fmean(others):,.0f} tokens a prompt, {max(others):,} at most"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.verdict_price", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--answers", type=Path, help="recorded answers, as judgement keeps them")
    parser.add_argument("--before", metavar="REVISION", help="the earlier version")
    parser.add_argument("--tokens", type=int, default=32_000, help="most tokens of a prompt")
    parser.add_argument("--measure", action="store_true", help="print the questions as JSON")
    given = parser.parse_args(arguments)
    if given.measure:
        for question in measured(given.folders, given.answers, given.tokens):
            print(json.dumps(asdict(question)), flush=True)
        return 0
    words = [*map(str, (folder.resolve() for folder in given.folders))]
    words += ["--tokens", str(given.tokens)]
    words += ["--answers", str(given.answers.resolve())] if given.answers else []
    versions = {}
    if given.before:
        with tempfile.TemporaryDirectory() as name:
            code = Path(name, "before")
            git = ["git", "-C", str(_ROOT), "worktree"]
            subprocess.run([*git, "add", "-q", "--detach", code, given.before], check=True)
            try:
                versions["before"] = _asked(words, code)
            finally:
                subprocess.run([*git, "remove", "--force", code], check=True)
    versions["after"] = _asked(words, _ROOT)
    citing = sum(
        len({json.loads(line)["transcript"] for line in labels.read_text("utf-8").splitlines()})
        for folder in given.folders
        if (labels := folder / "labels.jsonl").is_file()
    )
    print("\n".join(tables(versions, citing)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
