"""playbook.json in any hands: edited, asked about, written, exported, checked out, broken, or
another ledger's.

The oracle is small: what a person wrote into the file is in the ledger once, what they did not
write is not credited to them, and counts that came meanwhile stay.
"""

import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from reflector.changes.apply import apply_changes
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.document import dump
from reflector.playbook.names import SECTIONS, SLUG_OF_TITLE
from reflector.playbook_files.kept_copies import ANOTHERS
from reflector.playbook_files.playbook_json import sync
from reflector.project import Project
from tests.building import git
from tests.conftest import examples
from tests.ledger.events import reflected, window

SLUGS = st.sampled_from(["pat", "mis", "oth"])
ONE = st.integers(0, 99)


@dataclass
class Entry:
    """An entry of the file: `label` is the name that it shows, `name` the one that the ledger
    has for it.
    """

    label: str | None
    name: str | None
    section: str
    text: str
    helpful: int = 0
    harmful: int = 0

    @property
    def counters(self) -> tuple[int, int]:
        return self.helpful, self.harmful


@dataclass
class File:
    """A file that the ledger exported, at some time, and what a person made of it since."""

    base: dict[str, Entry]
    entries: list[Entry]
    stamp: str | None

    @property
    def is_edited(self) -> bool:
        return [replace(one) for one in self.base.values()] != self.entries

    def raw(self) -> bytes:
        sections: dict[str, list[dict[str, object]]] = {title: [] for title in SECTIONS.values()}
        for one in self.entries:
            named = {} if one.label is None else {"name": one.label}
            shown = {**named, "text": one.text, "helpful": one.helpful, "harmful": one.harmful}
            sections[SECTIONS[one.section]].append(shown)
        return json.dumps(
            {"version": "1.0", "last_updated": self.stamp, "sections": sections}, indent=4
        ).encode()


def file_of(raw: bytes) -> File:
    """The file that a ledger wrote."""
    whole = json.loads(raw)
    entries = [
        Entry(
            one["name"],
            one["name"],
            SLUG_OF_TITLE[title],
            one["text"],
            one["helpful"],
            one["harmful"],
        )
        for title, found in whole["sections"].items()
        for one in found
    ]
    return File({one.name or "": replace(one) for one in entries}, entries, whole["last_updated"])


class InAnyHands(RuleBasedStateMachine):
    """`file` is the file as a person sees it, None where it cannot be edited; `live` and `gone`
    what the ledger has.
    """

    @initialize()
    def begin(self) -> None:
        self.open = ExitStack()
        Path.home().mkdir(exist_ok=True)
        root = Path(self.open.enter_context(TemporaryDirectory()))
        git(root, "init", "-q")
        self.project = Project.at(root)
        self.path = self.project.playbook_json
        self.path.parent.mkdir(exist_ok=True)
        self.ledger: Ledger = self.open.enter_context(self.project.open_ledger())
        self.number = 0
        self.read: dict[str, Entry] | None = None
        self.exports: list[bytes] = []
        self.committed: list[bytes] = []
        self.seen = 0
        for section in ("pat", "mis"):
            self.add(section)
        sync(self.ledger, self.project)
        self.wrote()

    def teardown(self) -> None:
        if hasattr(self, "open"):
            self.open.close()

    # What the ledger has

    @property
    def live(self) -> dict[str, Entry]:
        return {
            b.name: Entry(b.name, b.name, b.section, b.text, b.helpful, b.harmful)
            for b in self.ledger.bullets()
        }

    def fresh(self) -> str:
        self.number += 1
        return f"text {self.number}"

    def add(self, section: str) -> None:
        apply_changes(
            self.ledger, [Change("add", section=section, text=self.fresh())], actor="agent"
        )

    @rule(section=SLUGS)
    def something_is_added_by_a_command(self, section: str) -> None:
        self.add(section)

    @precondition(lambda self: self.is_clean() and self.live)
    @rule(which=ONE)
    def something_is_removed_by_a_command(self, which: int) -> None:
        name = sorted(self.live)[which % len(self.live)]
        apply_changes(self.ledger, [Change("remove", name)], actor="agent")

    @precondition(lambda self: self.live)
    @rule(which=ONE)
    def a_session_counts(self, which: int) -> None:
        self.number += 1
        seen = window(self.number, f"s{self.number}", keys=[self.number])
        name = sorted(self.live)[which % len(self.live)]
        self.ledger.append([seen, *reflected(f"r{self.number}", seen, (name, "helpful"))])

    # What hands do to the file

    def is_clean(self) -> bool:
        return self.file is not None and not self.file.is_edited and self.read is None

    def save(self) -> None:
        self.path.write_bytes(self.file.raw())

    @precondition(lambda self: self.file and self.file.entries)
    @rule(which=ONE)
    def a_text_is_reworded(self, which: int) -> None:
        one = self.file.entries[which % len(self.file.entries)]
        one.text = self.fresh()
        if one.label is None:  # nobody can say which one it was
            one.name = None
        self.save()

    @precondition(
        lambda self: self.file and any(one.name in self.live for one in self.file.entries)
    )
    @rule(which=ONE, section=SLUGS, count=st.integers(0, 9))
    def an_entry_is_moved_and_counted(self, which: int, section: str, count: int) -> None:
        entries = [
            one for one in self.file.entries if one.name in self.live and one.label is not None
        ]
        if entries:
            one = entries[which % len(entries)]
            one.section, one.helpful = section, count
            self.save()

    @precondition(lambda self: self.file and self.file.entries)
    @rule(which=ONE)
    def an_entry_is_deleted(self, which: int) -> None:
        del self.file.entries[which % len(self.file.entries)]
        self.save()

    @precondition(lambda self: self.file)
    @rule(section=SLUGS, named=st.booleans(), count=st.integers(0, 3))
    def an_entry_is_written(self, section: str, named: bool, count: int) -> None:
        text = self.fresh()
        label = f"{section}-{self.number + 500}" if named else None
        self.file.entries.append(Entry(label, None, section, text, count))
        self.save()

    @precondition(lambda self: self.file)
    @rule(which=ONE)
    def a_removed_entry_is_put_back(self, which: int) -> None:
        there = {one.label for one in self.file.entries}
        base = self.read or self.file.base
        # Where a bullet that is there has the same words, they are that bullet's.
        taken = {one.text for one in base.values()}
        removed = (
            row for row in self.ledger.rows() if row.status == "removed" and row.text not in taken
        )
        gone = [row for row in removed if row.name not in there]
        if gone and not base.keys() & {row.name for row in gone}:
            row = gone[which % len(gone)]
            self.file.entries.append(
                Entry(row.name, None, row.section, row.text, row.helpful, row.harmful)
            )
            self.save()

    @precondition(lambda self: self.read is None)
    @rule(which=ONE)
    def an_older_export_comes_back(self, which: int) -> None:
        raw = self.exports[which % len(self.exports)]
        self.path.write_bytes(raw)
        self.file = file_of(raw)

    @precondition(
        lambda self: self.is_clean() or (self.file and self.read is not None and not self.unread())
    )
    @rule()
    def the_file_is_committed(self) -> None:
        git(self.project.root, "add", ".claude/playbook.json")
        git(self.project.root, "commit", "-q", "--allow-empty", "-m", "one")
        self.committed.append(self.path.read_bytes())

    @precondition(
        lambda self: (
            self.committed and (self.read is None or self.committed[-1] == self.path.read_bytes())
        )
    )
    @rule(which=ONE)
    def another_branch_is_checked_out(self, which: int) -> None:
        at = which % len(self.committed)
        old = self.committed[at]
        if old not in self.exports:
            return
        if old != self.committed[-1]:
            self.read = None  # git has what a question read, and shows another version
        elif self.read is not None:
            return
        git(
            self.project.root,
            "checkout",
            "-q",
            f"HEAD~{len(self.committed) - 1 - at}",
            "--",
            ".claude/playbook.json",
        )
        self.file = file_of(old)

    @precondition(lambda self: self.is_clean() and self.live)
    @rule()
    def the_file_is_deleted(self) -> None:
        self.path.unlink()
        self.file = None
        self.ask(write=True)

    @precondition(lambda self: self.file is not None)
    @rule(write=st.booleans())
    def the_file_is_broken_for_a_while(self, write: bool) -> None:
        whole = self.path.read_bytes()
        self.path.write_bytes(whole[:-20])
        before, synced = self.ledger.head(), sync(self.ledger, self.project, write=write)
        assert (bool(synced.problems), self.path.read_bytes()) == (True, whole[:-20])
        assert self.ledger.head() == before
        self.path.write_bytes(whole)

    @precondition(lambda self: self.is_clean())
    @rule()
    def another_ledgers_file_lies_there(self) -> None:
        theirs = dump([Bullet("pat-001", "pat", "Theirs.")], "2029-01-01T00:00:00.000000Z")
        self.path.write_bytes(theirs)
        synced = sync(self.ledger, self.project)
        assert (synced.of_another.name.startswith(ANOTHERS), synced.of_another.read_bytes()) == (
            True,
            theirs,
        )
        assert self.by_people() == Counter()
        self.wrote()

    # What the ledger makes of it

    @rule()
    def a_question_is_asked(self) -> None:
        self.ask(write=False)

    @rule()
    def the_file_is_written(self) -> None:
        self.ask(write=True)

    def unread(self) -> bool:
        """Whether a person edited the file since it was written or read."""
        base = self.read if self.read is not None else self.file.base
        return sorted(map(str, base.values())) != sorted(map(str, self.file.entries))

    def ask(self, *, write: bool) -> None:
        wanted, people = self.expected()
        before = self.path.read_bytes() if self.path.exists() else None
        sync(self.ledger, self.project, write=write)
        live = self.live
        assert sorted((b.section, b.text, *b.counters) for b in live.values()) == sorted(wanted)
        assert self.by_people() == people
        is_same = (self.path.read_bytes() if self.path.exists() else None) == before
        if write or not is_same:
            # A question writes only a file that nobody edited.
            assert write or before == self.written
            self.wrote()
            return
        # An edit that the ledger has already is compared with the next one, too.
        if people or (self.file and self.file.is_edited):
            named = {b.text: name for name, b in live.items()}
            for one in self.file.entries:
                one.name = one.name if one.name in live else named.get(one.text, one.name)
            self.read = {one.name or "": replace(one) for one in self.file.entries}

    def expected(self) -> tuple[list[tuple[str, str, int, int]], Counter[str]]:
        """What the bullets say after the file is read, and the events of people that this takes."""
        live = self.live
        people: Counter[str] = Counter()
        if self.file is None:
            return [(b.section, b.text, *b.counters) for b in live.values()], people
        base = self.read if self.read is not None else self.file.base
        gone = {row.name: row for row in self.ledger.rows() if row.status != "live"}
        made: list[Entry] = []
        there = set()
        for one in self.file.entries:
            was = base.get(one.name or "")
            if was is None:
                old = gone.get(one.label or "")
                is_back = old is not None and (old.section, old.text) == (one.section, one.text)
                counters = (
                    (old.helpful, old.harmful) if old is not None and is_back else one.counters
                )
                made.append(Entry(None, None, one.section, one.text, *counters))
                people["added"] += 1
                continue
            there.add(one.name)
            if one.name in gone:
                if one.text != was.text:
                    old = gone[one.name]
                    made.append(Entry(None, None, one.section, one.text, old.helpful, old.harmful))
                    people["added"] += 1
                continue
            now = live[one.name or ""]
            if one.text not in (was.text, now.text):
                now.text = one.text
                people["revised"] += 1
            if one.section not in (was.section, now.section):
                people["moved"] += 1
            now.section = one.section if one.section != was.section else now.section
            if one.counters != was.counters:
                people["recounted"] += one.counters != now.counters
                now.helpful, now.harmful = one.counters
        for name in base:
            if name not in there and live.pop(name, None) is not None:
                people["removed"] += 1
        return [(b.section, b.text, *b.counters) for b in (*live.values(), *made)], people

    def by_people(self) -> Counter[str]:
        new = list(self.ledger.events(after=self.seen))
        self.seen = self.ledger.head().position
        return +Counter(
            event.type.removeprefix("bullet.") for event in new if event.actor == "human"
        )

    def wrote(self) -> None:
        raw = self.path.read_bytes()
        before, place = self.ledger.head(), self.path.stat().st_ino
        sync(self.ledger, self.project)
        assert (self.path.stat().st_ino, self.path.read_bytes()) == (place, raw)
        assert self.ledger.head() == before
        self.file: File | None = file_of(raw)
        assert sorted(map(str, self.file.entries)) == sorted(map(str, self.live.values()))
        self.read = None
        self.exports.append(raw)
        self.written = raw
        self.by_people()


TestInAnyHands = InAnyHands.TestCase
TestInAnyHands.settings = settings(
    max_examples=examples(100), stateful_step_count=25, deadline=None
)
