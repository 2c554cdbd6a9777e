"""Differences between the events and the results computed from them: the tables and playbook.json.

Invariant: the content of playbook.json is compared, not its bytes. An indent, a final newline, the
order of rules, or a rule whose name is only in the ledger is not a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from typing import Literal

from reflector.events.registry import fold
from reflector.files import read_ours
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import MAX_BYTES, Loaded, load
from reflector.playbook_files.admission import PlaybookRefused
from reflector.playbook_files.git_versions import in_git, is_shared
from reflector.playbook_files.playbook_json import (
    dump_for,
    examine_playbook,
    render_playbook,
)
from reflector.project import Project

#: Why something differs from the events. tables: another program changed the tables. left: a
#: command was stopped before it wrote the file, or the file was removed. edited: the file was
#: edited. git: a shared file is as git brought it.
Cause = Literal["tables", "left", "edited", "git"]


#: The values of a rule. A file may omit the counters.
_COUNTERS = ("helpful", "harmful")
_VALUES = ("section", "text", *_COUNTERS)


@dataclass(frozen=True, slots=True)
class RuleDriftJson:
    """A value of a rule that differs. `there` is the found value, `by_events` the value from the
    events. If only one of the two has the rule, `value` is "rule", and they are its text or null.
    """

    name: str
    value: str
    there: str | int | None
    by_events: str | int | None


@dataclass(frozen=True, slots=True)
class DriftJson:
    """A table or file that differs from the events: the differing values of its rules, or else the
    lines of the difference.
    """

    of: str
    rules: list[RuleDriftJson]
    diff: list[str]
    cause: Cause = field(repr=False)


def drift_of(project: Project) -> list[DriftJson]:
    """Return the tables and playbook.json if they differ from the events.

    If a read-only command recorded an edit of the file, the file keeps its earlier time. That is
    not drift.

    Raises: LedgerError, OSError.
    """
    with project.open_ledger() as ledger:
        playbook = fold(ledger.history())
        tables = render_playbook(ledger, project).decode()
        try:
            kind = examine_playbook(ledger, project).kind
        except PlaybookRefused:
            kind = "unreadable"
    bullets = playbook.bullets()

    def differing(of: str, text: str, updated_at: str | None, cause: Cause) -> list[DriftJson]:
        """Return the drift of a text from the events; [] for a file that differs only in its form,
        and for a missing one of a playbook without rules.
        """
        expected = dump_for(project, bullets, updated_at).decode()
        if text == expected or not (text or bullets):
            return []
        found = load(text)
        form_counts = cause == "tables"
        rules: list[RuleDriftJson] = []
        if not found.problems:
            rules = [*_differing_rules(found, load(expected))]
            if not (rules or form_counts):
                return []
        lines = unified_diff(
            text.splitlines(), expected.splitlines(), of, "the events", lineterm=""
        )
        return [DriftJson(of, rules, [] if rules else [*lines], cause)]

    drift = differing("the ledger's tables", tables, playbook.updated_at, "tables")
    if kind == "foreign":
        return drift
    path = project.playbook_json
    raw = read_ours(path, MAX_BYTES) if path.exists() else b""
    written_at = load(raw).last_updated or playbook.updated_at
    cause: Cause = "left" if kind in ("missing", "written") else "edited"
    if kind in ("written", "shared") and is_shared(project.root):
        version = in_git(project.root)
        cause = "git" if version is not None and version.content == raw else cause
    return drift + differing(str(path), raw.decode("utf-8", "replace"), written_at, cause)


def _differing_rules(found: Loaded, expected: Loaded) -> Iterator[RuleDriftJson]:
    """Yield the values that differ between a file and its expected content."""
    by_events = {bullet.name: bullet for bullet in expected.bullets}
    in_file = _by_name(found, by_events)
    for name in sorted(in_file.keys() | by_events.keys()):
        old = in_file.get(name)
        new = by_events.get(name)
        if old is None or new is None:
            found_text = old.text if old is not None else None
            yield RuleDriftJson(name, "rule", found_text, new.text if new is not None else None)
            continue
        skipped = _COUNTERS if name in found.uncounted else ()
        for value in (value for value in _VALUES if value not in skipped):
            before = getattr(old, value)
            after = getattr(new, value)
            if before != after:
                yield RuleDriftJson(name, value, before, after)


def _by_name(found: Loaded, by_events: Mapping[str, Bullet]) -> dict[str, Bullet]:
    """Return the rules of a file by their names. A rule without a name gets the name of the same
    rule in the events, if the file does not use that name.
    """
    unnamed = [bullet for bullet in found.bullets if bullet.name in found.named_here]
    in_file = {
        bullet.name: bullet for bullet in found.bullets if bullet.name not in found.named_here
    }
    for bullet in unnamed:
        twins = [
            name
            for name, other in by_events.items()
            if name not in in_file and replace(other, name=bullet.name) == bullet
        ]
        name = twins[0] if twins else "a rule without a name"
        in_file[name] = replace(bullet, name=name)
    return in_file
