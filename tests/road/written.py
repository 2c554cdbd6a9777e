"""Transcripts as a client writes them: behind its hooks' backs, and not always to the end of a line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.road.sessions import Session
from tests.transcripts.records import line

#: None of these says anything about the work before it.
QUESTIONS = ("What is in cart.py?", "Which file holds the prices?", "How many orders are there?")
PRAISE = ("Perfect, that works. Thanks!", "Glad to hear it.")
BLAME = ("No, that is wrong. Please don't change the total there, revert it.", "You are right, I take it back.")


@dataclass
class Advice:
    """One citation: the bullet, the record that cites it, and the records that then say how it went.

    `verdicts` has one more entry for each copy of the session that went on by itself.
    """

    name: str
    cited_by: str
    verdicts: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Lineage:
    """What a session and the copies of it have in common: the advice they cite, each piece once."""

    advice: list[Advice] = field(default_factory=list)

    def cites(self, name: str) -> bool:
        return any(advice.name == name for advice in self.advice)


@dataclass
class Transcript:
    """A session's or a subagent's records, and how many bytes of them stand in the file."""

    session: Session
    path: Path
    cwd: str
    lineage: Lineage = field(default_factory=Lineage)
    open: Advice | None = None
    written: int = 0
    _lines: list[bytes] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def agent_id(self) -> str | None:
        return self.session.agent_id

    @property
    def uuids(self) -> list[str]:
        return [record["uuid"] for record in self.session.records]

    def ask(self, number: int) -> None:
        """A question that has nothing to do with what came before, and its answer."""
        self.session.user(QUESTIONS[number % len(QUESTIONS)]).agent("It is in the shop's own folder.")
        self.open = None

    def cite(self, name: str) -> None:
        """A new task and the advice that is applied to it; nobody has said anything yet."""
        number = len(self.session.records)
        self.session.user(f"Please add field {number} to the form of page {number}.")
        self.session.agent(f"As [{name}] says, I change how the cart adds up its total.")
        self.open = Advice(name, self.uuids[-1])
        self.lineage.advice.append(self.open)

    def judge(self, verdict: str) -> None:
        """A person says how the advice went that was cited last, unless somebody spoke of other things since."""
        if self.open is not None:
            said, answered = PRAISE if verdict == "helpful" else BLAME
            self.session.user(said)
            self.open.verdicts.append((self.uuids[-1], verdict))
            self.session.agent(answered)
            self.open = None

    def prove(self) -> None:
        """The tests say how it went: a subagent hears no person."""
        if self.open is not None:
            self.session.runs("pytest -q tests/test_cart.py", "5 passed in 0.12s")
            self.open.verdicts.append((self.uuids[-1], "helpful"))
            self.session.agent("All tests pass.")
            self.open = None

    def fork(self, id: str) -> Transcript:
        """The same records in a file of its own under a new id; nothing of it is written yet."""
        path = self.path.with_name(f"{id}.jsonl")
        return Transcript(self.session.fork(id), path, self.cwd, self.lineage, self.open)

    def flush(self, records: int | None = None, *, cut: bool = False) -> None:
        """Write so many more records (None: all), and with `cut` half of the one after."""
        for record in self.session.records[len(self._lines) :]:
            self._lines.append(line({**record, "cwd": self.cwd}))
        whole = len(self.visible(None))
        upto = len(self._lines) if records is None else min(len(self._lines), max(1, whole + records))
        half = len(self._lines[upto]) // 2 if cut and upto < len(self._lines) else 0
        size = max(self.written, sum(map(len, self._lines[:upto])) + half)
        if size > self.written:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(b"".join(self._lines)[self.written : size])
            self.written = size

    def visible(self, limit: int | None) -> list[str]:
        """The records that stand wholly in the first `limit` bytes of the file."""
        left = self.written if limit is None else min(limit, self.written)
        found = []
        for uuid, text in zip(self.uuids, self._lines, strict=False):
            left -= len(text)
            if left < 0:
                break
            found.append(uuid)
        return found
