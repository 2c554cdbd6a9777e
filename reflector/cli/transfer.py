"""Imports and exports of rules and ledgers: adopt, import, export and redact."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from reflector.audit.moments import target_named
from reflector.changes.erase import Erasure, event_erasure, session_erasure, text_erasure
from reflector.cli.app import Place
from reflector.cli.options import (
    READ_FILE,
    agreed,
    as_of_option,
    dry_run_option,
    flag,
    json_option,
    past,
    why_option,
    yes_option,
)
from reflector.cli.output import (
    note,
    print_csv,
    print_difference,
    print_lines,
    progress,
    safe,
    say,
    table,
)
from reflector.exchange.merge import Merged
from reflector.exchange.transfer import checked_lines, exported, lines_of
from reflector.hooks.reach import callers_of
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import sections_text
from reflector.playbook.document import dump
from reflector.playbook.names import SECTIONS
from reflector.playbook_files.adopting import (
    Adoption,
    carry_out,
    name_rules,
    plan_adoption,
    plan_naming,
)
from reflector.playbook_files.moving import Move, carry_out_move, plan_move
from reflector.playbook_files.places import is_loaded
from reflector.sessions import machines
from reflector.sessions.drain import waiting_pipeline
from reflector.sessions.injection import headings_of, moved_text
from reflector.sessions.loaded import tell_recorded
from reflector.sessions.told import told_text
from reflector.text.phrases import counted
from reflector.text.words import context_tokens
from reflector.trials.trial import Trial

if TYPE_CHECKING:
    from reflector.sessions.redaction import Redacted, RedactionPlan

#: The most named entries that the playbook already has, and the most named events and files that
#: still contain an erased text.
_NAMED = 12
FORMATS = ("json", "md", "csv", "ndjson")


@dataclass
class AdoptedJson:
    """The result for the rules of files.

    how            "named": the rules stay in their file; "moved": they are moved out of it;
                   "added": they are from a file that no agent loads
    bullets        the number of rules that are new there
    lines          if "named", all rules of the files with their names and places, including rules
                   that already had a name; else the new rules of the playbook
    undo           the command that undoes it
    tokens_before  the tokens at the start of a session, in the text of the playbook and in the
                   files of a move; null if they did not change
    tokens_after   the same after the change
    diff           of the files from which rules move
    """

    how: str
    bullets: int
    notes: list[str]
    dry_run: bool
    lines: list[str]
    undo: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    diff: list[str] = field(default_factory=list)


@click.command()
@click.argument("files", type=READ_FILE, nargs=-1, required=True, metavar="FILE…")
@flag("--move", help="Move the rules from FILE into the playbook.")
@flag("--rename", help="Rename a rule if its name is already in use.")
@yes_option
@dry_run_option
@json_option
@click.pass_obj
def adopt(
    place: Place,
    files: tuple[Path, ...],
    move: bool,
    rename: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Give names to the rules of your files.

    You can repeat `adopt`: a rule that has a name keeps its name.

    If your agent loads FILE, such as CLAUDE.md or AGENTS.md, the rules stay in FILE and FILE does
    not change. After `adopt FILE`, `list` shows each rule of FILE with its line number. With
    --move, the rules move from FILE into the playbook. Before the move, `adopt` shows the lines to
    remove from FILE, and waits for your confirmation.

    If no agent loads FILE, `adopt` copies the rules of FILE into the playbook. FILE can be any
    Markdown file, a playbook.json or the playbook of another system. If FILE is a playbook, `adopt`
    also copies its counts. `adopt` lists each part of FILE that was not copied.
    """
    for file in files:
        _refuse_others(place, file)
    if move:
        result = _move(place, files, yes=yes, dry_run=dry_run)
    elif all(is_loaded(place.folder(), file) for file in files):
        result = _name_rules(place, files, dry_run=dry_run)
    elif len(files) == 1:
        result = _add(place, files[0], rename=rename, dry_run=dry_run)
    else:
        raise click.UsageError(
            "agents do not load all of these files; run `adopt` separately for each file that "
            "agents do not load"
        )
    place.answers(result)


def _refuse_others(place: Place, file: Path) -> None:
    """Raise UsageError for a ledger or a transcript, because other commands read them."""
    if machines.is_export(file):
        raise click.UsageError(f"{file} is a ledger; {_way(place, 'import', file)} adds its events")
    if file.suffix == ".jsonl":
        raise click.UsageError(
            f"{file} is a session's transcript; {_way(place, 'ingest', file)} records it"
        )


def _name_rules(place: Place, files: Sequence[Path], *, dry_run: bool) -> AdoptedJson:
    """Give names to the rules of files that an agent loads, and print the result."""
    project = place.project()
    positions = range(0)
    with place.reading() as ledger:
        naming = plan_naming(ledger, project, files)
    if naming.watching.changes and not dry_run:
        with waiting_pipeline(project, write=False) as pipeline:
            naming = plan_naming(pipeline.ledger, project, files)
            positions = name_rules(pipeline.ledger, naming)
            tell_recorded(project, pipeline.ledger)
    undo = place.undo_of(positions)
    lines = [f"{name}  {line.place}  {line.text}" for name, line in naming.watching.lines.items()]
    result = AdoptedJson("named", len(naming.new), [*naming.omitted], dry_run, lines, undo)
    if not place.as_json:
        _print_named(place, files, result)
    return result


def _print_named(place: Place, files: Sequence[Path], result: AdoptedJson) -> None:
    """Print the numbers of rules that got a name and that already had one, and the next commands.
    For a dry run, also list the rules.
    """
    for line in result.notes:
        note(line)
    names = " ".join(shlex.quote(str(file)) for file in files)
    if not result.lines:
        say(f"{names} does not contain rules.")
        return
    for line in result.lines if result.dry_run else ():
        say(line)
    known = len(result.lines) - result.bullets
    others = f", and {known:,} already had a name" if known else ""
    gets = "would get" if result.dry_run else "got"
    say(f"{counted(result.bullets, 'rule')} of {names} {gets} a name{others}.")
    note(f"The file is unchanged. To see the rules of the file: {place.command('list')}")
    note(f"To move these rules into the playbook: {place.command('adopt', '--move')} {names}")
    if result.undo is not None:
        note(f"Undo: {result.undo}")


def _add(place: Place, file: Path, *, rename: bool, dry_run: bool) -> AdoptedJson:
    """Add the rules of a file that no agent loads to the playbook, and print them."""
    project = place.project()
    with place.reading() as ledger:
        adoption = plan_adoption(ledger, project, file, rename=rename)
    positions = range(0)
    before = after = None
    if adoption.bullets and not dry_run:  # a file without rules does not start a playbook
        before = context_tokens(told_text(project.root))
        with place.changing(begins=True) as ledger:
            # Another command may have changed the playbook since it was planned.
            adoption = plan_adoption(ledger, project, file, rename=rename)
            positions = carry_out(ledger, project, adoption)
        after = context_tokens(told_text(project.root))
    lines = [bullet.line for bullet in adoption.bullets]
    notes = [*adoption.omitted, *adoption.known]
    undo = place.undo_of(positions)
    result = AdoptedJson("added", len(lines), notes, dry_run, lines, undo, before, after)
    if not place.as_json:
        _print_adopted(adoption, result)
    return result


def _move(place: Place, files: Sequence[Path], *, yes: bool, dry_run: bool) -> AdoptedJson:
    """Move the rules of files into the playbook if you confirm it, and print the changes."""
    project = place.project()
    with place.reading() as ledger:
        move = plan_move(ledger, project, files)
        tokens = _tokens_of(project.root, ledger, move)
    places_that_stay = ", ".join(line.place for line in move.stays)
    verb = "stays" if len(move.stays) == 1 else "stay"
    number = counted(len(move.stays), "rule")
    stay = f"{number} {verb} in the file, within a longer text: {places_that_stay}"
    notes = [stay] if move.stays else []
    notes += [
        f"{line.place} repeats the rule of {first.place}, so `adopt` removes both lines"
        for line, first in move.repeats
    ]
    lines = [bullet.line for bullet in move.bullets]
    diff = [line for cut in move.cuts if cut.rules for line in cut.difference]
    result = AdoptedJson("moved", move.count, notes, True, lines, None, *tokens, diff)
    if not place.as_json:
        _print_move(place, result)
    if not move.count or dry_run or not _is_agreed(place, yes=yes):
        return result
    with place.changing(begins=True) as ledger:
        # Another command may have changed the playbook since it was planned.
        position = carry_out_move(ledger, project, plan_move(ledger, project, files), shown=move)
    undo = place.command("undo", str(position))
    if not place.as_json:
        say(f"Moved {counted(move.count, 'rule')}. To see these rules: {place.command('list')}")
        note(f"Undo: {undo}")
    return replace(result, dry_run=False, undo=undo)


def _tokens_of(root: Path, ledger: Ledger, move: Move) -> tuple[int, int]:
    """Return the tokens at each start before and after a move.

    They are in the files and in the text about the playbook.
    """
    headings = headings_of(ledger)
    live = ledger.bullets()
    texts = (
        moved_text(root, live, headings),
        moved_text(root, [*live, *move.bullets], {**headings, **move.places}),
    )
    before, after = map(context_tokens, texts)
    before += sum(context_tokens(cut.before.decode()) for cut in move.cuts)
    after += sum(context_tokens(cut.after.decode()) for cut in move.cuts)
    return before, after


def _print_move(place: Place, result: AdoptedJson) -> None:
    print_difference(result.diff)
    for line in result.notes:
        say(line)
    if not result.bullets:
        say("No rules to move.")
        return
    note(
        f"{counted(result.bullets, 'rule')} to move into the playbook. Each session would start "
        f"with {result.tokens_after:,} tokens of rules instead of {result.tokens_before:,}."
    )
    if next(callers_of(place.folder()), None) is None:
        note(
            "No agent is connected yet, so no agent would read the playbook. First run: reflector "
            "install"
        )


def _is_agreed(place: Place, *, yes: bool) -> bool:
    """Return whether you confirm the move. Without a terminal, only --yes is a confirmation."""
    is_asked = sys.stdin.isatty() and not place.as_json
    if yes or (is_asked and click.confirm("Move these rules?", err=True)):
        return True
    note(
        "Nothing was changed." if is_asked else "Nothing was changed. To move the rules: add --yes"
    )
    return False


def _way(place: Place, command: str, file: Path) -> str:
    return f"`{place.command(command, shlex.quote(str(file)))}`"


def _print_adopted(adoption: Adoption, result: AdoptedJson) -> None:
    for line in adoption.omitted:
        note(line)
    _name(adoption.known, "… and {:,} more that are already rules; to list all: add --json")
    if not result.lines:
        say("This file does not contain a new rule.")
        return
    for line in result.lines if result.dry_run else ():
        say(line)
    done = "would be adopted" if result.dry_run else "adopted"
    say(f"{counted(result.bullets, 'rule')} {done}")
    if result.tokens_after is not None:
        note(
            f"Each session now starts with {result.tokens_after:,} tokens of rules instead "
            f"of {result.tokens_before:,}."
        )
    if result.undo is not None:
        note(f"Undo: {result.undo}")


@click.command("import")
@click.argument("file", type=READ_FILE)
@flag("--rename", help="Rename a rule if its name is already in use.")
@json_option
@click.pass_obj
def import_(place: Place, file: Path, rename: bool) -> None:
    """Add another machine's ledger to yours.

    You can repeat `import`, because reflector adds each event only once.

    To write FILE, run `reflector export --format ndjson > FILE` on another machine. If your ledger
    is empty, your ledger becomes a copy of the ledger in FILE, with the same chain of hashes. If
    your ledger has events, your events stay, and your ledger gets each event of FILE once. After an
    import in both directions, both machines have the same rules and counts. If a line of FILE is
    invalid, `import` adds no events.
    """
    if not machines.is_export(file):
        raise click.UsageError(_not_a_ledger(place, file))
    if machines.has_events(place.project()):
        _merge(place, file, rename=rename)
    else:
        _load(place, file)


def _not_a_ledger(place: Place, file: Path) -> str:
    if file.suffix == ".jsonl":
        way = f"To record the session in this file: {_way(place, 'ingest', file)}"
    else:
        way = f"To add the rules in this file: {_way(place, 'adopt', file)}"
    return f"{file} is not a ledger. {way}"


def _merge(place: Place, file: Path, *, rename: bool) -> None:
    with place.pipeline() as pipeline, _lines(file, "reading") as lines:
        merged, trials = machines.merge_export(pipeline, file, lines, rename=rename)
    machines.drop_merged(place.project(), file)
    if not place.answers(merged):
        _print_merged(place, merged)
    # The whole ledger is from the file, which may be the user's own from another machine.
    _print_trials(place, trials, is_moved=merged.forward)


def _load(place: Place, file: Path) -> None:
    project = place.project()
    with _lines(file, "loading") as lines:
        loaded = machines.load_export(project, lines)
    place.write(project)
    if loaded.kept is not None:
        note(
            "playbook.json belonged to another ledger, so reflector wrote a new file; the old file "
            f"is kept as {loaded.kept}"
        )
    if not place.answers(loaded):
        note(f"{counted(loaded.head.position, 'event')} imported. Next: {place.command('list')}")
    _print_trials(place, loaded.trials, is_moved=not project.config.ledger_url)


def _print_trials(place: Place, trials: Iterable[Trial], *, is_moved: bool) -> None:
    """Note the open trials that an import brought."""
    way = f"`{place.command('trial start')}` starts a trial in this ledger"
    if is_moved:
        way = (
            f"if you moved the other ledger yourself, `{place.command('ledger take')}` continues "
            "the trial"
        )
    for trial in trials:
        note(
            f"The trial {trial.opened.event_id[:8]} was started in another ledger, so it does not "
            f"withhold rules in this ledger; {way}."
        )


def _print_merged(place: Place, merged: Merged) -> None:
    for old, new in merged.renamed.items():
        say(f"The file's rule {old} has the name {new} in this ledger")
    if merged.forward:
        note(
            "This ledger lacked the newest events of the ledger in the file. Now this ledger "
            "contains these events, too."
        )
        return
    added = (
        f"Merged {counted(merged.added, 'event')}. This ledger already had "
        f"{counted(merged.known, 'event')} of the file."
    )
    note(added if merged.added else "Nothing new: this ledger already has every event of the file.")
    different_count = merged.otherwise
    if different_count:
        which = ", ".join(merged.first_different)
        if different_count > len(merged.first_different):
            which += ", …"
        note(
            f"This ledger has another version of {counted(different_count, 'event')} of the file "
            f"({which}), and keeps its own version."
        )
    if merged.restated:
        note(
            f"Both ledgers changed {', '.join(merged.restated)}. The later of the two changes "
            f"counts. To see both changes: {place.command('log')}"
        )
    if merged.set_aside:
        aside = counted(merged.set_aside, "answer")
        note(
            f"{aside} in the file did not count, because another judge's answer counts instead. "
            f"To see the verdicts on a rule: {place.command('blame', 'NAME')}"
        )
    if merged.overlapping:
        parts = counted(merged.overlapping, "session part")
        shared = f"Citations can count twice, because this ledger already had messages of {parts}"
        note(f"{shared} in the file. To list double counts: {place.command('stats', '--doubles')}")
    if merged.merged_at is not None:
        note(f"Undo: {place.command('undo', str(merged.merged_at))}")


@contextmanager
def _lines(file: Path, label: str) -> Iterator[Callable[[], Iterator[bytes]]]:
    """Yield a function that yields a file's lines and moves a progress bar.

    The header of the file contains the length of the bar.
    """
    with file.open("rb") as opened:
        header, _ = checked_lines(lines_of(opened))
    with progress(header.position, label) as bar:

        def lines() -> Iterator[bytes]:
            with file.open("rb") as opened:
                for line in lines_of(opened):
                    yield line
                    bar.update(min(1, header.position - bar.pos))

        yield lines


def _print_file(content: bytes) -> None:
    """Print a file's bytes unchanged. On a terminal, escape characters that it obeys."""
    if sys.stdout.isatty():
        print_lines(content.decode().splitlines())
    else:
        sys.stdout.buffer.write(content)


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="json",
    show_default=True,
    help="Format of the output.",
)
@as_of_option
@click.pass_obj
def export(place: Place, form: str, moment: str | None) -> None:
    """Print the playbook or the events.

    The format json is playbook.json, byte for byte. The format md has one line for each rule.
    `adopt` reads both formats, json and md. The format ndjson contains the whole ledger, for
    `import` on another machine. An ndjson file has a header, then one CloudEvent on each line. With
    --as-of MOMENT, `export` prints the state at MOMENT.
    """
    with place.reading() as ledger:
        then = past(ledger, moment)
        of = then or ledger
        if form == "json":
            _print_file(dump(of.bullets(), then.updated_at if then else ledger.updated_at()))
        elif form == "md":
            print_lines([safe(sections_text(of.bullets()))])
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
@click.argument("event", metavar="[EVENT]", required=False)
@click.option(
    "--where",
    "text",
    metavar="TEXT",
    help="Erase texts that contain TEXT (`-`: read stdin).",
)
@click.option("--session", metavar="ID", help="Session to erase (id or its beginning).")
@why_option
@yes_option
@click.pass_obj
def redact(
    place: Place,
    event: str | None,
    text: str | None,
    session: str | None,
    why: str | None,
    yes: bool,
) -> None:
    """Erase text permanently, but keep the counts.

    You must give a reason with --why. The reason stays in the ledger.

    To erase one event, give its position in `reflector log`, or its id. If a rule, quote or other
    text contains TEXT, `redact --where TEXT` erases the complete rule, quote or text. `redact`
    searches for TEXT in events, in copies of adopted playbooks, and in sessions that are not
    recorded yet. Upper and lower case matter in TEXT. With --session, `redact` erases the text of
    all events of a session. `redact` prints the path of the session's transcript, but does not
    change the transcript. After `redact`, `verify` still accepts the ledger. `redact` does not
    change commits in git, older exports or backups. If reflector could not rewrite one of its own
    files, the exit code of `redact` is 1.
    """
    from reflector.sessions.redaction import carry_out as carry_out_redaction, plan_redaction

    if [event, text, session].count(None) != 2:
        raise click.UsageError("redact needs exactly one of EVENT, --where TEXT and --session ID")
    if why is None:
        raise click.UsageError(
            "give a reason with --why. The reason stays in the ledger, so do not repeat the "
            "erased text in the reason"
        )
    place.needs_playbook()
    with place.pipeline() as pipeline:
        target = _redaction_target(pipeline.ledger, event, text, session)
        plan = plan_redaction(pipeline.ledger, pipeline.project, target.erasure)
        if text is not None:
            _print_found(plan)
        redacted = None
        if plan.has_work:
            _ask(target, yes=yes)
            redacted = carry_out_redaction(pipeline, plan, why)
    is_clean = redacted is None or _print_redacted(plan, redacted)
    for transcript in target.transcripts:
        note(
            "reflector does not change the agent's transcript; remove the text from the "
            f"transcript yourself: {safe(transcript)}"
        )
    if not is_clean:
        raise click.exceptions.Exit(1)


class _Target(NamedTuple):
    """The texts to erase, the place for the question, and the transcripts of a session."""

    erasure: Erasure
    where: str
    transcripts: Sequence[str] = ()


def _redaction_target(
    ledger: Ledger, event: str | None, text: str | None, session: str | None
) -> _Target:
    """Return the erasure of one of the three: an event, all events with a text, or a session."""
    if text is not None:
        return _Target(text_erasure(ledger, _typed(text)), "from all events and files of reflector")
    named = target_named(ledger, session or event or "")
    is_session = named.kind == "session"
    if session is not None and not is_session:
        raise click.UsageError(
            f"{session} is not a session; `reflector redact {session} --why REASON` erases a "
            "single event"
        )
    if session is None and is_session:
        raise click.UsageError(
            f"{named.id} is a session; to erase all of its text: "
            f"`reflector redact --session {event} --why REASON`"
        )
    if is_session:
        recorded = [window.data for window in named.events if window.data]
        transcripts = dict.fromkeys(data["transcript"]["path"] for data in recorded)
        erasure = session_erasure(ledger.events(session_id=named.id))
        return _Target(erasure, f"from session {named.id}", [*transcripts])
    first = named.events[0]
    return _Target(event_erasure(first), f"from the {first.type} at position {first.position}")


def _typed(text: str) -> str:
    """Return the text to erase. For `-`, read it from a hidden prompt or from standard input.

    In this way, no history of commands contains it.
    """
    if text != "-":
        return text
    if sys.stdin.isatty():
        return str(click.prompt("Text to erase", hide_input=True, err=True))
    return sys.stdin.read().strip("\r\n")


def _print_found(plan: RedactionPlan) -> None:
    rows: list[tuple[object, str, object]] = [
        (prose.event.position, prose.event.type, _short(text))
        for prose in plan.erasure.events
        for text in prose.texts
    ]
    rows += [
        (
            "",
            "a copy that reflector made"
            if plan.places.is_ours(path)
            else "a file that reflector did not write",
            path,
        )
        for path in plan.lasting
    ]
    rows += [
        (event.position, event.type, "in a part of the event that `redact` keeps")
        for event in plan.erasure.stays
    ]
    table(("position", "what", "text"), rows, empty="No event or file contains this text.")


def _short(text: str) -> str:
    return " ".join(text.split())[:200]


def _ask(target: _Target, *, yes: bool) -> None:
    erasure = target.erasure
    if erasure.wanted is None and not erasure.texts:  # already erased
        return
    more = ""
    if erasure.wanted is None and not yes and sys.stdin.isatty():
        _name([f"  {_short(text)}" for text in erasure.texts])
        more = (
            f" and {len(erasure.texts) - _NAMED} more texts" if len(erasure.texts) > _NAMED else ""
        )
    agreed(
        f"Permanently erase this text{more} {target.where}?",
        "erased text cannot be restored, and reflector needs a terminal to ask for your "
        "confirmation",
        yes=yes,
    )


def _print_redacted(plan: RedactionPlan, redacted: Redacted) -> bool:
    """Print the result of a redaction. Return whether no file of reflector has the text now."""
    if redacted.is_changed:
        kept = counted(redacted.kept, "waiting session")
        without = f", and text in {kept} erased" if redacted.kept else ""
        removed = counted(len(redacted.removed), "file")
        say(f"Text in {counted(redacted.events, 'event')} erased, {removed} removed{without}.")
    elif redacted.earlier is not None:
        say(
            f"This text was erased earlier, at position {redacted.earlier}. reflector erased the "
            "text from its files again."
        )
    if redacted.trouble:
        note(
            f"reflector could not rewrite the copy of the ledger ({redacted.trouble}); make this "
            "copy writable, then run the same command again"
        )
    ours = [path for path in redacted.left if plan.places.is_ours(path)]
    others = [path for path in redacted.left if path not in ours]
    for path in ours:
        note(f"the text is still in {path}")
    _name([f"the text is still in {path}" for path in others], "and in {} more files")
    echoes = [
        f"position {event.position} ({event.type}) contains all or part of the text. To see the "
        f"event: `reflector show {event.position}`. To erase the text: "
        f"`reflector redact {event.position} --why REASON`"
        for event in redacted.echoes
    ]
    _name(
        echoes,
        "and {} more; to list and erase all events that contain a text: `reflector redact "
        "--where TEXT --why REASON`",
    )
    return not (ours or redacted.trouble)


def _name(texts: Sequence[str], more: str = "") -> None:
    """Note the first of these texts, and the number of `more`."""
    for text in texts[:_NAMED]:
        note(text)
    if more and len(texts) > _NAMED:
        note(more.format(len(texts) - _NAMED))
