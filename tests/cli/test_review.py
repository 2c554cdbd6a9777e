"""`reflector review`: each key is one decision, written at once; what went stale says so."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from reflector.curation.changes import apply
from reflector.curation.proposals import kept_pairs, proposals
from reflector.ledger.store import Ledger
from reflector.playbook.change import Change
from tests.cli.reviewing import CHANGES, PICTURE, Sitting, advice, documented, picture, project, proposed, sit
from tests.road.agent import REFLECTOR, Agent


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return project(tmp_path)


def states(agent: Agent) -> list[tuple[str, str]]:
    """What is proposed and what became of it, oldest first."""
    with Ledger.open_file(agent.ledger) as ledger:
        return [(one.change.kind, one.state) for one in proposals(ledger, waiting=False)]


def live(agent: Agent) -> dict[str, str]:
    return {row["name"]: row["text"] for row in agent.json("list")}


@pytest.mark.slow
def test_fifty_proposals_are_decided_with_few_keys(agent: Agent) -> None:
    proposed(agent, *map(advice, range(20)))
    decided = 0

    async def play(sitting: Sitting) -> None:
        nonlocal decided
        for number in range(50):
            waiting = states(agent).count(("add", "waiting"))
            if number % 5 == 4:
                await sitting.press("r", "enter")
            else:
                await sitting.press("a")
            assert len(sitting.screen.items) == waiting - 1
            decided += 1
            if number < 30:  # at most 20 wait, so others come in the place of those that are decided
                proposed(agent, advice(20 + number))
        assert sitting.keys == 60

    done = sit(agent, play).done
    assert (decided, done["approved"], done["rejected"]) == (50, 40, 10)
    assert len(live(agent)) == 4 + 40
    assert agent.call("verify").out == ""


def test_a_decision_is_in_the_ledger_and_in_the_playbook_before_the_next_key(agent: Agent) -> None:
    proposed(agent, *CHANGES)

    async def play(sitting: Sitting) -> None:
        await sitting.press("a")
        assert states(agent)[0] == ("add", "approved")
        assert "Run the linter before you commit." in agent.playbook.read_text()
        await sitting.press("r", *"no", "enter")
        assert states(agent)[1] == ("revise", "rejected")

    sit(agent, play)
    assert "no" in [one["why"] for one in agent.json("proposals", "--all")]


def test_the_evidence_and_the_counters_before_and_after_stand_beside_a_proposal(agent: Agent) -> None:
    proposed(agent, *CHANGES)

    async def play(sitting: Sitting) -> None:
        detail = sitting.text("#detail")
        assert "from rules, words of a tool" in detail
        assert "“No! Always run the linter before you commit, I said so yesterday.”" in detail
        assert "a person, session 5f2a91c0" in detail
        assert "+ [pat-004] helpful=0 harmful=0 :: Run the linter before you commit." in detail
        await sitting.press("end")
        detail = sitting.text("#detail")
        assert "- [pat-001] helpful=7 harmful=1 :: Write the failing test first." in detail
        assert "+ [pat-004] helpful=9 harmful=1 :: Write the failing test first." in detail
        assert "k keep" in sitting.text("#keys")

    sit(agent, play)


def test_bullets_that_already_say_it_are_named(agent: Agent) -> None:
    proposed(agent, (Change("add", section="pat", text="Never keep functions small."), "agent", ()))

    async def play(sitting: Sitting) -> None:
        assert "pat-002 says the opposite" in sitting.text("#detail")

    sit(agent, play)


def test_the_text_can_be_edited_before_it_is_accepted(agent: Agent) -> None:
    proposed(agent, *CHANGES)

    async def play(sitting: Sitting) -> None:
        await sitting.press("e", "escape")
        assert len(sitting.screen.items) == 5
        await sitting.press("e", *" Now", "enter")

    sit(agent, play)
    assert live(agent)["pat-004"] == "Run the linter before you commit. Now"
    assert states(agent)[0] == ("add", "approved")


def test_what_is_kept_apart_is_not_proposed_again(agent: Agent) -> None:
    agent.call("duplicates", "--propose")
    assert states(agent) == [("merge", "waiting")]

    async def play(sitting: Sitting) -> None:
        await sitting.press("k")
        assert sitting.screen.items == []

    sit(agent, play)
    assert agent.json("duplicates") == []
    agent.call("duplicates", "--propose")
    assert states(agent) == [("merge", "kept")]


def test_marked_ones_are_decided_together_and_undone_together(agent: Agent) -> None:
    proposed(agent, *map(advice, range(4)))

    async def play(sitting: Sitting) -> None:
        await sitting.press("space", "space", "down", "A")
        assert [state for _, state in states(agent)] == ["approved", "approved", "waiting", "waiting"]
        await sitting.press("u")
        assert len(sitting.screen.items) == 4
        assert sitting.screen.done["approved"] == 0
        await sitting.press("home", "space", "space", "space", "R", "enter")
        assert len(sitting.screen.items) == 1

    sit(agent, play)
    assert len(live(agent)) == 4
    assert agent.call("verify").out == ""


@pytest.mark.parametrize("keys", [["a"], ["r", "enter"], ["k"]])
def test_the_last_decision_is_taken_back(agent: Agent, keys: list[str]) -> None:
    before = live(agent)
    proposed(agent, CHANGES[-1])

    async def play(sitting: Sitting) -> None:
        await sitting.press(*keys)
        assert sitting.screen.items == []
        await sitting.press("u")
        assert [item.proposal.change for item in sitting.screen.items] == [CHANGES[-1][0]]
        assert live(agent) == before
        await sitting.press("a")
        assert sitting.screen.items == []

    sit(agent, play)
    assert "pat-001" not in live(agent)
    with Ledger.open_file(agent.ledger) as ledger:
        assert kept_pairs(ledger) == ({frozenset({"pat-001", "pat-003"})} if keys == ["k"] else set())


def test_a_proposal_that_went_stale_meanwhile_says_so(agent: Agent) -> None:
    proposed(agent, CHANGES[1], CHANGES[2])

    async def play(sitting: Sitting) -> None:
        with Ledger.open_file(agent.ledger) as ledger:
            apply(ledger, [Change("revise", "mis-001", text="Mock nothing.")], actor="human")
        await sitting.press("a")
        told = " ".join(str(note.message) for note in sitting.screen._notifications)
        assert "mis-001 says something else since it was proposed" in told
        assert [item.proposal.change.kind for item in sitting.screen.items] == ["remove"]

    assert sit(agent, play).done["approved"] == 0
    assert live(agent)["mis-001"] == "Mock nothing."
    assert states(agent)[0] == ("revise", "stale")


def test_words_find_proposals_and_later_puts_one_behind_the_others(agent: Agent) -> None:
    proposed(agent, *CHANGES)

    async def play(sitting: Sitting) -> None:
        await sitting.press("slash", *"linter", "enter")
        assert [item.proposal.change.kind for item in sitting.screen.shown] == ["add"]
        assert "1 of 5 waiting" in sitting.text("#title")
        await sitting.press("escape", "home", "l")
        assert [item.proposal.change.kind for item in sitting.screen.items][-1] == "add"
        await sitting.press("question_mark", "escape")

    sit(agent, play)
    assert {state for _, state in states(agent)} == {"waiting"}


def test_hostile_words_are_shown_without_their_control_characters(agent: Agent) -> None:
    change, origin, said = advice(1)
    hostile = [type(one)(f"{one.text} \x1b[31mred \u202e[bold]b[/]", one.by, one.session) for one in said]
    proposed(agent, (change, origin, hostile))
    shown = picture(agent)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[bold]b[/]" in shown


@pytest.mark.parametrize("width", [80, 200])
def test_the_list_and_the_evidence_fit_the_terminal(agent: Agent, width: int) -> None:
    proposed(agent, *CHANGES)

    async def play(sitting: Sitting) -> None:
        listed, evidence = (sitting.screen.query_one(one).region for one in ("#list", "#evidence"))
        assert (listed.right, evidence.x) == ((80, 0) if width == 80 else (80, 80))
        assert max(listed.right, evidence.right) == width

    sit(agent, play, width=width, height=24)


def test_the_picture_of_the_page_is_what_the_screen_shows(tmp_path: Path) -> None:
    assert documented(tmp_path) == PICTURE.read_text("utf-8"), "`make docs` takes it anew"


def test_without_a_terminal_the_other_commands_are_named(agent: Agent) -> None:
    told = agent.call("review", code=1).err
    assert "reflector proposals --json" in told


def test_without_its_screen_the_review_names_the_editor_and_asks_for_nothing_where_nothing_waits(agent: Agent) -> None:
    hidden = "import sys; sys.modules['textual'] = None; from reflector.cli.app import run; sys.exit(run(['review']))"
    with Terminal(agent, 80, 24, [sys.executable, "-I", "-c", hidden]) as terminal:
        terminal.wait("No proposal waits.")
        assert terminal.process.wait(60) == 0
    proposed(agent, *CHANGES)
    with Terminal(agent, 80, 24, [sys.executable, "-I", "-c", hidden]) as terminal:
        terminal.wait("`reflector proposals approve ID` decides without it.")
        assert terminal.process.wait(60) == 1


def test_one_review_in_a_real_terminal(agent: Agent) -> None:
    proposed(agent, *CHANGES)
    with Terminal(agent, 80, 24) as terminal:
        terminal.wait("5 waiting")
        terminal.type("a", "4 waiting")  # add
        terminal.type("r", "Why?")
        terminal.type("too vague\r", "3 waiting")  # revise
        terminal.type("u", "undone")
        terminal.type("\x1b[B\x1b[B\x1b[B", "Then")
        terminal.type("q", "approved")
        assert terminal.process.wait(60) == 0
    assert states(agent)[0] == ("add", "approved")
    assert agent.call("verify").out == ""


class Terminal:
    """`reflector review` in a terminal of this size."""

    def __init__(self, agent: Agent, width: int, height: int, command: Sequence[str] = (*REFLECTOR, "review")) -> None:
        self._main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        env = agent.env(TERM="xterm-256color", COLORTERM="")
        self.process = subprocess.Popen(
            command,
            stdin=side,
            stdout=side,
            stderr=side,
            cwd=agent.project,
            env=env,
            start_new_session=True,
        )
        os.close(side)
        self._seen = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._main)

    def type(self, keys: str, until: str) -> None:
        self._seen = ""
        os.write(self._main, keys.encode())
        self.wait(until)

    def wait(self, words: str) -> None:
        end = time.monotonic() + 60
        while words not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._seen):
            assert time.monotonic() < end, self._seen
            if select.select([self._main], [], [], 1)[0]:
                try:
                    self._seen += os.read(self._main, 65_536).decode("utf-8", "replace")
                except OSError:  # it has ended
                    assert words in self._seen, self._seen
                    return
