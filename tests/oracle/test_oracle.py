"""Every audit answer against a model that was written from the documents: 60 random histories, alone and merged."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from reflector.ledger.merge import merge
from reflector.ledger.store import Ledger
from reflector.ledger.transfer import exported, load
from reflector.ledger.verify import verify
from tests.ledger.histories import Fresh, fresh
from tests.oracle.histories import begin, live
from tests.oracle.model import POLICIES, Model, difference
from tests.road.agent import Agent

__all__ = ["fresh"]


class Asked:
    """A machine's ledger and the commands that ask it."""

    def __init__(self, url: str, folder: Path) -> None:
        folder.mkdir()
        self.agent = Agent(folder / "project", folder / "home", {"REFLECTOR_LEDGER_URL": url})
        self.agent.claude.mkdir(parents=True)
        self.agent.home.mkdir()
        self.ledger = Ledger.open(url)

    def __call__(self, *words: str) -> Any:
        ran = self.agent.call(*words, "--json")
        assert ran.code == 0, (words, ran)
        return json.loads(ran.out)

    def merge(self, other: Asked) -> None:
        lines = list(exported(other.ledger))
        merge(self.ledger, lambda: lines, rename=True)

    def agrees(self, chance: random.Random) -> None:
        """Every answer of today, of the head and of two other moments is the model's."""
        assert list(verify(self.ledger)) == []
        # Asked first: a question may take a playbook.json in, or write one.
        self("list")
        lines = list(exported(self.ledger))
        head = self.ledger.head().position
        moments = [None, head, *(chance.randint(1, head) for _ in range(2))]
        for moment in moments:
            self._answers(Model(lines, moment), () if moment is None else ("--as-of", str(moment)))
        for first, last in ((moments[2], head), (moments[2], moments[3]), (0, moments[3]), (head, moments[2])):
            self._difference(Model(lines, first), Model(lines, last), f"{first}..{last}")

    def _answers(self, model: Model, when: tuple[str, ...]) -> None:
        keys = ("name", "text", "helpful", "harmful", "status", "reason", "removed_into", "position")
        assert [tuple(one[key] for key in keys) for one in self("list", "--all", *when)] == model.listed()
        doubles = self("double-counts", *when)
        assert {one["code"]: (one["tags"], one["bullets"]) for one in doubles["classes"]} == model.double_counts()
        assert doubles["counting"] == model.policy
        for one in doubles["totals"]:
            for policy in POLICIES:
                assert tuple(one[policy].values()) == model.counters(one["name"], policy), (one["name"], policy)
        for name in model.bullets:
            keys = ("position", "tag", "counted", "disposition", "helpful", "harmful")
            told = [
                (*(step[key] for key in keys), (step["uncounted_by"] or {}).get("position"))
                for step in self("blame", name, *when)
            ]
            assert told == model.blame(name), (name, when)
        for session in sorted({window.session for window in model.windows.values() if window.session}):
            keys = ("position", "name", "tag", "disposition", "counted")
            windows = self("session", session, *when)["windows"]
            tags = [tag for window in windows for reflection in window["reflections"] for tag in reflection["tags"]]
            assert sorted(tuple(tag[key] for key in keys) for tag in tags) == model.session(session), (session, when)
        stats = self("stats", *when)
        assert {key: stats[key] for key in model.stats()} == model.stats()

    def _difference(self, old: Model, new: Model, moments: str) -> None:
        def pair(side: dict[str, Any] | None) -> tuple[int, int] | None:
            return None if side is None else (side["helpful"], side["harmful"])

        told = {
            one["name"]: (
                pair(one["before"]),
                pair(one["after"]),
                one["recounted"],
                {of["session_id"]: (of["helpful"], of["harmful"]) for of in one["sessions"]},
            )
            for one in self("diff", moments)["bullets"]
        }
        assert told == difference(old, new), moments


@pytest.fixture
def machines(fresh: Fresh, tmp_path: Path) -> Iterator[list[Asked]]:
    """Three machines, with a ledger each on the engine."""
    with ExitStack() as stack:
        asked = [Asked(stack.enter_context(fresh()), tmp_path / str(number)) for number in range(3)]
        for one in asked:
            stack.callback(one.ledger.close)
        yield asked


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(60))
def test_every_answer_is_that_of_a_model_written_from_the_documents(machines: list[Asked], seed: int) -> None:
    if machines[0].ledger.engine.dialect.name == "postgresql" and seed % 7:
        pytest.skip("on a server a history takes ten times as long: every seventh is asked there")
    chance = random.Random(seed)
    used = machines[: 1 + seed % 3]
    begin(used[0].ledger)
    live(used[0].ledger, chance, "common", chance.randrange(8))
    for one in used[1:]:
        if chance.random() < 0.7:
            load(one.ledger, list(exported(used[0].ledger)))
        else:
            begin(one.ledger)
    for turn in range(2):
        for number, one in enumerate(used):
            live(one.ledger, chance, f"{'abc'[number]}{turn}-", chance.randint(6, 14))
        for one, other in ((one, other) for one in used for other in used if one is not other):
            if chance.random() < 0.6:
                one.merge(other)
    for _ in range(2):
        for one, other in ((one, other) for one in used for other in used if one is not other):
            one.merge(other)
    for one in used:
        one.agrees(chance)
    counters = [{(row.text, row.helpful, row.harmful, row.status) for row in one.ledger.rows()} for one in used]
    assert all(one == counters[0] for one in counters)
