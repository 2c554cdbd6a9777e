"""Older versions of reflector at work: the code of a landed commit, as git has it, with its own
commands.
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

from tests.road.sessions import Session

_ROOT = Path(__file__).parents[2]
_MAIN = (
    "import sys; sys.path.insert(0, {!r}); sys.argv[0] = 'reflector'; from reflector.__main__ "
    "import main; main()"
)
#: The session that each machine's history may have; nobody said how the cited bullets did.
SESSION = "5f2a91c0-0000-4000-8000-000000000001"
WHY = ("--why", "they asked for it")
#: The last commit of each revision of the schema, and the first one of the newest.
LANDED = {
    "0001": "eea40c87",
    "0002": "770e550d",
    "0003": "67afcb43",
    "0004": "c0de3da6",
    "0005": "c6e22c72",
    "0006": "38bcae10",
    "0007": "1f21ede8",
    "0008-no-tallies": "7803196a",
    "0008": "8bf47a50",
    "0009-first": "b982d063",
    "0009": "c4b5c401",
}

Step = tuple[str, ...]


def has_commit(commit: str) -> bool:
    """Return whether git has a commit here: a shallow clone lacks the older ones."""
    found = subprocess.run(
        ["git", "cat-file", "-e", f"{commit}^{{tree}}"], cwd=_ROOT, capture_output=True, check=False
    )
    return found.returncode == 0


def code_of(commit: str, folder: Path) -> Path:
    """Write the code of a commit into a folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = ["git", "archive", commit, "reflector", "migrations", "prompts", "docs"]
    tar = subprocess.run(archive, cwd=_ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=tar, check=True)
    return folder


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
        transcript = Session(SESSION).cites("pat-001", None).cites("mis-001", None)
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
        return subprocess.run(
            main, cwd=self.project, env=environ, capture_output=True, text=True, check=False
        )

    def says(self, *words: str, code: int = 0) -> str:
        """Run a command that ends so, and return all that it prints."""
        ran = self.run(*words)
        assert ran.returncode == code, (words, ran)
        return ran.stdout + ran.stderr

    def does(self, step: Step) -> None:
        """Do a step. Where a version lacks the command, an older way is taken, or the step is
        left out.
        """
        ran = self.run(*step)
        if ran.returncode == 2 and re.search(
            "no (such )?(command|option)|unexpected extra", ran.stderr, re.IGNORECASE
        ):
            by = "in an older way" if self._does_as_before(step) else "not at all"
            print(f"  {self.folder.name}: {' '.join(step[:2])}: {by}")
        elif ran.returncode:
            raise SystemExit(f"{' '.join(step)}: exit {ran.returncode}\n{ran.stdout}{ran.stderr}")

    def _does_as_before(self, step: Step) -> bool:
        command, *rest = step
        if command == "ledger":
            return self.run("policy", "adopt", rest[1], *WHY).returncode == 0
        if command == "redact":
            return self.run("redact", self._position_of(rest[1]), *WHY, "--yes").returncode == 0
        if command == "edit" and self.run("revise", *rest).returncode == 0:
            return True
        if command in ("edit", "remove"):
            self._edit(rest[0], rest[1] if command == "edit" else None)
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
