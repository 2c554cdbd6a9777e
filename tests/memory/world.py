"""A project, its agents and its user, played step by step; each step notes who changed which file.

The play knows the truth: each `Truth` has the contents before and after, and the authors that the
log may name.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from reflector.attribution.calls import Transcript
from reflector.attribution.steps import plain_digest
from reflector.events.event import MEMORY_CHANGED
from reflector.memory.backfill import fill_back
from reflector.memory.digests import kept_secret, keyed_digest
from reflector.memory.recording import Recorder, record_changes
from reflector.project import Project
from reflector.sessions.drain import drain_project
from reflector.sessions.found_transcripts import written_since
from reflector.sessions.memory_drain import transcript_at

_GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "Ana",
    "GIT_AUTHOR_EMAIL": "ana@example.org",
    "GIT_COMMITTER_NAME": "Ana",
    "GIT_COMMITTER_EMAIL": "ana@example.org",
}


class Truth(NamedTuple):
    """One change to a file: its digests, who made it, and the lines that it added."""

    file: str
    before: str
    after: str
    by: str
    session: str = ""
    added: frozenset[str] = frozenset()

    @property
    def is_on_record(self) -> bool:
        return self.by in ("agent", "git")


def _detail(path: Path) -> dict[str, str]:
    """What Claude Code records about a file before a change."""
    return {"originalFile": path.read_text()} if path.exists() else {"type": "create"}


def patch_detail(before: str, after: str) -> dict[str, Any]:
    """What Claude Code records about a Write to a large file: a patch without the earlier text."""
    lines = list(difflib.unified_diff(before.split("\n"), after.split("\n"), n=3, lineterm=""))
    hunks: list[dict[str, Any]] = []
    for line in lines[2:]:
        if line.startswith("@@"):
            start = int(line.split("+")[1].partition(",")[0].partition(" ")[0])
            hunks.append({"newStart": start, "lines": []})
        else:
            hunks[-1]["lines"].append(line)
    return {"type": "update", "content": after, "originalFile": None, "structuredPatch": hunks}


@dataclass
class Sitting:
    """A session of Claude Code that the play writes."""

    world: World
    id: str
    path: Path
    count: int = 0

    def says(self, text: str) -> None:
        self._put("user", {"role": "user", "content": text})

    def calls(
        self, tool: str, *, is_error: bool = False, detail: Any = None, **arguments: Any
    ) -> str:
        """Write a call and its result, with the details of the client; return the call's id."""
        call_id = self._begins(tool, arguments)
        self._ends(call_id, is_error=is_error, detail=detail)
        return call_id

    def asks(self, tool: str, **arguments: Any) -> None:
        """Write a call that waits for your permission."""
        self._begins(tool, arguments)

    def _begins(self, tool: str, arguments: Mapping[str, Any]) -> str:
        self.count += 1
        call_id = f"toolu_{self.id[:8]}_{self.count}"
        use = {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}
        self._put("assistant", {"role": "assistant", "model": "m", "content": [use]})
        return call_id

    def _ends(self, call_id: str, *, is_error: bool = False, detail: Any = None) -> None:
        answer = {"type": "tool_result", "tool_use_id": call_id, "content": "ok"}
        answer |= {"is_error": True} if is_error else {}
        self._put("user", {"role": "user", "content": [answer]}, toolUseResult=detail)

    def _put(self, kind: str, message: Mapping[str, Any], **more: Any) -> None:
        self.count += 1
        record = {
            "type": kind,
            "uuid": f"{self.id}-{self.count}",
            "parentUuid": None,
            "sessionId": self.id,
            "cwd": str(self.world.root),
            "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "message": message,
            **more,
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def writes(self, file: str, content: str, *, shows: bool = False) -> None:
        """Change a file by the tool Write, whose result may show the content before."""
        with self.world.changes(file, "agent", self.id) as path:
            detail = _detail(path) if shows else None
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.calls("Write", detail=detail, file_path=str(path), content=content)

    def edits(self, file: str, old: str, new: str, *, shows: bool = False) -> None:
        """Change a file by the tool Edit, whose result may show the content before."""
        with self.world.changes(file, "agent", self.id) as path:
            detail = _detail(path) if shows else None
            path.write_text(path.read_text().replace(old, new, 1))
        self.calls("Edit", detail=detail, file_path=str(path), old_string=old, new_string=new)

    def runs(self, file: str, command: str, meanwhile: Callable[[], object] = list) -> None:
        """Change a file by a command in the project.

        meanwhile  what happens between the change and the result of the command
        """
        call_id = self._begins("Bash", {"command": command})
        with self.world.changes(file, "agent", self.id):
            self.world.shell(command)
        meanwhile()
        self._ends(call_id)


@dataclass
class World:
    """A project and a user's home, with the changes of its files so far."""

    root: Path
    home: Path
    truths: list[Truth] = field(default_factory=list)
    sessions: int = 0
    #: By scope, how many events and changes there were after each comparison.
    looks: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    @classmethod
    def copied(cls, template: World, folder: Path) -> World:
        """The same as `at`, without a process of git."""
        shutil.copytree(template.home.parent, folder, dirs_exist_ok=True)
        return cls(folder / "shop", folder / "home")

    @classmethod
    def at(cls, folder: Path) -> World:
        """A repository with CLAUDE.md, of a user with Claude Code."""
        world = cls(folder / "shop", folder / "home")
        (world.home / ".claude").mkdir(parents=True)
        world.root.mkdir()
        world.git("init", "-q", "-b", "main", "--template=")
        world.path("CLAUDE.md").write_text("# Rules\n\n- Run make test.\n")
        world.path(".gitignore").write_text(".claude/reflector/\nCLAUDE.local.md\n")
        world.git("add", "-A")
        world.git("commit", "-qm", "begin", began=f"@{int(time.time()) - 60} +0000")
        return world

    @property
    def transcripts(self) -> Path:
        slug = "".join(letter if letter.isalnum() else "-" for letter in str(self.root))
        return self.home / ".claude" / "projects" / slug

    def path(self, file: str) -> Path:
        return self.home / file[2:] if file.startswith("~/") else self.root / file

    def digest(self, file: str) -> str:
        path = self.path(file)
        return plain_digest(path.read_bytes() if path.exists() else None)

    def changes(self, file: str, by: str, session: str = "") -> _Changing:
        return _Changing(self, file, by, session)

    def begins(self) -> Sitting:
        """A session begins."""
        self.sessions += 1
        session = f"{self.sessions:08x}-0000-4000-8000-000000000000"
        self.transcripts.mkdir(parents=True, exist_ok=True)
        sitting = Sitting(self, session, self.transcripts / f"{session}.jsonl")
        sitting.says(f"Please do step {self.sessions}.")
        return sitting

    def git(self, *arguments: str, began: str = "") -> str:
        command = ["git", "-C", str(self.root), *arguments]
        environment = {**os.environ, **_GIT}
        if began:
            environment["GIT_COMMITTER_DATE"] = began
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return ran.stdout

    def shell(self, command: str) -> None:
        subprocess.run(command, cwd=self.root, shell=True, env={**os.environ, **_GIT}, check=True)

    def tracked_change(self, *arguments: str, files: tuple[str, ...] = ("CLAUDE.md",)) -> None:
        """A command of git that may change files."""
        before = {file: self._content(file) for file in files}
        self.git(*arguments)
        for file in files:
            self._note(file, before[file], "git")

    def _content(self, file: str) -> bytes | None:
        path = self.path(file)
        return path.read_bytes() if path.exists() else None

    def _note(self, file: str, before: bytes | None, by: str, session: str = "") -> None:
        after = self._content(file)
        if after != before:
            old = (before or b"").decode().splitlines()
            added = frozenset((after or b"").decode().splitlines()).difference(old)
            digests = (plain_digest(before), plain_digest(after))
            self.truths.append(Truth(file, *digests, by, session, added))

    def since(self, time: float) -> list[Transcript]:
        """The transcripts that were written since a time."""
        return [transcript_at(path, self.root) for path in written_since(time)]

    def fill(self, scope: Any = "project") -> list[str]:
        """Fill the log from transcripts and commits, as the first question does; return the
        notes.
        """
        project = Project.at(self.root) if scope == "project" else Project.of_user()
        project.make_state_dir()
        with project.open_ledger() as ledger:
            return fill_back(Recorder(project, lambda: ledger, self.root, scope), self.since(0))

    def record(self, scope: Any = "project") -> list[str]:
        """Compare the files, as a drain does; return the notes."""
        project = Project.at(self.root) if scope == "project" else Project.of_user()
        project.make_state_dir()
        with project.open_ledger() as ledger:
            recorder = Recorder(project, lambda: ledger, self.root, scope)
            notes = record_changes(recorder, self.since, 0.0)
            count = len(list(ledger.events(types=[MEMORY_CHANGED])))
        self.looks.setdefault(scope, []).append((count, len(self.truths)))
        return notes

    def drain(self) -> None:
        """Drain the project, which compares the files of both scopes."""
        drain_project(Project.at(self.root))
        for scope in ("project", "user"):
            count = len(self.events(scope))
            self.looks.setdefault(scope, []).append((count, len(self.truths)))

    def kill_drain(self, after: float) -> bool:
        """Kill a drain, as a hook starts it, some seconds after its start; return whether it was
        still running.
        """
        command = [sys.executable, "-m", "reflector", "--project", str(self.root), "drain"]
        drain = subprocess.Popen([*command, "--background"], start_new_session=True)
        try:
            drain.wait(after)
        except subprocess.TimeoutExpired:
            drain.kill()
        return drain.wait() < 0

    def events(self, scope: Any = "project") -> list[dict[str, Any]]:
        """The recorded changes, with plain digests where the play knows them."""
        project = Project.at(self.root) if scope == "project" else Project.of_user()
        secret = kept_secret(project)
        plain = {digest for truth in self.truths for digest in (truth.before, truth.after)}
        known = {keyed_digest(secret, digest): digest for digest in plain if digest}
        with project.open_ledger() as ledger:
            events = [dict(event.facts) for event in ledger.events(types=[MEMORY_CHANGED])]
        for event in events:
            for key in ("before", "after"):
                event[key] = known.get(event[key], event[key])
        return events


@dataclass
class _Changing:
    """A block that changes a file."""

    world: World
    file: str
    by: str
    session: str
    before: bytes | None = None

    def __enter__(self) -> Path:
        self.before = self.world._content(self.file)
        return self.world.path(self.file)

    def __exit__(self, *error: object) -> None:
        time.sleep(0.002)  # the next step is later by the clock of the files
        self.world._note(self.file, self.before, self.by, self.session)
