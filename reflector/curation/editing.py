"""A playbook that a person edits as a text, while others may change the ledger.

Invariant: nothing that came meanwhile is overwritten unseen, and nothing that the person wrote is lost. The text is
merged with what came, bullet by bullet; where both changed the same one, the text is given back with both versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reflector.curation.undoing import CHANGING
from reflector.events.registry import names_in
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.playbook.buffer import parse, render
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.edits import edits_between
from reflector.playbook.names import SECTIONS
from reflector.playbook.three_way import merge


class Clash(Exception):
    """Others changed the bullets in `names` meanwhile: both versions of each are in `text`, for the editor."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        super().__init__(f"others changed {', '.join(names)} meanwhile; the text has both versions")
        self.text = text


def opened(ledger: Ledger, section: str | None = None) -> str:
    """Return the text of the playbook, or of one section, for an editor."""
    return render(_of(ledger.bullets(), section), ledger.head().position, section)


def taken(ledger: Ledger, text: str, section: str | None = None) -> list[Change]:
    """Return the changes that an edited text asks for, [] for none.

    A text without any bullet asks for nothing. Raises Slip, and Clash where others changed the same bullets.
    """
    position = parse_position(text)
    past = Past(ledger, min(position, ledger.head().position)) if position is not None else Past(ledger)
    base = _of(past.bullets(), section)
    parsed = parse(text, {bullet.name: bullet for bullet in past.bullets()}, section)
    if not parsed.bullets:
        return []
    # A bullet that was moved here from another section belongs to the text, too.
    named = {bullet.name for bullet in parsed.bullets}
    base = [bullet for bullet in past.bullets() if bullet in base or bullet.name in named]
    now = _now(ledger, base, section)
    merged = merge(base, parsed.bullets, now)
    notes = _clashes(ledger, past.position, base, parsed.bullets, now)
    if notes:
        live = {bullet.name for bullet in now}
        new = [bullet.name for bullet in merged.ours if bullet.name in parsed.new or bullet.name not in live]
        again = render(merged.ours, ledger.head().position, section, new=new, notes=notes)
        raise Clash(again, list(notes))
    everything = {bullet.name for bullet in merged.ours}
    changes = edits_between(now, merged.ours, parsed.new, everything)
    return [replace(change, helpful=None, harmful=None) if change.kind == "add" else change for change in changes]


def parse_position(text: str) -> int | None:
    """Return the position of the ledger that a text was made from; None where it does not say."""
    return parse("\n".join(line for line in text.splitlines() if line.startswith("# ")), {}).position


def _of(bullets: Sequence[Bullet], section: str | None) -> list[Bullet]:
    return [bullet for bullet in bullets if section in (None, bullet.section)]


def _now(ledger: Ledger, base: Sequence[Bullet], section: str | None) -> list[Bullet]:
    """Return the live bullets that the text is about: those that it was made from, and new ones of its section."""
    named = {bullet.name for bullet in base}
    return [bullet for bullet in ledger.bullets() if section in (None, bullet.section) or bullet.name in named]


def _clashes(
    ledger: Ledger, position: int, base: Sequence[Bullet], mine: Sequence[Bullet], now: Sequence[Bullet]
) -> dict[str, str]:
    """Return what to say above each bullet that both sides changed."""
    mine_by, now_by = ({bullet.name: bullet for bullet in side} for side in (mine, now))
    notes = {}
    for was in base:
        name = was.name
        ours, theirs = mine_by.get(name), now_by.get(name)
        both = _said(ours) != _said(was) and _said(theirs) != _said(was) and _said(ours) != _said(theirs)
        if not both or _is_beside(was, ours, theirs):
            continue
        at = _changed_at(ledger, position, name)
        if theirs is None:
            note = f"{name} was removed meanwhile{at}. This line adds its text again; delete it to leave it removed."
        elif ours is None:
            note = f"You deleted {name}, and it was changed meanwhile{at}. It said:\n{_shown(was)}\nNow it says this:"
        else:
            note = (
                f"{name} was changed meanwhile{at}. It said:\n{_shown(was)}\n"
                f"Others made of it:\n{_shown(theirs)}\nYou made of it:"
            )
        notes[name] = note
    return notes


def _shown(bullet: Bullet) -> str:
    return "\n".join(f"  {line}" for line in [SECTIONS[bullet.section], *bullet.text.split("\n")])


def _is_beside(was: Bullet, ours: Bullet | None, theirs: Bullet | None) -> bool:
    """Return whether one side changed the text and the other one the section, which go together."""
    if ours is None or theirs is None:
        return False
    return was.text in (ours.text, theirs.text) and was.section in (ours.section, theirs.section)


def _said(bullet: Bullet | None) -> tuple[str, str] | None:
    return None if bullet is None else (bullet.section, bullet.text)


def _changed_at(ledger: Ledger, position: int, name: str) -> str:
    later = [e for e in ledger.events(after=position, types=CHANGING) if name in names_in(e.type, e.data or {})]
    return f", at position {later[-1].position}" if later else ""
