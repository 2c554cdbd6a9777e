"""Facts of pages for tests."""

from dataclasses import replace
from datetime import date
from typing import Any

from reflector.check.facts import (
    Answers,
    Counts,
    FileFacts,
    HeadingFacts,
    PageFacts,
    Reminder,
    Repeated,
    RuleFacts,
    Step,
)

#: A Sunday.
TODAY = date(2026, 11, 29)
INSTALL = Step("To keep these counts when your agent deletes its sessions", "reflector install")


def counts(sessions: int = 11, **numbers: int) -> Counts:
    return Counts(sessions, **numbers)


def rule(number: int = 1, text: str = "Keep functions small.", **more: Any) -> RuleFacts:
    more = {"since": counts(), "tokens": 9, **more}
    return RuleFacts(place=f"CLAUDE.md:{number}", text=text, **more)


def answers(yes: int, no: int, kind: str = "followed") -> Answers:
    by_session = {f"s{index}": index < yes for index in range(yes + no)}
    return replace(Answers(yes + no, yes + no), **{kind: by_session})


def page(*rules: RuleFacts, **more: Any) -> PageFacts:
    values: dict[str, Any] = {
        "files": (FileFacts("CLAUDE.md", len(rules), 18, 940),),
        "sessions": 32,
        "first": date(2026, 8, 1),
        "since_edit": 11,
        "agent": "Claude",
        "closing": (INSTALL,),
    }
    return PageFacts(rules=rules, **{**values, **more})


def shop() -> PageFacts:
    """The page of a project whose agent breaks some of its rules."""
    said = Reminder("answer in the thread please", date(2026, 11, 27))
    return page(
        rule(14, "Never use `strings.Contains` in parsers.", **_forbidden()),
        rule(33, "Answer each review comment in its own thread.", last_said=said, since=_said(4)),
        rule(21, "Run `make lint` before you commit.", **_lint()),
        rule(40, "Put translations into `locales/`.", missing="locales/"),
        rule(8, "Run `make test` after each change.", **_test()),
        rule(50, "Use `scripts/release`.", has_words=True),
        *(rule(60 + index, f"Prose number {index}.") for index in range(7)),
        repeated=(Repeated("use pnpm, not npm", 5),),
        facts=(HeadingFacts("CLAUDE.md:2", "Layout", 18, 400, 3),),
    )


def _said(number: int) -> Counts:
    return counts(said=number)


def _forbidden() -> dict[str, Any]:
    return {
        "forbids": True,
        "has_words": True,
        "since": counts(written=6),
        "before": counts(21, written=4),
    }


def _lint() -> dict[str, Any]:
    return {
        "has_words": True,
        "names_command": True,
        "occasion": "sessions that committed",
        "since": counts(came_up=9, run=3, done=3),
    }


def _test() -> dict[str, Any]:
    return {
        "has_words": True,
        "names_command": True,
        "occasion": "sessions that changed files",
        "since": counts(came_up=11, run=11, done=11),
        "before": counts(21, came_up=21, run=20, done=20),
    }
