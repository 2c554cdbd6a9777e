"""Moves rules from your files into the playbook, and back.

Invariant: after a move the file has the same other rules and the same bytes between them. A rule
that cannot be removed in this way stays in the file. A file is written from the bytes that were
read, or not at all, and both versions are kept completely before anything changes.

In a move the ledger comes first. If the process is killed before the file is written, the rules are
in both places, and the next move removes them from the file. In an undo the file comes first. If
the process is killed before the ledger is written, the rules are in both places too, and the next
undo finds the file as it was.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from reflector.changes.apply import BulletRefused, apply_changes, plan_changes
from reflector.changes.takeback import TakenBack, take_back_act, take_back_changes
from reflector.changes.undo import CHANGING, Act, NothingToUndo, undoing
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity, tx_of
from reflector.files import Changed, read_bounded, replace_read
from reflector.ledger.store import Ledger
from reflector.mistakes import Mistake
from reflector.playbook.admissible import same_words
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.document import MAX_BYTES
from reflector.playbook.markdown import is_markdown
from reflector.playbook.outline import Outline
from reflector.playbook_files.kept_copies import (
    content_digest,
    keep_text,
    kept_text,
    kept_text_file,
)
from reflector.playbook_files.watching import Line, advice_of, lines_in, matched
from reflector.project import Project
from reflector.refusal import Refusal

_BOM = "\ufeff"


class FileMoved(Refusal):
    """A file has changed since its rules were moved. The text shows the later changes."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A file with and without its rules.

    shown   its path in the project
    rules   the rules that are removed from it, by line
    stays   the rules that stay, because they are a part of other text
    """

    path: Path
    shown: str
    before: bytes
    after: bytes
    rules: Mapping[int, Line]
    stays: Sequence[Line]

    @property
    def difference(self) -> list[str]:
        """The lines of the difference, in the form of `diff -u`."""
        return _difference(self.shown, self.before, self.after)


@dataclass(frozen=True, slots=True)
class Move:
    """Rules to move.

    changes   of the playbook
    headings  of the new rules in their file, by their text
    bullets   the rules that the playbook gets, with the headings by their names in `places`
    """

    cuts: Sequence[Cut]
    changes: Sequence[Change]
    headings: Mapping[str, str]
    bullets: Sequence[Bullet]
    places: Mapping[str, str]

    @property
    def count(self) -> int:
        return sum(len(cut.rules) for cut in self.cuts) - len(self.repeats)

    @property
    def repeats(self) -> Sequence[tuple[Line, Line]]:
        """The lines that repeat the words of an earlier line, each with that line. Both are the
        same rule.
        """
        firsts = _first_lines(self.cuts)
        lines = [line for cut in self.cuts for line in cut.rules.values()]
        pairs = [(line, firsts[same_words(line.text)]) for line in lines]
        return [(line, first) for line, first in pairs if line is not first]

    @property
    def stays(self) -> list[Line]:
        return [line for cut in self.cuts for line in cut.stays]


def plan_move(ledger: Ledger, project: Project, files: Sequence[Path]) -> Move:
    """Return the move of the rules of these files. It changes nothing.

    Raises:
        Mistake: a file is not a Markdown file whose bytes can be changed.
        BulletRefused, LedgerError, OSError: as usual.
    """
    cuts = [_cut(project.root, file) for file in files]
    rows = ledger.rows_by_name()
    lines, new = matched(rows, [*_first_lines(cuts).values()])
    changes = [Change("restore", name) for name in lines if rows[name].status != "live"]
    changes += [Change("add", section=line.section, text=line.text) for line in new]
    steps = plan_changes(ledger, changes, first=project.first_number)
    moved = [bullet for step in steps for bullet in step.after]
    headings = {line.text: line.heading for line in new}
    places = {name: line.heading for name, line in lines.items()}
    places |= {bullet.name: headings.get(bullet.text, "") for bullet in moved}
    return Move(cuts, changes, headings, moved, places)


def _first_lines(cuts: Iterable[Cut]) -> Mapping[str, Line]:
    """Return the first line of each rule, by its words."""
    firsts: dict[str, Line] = {}
    for cut in cuts:
        for line in cut.rules.values():
            firsts.setdefault(same_words(line.text), line)
    return firsts


def carry_out_move(ledger: Ledger, project: Project, move: Move, *, shown: Move) -> int:
    """Move the rules. Return the position of the event that a later undo names. The playbook's lock
    must be held.

    shown  the move that you agreed to: the files must not have changed since

    Raises:
        Changed: a file was written by another program meanwhile.
        BulletRefused, LedgerError, OSError: as usual.
    """
    cuts = [cut for cut in move.cuts if cut.rules]
    if [cut.before for cut in move.cuts] != [cut.before for cut in shown.cuts]:
        raise Changed(
            "a file with these rules changed before you confirmed; run the same command again"
        )
    for cut in cuts:
        keep_text(project, cut.before)
        keep_text(project, cut.after)
    tx = ledger.draw()
    moved = [_event(tx, index, cut) for index, cut in enumerate(cuts)]
    head = ledger.head().position
    apply_changes(
        ledger,
        move.changes,
        actor=ev.IMPORT,
        first=project.first_number,
        preceding=lambda _: moved,
        tx=tx,
        headings=move.headings,
    )
    for cut in cuts:
        replace_read(cut.path, cut.before, cut.after)
    return head + 1


def take_back(ledger: Ledger, project: Project, act: Act, *, why: str | None = None) -> TakenBack:
    """Undo an act, and put the rules that it moved back into their files. The playbook's lock must
    be held.

    Raises:
        FileMoved: a file was changed since, or its text is not kept on this machine.
        BulletRefused: a later change is in the way, or the act is a part of a move.
        NothingToUndo, LedgerError, OSError: as usual.
    """
    moves = _moves(ledger, act)
    if not moves:
        return take_back_act(ledger, act, why=why, first=project.first_number)
    cuts = [_cut_back(project, move) for move in moves]
    changes = [event for event in act.changes if event.type != ev.RULES_MOVED]
    is_undone = not changes or _is_undone(ledger, changes)  # refuses before a file is written
    if is_undone and all(cut.before == cut.after for cut in cuts):
        raise NothingToUndo("this move is already undone; see `reflector log`")
    for cut in cuts:
        if cut.before != cut.after:
            replace_read(cut.path, cut.before, cut.after)
    tx = ledger.draw()
    back = [_event_back(tx, index, move) for index, move in enumerate(moves)]
    if not is_undone:
        whole = Act(changes, act.evidence, act.reason)
        taken = take_back_changes(
            ledger, whole, why=why, first=project.first_number, preceding=back, tx=tx
        )
    else:
        places = ledger.append(back, tx=tx)
        taken = TakenBack([], [], [place.position for place in places])
    return taken._replace(files=[cut.shown for cut in cuts])


def _is_undone(ledger: Ledger, changes: Sequence[Event]) -> bool:
    try:
        undoing(ledger, changes)
    except NothingToUndo:
        return True
    return False


def _moves(ledger: Ledger, act: Act) -> list[Event]:
    """Return the events of the moves in an act.

    Raises: BulletRefused if the act is only a part of a move.
    """
    transactions = {tx_of(event.meta) for event in act.changes} - {None}
    moves = [
        event
        for event in ledger.events(types=[ev.RULES_MOVED])
        if tx_of(event.meta) in transactions
    ]
    for move in moves:
        same = {event.event_id for event in changes_with(ledger, move)}
        if not same.issubset(event.event_id for event in act.changes):
            raise BulletRefused(
                f"you moved {len(same)} rules from {move.facts['file']} together. To undo this "
                f"whole move: reflector undo {move.position}"
            )
    return moves


def changes_with(ledger: Ledger, move: Event) -> list[Event]:
    """Return the changes to rules that were made with a move."""
    return [
        event
        for event in ledger.events(after=move.position, types=CHANGING)
        if tx_of(event.meta) == tx_of(move.meta)
    ]


def _cut(root: Path, file: Path) -> Cut:
    """Return the cut that removes the rules of a file.

    Raises: Mistake if the cut would change other text, or if the rules cannot be moved.
    """
    path = file.resolve()
    raw = read_bounded(path, MAX_BYTES)
    advice = advice_of(root, [file])
    shown = next(iter(advice.files))
    text = _text(raw, shown)
    without_mark = text.removeprefix(_BOM)
    # The advice has only rules that can be recorded, and a repeated rule once. The lines are read
    # again, so that its repetitions are removed, too.
    words_to_move = {same_words(line.text) for line in advice.rules if line.file == shown}
    rules_in_file = {
        line.number: line
        for line in lines_in(shown, without_mark)
        if line.is_rule and same_words(line.text) in words_to_move
    }
    outline = Outline(without_mark)
    removable = outline.removable(rules_in_file)
    movable = {number: line for number, line in rules_in_file.items() if number in removable}
    if not _is_clean(outline, without_mark, movable):
        raise Mistake(
            f"reflector cannot remove the rules of {shown} without changing other text of the "
            "file. Delete these rules by hand, then add them to the playbook with `reflector add`"
        )
    after = outline.without_rules(movable)
    mark = _BOM if text.startswith(_BOM) else ""
    stays = [line for number, line in rules_in_file.items() if number not in movable]
    return Cut(path, shown, raw, f"{mark}{after}".encode(), movable, stays)


def _text(raw: bytes, shown: str) -> str:
    """Return the text of a Markdown file whose rules can be moved.

    Raises: Mistake.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Mistake(
            f"{shown} is not UTF-8; save the file as UTF-8, then move its rules"
        ) from error
    if not is_markdown(raw):
        raise Mistake(
            f"{shown} is not Markdown, so reflector cannot move its rules; add its rules with "
            f"`reflector adopt {shown}`"
        )
    if b"<!-- reflector:begin" in raw:
        raise Mistake(
            f"{shown} already contains a copy of the playbook; first remove it with "
            f"`reflector mirror --off {shown}`"
        )
    return text


def _is_clean(outline: Outline, text: str, rules: Mapping[int, Line]) -> bool:
    """Return whether a text without some rules still has exactly the other rules."""
    rest = _rules_in(text)
    rest.subtract(line.text for line in rules.values())
    left = _rules_in(outline.without_rules(rules))
    return +rest == left and min(rest.values(), default=0) >= 0


def _rules_in(text: str) -> Counter[str]:
    return Counter(line.text for line in lines_in("", text) if line.is_rule)


def _difference(shown: str, before: bytes, after: bytes) -> list[str]:
    old, new = (raw.decode("utf-8", "replace").splitlines() for raw in (before, after))
    return list(difflib.unified_diff(old, new, shown, shown, lineterm="", n=1))


def _event(tx: str, index: int, cut: Cut) -> NewEvent:
    data = {
        "file": cut.shown,
        "before": content_digest(cut.before),
        "after": content_digest(cut.after),
        "rules": len(cut.rules),
    }
    return NewEvent(ev.RULES_MOVED, identity(ev.RULES_MOVED, tx, index), data, actor=ev.IMPORT)


def _event_back(tx: str, index: int, move: Event) -> NewEvent:
    """Return the event that undoes a move: the same event, from after to before."""
    data = {**move.facts, "before": move.facts["after"], "after": move.facts["before"]}
    event_id = identity(ev.RULES_MOVED, tx, index)
    return NewEvent(ev.RULES_MOVED, event_id, data, actor=ev.HUMAN, target_id=move.event_id)


def _cut_back(project: Project, move: Event) -> Cut:
    """Return the change that restores a file to its state before a move. If it has that state
    already, there is nothing to write.
    """
    shown = str(move.facts["file"])
    path = (project.root / shown).resolve()
    try:
        now = read_bounded(path, MAX_BYTES)
    except FileNotFoundError:
        now = b""
    former = kept_text(project, str(move.facts["before"]))
    if content_digest(now) == move.facts["before"]:
        return Cut(path, shown, now, now, {}, [])
    if former is None:
        raise FileMoved(
            f"this machine does not have a copy of {shown} with the rules that you moved, so "
            "reflector changed nothing; undo the move on the machine where you moved the rules"
        )
    if content_digest(now) != move.facts["after"]:
        later = _difference(shown, kept_text(project, str(move.facts["after"])) or former, now)
        kept = kept_text_file(project, str(move.facts["before"]))
        raise FileMoved(
            f"{shown} has changed since you moved its rules, so reflector changed nothing. To "
            f"restore the text before the move, run `cp {quote(str(kept))} {quote(str(path))}`. "
            "Then run the same command again. You lose these changes:\n" + "\n".join(later)
        )
    return Cut(path, shown, now, former, {}, [])
