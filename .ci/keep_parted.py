"""Keep pairs of ledgers that parted from one: `python .ci/keep_parted.py COMMIT REVISION [CASE…]`.

The code of COMMIT makes them with its own commands: one ledger, copied to a second machine, and then changes on both
machines at the same positions. Up to c4b5c401 two such changes got one event id. Without a CASE only the pair with
every change is kept. tests/exchange/test_parted.py merges each pair both ways.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.road.sessions import Session

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "tests" / "exchange" / "parted"
_MAIN = "import sys; sys.path.insert(0, {!r}); sys.argv[0] = 'reflector'; from reflector.__main__ import main; main()"
#: The session that the common history has; nobody said how the cited bullet did.
_SESSION = "5f2a91c0-0000-4000-8000-000000000001"

Step = tuple[str, ...]
_ADDED: list[Step] = [("add", "pat", "Run the tests"), ("add", "pat", "Run every test"), ("add", "mis", "No mocks")]
_JUDGED: list[Step] = [*_ADDED, ("ingest", "session.jsonl")]
_WHY: Step = ("--why", "they asked for it")

#: By the name of the pair: the common history, and the changes on each machine.
CASES: dict[str, tuple[list[Step], list[Step], list[Step]]] = {
    "both-revise": (_ADDED, [("revise", "pat-001", "Text of A")], [("revise", "pat-001", "Text of B")]),
    "both-add-other-texts": (_ADDED, [("add", "pat", "Added by A")], [("add", "pat", "Added by B")]),
    "both-add-one-text": (_ADDED, [("add", "pat", "Added by both")], [("add", "pat", "Added by both")]),
    "both-remove": (_ADDED, [("remove", "pat-001", "--why", "A")], [("remove", "pat-001", "--why", "B")]),
    "both-add-and-remove": (
        _ADDED,
        [("add", "pat", "Added by A"), ("remove", "pat-003", "--why", "A")],
        [("add", "pat", "Added by B"), ("remove", "pat-003", "--why", "B")],
    ),
    "remove-and-revise": (_ADDED, [("remove", "pat-001")], [("revise", "pat-001", "Text of B")]),
    "revise-and-remove": (_ADDED, [("revise", "pat-001", "Text of A")], [("remove", "pat-001")]),
    "both-judge": (
        _JUDGED,
        [("judge", _SESSION, "pat-001", "helpful")],
        [("judge", _SESSION, "pat-001", "harmful")],
    ),
    "both-judge-two-bullets": (
        _JUDGED,
        [("judge", _SESSION, "pat-001", "helpful"), ("judge", _SESSION, "mis-001", "harmful")],
        [("judge", _SESSION, "mis-001", "harmful"), ("judge", _SESSION, "pat-001", "helpful")],
    ),
    "both-redact": (
        [*_ADDED, ("add", "ctx", "Call Jane Doe")],
        [("redact", "--where", "Jane Doe", *_WHY, "--yes")],
        [("redact", "--where", "Jane Doe", *_WHY, "--yes")],
    ),
    "both-revise-and-redact": (
        _ADDED,
        [("revise", "pat-001", "Call Jane Doe of A"), ("redact", "--where", "Jane Doe", *_WHY, "--yes")],
        [("revise", "pat-001", "Call Jane Doe of B"), ("redact", "--where", "Jane Doe", *_WHY, "--yes")],
    ),
    "both-adopt": (
        _JUDGED,
        [("ledger", "policy", "once_per_session")],
        [("ledger", "policy", "once_per_reflection")],
    ),
    "undo-on-one-side": (
        _ADDED,
        [("revise", "pat-001", "Text of A"), ("undo",)],
        [("revise", "pat-001", "Text of B")],
    ),
    "undo-on-both-sides": (
        _ADDED,
        [("revise", "pat-001", "Text of A"), ("undo",)],
        [("revise", "pat-001", "Text of B"), ("undo",)],
    ),
    "both-merge": (
        _ADDED,
        [("merge", "pat-001", "pat-002", "--text", "Merged by A")],
        [("merge", "pat-001", "pat-002", "--text", "Merged by B")],
    ),
    "both-merge-others": (
        _ADDED,
        [("merge", "pat-001", "pat-002", "--text", "Merged by A")],
        [("merge", "pat-002", "mis-001", "--text", "Merged by B")],
    ),
    "merge-and-revise": (
        _ADDED,
        [("merge", "pat-001", "pat-002", "--text", "Merged by A")],
        [("revise", "pat-001", "Text of B")],
    ),
    "every-change": (
        [*_JUDGED, ("add", "ctx", "Call Jane Doe")],
        [
            ("revise", "pat-001", "Text of A"),
            ("add", "pat", "Added by A"),
            ("add", "oth", "Added by both"),
            ("remove", "mis-001"),
            ("judge", _SESSION, "pat-001", "helpful"),
            ("ledger", "policy", "once_per_session"),
            ("redact", "--where", "Jane Doe", *_WHY, "--yes"),
            ("add", "pref", "Only on A"),
        ],
        [
            ("revise", "pat-001", "Text of B"),
            ("add", "pat", "Added by B"),
            ("add", "oth", "Added by both"),
            ("remove", "mis-001"),
            ("judge", _SESSION, "pat-001", "harmful"),
            ("ledger", "policy", "once_per_reflection"),
            ("redact", "--where", "Jane Doe", *_WHY, "--yes"),
            ("add", "pref", "Only on B"),
        ],
    ),
}


class Machine:
    """A project and a home in a folder, in which the code of an older commit works."""

    def __init__(self, code: Path, folder: Path) -> None:
        self.code, self.folder = code, folder
        self.project, self.home = folder / "project", folder / "home"

    @property
    def ledger(self) -> Path:
        return self.project / ".claude" / "reflector" / "ledger.db"

    @classmethod
    def new(cls, code: Path, folder: Path) -> Machine:
        machine = cls(code, folder)
        machine.home.mkdir(parents=True)
        (machine.project / ".git").mkdir(parents=True)
        transcript = Session(_SESSION).cites("pat-001", None).cites("mis-001", None)
        transcript.write(machine.project / "session.jsonl")
        return machine

    def cloned(self, folder: Path) -> Machine:
        """Return a machine with a copy of the project that its person accepted."""
        shutil.copytree(self.folder, folder)
        clone = Machine(self.code, folder)
        shutil.rmtree(clone.home / ".local", ignore_errors=True)
        clone.run("ledger", "take", "--yes")  # earlier versions neither ask nor know the command
        return clone

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        main = [sys.executable, "-I", "-c", _MAIN.format(str(self.code)), *words]
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "REFLECTOR_NO_SPAWN": "1"}
        return subprocess.run(main, cwd=self.project, env=environ, capture_output=True, text=True, check=False)

    def does(self, step: Step) -> None:
        """Do a step. Where a version lacks the command, an older way is taken, or the step is left out."""
        ran = self.run(*step)
        if ran.returncode == 2 and re.search("no (such )?(command|option)", ran.stderr, re.IGNORECASE):
            by = "in an older way" if self._does_as_before(step) else "not at all"
            print(f"  {self.folder.name}: {' '.join(step[:2])}: {by}")
        elif ran.returncode:
            raise SystemExit(f"{' '.join(step)}: exit {ran.returncode}\n{ran.stdout}{ran.stderr}")

    def _does_as_before(self, step: Step) -> bool:
        command, *rest = step
        if command == "ledger":
            return self.run("policy", "adopt", rest[1], *_WHY).returncode == 0
        if command == "redact":
            return self.run("redact", self._position_of(rest[1]), *_WHY, "--yes").returncode == 0
        if command in ("revise", "remove"):
            self._edit(rest[0], rest[1] if command == "revise" else None)
            return self.run("ingest", "session.jsonl").returncode == 0  # which records the edit
        return False

    def _position_of(self, text: str) -> str:
        with closing(sqlite3.connect(self.ledger)) as connection:
            query = "SELECT max(position) FROM event WHERE data LIKE ?"
            return str(connection.execute(query, (f"%{text}%",)).fetchone()[0])

    def _edit(self, name: str, text: str | None) -> None:
        file = self.project / ".claude" / "playbook.json"
        book = json.loads(file.read_text("utf-8"))
        for bullets in book["sections"].values():
            for bullet in [bullet for bullet in bullets if bullet["name"] == name]:
                if text is None:
                    bullets.remove(bullet)
                else:
                    bullet["text"] = text
        file.write_text(json.dumps(book, indent=2), "utf-8")

    def keep_export(self, to: Path) -> None:
        to.write_bytes(lzma.compress(self.run("export", "--format", "ndjson").stdout.encode()))

    def keep_file(self, to: Path) -> None:
        whole = self.folder / "whole.db"
        with closing(sqlite3.connect(self.ledger)) as connection:
            connection.execute("VACUUM INTO ?", (str(whole),))
        to.write_bytes(lzma.compress(whole.read_bytes()))


def keep(code: Path, revision: str, case: str) -> None:
    """Make one pair. One with every change is kept as the ledgers' files, any other as exports."""
    before, ours, theirs = CASES[case]
    with TemporaryDirectory() as folder:
        a = Machine.new(code, Path(folder, "a"))
        for step in before:
            a.does(step)
        b = a.cloned(Path(folder, "b"))
        for machine, steps in ((a, ours), (b, theirs)):
            for step in steps:
                machine.does(step)
            stem = f"{revision}-{case}-{machine.folder.name}"
            if case == "every-change":
                machine.keep_file(KEPT / f"{stem}.db.xz")
            else:
                machine.keep_export(KEPT / f"{stem}.ndjson.xz")


if __name__ == "__main__":
    commit, revision, *cases = sys.argv[1:]
    KEPT.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        archive = ["git", "archive", commit, "reflector", "migrations", "prompts", "docs"]
        tar = subprocess.run(archive, cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=tar, check=True)
        for case in cases or ["every-change"]:
            print(f"{revision} {case}")
            keep(Path(folder), revision, case)
