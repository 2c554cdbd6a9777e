"""Clones of one repository, each with a ledger of its own, in one process.

git's objects, indexes and branches are written by this module, so a step takes milliseconds. The
code under test reads them with real git.
"""

import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import NamedTuple

from reflector.changes.apply import BulletRefused, apply_changes
from reflector.changes.undo import last_change, undoing
from reflector.exchange.merge import merge_ledger
from reflector.exchange.transfer import exported
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.document import dump_shared, load
from reflector.playbook.versions import merge_versions
from reflector.playbook_files.git_versions import ATTRIBUTES
from reflector.playbook_files.playbook_json import sync
from reflector.project import Project

_PATH = b".claude/playbook.json"
_WHO = "A <a@example.com> {} +0000"


class Commit(NamedTuple):
    """A commit of playbook.json, with git's objects for it by their names."""

    parents: Sequence[str]
    content: bytes
    objects: dict[str, bytes]


@dataclass
class Repository:
    """The published branch, and all commits by their ids."""

    commits: dict[str, Commit] = field(default_factory=dict)
    published: str | None = None

    def commit(self, content: bytes, *parents: str) -> str:
        objects: dict[str, bytes] = {}

        def write(kind: str, body: bytes) -> str:
            raw = f"{kind} {len(body)}\0".encode() + body
            name = sha1(raw, usedforsecurity=False).hexdigest()
            objects[name] = zlib.compress(raw)
            return name

        entry = b"100644 playbook.json\0" + bytes.fromhex(write("blob", content))
        folder = b"40000 .claude\0" + bytes.fromhex(write("tree", entry))
        who = _WHO.format(1_700_000_000 + len(self.commits))
        lines = [f"tree {write('tree', folder)}", *(f"parent {name}" for name in parents)]
        lines += [f"author {who}", f"committer {who}", "", "A change", ""]
        name = write("commit", "\n".join(lines).encode())
        self.commits[name] = Commit(parents, content, objects)
        return name

    def history(self, name: str) -> set[str]:
        """Return a commit and all earlier ones."""
        names = {name}
        waiting = [name]
        while waiting:
            parents = self.commits[waiting.pop()].parents
            waiting += [parent for parent in parents if parent not in names]
            names.update(parents)
        return names

    def base(self, name: str, other: str) -> bytes:
        """Return the content at the last common commit."""
        common = self.history(name) & self.history(other)
        return self.commits[max(common, key=list(self.commits).index)].content


class Clone:
    """A machine with a clone of the repository and a ledger."""

    def __init__(self, root: Path, repository: Repository, url: str = "sqlite://") -> None:
        self.repository = repository
        self.ledger = Ledger.open(url)
        self.project = Project.at(root)
        self.file = self.project.playbook_json
        self.head: str | None = None
        self._git = root / ".git"
        (self._git / "refs" / "heads").mkdir(parents=True)
        (self._git / "objects").mkdir()
        (self._git / "HEAD").write_text("ref: refs/heads/main\n")
        self.file.parent.mkdir()
        (self.file.parent / ".gitattributes").write_text(ATTRIBUTES + "\n")
        self.project.make_state_dir()

    def sync(self) -> None:
        """Let reflector read the file, and write it."""
        state = sync(self.ledger, self.project).state
        assert state is not None
        assert state.kind in ("missing", "written", "ours", "shared", "baseline")

    def change(self, *changes: Change, **options: object) -> None:
        """Change rules with a command."""
        self.sync()
        apply_changes(self.ledger, changes, actor="human", **options)  # type: ignore[arg-type]
        self.sync()

    def undo(self, name: str) -> None:
        """Undo the last change to a rule, if it can be undone."""
        self.sync()
        with suppress(BulletRefused):
            found = undoing(self.ledger, last_change(self.ledger, name))
            options = {"target": found.targets, "baselines": found.baselines, "again": True}
            self.change(*found.changes, **options)

    def commit(self) -> None:
        self.sync()
        content = self.file.read_bytes()
        if self.head is None or self.repository.commits[self.head].content != content:
            parents = [] if self.head is None else [self.head]
            self._check_out(self.repository.commit(content, *parents))

    def pull_and_push(self) -> None:
        """Commit, let git merge the published version, record the result, and publish it."""
        self.commit()
        repository = self.repository
        theirs = repository.published
        if theirs is not None and theirs not in repository.history(str(self.head)):
            if str(self.head) in repository.history(theirs):
                self._check_out(theirs)
            else:
                merged = self._merged(str(self.head), theirs)
                self._check_out(repository.commit(merged, str(self.head), theirs))
        self.sync()
        repository.published = self.head

    def cherry_pick(self, other: "Clone") -> None:
        """Commit the content of another clone's last commit."""
        self.commit()
        content = self.repository.commits[str(other.head)].content
        self._check_out(self.repository.commit(content, str(self.head)))
        self.sync()

    def start(self) -> None:
        """Check out the published version in an empty clone."""
        self._check_out(str(self.repository.published))
        self.sync()

    def take(self, other: "Clone") -> None:
        """Import the ledger of another machine."""
        other.sync()
        lines = list(exported(other.ledger))
        self.sync()
        merge_ledger(self.ledger, lambda: lines, rename=True)
        self.sync()

    def bullets(self) -> list[Bullet]:
        return sorted(self.ledger.bullets(), key=lambda bullet: bullet.name)

    def rules(self) -> Counter[tuple[object, ...]]:
        """Return all that the machines must have in common; names may differ."""
        return Counter((b.section, b.text, b.helpful, b.harmful) for b in self.bullets())

    def _merged(self, ours: str, theirs: str) -> bytes:
        commits = self.repository.commits
        versions = (self.repository.base(ours, theirs), commits[ours].content)
        base, mine, other = (load(one).bullets for one in (*versions, commits[theirs].content))
        if base == mine or mine == other:
            return commits[theirs].content
        pairs = merge_versions(base, mine, other)
        return commits[ours].content if base == other else dump_shared(pair[0] for pair in pairs)

    def _check_out(self, commit: str) -> None:
        self.head = commit
        _, content, objects = self.repository.commits[commit]
        for earlier in self.repository.history(commit):
            for name, packed in self.repository.commits[earlier].objects.items():
                path = self._git / "objects" / name[:2] / name[2:]
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(packed)
        (self._git / "refs" / "heads" / "main").write_text(f"{commit}\n")
        header = struct.pack(">10I", *[0] * 6, 0o100644, 0, 0, len(content))
        entry = header + bytes.fromhex(next(iter(objects))) + struct.pack(">H", len(_PATH)) + _PATH
        entry += b"\0" * (8 - len(entry) % 8)
        index = b"DIRC" + struct.pack(">2I", 2, 1) + entry
        digest = sha1(index, usedforsecurity=False).digest()
        (self._git / "index").write_bytes(index + digest)
        self.file.write_bytes(content)
