"""Random changes to a file between two looks: no line that you wrote gets an agent's name."""

import random
import time
from pathlib import Path
from typing import NamedTuple

from reflector.attribution.calls import Call, Edit, Transcript
from reflector.attribution.naming import steps_of
from reflector.attribution.steps import UNSEEN_CONTENT, Author, Difference, Step, content_of
from reflector.events.memory import AGENT, YOU

_PLAYS = 1_000
_FILE = "CLAUDE.md"
_SESSIONS = ("first", "second")


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode().splitlines()


def _added(before: bytes | None, after: bytes | None) -> set[str]:
    return set(_lines(after)).difference(_lines(before))


class _Truth(NamedTuple):
    """A change of the play; `session` is "" for an edit by hand."""

    session: str
    before: bytes
    after: bytes


class _Play:
    """Some changes of one file between two looks, by you and by two sessions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.now = 1_000.0
        self.before = f"{self._line()}\n{self._line()}\n".encode()
        self.content = self.before
        self.written_at = self.now
        self.truths: list[_Truth] = []
        self.calls: list[Call] = []
        for _ in range(self.random.randint(1, 6)):
            self.now += self.random.uniform(0.05, 0.5)
            act = self.random.choice((self._hand, self._hand, self._edit, self._write, self._shell))
            act()
        self.now += 0.05

    def _line(self) -> str:
        self.count += 1
        return f"- Rule {self.random.randrange(10**9)}."

    def _changes(self, session: str, after: bytes) -> None:
        if after != self.content:
            self.truths.append(_Truth(session, self.content, after))
            self.written_at = self.now
        self.content = after

    def _calls(self, after: bytes, *, shows: bool = False, **facts: object) -> None:
        session = self.random.choice(_SESSIONS)
        author = Author(AGENT, "Claude Code", session, f"call {self.count}")
        former = content_of(self.content) if shows else UNSEEN_CONTENT
        began = self.now
        self.now += 0.003
        self._changes(session, after)
        self.now += 0.002
        call = Call(_FILE, former=former, author=author, began=began, time=self.now)
        self.calls.append(call._replace(**facts))  # type: ignore[arg-type]

    def _hand(self) -> None:
        self._changes("", self.content + f"{self._line()}\n".encode())

    def _edit(self) -> None:
        old = self.random.choice(_lines(self.content)).encode()
        edit = Edit(old, self._line().encode())
        after = self.content.replace(*edit[:2], 1)
        shows = self.random.random() < 0.7
        self._calls(after, shows=shows, edits=(edit,), text=str(edit))

    def _write(self) -> None:
        after = f"{self._line()}\n{self._line()}\n".encode()
        self._calls(after, shows=self.random.random() < 0.7, content=content_of(after))

    def _shell(self) -> None:
        line = self._line()
        after = self.content + f"{line}\n".encode()
        if self.random.random() < 0.3:
            line, after = "", self.content  # the command changes nothing
        self._calls(after, is_shell=True, text=f"printf -- '{line}\\n' >> CLAUDE.md")

    def steps(self) -> list[Step]:
        contents = map(content_of, (self.before, self.content))
        difference = Difference(_FILE, *contents, 999.0, self.written_at)
        sessions = [Transcript(Path(f"/{name}.jsonl"), "/shop") for name in _SESSIONS]
        return steps_of(difference, self.calls, sessions)


def _is_wrong(play: _Play, before: bytes | None, step: Step) -> bool:
    """Whether a step has lines that its session did not add, and is not the content that a call of
    the session left.
    """
    own = [truth for truth in play.truths if truth.session == step.author.session]
    lines = set().union(*(_added(truth.before, truth.after) for truth in own))
    is_left = any(truth.after == step.after.bytes for truth in own)
    return not (is_left or _added(before, step.after.bytes) <= lines)


def test_random_changes_have_no_wrong_author() -> None:
    wrong = []
    named = 0
    for seed in range(_PLAYS):
        play = _Play(seed)
        before: bytes | None = play.before
        for step in play.steps() if play.content != play.before else ():
            is_named = step.author.by == AGENT
            named += is_named
            if step.author.by == YOU or (is_named and _is_wrong(play, before, step)):
                wrong.append(seed)
            before = step.after.bytes
    assert wrong == []
    assert named > _PLAYS


def test_many_commands_of_a_large_file_take_seconds() -> None:
    before = b"".join(b"- Rule number %d of the whole team.\n" % number for number in range(9_000))
    seen = before.replace(b"number 3 ", b"nummer 3 ")
    author = Author(AGENT, "Claude Code", "first", "call")
    calls = [
        Call(_FILE, is_shell=True, text=f"run {number} > CLAUDE.md", author=author, began=1_000.0)
        for number in range(12)
    ]
    edit = Edit(b"- Rule nummer", b"- Regel nummer")
    shown = Call(_FILE, edits=(edit,), former=content_of(seen), author=author, began=1_001.0)
    calls = [call._replace(time=call.began) for call in (*calls, shown)]
    contents = map(content_of, (before, before + b"- By hand.\n"))
    began = time.process_time()
    assert len(steps_of(Difference(_FILE, *contents, 999.0, 1_050.0), calls, [])) == 3
    assert time.process_time() - began < 5
