"""Wordings of rules, and the calls that follow or break them."""

import pytest

from reflector.counts.rules import Marks, rule_of, rule_set
from reflector.transcripts.message import Message
from tests.counts.messages import runs


def _verdict(rule: str, *messages: Message) -> str:
    """Return "followed", "broken", or "" if the messages show neither."""
    made = rule_of(rule)
    rules = rule_set([made])
    counting = rules.rules[made.key]
    marks = rules.count(messages).marks.get(made.key, Marks())
    acts = marks.run | marks.written
    if acts & counting.negated:
        return "broken"
    return "followed" if acts & counting.named else ""


@pytest.mark.parametrize(
    ("rule", "use", "avoid"),
    [
        ("Serve with `pnpm dev`, not with `node dist/a.js`.", "pnpm dev", "node dist/a.js"),
        ("Server: `pnpm dev`, not `node dist/a.js`.", "pnpm dev", "node dist/a.js"),
        ("Search with `rg`, not with `grep -r`.", "rg x src", "grep -rn x src"),
        ("Search using `rg` and not `grep -r`.", "rg x src", "grep -rn x src"),
        ("Tests: `pnpm test` (not `npx vitest`).", "pnpm test", "npx vitest run"),
        ("Format with `ruff format`, never `black .`.", "ruff format .", "black ."),
        ("Migrations run by `make up`, not by `alembic upgrade`.", "make up", "alembic upgrade"),
    ],
)
def test_choice_of_commands_is_counted(rule: str, use: str, avoid: str) -> None:
    assert _verdict(rule, runs(use)) == "followed"
    assert _verdict(rule, runs(avoid)) == "broken"
