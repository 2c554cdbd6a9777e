"""What comes into the ledger and what goes out of it: import, export and redact."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.options import READ_FILE, as_of_option, dry_run_option, json_option, past, why_option
from reflector.cli.output import counted, note, print_csv, print_json, print_lines, progress, safe, shaped, table
from reflector.playbook.names import SECTIONS

if TYPE_CHECKING:
    from reflector.curation.erasure import Erasure
    from reflector.events.event import Appended, Event
    from reflector.exchange.merge import Merged
    from reflector.exchange.transfer import Progress

#: Entries that the playbook has already, and events and files that still hold an erased text, are named up to so many.
_NAMED = 12
FORMATS = ("json", "md", "csv", "skillbook", "ndjson")


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
    """The head of a ledger that an export filled, and where a playbook.json of another history is kept."""

    head: str
    kept: str | None


@dataclass(frozen=True, slots=True)
class MergedJson:
    """What merging another machine's events did.

    known        events that were here already, `otherwise` those of them that are worded differently there
    renamed      the names here of bullets whose names were given here to others
    restated     bullets that both changed
    set_aside    reflections of another judge on the same window
    overlapping  windows that share records with windows that were here
    forward      whether this ledger was an earlier state of the other
    """

    head: str
    added: int
    known: int
    otherwise: int
    renamed: Mapping[str, str]
    restated: tuple[str, ...]
    set_aside: int
    overlapping: int
    forward: bool


@click.command("import")
@click.argument("file", type=READ_FILE)
@click.option("--rename", is_flag=True, help="Of an export: rename its bullets whose names other bullets have here.")
@click.option("--ours", is_flag=True, help="Of an export: keep this ledger's verdicts where FILE has others.")
@dry_run_option
@json_option
@click.pass_obj
def import_(place: Place, file: Path, rename: bool, ours: bool, dry_run: bool, as_json: bool) -> None:
    """Import a playbook or Markdown from a file, or another machine's ledger.

    FILE is a playbook.json in any of its forms, a playbook of another system, or Markdown: CLAUDE.md, AGENTS.md, rules
    of an editor, a memory file. Its counters become the baseline. In Markdown each item of a list is a bullet, in the
    section that its heading means; numbered steps are one bullet. What is left out is listed with its first words, and
    so is each entry that a bullet of any section says already. A file with invalid entries is refused as a whole, and
    each entry is named. Safe to repeat.

    An export of `reflector export --format ndjson` fills an empty ledger with its events and its chain; the first wrong
    line stops that, and nothing is imported. Where this ledger has events, those of FILE are appended, each once: both
    histories stay provable, and bullets and counters are the same whichever machine merges the other.
    """
    is_export = _is_export(file)
    if not is_export and (rename or ours):
        raise click.UsageError("--rename and --ours say how two ledgers are merged; FILE is a playbook")
    if is_export and dry_run:
        raise click.UsageError("--dry-run shows the bullets of a playbook; FILE is the export of a ledger")
    answer: ImportedJson | LoadedJson | MergedJson
    if not is_export:
        answer = _adopt(place, file, dry_run=dry_run, quiet=as_json)
    elif _has_events(place):
        answer = _merge(place, file, rename=rename, ours=ours, quiet=as_json)
    else:
        answer = _load(place, file, quiet=as_json)
    if as_json:
        print_json(answer)


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
    with file.open("rb") as opened:
        first = opened.readline(1 << 20)
    try:
        header = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and "specversion" in header


def _has_events(place: Place) -> bool:
    """Return whether the project's ledger has events. Edits of playbook.json that wait are not recorded for that."""
    project = place.project()
    if not project.has_ledger():
        return False
    with project.open_ledger() as ledger:
        return ledger.head().position > 0


def _adopt(place: Place, file: Path, *, dry_run: bool, quiet: bool) -> ImportedJson:
    from reflector.curation.adoption import PlaybookRefused, import_bullets, new_bullets, without_known
    from reflector.files import read_bounded
    from reflector.playbook.document import MAX_BYTES
    from reflector.playbook.markdown import load_any

    with place.pipeline() as pipeline:
        raw = read_bounded(file, MAX_BYTES)
        loaded = load_any(raw, [row.name for row in pipeline.ledger.rows()], pipeline.project.first_number)
        if loaded.problems:
            raise PlaybookRefused(file, loaded.problems)
        loaded, known = without_known(pipeline.ledger, loaded)
        new, undo = new_bullets(pipeline.ledger, loaded, file), None
        if new and not dry_run:
            import_bullets(pipeline.ledger, pipeline.project, loaded, raw, file)
            undo = place.command("undo", str(pipeline.ledger.head().position))
            pipeline.write()
    for text in loaded.notes:
        note(text)
    _name(known, "… and {:,} more that bullets say already; --json lists them")
    lines = [bullet.line for bullet in new]
    if not quiet:
        for line in lines if dry_run else ():
            click.echo(safe(line))
        done = "would be imported" if dry_run else "imported"
        click.echo(f"{counted(len(new), 'bullet')} {done}" if new else "nothing new in this file")
        if undo is not None:
            note(f"Undo: {undo}")
    return ImportedJson(len(new), [*loaded.notes, *known], dry_run, lines, undo)


def _load(place: Place, file: Path, *, quiet: bool) -> LoadedJson:
    from reflector.curation.playbook_file import settle
    from reflector.exchange.transfer import load
    from reflector.sessions import locks

    project = place.project()
    state = project.make_state_dir()
    with (
        locks.held(state, "model.lock", wait=True),
        locks.held(state, "drain.lock", wait=True),
        project.open_ledger() as ledger,
        _lines(file, "loading") as (lines, done),
    ):
        end = load(ledger, lines(), done)
        aside = settle(ledger, project)
    place.write(project)
    if not quiet:
        click.echo(end)
    if aside is not None:
        note(f"playbook.json belonged to another history and was written again; the old file is kept as {aside}")
    return LoadedJson(str(end), None if aside is None else str(aside))


def _merge(place: Place, file: Path, *, rename: bool, ours: bool, quiet: bool) -> MergedJson:
    from reflector.exchange.merge import merge

    with place.pipeline() as pipeline:
        first = pipeline.project.first_number
        with _lines(file, "reading") as (lines, done):
            merged = merge(pipeline.ledger, lines, rename=rename, ours=ours, first=first, progress=done)
        pipeline.write()
    if not quiet:
        click.echo(merged.head)
        for old, new in merged.renamed.items():
            click.echo(f"{old} of the file is {new} here")
        _print_merged(merged)
    return shaped(MergedJson, merged, head=str(merged.head))


def _print_merged(merged: Merged) -> None:
    if merged.forward:
        note("This ledger was an earlier state of the file's, and is the same one now.")
        return
    if not merged.added:
        note("Nothing new: every event of the file is here.")
    else:
        note(f"{counted(merged.added, 'event')} merged, {merged.known:,} of the file were already present.")
    if merged.otherwise:
        note(f"{merged.otherwise:,} of these are worded differently in the file; this ledger's wording stays.")
    if merged.restated:
        note(f"Both changed {', '.join(merged.restated)}: the later record counts, see `reflector log`.")
    if merged.set_aside:
        note(
            f"{counted(merged.set_aside, 'reflection')} set aside: another judge's on the same window counts; "
            "see `reflector blame`."
        )
    if merged.overlapping:
        note(
            f"{counted(merged.overlapping, 'window')} of the file share records with windows that were here; "
            "`reflector double-counts` shows what was counted twice."
        )


@contextmanager
def _lines(file: Path, label: str) -> Iterator[tuple[Callable[[], Iterator[bytes]], Progress]]:
    """What reads a file's lines, and a bar as long as its header says."""
    from reflector.exchange.transfer import checked, lines_of

    def lines() -> Iterator[bytes]:
        with file.open("rb") as opened:
            yield from lines_of(opened)

    header, _ = checked(lines())
    with progress(header.position, label) as bar:
        yield lines, bar.update


@click.command()
@click.option("--format", "form", type=click.Choice(FORMATS), default="json", show_default=True, help="The format.")
@as_of_option
@click.pass_obj
def export(place: Place, form: str, moment: str | None) -> None:
    """Print the playbook as json, md, csv or skillbook, or the events as ndjson.

    json is playbook.json byte for byte. md has one line for each bullet, as prompts show it, and skillbook is JSON by
    id, as other systems keep advice; `import` reads all three. ndjson is the whole ledger: a header and one CloudEvent
    per line, for `import` on another machine. With --as-of, json is the playbook.json of that moment, and ndjson ends
    there.
    """
    from reflector.exchange.transfer import exported
    from reflector.playbook.document import dump, dump_skillbook

    with place.reading() as ledger:
        then = past(ledger, moment)
        of = then or ledger
        if form == "json":
            _print_file(dump(of.bullets(), then.updated_at if then else ledger.updated_at()))
        elif form == "md":
            from reflector.reflection.ace import format_playbook

            document = json.loads(dump(of.bullets(), None))
            click.echo(safe(format_playbook(document, template="{key_points}")))
        elif form == "skillbook":
            _print_file(dump_skillbook(of.bullets()))
        elif form == "csv":
            columns = ("name", "section", "helpful", "harmful", "status", "text")
            rows = ((r.name, SECTIONS[r.section], r.helpful, r.harmful, r.status, r.text) for r in of.rows())
            print_csv(columns, rows)
        else:
            print_lines(exported(ledger, then.position if then else None))


@dataclass(frozen=True, slots=True)
class HeldJson:
    """An event that holds a text, and the texts of it that do."""

    position: int
    event_id: str
    type: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RedactedJson:
    """Where a text is, and what was erased.

    stays        positions of events that hold it outside of their prose
    copies       files of ours, `files` other ones
    redacted_at  positions of the erasures
    """

    events: list[HeldJson]
    stays: list[int]
    copies: list[str]
    files: list[str]
    redacted_at: list[int]


@click.command()
@click.argument("what", metavar="[REFLECTION|EVENT]", required=False)
@click.option("--where", "text", metavar="TEXT", help="Erase this text wherever it is; - reads it from standard input.")
@click.option("--session", metavar="ID", help="Erase what all events of a session say.")
@why_option
@click.option("--bullet", "bullets", multiple=True, metavar="NAME", help="Erase only this bullet; repeatable.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="With --where: print JSON; erase only with --yes.")
@click.pass_obj
def redact(
    place: Place,
    what: str | None,
    text: str | None,
    session: str | None,
    why: str | None,
    bullets: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> None:
    """Erase prose for ever; the counts stay.

    Name an event: an id, its beginning, or a position from `reflector log`; a reflection means its analysis. With
    --where, erases everything that holds a text, to the letter: events, copies of imported playbooks and queued hook
    deliveries; sessions that wait there are still recorded. With --session, erases what a session's events say, and
    names its transcript. The chain still verifies. Later exports and backups do not hold the text; earlier ones do.
    """
    if [what, text, session].count(None) != 2 or (what is None and bullets) or (as_json and text is None):
        raise click.UsageError(
            "name an event, a text with --where, or a --session; --bullet is for an event, --json for --where"
        )
    if text is not None:
        reason = None if as_json and not yes else _reason(why)
        _redact_where(place, _typed(text), reason, as_json=as_json, yes=yes)
    elif session is not None:
        _redact_session(place, session, _reason(why), yes=yes)
    elif what is not None:
        _redact_one(place, what, _reason(why), bullets, yes=yes)


def _reason(why: str | None) -> str:
    if why is None:
        raise click.UsageError("give a reason with --why, without the text to erase: the reason stays in the ledger")
    return why


def _redact_one(place: Place, what: str, why: str, bullets: tuple[str, ...], *, yes: bool) -> None:
    from reflector.audit.targets import target_named
    from reflector.curation.erasure import copies, echoes, erase, forget, planned

    with place.pipeline() as pipeline:
        ledger = pipeline.ledger
        target = target_named(ledger, what)
        if target.kind == "session":
            raise click.UsageError(f"session {target.id} has many events; erase all with `redact --session {what}`")
        event = target.events[0]
        erasure = planned(event, bullets)
        if erasure.texts and not yes:
            _ask(erasure, f"from the {event.type} at position {event.position}")
        (appended,) = erase(ledger, erasure, why)
        pipeline.write()
        removed = forget(copies(pipeline.project.state_dir / "kept", erasure))
        left = copies(pipeline.project.root / ".claude", erasure)
        others = echoes(ledger, erasure)
    if not appended.added:
        click.echo(f"position {event.position} was redacted at {appended.position}; its file was swept again")
        return
    click.echo(f"position {event.position} redacted at {appended.position}")
    _print_leftovers(removed, left, others)


def _redact_session(place: Place, session: str, why: str, *, yes: bool) -> None:
    from reflector.audit.targets import target_named
    from reflector.curation.erasure import copies, erase, of_session

    with place.pipeline() as pipeline:
        target = target_named(pipeline.ledger, session)
        if target.kind != "session":
            raise click.UsageError(f"{session} is not a session; `reflector redact {session}` erases one event")
        paths = dict.fromkeys(event.data["transcript"]["path"] for event in target.events if event.data)
        erasure = of_session(pipeline.ledger.events(session_id=target.id))
        if erasure.texts and not yes:
            _ask(erasure, f"from session {target.id}")
        done = [one for one in erase(pipeline.ledger, erasure, why) if one.added]
        pipeline.write()
        left = copies(pipeline.project.root / ".claude", erasure)
    click.echo(f"{counted(len(done), 'event')} redacted")
    for path in paths:
        note(f"the agent's transcript is not ours; clean it by hand: {safe(path)}")
    _print_leftovers([], left, [])


def _typed(text: str) -> str:
    """Return the text to erase; for `-` from a hidden prompt or standard input, so that no history of commands keeps
    it."""
    if text != "-":
        return text
    if sys.stdin.isatty():
        return str(click.prompt("Text to erase", hide_input=True, err=True))
    return sys.stdin.read().strip("\r\n")


def _redact_where(place: Place, text: str, why: str | None, *, yes: bool, as_json: bool) -> None:
    from reflector.curation.erasure import copies, erase, forget, holding
    from reflector.sessions.spool import drop_words

    with place.pipeline() as pipeline:
        erasure = holding(pipeline.ledger, text)
        folder, state = pipeline.project.root / ".claude", pipeline.project.state_dir
        files = copies(folder, erasure)
        ours = [path for path in files if path.is_relative_to(state / "kept") or path.is_relative_to(state / "spool")]
        waiting = [path for path in ours if path.is_relative_to(state / "spool")]
        gone: list[Path] = []
        done: list[Appended] = []
        if not as_json:
            _print_matches(erasure, files, ours)
        if (erasure.events or files or erasure.stays) and why is not None:
            if not yes:
                _ask(erasure, "wherever it is said")
            done = [one for one in erase(pipeline.ledger, erasure, why) if one.added]
            pipeline.write()
            for path in waiting:
                drop_words(path)
            gone = forget(path for path in copies(folder, erasure) if path in ours)
            files = copies(folder, erasure)
    if as_json:
        held = [shaped(HeldJson, event, texts=texts) for event, texts in erasure.events]
        stays = [event.position for event in erasure.stays]
        others = [str(path) for path in files if path not in ours]
        print_json(RedactedJson(held, stays, [*map(str, ours)], others, [one.position for one in done]))
    elif done or ours:
        kept = sum(path not in gone for path in waiting)
        without = f", {counted(kept, 'waiting session')} kept without the text" if kept else ""
        click.echo(f"{counted(len(done), 'event')} redacted, {counted(len(gone), 'file')} removed{without}")
        _print_leftovers([], files, [])


def _print_matches(erasure: Erasure, files: list[Path], ours: list[Path]) -> None:
    rows = [(str(event.position), event.type, _short(text)) for event, texts in erasure.events for text in texts]
    rows += [("", "a copy of ours", str(path)) for path in ours]
    rows += [("", "a file, not the ledger's", str(path)) for path in files if path not in ours]
    rows += [(str(event.position), event.type, "outside of its prose, which stays") for event in erasure.stays]
    table(("position", "what", "text"), rows, numbers=("position",), empty="Nothing holds this text.")


def _short(text: str) -> str:
    return " ".join(text.split())[:200]


def _ask(erasure: Erasure, where: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("erased text cannot be restored, and there is no terminal to confirm it: add --yes")
    more = ""
    if erasure.wanted is None:
        _name([f"  {_short(text)}" for text in erasure.texts])
        more = f" and {len(erasure.texts) - _NAMED} more" if len(erasure.texts) > _NAMED else ""
    if not click.confirm(f"Erase this{more} {where} for ever?", err=True):
        raise click.exceptions.Exit(1)


def _name(texts: Sequence[str], more: str = "") -> None:
    """Note the first of these texts, and that there are `more`."""
    for text in texts[:_NAMED]:
        note(text)
    if more and len(texts) > _NAMED:
        note(more.format(len(texts) - _NAMED))


def _print_leftovers(removed: list[Path], left: list[Path], others: list[Event]) -> None:
    for path in removed:
        note(f"removed too: {path}")
    _name([f"the text is still in {path}" for path in left], "and in {} more files")
    _name(
        [
            f"position {event.position} ({event.type}) still says the same or belongs to it; "
            f"see `reflector log`, then `reflector redact {event.position} --why …`"
            for event in others
        ],
        "and {} more; `reflector redact --where TEXT` lists all events that hold a text, and erases it",
    )
