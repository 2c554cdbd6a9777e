"""A playbook with proposals of every kind, and the screen of `reflector review` on it.

`python -m tests.cli.reviewing` writes docs/review.svg anew.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from reflector.cli.app import Place
from reflector.cli.review_items import load
from reflector.cli.review_screen import Review
from reflector.curation.proposals import Proposal, Quote, propose
from reflector.ledger.store import Ledger
from reflector.playbook.change import Change
from tests.road.agent import Agent

PICTURE = Path(__file__).parents[2] / "docs" / "review.svg"

_BULLETS = {
    "PATTERNS & APPROACHES": [
        {"name": "pat-001", "text": "Write the failing test first.", "helpful": 7, "harmful": 1},
        {"name": "pat-002", "text": "Keep functions small.", "helpful": 1, "harmful": 4},
        {"name": "pat-003", "text": "You must always write a failing test first.", "helpful": 2, "harmful": 0},
    ],
    "MISTAKES TO AVOID": [
        {"name": "mis-001", "text": "Mocking the database hides broken migrations.", "helpful": 0, "harmful": 0}
    ],
}
_SAID = Quote("No! Always run the linter before you commit, I said so yesterday.", "person", "5f2a91c0-77d1")
_FAILED = Quote("E501 Line too long (134 > 120)", "tool", "91b0c2aa-0f3e")
CHANGES = (
    (Change("add", section="pat", text="Run the linter before you commit."), "rules", (_SAID, _FAILED)),
    (Change("revise", "mis-001", text="Run integration tests on a real database."), "model", (_FAILED,)),
    (Change("remove", "pat-002"), "follow-up", ()),
    (Change("move", "pat-003", section="pref"), "agent", ()),
    (Change("merge", names=("pat-001", "pat-003"), section="pat", text="Write the failing test first."), "rules", ()),
)


def project(folder: Path) -> Agent:
    """A project whose playbook has four bullets."""
    agent = Agent.in_folder(folder, _BULLETS)
    agent.call("drain")
    return agent


def proposed(agent: Agent, *changes: tuple[Change, str, Sequence[Quote]]) -> list[Proposal]:
    """Propose changes, each with where it comes from and what was said for it."""
    with Ledger.open_file(agent.ledger) as ledger:
        return [
            propose(ledger, one, origin=origin, trust="agent", reason="it came up twice", evidence=said, actor=origin)
            for one, origin, said in changes
        ]


def advice(number: int) -> tuple[Change, str, Sequence[Quote]]:
    """A proposed bullet like no other."""
    words = f"Ask person {number} before you touch service {number}."
    return Change("add", section="ctx", text=words), "rules", (_SAID,)


class Sitting:
    """A review in which keys are pressed one after the other; counts them."""

    def __init__(self, agent: Agent, screen: Review, pilot: Any) -> None:
        self.agent, self.screen, self._pilot, self.keys = agent, screen, pilot, 0

    async def press(self, *keys: str) -> None:
        for key in keys:
            self.keys += 1
            await self._pilot.press(key)
            await self.screen.workers.wait_for_complete() if not self._is_asked() else await self._pilot.pause()
        await self._pilot.pause()

    def _is_asked(self) -> bool:
        return len(self.screen.screen_stack) > 1

    def text(self, selector: str) -> str:
        return str(self.screen.query_one(selector).render())  # type: ignore[attr-defined]


def sit(agent: Agent, play: Any, *, width: int = 100, height: int = 30, theme: str = "ansi-dark") -> Review:
    """Play a review in this process: `play` is a coroutine function of a `Sitting`."""

    async def run() -> Review:
        place = Place(agent.project)
        with place.pipeline() as pipeline:
            items, _ = load(pipeline)
        screen = Review(place, items)
        screen.theme = theme
        async with screen.run_test(size=(width, height)) as pilot:
            await pilot.pause()
            await play(Sitting(agent, screen, pilot))
        return screen

    with patch.dict(os.environ, agent.env(TERM="xterm-256color"), clear=True):
        return asyncio.run(run())


def picture(agent: Agent, *keys: str, width: int = 120, height: int = 24, theme: str = "ansi-dark") -> str:
    """The screen after some keys, as SVG; the day and what follows from it are left out."""
    taken = []

    async def play(sitting: Sitting) -> None:
        await sitting.press(*keys)
        taken.append(sitting.screen.export_screenshot(title="reflector review"))

    sit(agent, play, width=width, height=height, theme=theme)
    day = re.sub(r"\d{4}-\d\d-\d\d(&#160;)\d\d:\d\d", r"2026-11-22\g<1>09:14", taken[0])
    # Without a font from somewhere else: the reader's own is taken.
    own = re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", day, flags=re.DOTALL)
    return re.sub(r"terminal-\d+", "terminal", own).replace(
        "Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono"
    )


def documented(folder: Path) -> str:
    """The picture of docs/editing.md."""
    agent = project(folder)
    proposed(agent, *CHANGES, *map(advice, range(5)))
    return picture(agent, "down")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PICTURE.write_text(documented(Path(folder)), "utf-8")
