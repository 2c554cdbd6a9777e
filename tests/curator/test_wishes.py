"""What counts as a wish beyond the moment, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from reflector.curator.wishes import wishes
from reflector.transcripts.message import Message


def said(text: str, **fields: Any) -> list[tuple[str, str, str]]:
    message = Message(7, "u", "user", fields.pop("origin", "human"), fields.pop("chain", ""), "", text)
    return [(wish.kind, wish.section, wish.text) for wish in wishes([message])]


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        (
            "Please always run the linter before you push.",
            ("standing", "pat", "Always run the linter before you push."),
        ),
        ("never commit straight to main", ("standing", "mis", "Never commit straight to main.")),
        ("We never mock the database in this repo", ("standing", "mis", "Never mock the database in this repo.")),
        ("Don't touch the generated files again!", ("standing", "mis", "Don't touch the generated files.")),
        ("Remember that staging uses Postgres 15.", ("standing", "ctx", "Staging uses Postgres 15.")),
        ("and remember to update the changelog", ("standing", "pat", "Update the changelog.")),
        ("Keep in mind that CI has no network", ("standing", "ctx", "CI has no network.")),
        ("From now on, write commit messages in English", ("standing", "pref", "Write commit messages in English.")),
        ("Next time, run `make demo` first", ("standing", "pref", "Run `make demo` first.")),
        ("I prefer short answers without headings", ("standing", "pref", "Prefer short answers without headings.")),
        ("No, use pnpm instead of npm.", ("correction", "pref", "Use pnpm instead of npm.")),
        ("Wrong: run make check before anything", ("correction", "pref", "Run make check before anything.")),
    ],
)
def test_a_wish_is_heard_in_its_common_forms(text: str, wish: tuple[str, str, str]) -> None:
    assert said(text) == [wish]
    assert said(f"Fix the cart. {text}") == [wish]


@pytest.mark.parametrize(
    "text",
    [
        "Do you remember which service we configured?",
        "as far as I can remember the steps were complete",
        "Never do that.",
        "Always-visible links in the header",
        "The hook never writes to stdout.",
        "always write the new field now",
        "use tabs here instead of this",
        "Run the tests.",
        "> always run the linter before you push",
        "- never commit straight to main",
        "```\nalways run the linter first\n```",
        "Always run the linter with sk-ant-api03-" + "a1B2" * 24,
        "Plan:\n" + "line\n" * 12 + "Always run the linter first",
        "x" * 1200 + ". Always run the linter first",
    ],
)
def test_what_asks_tells_points_or_is_quoted_is_no_wish(text: str) -> None:
    assert said(text) == []


def test_only_a_person_is_heard_and_only_in_the_main_conversation() -> None:
    wish = "Always run the linter before you push."
    for origin in ("injected", "tool", "summary"):
        assert said(wish, origin=origin) == []
    assert said(wish, chain="agent-1") == []
    assert said(wish, origin="refusal") != []
    assert list(wishes([Message(7, "u", "assistant", "model", "", "", wish)])) == []
