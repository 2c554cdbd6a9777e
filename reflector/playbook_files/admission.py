"""The bullets of a playbook file that can be recorded, and the faults of the others.

Invariant: a file is recorded completely, or refused with each faulty entry, and no name ever means
two bullets. A known text is not new advice, whatever its name in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from reflector.changes.apply import is_taken
from reflector.ledger.store import BulletRow, Ledger
from reflector.mistakes import Finding
from reflector.playbook.admissible import hidden_fault, same_words
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import CORRECT, REBUILD, Loaded
from reflector.refusal import Refusal
from reflector.text.secrets import quote


class PlaybookRefused(Refusal):
    """A playbook file that cannot be imported and was not changed. `problems` names each entry."""

    def __init__(self, path: Path, problems: Sequence[Finding]) -> None:
        self.problems = tuple(problems)
        # A rebuild does not help here, because the ledger does not have these bullets yet.
        lines = [f"  {problem}".replace(REBUILD, CORRECT) for problem in self.problems[:20]]
        more = len(self.problems) - len(lines)
        if more > 0:
            lines.append(f"  … and {more} more")
        super().__init__(
            "\n".join(
                [f"reflector did not import or change {path}, because of these entries:", *lines]
            )
        )


def bullets_to_import(ledger: Ledger, loaded: Loaded, path: Path) -> list[Bullet]:
    """Return the bullets of a file that are not in the ledger.

    Raises: PlaybookRefused as `import_bullets`.
    """
    rows = ledger.rows_by_name()
    if problems := names_taken(rows.values(), loaded) or unfit(loaded.bullets, hidden_fault):
        raise PlaybookRefused(path, problems)
    live = [row for row in rows.values() if row.status == "live"]
    live_texts = {(row.section, row.text) for row in live}
    # Entries without a name are compared by their text, so that a second import does not add them
    # again.
    nameless = [bullet for bullet in loaded.bullets if bullet.name in loaded.named_here]
    repeated = {b.name for b in nameless if (b.section, b.text) in live_texts}
    return [bullet for bullet in loaded.bullets if bullet.name not in rows.keys() | repeated]


def without_known(ledger: Ledger, loaded: Loaded) -> tuple[Loaded, list[str]]:
    """Return a file without those new bullets whose text a live bullet has in any section, and a
    line for each of them.
    """
    rows = ledger.rows()
    names = {row.name for row in rows}
    live = [row for row in reversed(rows) if row.status == "live"]
    live_names = {same_words(row.text): row.name for row in live}
    bullets: list[Bullet] = []
    lines: list[str] = []
    for bullet in loaded.bullets:
        name = live_names.get(same_words(bullet.text))
        if name is None or bullet.name in names:
            bullets.append(bullet)
        else:
            lines.append(f"{loaded.places[bullet.name]}: {name} already has this text")
    return replace(loaded, bullets=tuple(bullets)), lines


def unfit(bullets: Iterable[Bullet], fault: Callable[[str], str | None]) -> tuple[Finding, ...]:
    """Return the bullets of a file whose text is not possible for new advice, with the reason from
    `fault`.
    """
    remedy = "correct the text; until then, reflector imports nothing from this file"
    return tuple(
        Finding("playbook", f"bullet {bullet.name}", reason, remedy, quote(bullet.text, 60))
        for bullet in bullets
        if (reason := fault(bullet.text))
    )


def names_taken(rows: Iterable[BulletRow], loaded: Loaded) -> tuple[Finding, ...]:
    """Return the names in a file that belong to other bullets in the ledger."""
    rows_by_name = {row.name: row for row in rows}
    findings: list[Finding] = []
    for bullet in loaded.bullets:
        row = rows_by_name.get(bullet.name)
        if row is None or not is_taken(row, bullet):
            continue
        owner = "another rule" if row.status == "live" else "a retired rule"
        remedy = (
            f"to see this rule, run `reflector show {bullet.name}`. To get a new name, remove "
            "this name from the file, or run `reflector adopt --rename`"
        )
        fault = f"in this ledger, the name belongs to {owner}"
        place = f"bullet {bullet.name}"
        findings.append(Finding("playbook", place, fault, remedy, bullet.text[:60]))
    return tuple(findings)
