"""Questions about watched files, and their undo: `log --memory`, `blame FILE`, `show u38`, `undo
FILE`.

Invariant: a question records changes that were not recorded yet, and writes no watched file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date, datetime
from shlex import quote
from typing import TYPE_CHECKING

import click

from reflector.attribution.files import Scope, Table, shown_name
from reflector.cli.app import Place
from reflector.cli.options import POSITION, root_of
from reflector.cli.output import (
    day_words,
    note,
    print_difference,
    print_facts,
    print_json,
    safe,
    say,
    shaped,
    short_time,
    table,
)
from reflector.cli.watched import note_numbers, opened
from reflector.events.event import MEMORY_CHANGED, SESSION_RECORDED, Event, time_of
from reflector.events.memory import AGENT, COMMIT, UNDO, UNKNOWN, UNSEEN, YOU
from reflector.files import read_bounded
from reflector.git import git_says
from reflector.memory.answers import (
    Line,
    is_restorable,
    keep_change,
    line_of,
    lines_with_writers,
    undecided,
    words_before,
)
from reflector.memory.changes import (
    OTHER,
    OTHER_USER,
    Change,
    Store,
    changes_in,
    file_named,
)
from reflector.memory.lines import LineChange, difference
from reflector.memory.restoring import (
    Restored,
    UndoRefused,
    newest_of,
    open_changes,
    plan_undo,
    read_watched,
    restore,
    words_of_undo,
)
from reflector.text.phrases import counted

if TYPE_CHECKING:
    from reflector.check.evidence import LineEvidence

#: The most bytes of a file that is not watched.
_MOST_BYTES = 1 << 20
_SCOPES: tuple[Scope, ...] = ("project", "user")
#: The most earlier lines in the place of a line that are shown.
_MOST_FORMER = 3
#: The most later changes that a refused undo names.
_MOST_LATER = 5


@dataclass
class MemoryJson:
    """A change of a watched file.

    place     its position, with the prefix `u` in your own ledger
    file      relative to the project; your own files begin with `~`
    by        agent, you, other, commit, checkout, merge, stash or unknown; `other` is another user,
              or you on another machine
    undo      the command that undoes it now; null if it cannot be undone
    undone_at  the place of the change that undid it; null if it was not undone
    """

    place: str
    at: str
    file: str
    kind: str
    added: int
    removed: int
    by: str
    agent: str
    session: str
    commit: str
    author: str
    source: str
    undo: str | None
    undone_at: str | None


@dataclass
class FormerJson:
    """A line that was in a place before, and the change that wrote it; null if not recorded."""

    text: str
    written: MemoryJson | None


@dataclass
class MemoryLineJson:
    """A line of a watched file: its author and time, your words before it, and the earlier lines.

    first   the change that added it first, if it was removed in between
    origin  a change that may have added it, if no recorded change did
    counted  the counts of `check` for it, if you asked for this line; null if it has none
    """

    file: str
    number: int
    text: str
    written: MemoryJson | None
    committed: MemoryJson | None
    first: MemoryJson | None
    words: str
    was: list[FormerJson]
    origin: str
    counted: LineEvidence | None


@dataclass
class ShownMemoryJson(MemoryJson):
    """A change with your words before it, and its difference."""

    words: str
    difference: list[str]


def memory_json(place: Place, change: Change) -> MemoryJson:
    """Return a change for JSON."""
    names = ("kind", "agent", "session", "commit", "author", "source")
    return shaped(
        MemoryJson,
        change,
        at=change.event.occurred_at,
        added=len(change.lines.added),
        removed=len(change.lines.removed),
        undo=_way_back(place, change)[0] or None,
        undone_at=change.undone_at or None,
        **{name: change.fact(name) for name in names},
    )


def print_log(place: Place, topic: str | None, most: int, moment: str | None) -> None:
    """Print the changes to watched files, newest first: all, or those of a file or a session."""
    with opened(place, moment=moment) as stores:
        changes = changes_in(stores, root_of(place))
    chosen = changes if topic is None else _about(place, changes, topic)
    newest = list(reversed(chosen))[: most or None]
    if place.as_json:
        print_json([memory_json(place, change) for change in newest])
        return
    rows = [
        (change.place, when_words(change), change.shown, _size(change), _who(change))
        for change in newest
    ]
    table(
        ("change", "when", "file", "lines", "by"),
        rows,
        whole=True,
        empty="No change to a memory file is recorded.",
    )
    if newest:
        not_gits = (change for change in newest if not change.is_gits)
        ways = ((change, _way_back(place, change, changes)[0]) for change in not_gits)
        change, command = next((way for way in ways if way[1]), (newest[0], ""))
        note(f"To see change {change.place}: {place.command('show', change.place)}")
        if command:
            note(f"To undo change {change.place}: {command}")


def _way_back(place: Place, change: Change, changes: Sequence[Change] = ()) -> tuple[str, str]:
    """Return the command that undoes a change now, or the reason why it cannot be undone.

    For a past moment, both are empty. Without a ledger, numbers are preliminary, so the command has
    the file's name if that is enough.

    changes  all changes of the file, and others
    """
    if change.store.until is not None:
        return "", ""
    try:
        words = words_of_undo(change)
    except UndoRefused as error:
        return "", str(error)
    of_file = [one for one in changes if one.file == change.file]
    is_preliminary = place.is_untouched and not change.is_users
    if is_preliminary and of_file and newest_of(of_file) == change:
        words[0] = change.file
    return place.command("undo", *words), ""


def _note_way_back(place: Place, change: Change, changes: Sequence[Change]) -> None:
    command, why = _way_back(place, change, changes)
    removes = "" if change.before else " and remove the file"
    if command:
        size = "" if change.fact("kind") == "deleted" else f" ({_size(change)})"
        note(f"To undo all of this change{size}{removes}: {command}")
    elif why:
        note(f"reflector cannot undo this change: {why}")


def _about(place: Place, changes: Sequence[Change], topic: str) -> list[Change]:
    named = _of_file(place, changes, topic)
    named = named or [one for one in changes if one.fact("session").startswith(topic)]
    if not named:
        raise click.UsageError(
            f"{safe(topic)!r} is not a file or session with a recorded change. To list the "
            f"changes: {place.command('log', '--memory')}"
        )
    return named


def _of_file(place: Place, changes: Sequence[Change], text: str) -> list[Change]:
    """Return the changes to a file that the user typed. The file may be missing.

    The user may type its name as it is on a screen.
    """
    file = file_named(root_of(place), text)
    if file is None:
        files = {one.file for one in changes if one.shown == text}
        file = files.pop() if len(files) == 1 else None
    return [one for one in changes if file is not None and one.file == file]


def when_words(change: Change) -> str:
    """Return the time of a change, such as `today 16:02` or `24 Nov`."""
    stamp = change.event.occurred_at
    day = day_words(stamp)
    return f"{day} {short_time(stamp)[-5:]}" if day in ("today", "yesterday") else day


def _size(change: Change) -> str:
    if change.fact("kind") == "deleted":
        return "deleted"
    added, removed = map(len, change.lines)
    return " ".join(f"{sign}{count}" for sign, count in (("+", added), ("-", removed)) if count)


def _who(change: Change) -> str:
    words = change.author
    if change.fact("kind") == "deleted" and change.before != UNSEEN:
        words += f" (the file had {counted(len(change.lines.removed), 'line')})"
    if change.undone_at:
        return f"{words} (undone by change {change.undone_at})"
    return words if is_restorable(change) else f"{words} (earlier version not kept)"


def change_named(stores: Sequence[Store], text: str) -> Change | None:
    """Return the change at a place; None if it is not a change of a watched file."""
    return next((one for one in changes_in(stores) if one.place == text), None)


def is_memory(place: Place, text: str) -> bool:
    """Return whether a text is the place of a change of a watched file.

    If the log has no event there, the log is updated first.
    """
    match = POSITION.fullmatch(text)
    if match is None or match[1]:
        return match is not None
    if not (events := _at(place, text)):
        with opened(place) as stores:
            return change_named(stores, text) is not None
    return events[0].type == MEMORY_CHANGED


def _at(place: Place, position: str) -> list[Event]:
    if place.is_untouched:
        return []
    with place.reading() as ledger:
        return ledger.at([int(position)])


def is_watched(place: Place, text: str) -> bool:
    """Return whether a text names a change of a watched file, or a file that could be one."""
    is_file = "/" in text or text.endswith(".md")
    is_known = "." in text and ".." not in text and file_named(root_of(place), text) is not None
    return is_file or is_known or is_memory(place, text)


def refuse_session(place: Place, text: str) -> None:
    """Raise a usage error if a session is known only from its changes to watched files."""
    if place.is_untouched:
        return
    with opened(place) as stores:
        sessions = {one.fact("session") for one in changes_in(stores, root_of(place))}
    if any(session.startswith(text) for session in sessions if session):
        raise click.UsageError(
            f"reflector did not record session {safe(text)}, only its changes to memory files. To "
            f"list the changes to memory files: {place.command('log', '--memory', text)}"
        )


def _needed(place: Place, stores: Sequence[Store], text: str) -> Change:
    change = change_named(stores, text)
    if change is None:
        raise click.UsageError(
            f"{text} is not a change to a memory file. To list the changes to memory files: "
            f"{place.command('log', '--memory')}"
        )
    return change


def print_change(place: Place, text: str) -> None:
    """Print a change with its difference, and your words before it."""
    with opened(place) as stores:
        change = _needed(place, stores, text)
        words = words_before(stores, change)
        lines = change.difference
        changes = changes_in(stores)
    if place.as_json:
        whole = memory_json(place, change)
        print_json(ShownMemoryJson(**asdict(whole), words=words, difference=lines))
        return
    name = change.shown
    say(f"{change.place}  {name}, {when_words(change)}, {change.author}")
    if words:
        say(f'after you wrote: "{words}"')
    print_difference(lines or ["reflector does not know the lines of this change."])
    _note_way_back(place, change, changes)


def print_blame(place: Place, file: str, moment: str | None) -> None:
    """Print the author of each line of a watched file."""
    with opened(place, moment=moment) as stores:
        changes, content = _history_of(place, stores, file, moment)
        lines = lines_with_writers(file, changes, content)
    if place.as_json:
        shown: dict[str, MemoryJson] = {}
        print_json([_line_json(place, line, None, shown) for line in lines])
        return
    _print_lines(place, file, lines)
    _note_unrecorded(place, file, lines)


def print_blame_of_line(
    place: Place, file: str, number: int, moment: str | None
) -> tuple[LineEvidence | None, int]:
    """Print the author of a line of a watched file on one screen.

    Return the counts of the line, which are also in the JSON, and the line at which its rule
    begins. Your own files and past moments do not have counts.
    """
    from reflector.instructions.units import begins_at  # only for this question

    with opened(place, moment=moment, numbered=place.as_json) as stores:
        changes, content = _history_of(place, stores, file, moment)
        lines = lines_with_writers(file, changes, content)
        if not 0 < number <= len(lines):
            raise click.UsageError(
                f"{file} has only {counted(len(lines), 'line')}, so line {number} does not exist"
            )
        line = line_of(stores, changes, lines[number - 1])
        session = _session_command(place, stores, line.written)
    begins = begins_at(content.decode("utf-8-sig", "replace"), number)
    evidence = None
    if moment is None and not is_in_home(file):
        from reflector.check.evidence import evidence_of  # only for this question

        added_at = _added_at(lines[begins - 1])
        evidence = evidence_of(place.project(), f"{file}:{begins}", date.today(), added_at)
    if place.as_json:
        print_json([_line_json(place, line, evidence, {})])
    else:
        if _shows_numbers(line):
            note_numbers(place)
        _print_line(place, file, line, changes, session)
        _note_unrecorded(place, file, [line])
    return evidence, begins


def is_in_home(file: str) -> bool:
    """Return whether a watched file is the user's own, not a project's."""
    return file.startswith(("~", "/"))


def _note_unrecorded(place: Place, file: str, lines: Sequence[Line]) -> None:
    """Print why nothing is recorded of a file that is not watched, and the way on."""
    if all(line.written or not line.text.strip() for line in lines):
        return
    project = place.project()
    if file.startswith("~") and project.config.memory != "off" and not project.config.memory_user:
        note(
            "reflector does not record changes to files in your home folder. To record the "
            "changes of these files from now on: reflector config set --global memory_user true"
        )
    elif not is_in_home(file) and file not in Table(project.root, "project").files:
        is_in_git = git_says(project.root, "ls-files", "--", file)
        at = f"-L {lines[0].number},{lines[-1].number} {quote(file)}"
        note(
            f"reflector does not record changes of {file}."
            + (f" To see the authors in git: git blame {at}" if is_in_git else "")
        )


def _added_at(line: Line) -> datetime | None:
    """Return the time at which a line was added; None if only commits show it."""
    written = line.written
    if written is None or written.is_gits or line.first is not None:
        return None
    return time_of(written.event.occurred_at)


def _session_command(place: Place, stores: Sequence[Store], change: Change | None) -> str:
    """Return the command that shows the session of a change; "" if it does not have one."""
    session = change.fact("session") if change is not None else ""
    if not session:
        return ""
    for store in stores:
        if list(store.ledger.events(types=[SESSION_RECORDED], session_id=session)):
            return place.command("show", session)
    return place.command("log", "--memory", session)


def _content(place: Place, file: str, changes: Sequence[Change]) -> bytes:
    root = root_of(place)
    tables = [Table(root, scope) for scope in _SCOPES] if root is not None else []
    for each in tables:
        with suppress(OSError, KeyError):
            return each.files[file].read()
        if why := each.unwatched.get(file):
            raise click.UsageError(
                f"reflector does not record changes of {file}, because this file {why}"
            )
    if not changes and root is not None:
        # A file that agents load only in its folder is not watched.
        with suppress(OSError):
            return read_bounded(root / file, _MOST_BYTES)
    if not changes:
        raise click.UsageError(
            f"{file} does not exist, and reflector did not record a change of this file. To list "
            f"the changes to other files: {place.command('log', '--memory')}"
        )
    return read_watched(changes[-1]) or b""


def _history_of(
    place: Place, stores: Sequence[Store], file: str, moment: str | None
) -> tuple[list[Change], bytes]:
    """Return the changes to a file up to a moment, and its content then."""
    changes = [one for one in changes_in(stores, root_of(place)) if one.file == file]
    if moment is None:
        return changes, _content(place, file, changes)
    last = changes[-1] if changes else None
    content = last.store.versions.read(last.after) if last is not None else None
    if content is None:
        raise click.UsageError(
            f"reflector does not have a copy of {file} from the time that you gave"
        )
    return changes, content


def _line_json(
    place: Place, line: Line, evidence: LineEvidence | None, known: dict[str, MemoryJson]
) -> MemoryLineJson:
    """Return a line for JSON.

    known  changes for JSON by their places, to which those of the line are added
    """

    def shown(change: Change | None) -> MemoryJson | None:
        if change is None:
            return None
        if change.place not in known:
            known[change.place] = memory_json(place, change)
        return known[change.place]

    changes = {name: shown(getattr(line, name)) for name in ("written", "committed", "first")}
    was = [FormerJson(former.text, shown(former.written)) for former in line.was]
    return shaped(MemoryLineJson, line, was=was, counted=evidence, **changes)


def _print_lines(place: Place, file: str, lines: Sequence[Line]) -> None:
    rows = [
        (line.number, _short_who(line.written), _day(line.written), line.text) for line in lines
    ]
    table(("line", "by", "since", "text"), rows, whole=True, empty=f"{file} is empty.")
    if written := [line for line in lines if line.written is not None]:
        origin = place.command("blame", f"{file}:{written[-1].number}")
        note(f"To see where a line of the file came from: {origin}")
        change = written[-1].written
        if change is not None:
            see = place.command("show", change.place)
            note(
                f"A number in brackets, such as ({change.place}), is the number of a change. To "
                f"see a change: {see}"
            )


def _day(change: Change | None) -> str:
    return day_words(change.event.occurred_at) if change is not None else "-"


def _short_who(change: Change | None) -> str:
    if change is None:
        return "-"
    by = change.by
    names = {AGENT: change.fact("agent"), COMMIT: change.fact("author"), OTHER: OTHER_USER}
    return f"{names.get(by, by)} ({change.place})"


def _shows_numbers(line: Line) -> bool:
    """Return whether the screen of a line may show numbers of changes."""
    is_by_author = line.written is not None and not line.written.is_gits
    return is_by_author or bool(line.was or line.origin)


def _print_line(
    place: Place, file: str, line: Line, changes: Sequence[Change], session: str
) -> None:
    say(f"{shown_name(file)}:{line.number}  {line.text}")
    change = line.written
    if change is None:
        words = (
            "by an unknown author"
            if line.text.strip()
            else "not shown: reflector does not look for the author of an empty line"
        )
        print_facts([("written", line.origin or words)], 8)
        return
    print_facts(_history_rows(line, change), 8)
    # An undo of a commit would also take back what colleagues wrote.
    if not change.is_gits and _way_back(place, change)[0]:
        _note_way_back(place, change, changes)
    if session:
        note(f"To see the session: {session}")


def _writing_words(change: Change) -> str:
    """Return the time and the author of a change."""
    by = change.by
    writer = change.author
    if by == COMMIT:
        return f"{when_words(change)} in {writer}"
    return f"{when_words(change)} by {writer}" if by in (AGENT, YOU, OTHER, UNKNOWN) else writer


def _history_rows(line: Line, change: Change) -> Iterator[tuple[str, str]]:
    """Yield a label and its words for each fact about a line; an empty label continues the row
    before.
    """
    committed = line.committed
    yield "written", _writing_words(change)
    if committed is not None:
        commit = committed.fact("commit")[:7]
        yield "", f"committed by {committed.fact('author') or 'an unknown author'}, {commit}"
    if line.words:
        yield "", f'after you wrote: "{line.words}"'
    if line.first is not None:
        yield "first", _writing_words(line.first)
    for former in line.was[:_MOST_FORMER]:
        origin = ""
        if former.written is not None:
            origin = f" (change {former.written.place}, {_writing_words(former.written)})"
        yield "was", f'"{former.text}"{origin}'
    if len(line.was) > _MOST_FORMER:
        yield "", f"and {counted(len(line.was) - _MOST_FORMER, 'more line')}"


def undo_memory(place: Place, text: str, *, session: bool, yes: bool, dry_run: bool) -> None:
    """Undo a change, the newest change to a file, or all changes of a session."""
    with opened(place, changes=not dry_run) as stores:
        only_lines = yes
        if session:
            changes = changes_in(stores, root_of(place))
            chosen = _of_session(place, changes, text)
        elif POSITION.fullmatch(text):
            changes = changes_in(stores)
            chosen = [_needed(place, stores, text)]
        else:
            changes = _needed_of_file(place, changes_in(stores, root_of(place)), text)
            chosen = [_newest(place, changes)]
            only_lines = yes or open_changes(changes)[-1:] == chosen
        words = ["--memory", text] if session else [chosen[0].place]
        command = place.command("undo", *words, "--yes")
        try:
            planned = plan_undo(chosen, command, only_lines=only_lines or dry_run)
        except UndoRefused as error:
            raise UndoRefused("\n".join([str(error), *_reasons(place, changes, chosen)])) from error
        restored = planned if dry_run else restore(planned)
    if place.answers([_restored_json(place, version) for version in restored]):
        return
    for version in restored:
        _print_restored(place, version, dry_run=dry_run)
    if dry_run:
        how = "To make this change, run the command without --dry-run."
        if not (only_lines or _are_whole(planned)):
            how = f"To make only these changes: {command}"
        note(f"Nothing was changed. {how}")


def _are_whole(planned: Sequence[Restored]) -> bool:
    """Return whether an undo restores whole files, and leaves no change."""
    return all(version.is_whole and not version.left for version in planned)


def _reasons(place: Place, changes: Sequence[Change], chosen: Sequence[Change]) -> list[str]:
    """Return the lines that would undo a change that no command takes back, or else the later
    changes of its file. Of a new file, the lines would be the whole file.
    """
    (change, *others) = chosen
    if others or change.undone_at:
        return []
    undoing = LineChange(*reversed(change.whole_lines))
    is_known = change.before and change.has_exact_lines and any(undoing)
    if is_known and not _way_back(place, change)[0]:
        lead = (
            f"To undo change {change.place} by hand, remove the lines with - and add those with +:"
        )
        return [lead, *difference(undoing)]
    of_file = [one.place for one in changes if one.file == change.file]
    later = of_file[of_file.index(change.place) + 1 :]
    if not later:
        return []
    shown = ", ".join(later[-_MOST_LATER:])
    see = place.command("show", later[-1])
    later_words = f"{change.shown} was changed again later, by change {shown}"
    return [f"{later_words}. To see the last change: {see}"]


def _of_session(place: Place, changes: Sequence[Change], text: str) -> list[Change]:
    """Return the changes by the agent of a session that are not undone."""
    named = [
        one for one in changes if one.fact("session").startswith(text) and one.fact("by") == AGENT
    ]
    ids = {one.fact("session") for one in named}
    see = f"To list the changes of other sessions: {place.command('log', '--memory')}"
    if not ids:
        raise click.UsageError(f"session {safe(text)!r} did not change a memory file. {see}")
    if len(ids) > 1:
        several = ", ".join(sorted(ids))
        raise click.UsageError(
            f"the ids of several sessions begin with {safe(text)!r}: {several}. Give more "
            "characters of the id"
        )
    if chosen := [one for one in named if not one.undone_at]:
        return chosen
    places = ", ".join(dict.fromkeys(one.undone_at for one in named))
    raise UndoRefused(
        f"the changes of session {safe(text)!r} are already undone, by change {places}"
    )


def _needed_of_file(place: Place, changes: Sequence[Change], text: str) -> list[Change]:
    named = _of_file(place, changes, text)
    if not named:
        raise click.UsageError(
            f"reflector did not record a change of {safe(text)}. To list the changes of other "
            f"files: {place.command('log', '--memory')}"
        )
    return named


def _newest(place: Place, changes: Sequence[Change]) -> Change:
    """Return the change to a file to undo; the last change if none can be undone.

    Raises: UndoRefused if all changes are undone.
    """
    change = newest_of(changes)
    undone = [one for one in changes if one.undone_at and one.fact("source") != UNDO]
    if change is None and undone:
        last = max(undone, key=lambda one: int(one.undone_at.lstrip("u")))
        raise UndoRefused(
            f"no change of {last.shown} is left to undo; change {last.place} is already undone, "
            f"by change {last.undone_at}. To make this change again: "
            f"{place.command('undo', last.undone_at)}"
        )
    return change or changes[-1]


@dataclass
class RestoredJson:
    """A restored file.

    place  of the new change; null for a dry run
    """

    file: str
    place: str | None
    undo: str | None


def _restored_json(place: Place, version: Restored) -> RestoredJson:
    undo = place.command("undo", version.place) if version.place else None
    return RestoredJson(version.file, version.place or None, undo)


def _print_restored(place: Place, version: Restored, *, dry_run: bool) -> None:
    """Print the restored file and the command that undoes it; for a dry run, the difference."""
    name = shown_name(version.file)
    if version.then is None:
        say(f"reflector {'would remove' if dry_run else 'removed'} {name}.")
    elif version.is_whole:
        restores = "would restore" if dry_run else "restored"
        say(f"reflector {restores} {name} to its text before change {version.places[0]}.")
    else:
        undoes = "would undo" if dry_run else "undid"
        places = ", ".join(version.places)
        say(f"reflector {undoes} only the lines of change {places} in {name}.")
    for why in version.left:
        note(why)
    if dry_run:
        print_difference(version.difference)
    else:
        note(f"Undo: {place.command('undo', version.place)}")


def memory_waiting(place: Place) -> list[MemoryJson]:
    """Return the changes of agents that wait for you to keep or undo them."""
    with opened(place) as stores:
        waiting = undecided(place.project(), changes_in(stores, root_of(place)))
        return [memory_json(place, change) for change in waiting]


def keep_memory(place: Place, text: str) -> None:
    """Record that you keep a change."""
    with opened(place, changes=True) as stores:
        keep_change(place.project(), _needed(place, stores, text))
    note("Kept.")


def take_back_memory(place: Place, text: str) -> str:
    """Undo a change, or else only its lines. Return the place of the new change."""
    with opened(place, changes=True) as stores:
        planned = plan_undo([_needed(place, stores, text)], "", only_lines=True)
        (restored,) = restore(planned)
    _print_restored(place, restored, dry_run=False)
    return restored.place
