"""What comes into the ledger and what goes out of it: import, export and redact."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import click

from reflector import entries
from reflector.audit.moments import target_named
from reflector.changes.apply import apply_changes, plan_changes
from reflector.changes.erase import (
    Erasure,
    copies,
    echoes,
    erase,
    event_erasure,
    session_erasure,
    text_erasure,
)
from reflector.cli.app import Place
from reflector.cli.options import (
    READ_FILE,
    agreed,
    as_of_option,
    dry_run_option,
    json_option,
    past,
    why_option,
    yes_option,
)
from reflector.cli.output import (
    counted,
    note,
    print_csv,
    print_json,
    print_lines,
    progress,
    safe,
    span,
    table,
)
from reflector.events.event import TRIAL_OPENED, Appended, Event
from reflector.exchange.merge import Merged, merge_ledger
from reflector.exchange.transfer import checked_lines, exported, lines_of, load_ledger
from reflector.files import error_words, read_bounded
from reflector.ledger.errors import LedgerError
from reflector.ledger.rows import Head
from reflector.ledger.sqlite_copy import before_upgrade
from reflector.ledger.store import Ledger
from reflector.locate import AGENT_FILES, own_folder
from reflector.playbook.bullet import sections_text
from reflector.playbook.document import MAX_BYTES, dump
from reflector.playbook.markdown import load_any
from reflector.playbook.names import SECTIONS
from reflector.playbook_files.admission import (
    PlaybookRefused,
    bullets_to_import,
    without_known,
)
from reflector.playbook_files.edits import under_free_names
from reflector.playbook_files.kept_copies import drop_known
from reflector.playbook_files.mirrors import mirrors
from reflector.playbook_files.playbook_json import (
    import_bullets,
    settle_file,
)
from reflector.playbook_files.watching import adopting
from reflector.project import Project
from reflector.sessions import locks
from reflector.sessions.spool import drop_words, pending_for

#: Entries that the playbook has already, and events and files that still hold an erased text, are
#: named up to so many.
_NAMED = 12
FORMATS = ("json", "md", "csv", "ndjson")


@dataclass(frozen=True, slots=True)
class ImportedJson:
    """What a playbook or Markdown brought; `undo` is the command that undoes it."""

    bullets: int
    notes: list[str]
    dry_run: bool
    lines: list[str]
    undo: str | None


@dataclass(frozen=True, slots=True)
class LoadedJson:
    """The head of a ledger that an export filled, and where a playbook.json of another history
    is kept.
    """

    head: Head
    kept: Path | None


@click.command("import")
@click.argument("file", type=READ_FILE)
@click.option(
    "--rename",
    is_flag=True,
    help=("Rename the bullets of FILE whose names other bullets have here."),
)
@dry_run_option
@json_option
@click.pass_obj
def import_(place: Place, file: Path, rename: bool, dry_run: bool, as_json: bool) -> None:
    """Import a playbook or Markdown from a file, or another machine's ledger.

    FILE is a playbook.json in any of its forms, a playbook of another system, or Markdown:
    CLAUDE.md, AGENTS.md, rules of an editor, a memory file. Its counters become the baseline. In
    Markdown each item of a list is a bullet, in the section that its heading means; numbered steps
    are one bullet. What is left out is listed with its first words, and so is each entry that a
    bullet of any section says already. A file with invalid entries is refused as a whole, and each
    entry is named. Safe to repeat.

    An export of `reflector export --format ndjson` fills an empty ledger with its events and its
    chain; the first wrong line stops that, and nothing is imported. Where this ledger has events,
    those of FILE are appended, each once: both histories stay provable, and bullets and counters
    are the same whichever machine merges the other.
    """
    is_export = _is_export(file)
    if not is_export and file.suffix == ".jsonl":
        raise click.UsageError(
            "a playbook is JSON or Markdown; `reflector ingest FILE` records a session's transcript"
        )
    if is_export and dry_run:
        raise click.UsageError(
            "--dry-run shows the bullets of a playbook; FILE is the export of a ledger"
        )
    answer: ImportedJson | LoadedJson | Merged
    trials: list[str] = []
    if not is_export:
        # A file without a bullet begins no playbook.
        answer, known = _adopt(place, file, rename=rename, dry_run=dry_run or place.is_untouched)
        if answer.dry_run and not dry_run:
            answer = (
                _adopt(place, file, rename=rename)[0]
                if answer.bullets
                else replace(answer, dry_run=False)
            )
        for text in answer.notes[: len(answer.notes) - known]:
            note(text)
        already = answer.notes[len(answer.notes) - known :]
        _name(already, "… and {:,} more that bullets say already; --json lists them")
    elif _has_events(place):
        project = place.project()
        is_own = not project.config.ledger_url and entries.is_lost_export(project.root, file)
        with place.changing() as ledger, _lines(file, "reading") as lines:
            before = ledger.head().position
            answer = merge_ledger(ledger, lines, rename=rename, first=project.first_number)
            trials = _trials_elsewhere(place, ledger, before, is_moved=answer.forward)
            if is_own:
                drop_known(ledger, project)
        if is_own:
            entries.drop_imported(project.place, file)
    else:
        answer, trials = _load(place, file)
    if as_json:
        print_json(answer)
    elif isinstance(answer, Merged):
        _print_merged(place, answer)
    elif isinstance(answer, LoadedJson):
        click.echo(answer.head)
    else:
        for line in answer.lines if dry_run else ():
            click.echo(safe(line))
        done = "would be imported" if dry_run else "imported"
        click.echo(
            f"{counted(answer.bullets, 'bullet')} {done}"
            if answer.lines
            else "nothing new in this file"
        )
        if answer.undo is not None:
            note(f"Undo: {answer.undo}")
    for line in trials:
        note(line)


def _trials_elsewhere(place: Place, ledger: Ledger, before: int, *, is_moved: bool) -> list[str]:
    """Return a line for each open trial that an import brought behind a position; `is_moved` where
    the whole ledger is the file's, which may be this person's own from another machine.
    """
    if not ledger.has(TRIAL_OPENED):
        return []
    from reflector.trials.trial import elsewhere, trial_place

    way = f"`{place.command('trial start')}` opens one here"
    if is_moved:
        way = (
            f"if this is your own ledger and it moved here, `{place.command('ledger take')}` "
            "goes on with the trial"
        )
    return [
        (
            f"The trial {trial.opened.event_id[:8]} withholds nothing here, because it was opened "
            f"elsewhere; {way}."
        )
        for trial in elsewhere(ledger, trial_place(place.project()), before)
    ]


def _print_file(content: bytes) -> None:
    """Print a file's bytes as they are; to a terminal without a character that it obeys."""
    if sys.stdout.isatty():
        print_lines(content.decode().splitlines())
    else:
        sys.stdout.buffer.write(content)


def _is_export(file: Path) -> bool:
    """Return whether a file begins as an export of a ledger does."""
    if not file.is_file():  # a pipe may never end
        return False
    try:
        with file.open("rb") as opened:
            header = json.loads(opened.readline(1 << 20))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and "specversion" in header


def _has_events(place: Place) -> bool:
    """Return whether the project's ledger has events. Edits of playbook.json that wait are not
    recorded for that.
    """
    project = place.project()
    if not project.has_ledger():
        return False
    with project.open_ledger() as ledger:
        return ledger.head().position > 0


def _adopt(
    place: Place, file: Path, *, rename: bool, dry_run: bool = False
) -> tuple[ImportedJson, int]:
    """Import a file's bullets; return what came of it, and how many of its notes, the last ones,
    are of entries that bullets say already.
    """
    project = place.project()
    with place.changing(dry_run=dry_run, begins=True) as ledger:
        raw = read_bounded(file, MAX_BYTES)
        loaded = load_any(raw, [row.name for row in ledger.rows()], project.first_number)
        if loaded.problems:
            raise PlaybookRefused(file, loaded.problems)
        loaded, watched = adopting(ledger, loaded, raw)
        loaded = under_free_names(ledger, loaded, project.first_number) if rename else loaded
        loaded, known = without_known(ledger, loaded)
        new, undo = bullets_to_import(ledger, loaded, file), None
        restored = [bullet for step in plan_changes(ledger, watched) for bullet in step.after]
        if (new or watched) and not dry_run:
            tx, before = ledger.draw(), ledger.head().position
            apply_changes(ledger, watched, actor="import", tx=tx)
            import_bullets(ledger, project, loaded, raw, file, tx)
            undo = place.command("undo", span(before + 1, ledger.head().position))
        new = [*restored, *new]
    lines = [bullet.line for bullet in new]
    return ImportedJson(len(new), [*loaded.notes, *known], dry_run, lines, undo), len(known)


def _load(place: Place, file: Path) -> tuple[LoadedJson, list[str]]:
    project = place.project()
    state = project.make_state_dir()
    with (
        locks.held(state, "model.lock", wait=True),
        locks.held(state, "drain.lock", wait=True),
        project.open_ledger() as ledger,
        _lines(file, "loading") as lines,
    ):
        end = load_ledger(ledger, lines())
        aside = settle_file(ledger, project)
        trials = _trials_elsewhere(place, ledger, 0, is_moved=not project.config.ledger_url)
    place.write(project)
    if aside is not None:
        note(
            "playbook.json belonged to another history and was written again; the old file is "
            f"kept as {aside}"
        )
    return LoadedJson(end, aside), trials


def _print_merged(place: Place, merged: Merged) -> None:
    click.echo(merged.head)
    for old, new in merged.renamed.items():
        click.echo(f"{old} of the file is {new} here")
    if merged.forward:
        note("This ledger was an earlier state of the file's, and is the same one now.")
        return
    added = (
        f"{counted(merged.added, 'event')} merged, {merged.known:,} of the file were already "
        "present."
    )
    note(added if merged.added else "Nothing new: every event of the file is here.")
    if merged.otherwise:
        which = ", ".join(merged.differing) + (
            ", …" if merged.otherwise > len(merged.differing) else ""
        )
        note(
            f"{merged.otherwise:,} of these say something else in the file: {which}; what this "
            "ledger says stays."
        )
    if merged.restated:
        note(
            f"Both changed {', '.join(merged.restated)}: the later record counts, see `reflector "
            "log`."
        )
    if merged.set_aside:
        aside = counted(merged.set_aside, "reflection")
        note(
            f"{aside} set aside: another judge's on the same window counts; see `reflector blame`."
        )
    if merged.overlapping:
        shared = (
            f"{counted(merged.overlapping, 'window')} of the file share records with windows "
            "that were here"
        )
        note(f"{shared}; `reflector stats --doubles` shows what was counted twice.")
    if merged.merged_at is not None:
        note(f"Undo: {place.command('undo', str(merged.merged_at))}")


@contextmanager
def _lines(file: Path, label: str) -> Iterator[Callable[[], Iterator[bytes]]]:
    """What reads a file's lines, and moves a bar as long as its header says."""
    with file.open("rb") as opened:
        header, _ = checked_lines(lines_of(opened))
    with progress(header.position, label) as bar:

        def lines() -> Iterator[bytes]:
            with file.open("rb") as opened:
                for line in lines_of(opened):
                    yield line
                    bar.update(min(1, header.position - bar.pos))

        yield lines


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="json",
    show_default=True,
    help="The format.",
)
@as_of_option
@click.pass_obj
def export(place: Place, form: str, moment: str | None) -> None:
    """Print the playbook as json, md or csv, or the events as ndjson.

    json is playbook.json byte for byte, and md has one line for each bullet, as prompts show it;
    `import` reads both. ndjson is the whole ledger: a header and one CloudEvent per line, for
    `import` on another machine. With --as-of, json is the playbook.json of that moment, and ndjson
    ends there.
    """
    with place.reading() as ledger:
        then = past(ledger, moment)
        of = then or ledger
        if form == "json":
            _print_file(dump(of.bullets(), then.updated_at if then else ledger.updated_at()))
        elif form == "md":
            click.echo(safe(sections_text(of.bullets())))
        elif form == "csv":
            columns = ("name", "section", "helpful", "harmful", "status", "text")
            rows = (
                (r.name, SECTIONS[r.section], r.helpful, r.harmful, r.status, r.text)
                for r in of.rows()
            )
            print_csv(columns, rows)
        else:
            print_lines(exported(ledger, then.position if then else None))


@click.command()
@click.argument("what", metavar="[REFLECTION|EVENT]", required=False)
@click.option(
    "--where",
    "text",
    metavar="TEXT",
    help=("Erase this text wherever it is; - reads it from standard input."),
)
@click.option("--session", metavar="ID", help="Erase what all events of a session say.")
@why_option
@yes_option
@click.pass_obj
def redact(
    place: Place,
    what: str | None,
    text: str | None,
    session: str | None,
    why: str | None,
    yes: bool,
) -> None:
    """Erase prose for ever; the counts stay.

    Name an event: an id, its beginning, or a position from `reflector log`; a reflection means its
    analysis. With --where, erases everything that holds a text, to the letter: events, copies of
    imported playbooks and queued hook deliveries; sessions that wait there are still recorded. With
    --session, erases what a session's events say, and names its transcript. The chain still
    verifies. Later exports and backups do not hold the text; earlier ones do. Exits with 1 and
    names each copy of ours that could not be written again.
    """
    if [what, text, session].count(None) != 2:
        raise click.UsageError("name an event, a text with --where, or a --session")
    if why is None:
        raise click.UsageError(
            "give a reason with --why, without the text to erase: the reason stays in the ledger"
        )
    place.needs_playbook()
    trouble = ""
    with place.pipeline() as pipeline:
        ledger, project = pipeline.ledger, pipeline.project
        transcripts: list[str] = []
        if text is not None:
            erasure, where = text_erasure(ledger, _typed(text)), "wherever it is said"
        else:
            erasure, where, transcripts = _of_named(
                ledger, what or session or "", whole=session is not None
            )
        places = _places(ledger, project)
        files = places.holding(erasure)
        waiting = [path for path in files if text is not None and path in places.deliveries]
        ours = [
            path
            for path in files
            if path in waiting or path.is_relative_to(project.state_dir / "kept")
        ]
        ours += [path for path in files if path == places.before_upgrade]
        if text is not None:
            rewritten = places.rewritten if erasure.events else ()
            _print_found(erasure, [path for path in files if path not in rewritten], places.is_ours)
        done, gone, others = list[Appended](), list[Path](), list[Event]()
        if erasure.events or files or erasure.stays:
            _ask(erasure, where, yes=yes)
            done = erase(ledger, erasure, why)
            pipeline.write()
            trouble = _copied_again(ledger, project)
            _each(waiting, drop_words)
            gone = _each([path for path in places.holding(erasure) if path in ours], Path.unlink)
            files = places.holding(erasure)
            if text is None:  # other events may say the same, and so do the ledger's own copies
                files = [path for path in files if not places.is_ours(path)]
                others = echoes(ledger, erasure)
    new = sum(one.added for one in done)
    if new or ours:
        kept = sum(path not in gone for path in waiting)
        without = f", {counted(kept, 'waiting session')} kept without the text" if kept else ""
        click.echo(
            f"{counted(new, 'event')} redacted, {counted(len(gone), 'file')} removed{without}"
        )
    elif done:
        click.echo(
            f"redacted already, at position {done[0].position}; the ledger's files were swept again"
        )
    for transcript in transcripts:
        note(f"the agent's transcript is not ours; clean it by hand: {safe(transcript)}")
    left = [path for path in files if places.is_ours(path)]
    if trouble:
        note(
            f"the copy of the ledger could not be written again ({trouble}); make that possible, "
            "and run this again"
        )
    for path in left:
        note(f"the text is still in {path}")
    _name(
        [(f"the text is still in {path}") for path in files if path not in left],
        "and in {} more files",
    )
    _name(
        [
            f"position {event.position} ({event.type}) still says the same or belongs to it; "
            f"see `reflector log`, then `reflector redact {event.position} --why …`"
            for event in others
        ],
        (
            "and {} more; `reflector redact --where TEXT` lists all events that hold a text, and "
            "erases it"
        ),
    )
    if left or trouble:
        raise click.exceptions.Exit(1)


class _Places(NamedTuple):
    """Where copies of a ledger's texts are.

    folders     below which files are looked at: the project's and the person's own of it
    read        files of the project that agents read, which may hold the playbook
    mirrors     those that do, and are written again
    deliveries  of hooks, which wait to be recorded
    rewritten   what the ledger writes again when something is erased
    before_upgrade  the copy of the ledger that the last upgrade left, if there is one
    """

    root: Path
    folders: Sequence[Path]
    read: Sequence[Path]
    mirrors: Sequence[Path]
    deliveries: Sequence[Path]
    rewritten: Sequence[Path]
    before_upgrade: Path | None

    def holding(self, erasure: Erasure) -> list[Path]:
        """Return the files that hold a text that goes, or went."""
        kept = [self.before_upgrade] if self.before_upgrade is not None else []
        return list(
            dict.fromkeys(copies(self.folders, erasure, (*self.read, *self.deliveries, *kept)))
        )

    def is_ours(self, path: Path) -> bool:
        """Return whether we wrote a file, so that a text that stays there was not erased."""
        own = (self.root / ".claude" / "reflector", *self.folders[1:])
        named = (
            self.root / ".claude" / "playbook.json",
            *self.mirrors,
            *self.deliveries,
            self.before_upgrade,
        )
        return path in named or any(map(path.is_relative_to, own))


def _places(ledger: Ledger, project: Project) -> _Places:
    """Return where the texts of a project's ledger may be besides it. Raises LedgerError."""
    root, own = project.root, own_folder(str(project.root))
    folders = [root / ".claude", *([Path(own)] if own else [])]
    waiting = [one.path for part in ("", "waiting") for one in pending_for(root, part)]
    spooled = [path for path in project.spool_dir.rglob("*") if path.is_file()]
    aside = entries.lost_exports(root)
    rewritten = [path for path in Path(own).rglob("*") if path not in aside] if own else []
    held = [root / mirror.name for mirror in mirrors(ledger, project)]
    read = [root / name for name in AGENT_FILES]
    before = before_upgrade(Path(ledger.engine.url.database)) if ledger.engine.url.is_file else None
    kept = before.file if before is not None else None
    return _Places(root, folders, read, held, [*waiting, *spooled], rewritten, kept)


def _copied_again(ledger: Ledger, project: Project) -> str:
    """Bring the copy in the person's own folder up to date; return what keeps it from that, ""
    for nothing.
    """
    try:
        entries.update_copy(ledger, project.place, entries.file_identity(project.ledger_file))
    except (OSError, LedgerError) as error:
        return error_words(error)
    is_behind = 0 < entries.copy_end(project.root).position < ledger.head().position
    return "another process keeps it locked" if is_behind else ""


def _each(paths: Sequence[Path], act: Callable[[Path], object]) -> list[Path]:
    """Do something to each file; return those where it could be done. The others are named as what
    still holds the text.
    """
    done = []
    for path in paths:
        with suppress(OSError):
            act(path)
            done.append(path)
    return done


def _typed(text: str) -> str:
    """Return the text to erase; for `-` from a hidden prompt or standard input, so that no history
    of commands keeps it.
    """
    if text != "-":
        return text
    if sys.stdin.isatty():
        return str(click.prompt("Text to erase", hide_input=True, err=True))
    return sys.stdin.read().strip("\r\n")


def _of_named(ledger: Ledger, named: str, *, whole: bool) -> tuple[Erasure, str, list[str]]:
    """Return what an event says, or what all events of a session say, where that is, and the
    session's transcripts.
    """
    target = target_named(ledger, named)
    if whole and target.kind != "session":
        raise click.UsageError(
            f"{named} is not a session; `reflector redact {named}` erases one event"
        )
    if whole:
        paths = dict.fromkeys(
            event.data["transcript"]["path"] for event in target.events if event.data
        )
        return (
            session_erasure(ledger.events(session_id=target.id)),
            f"from session {target.id}",
            [*paths],
        )
    if target.kind == "session":
        raise click.UsageError(
            f"session {target.id} has many events; erase all with `redact --session {named}`"
        )
    event = target.events[0]
    return event_erasure(event), f"from the {event.type} at position {event.position}", []


def _print_found(erasure: Erasure, files: Sequence[Path], is_ours: Callable[[Path], bool]) -> None:
    rows: list[tuple[object, str, object]]
    rows = [
        (event.position, event.type, _short(text))
        for event, texts in erasure.events
        for text in texts
    ]
    rows += [
        ("", "a copy of ours" if is_ours(path) else "a file, not ours", path) for path in files
    ]
    rows += [
        (event.position, event.type, ("outside of its prose, which stays"))
        for event in erasure.stays
    ]
    table(("position", "what", "text"), rows, empty="Nothing holds this text.")


def _short(text: str) -> str:
    return " ".join(text.split())[:200]


def _ask(erasure: Erasure, where: str, *, yes: bool) -> None:
    if erasure.wanted is None and not erasure.texts:  # it was erased before
        return
    more = ""
    if erasure.wanted is None and not yes and sys.stdin.isatty():
        _name([f"  {_short(text)}" for text in erasure.texts])
        more = f" and {len(erasure.texts) - _NAMED} more" if len(erasure.texts) > _NAMED else ""
    agreed(
        f"Erase this{more} {where} for ever?",
        "erased text cannot be restored, and there is no terminal to confirm it",
        yes=yes,
    )


def _name(texts: Sequence[str], more: str = "") -> None:
    """Note the first of these texts, and that there are `more`."""
    for text in texts[:_NAMED]:
        note(text)
    if more and len(texts) > _NAMED:
        note(more.format(len(texts) - _NAMED))
