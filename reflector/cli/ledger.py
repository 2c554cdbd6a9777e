"""The ledger: verify, rebuild, and the group `ledger` (head, policy, assert, backup, restore,
copy, grants).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

import click

from reflector import entries
from reflector.changes.retractions import adopt, adoptions
from reflector.cli.app import Place
from reflector.cli.options import (
    FILE,
    NAME,
    PATH,
    READ_FILE,
    Question,
    agreed,
    find_bullet,
    json_option,
    question,
    why_option,
    yes_option,
)
from reflector.cli.output import counted, note, print_json, progress, safe, shaped, short_time
from reflector.events.registry import fold
from reflector.exchange import backup as backups, transfer
from reflector.files import read_bounded, read_ours
from reflector.ledger import grants as granting
from reflector.ledger.errors import LedgerError, LedgerUnavailable
from reflector.ledger.rows import Anchor, Head
from reflector.ledger.url import sqlite_url, url_of
from reflector.mistakes import Finding
from reflector.playbook.bullet import COUNTINGS, Counting
from reflector.playbook.document import MAX_BYTES, load
from reflector.playbook_files import playbook_json as playbook_file
from reflector.playbook_files.admission import PlaybookRefused
from reflector.playbook_files.git_versions import is_shared
from reflector.project import Project
from reflector.proof import heads
from reflector.proof.verify import verify_opening
from reflector.sessions import locks
from reflector.sessions.seen_head import missed, newest_seen
from reflector.text.secrets import quote
from reflector.trials.trial import (
    keep_note,
    noted,
    running,
    trial_findings as trials_wrong,
    trial_place,
)

#: Bytes of a file of heads: one an hour for ten years.
_MOST_HEADS = 8 * 2**20
_MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class DriftJson:
    """What is not what the events say, and the lines of the difference."""

    of: str
    diff: list[str]


@dataclass(frozen=True, slots=True)
class RebuiltJson:
    """What drifted, and where a playbook.json is kept that could not be read."""

    drift: list[DriftJson]
    kept: Path | None


@click.command()
@click.option(
    "--check", is_flag=True, help=("Change nothing; print the difference and exit 1 on drift.")
)
@click.option(
    "--mend",
    is_flag=True,
    help=("First create the triggers and views again, and set back a moved head."),
)
@click.option("--why", metavar="REASON", help="With --mend: put events aside that cannot be read.")
@json_option
@click.pass_obj
def rebuild(place: Place, check: bool, mend: bool, why: str | None, as_json: bool) -> None:
    """Rebuild the playbook from the events.

    Appends nothing and calls no model; two rebuilds give the same playbook.json, byte for byte.
    Readers see the old playbook until the new one is complete. A rebuild that was killed continues
    where it stopped. A playbook.json that cannot be read is kept aside and written again.

    With --mend --why, an event that `verify` cannot read is put aside: it changes nothing, and no
    finding names it from then on. So is a last one that says that the playbook moved to another
    ledger: it goes on here.
    """
    project = place.project()
    if check and mend:
        raise click.UsageError("--check changes nothing and --mend does; give one of them")
    if why is not None and not (mend and (why := quote(why, _MAX_REASON))):
        raise click.UsageError("--why is the reason of --mend, in words")
    if check or mend:
        needs_ledger(project)
    if check:
        drift = _drift(project)
        if as_json:
            print_json(RebuiltJson(drift, None))
        elif drift:
            click.echo(safe("\n".join(line for one in drift for line in one.diff)))
            note(
                "There is drift. If playbook.json was edited, the next command records the edits; "
                "`reflector rebuild` writes the file. See also `reflector verify`."
            )
        raise click.exceptions.Exit(1 if drift else 0)
    if mend:
        with project.open_ledger(mends=True) as ledger:
            ledger.mend_triggers()
            for done in heads.mend_head(ledger, why):
                note(f"reflector: {done}")
    place.needs_playbook()
    kept = _rebuild(place, project)
    if as_json:
        print_json(RebuiltJson([], kept))


def _drift(project: Project) -> list[DriftJson]:
    """Return each of the tables and playbook.json that is not what the events say, with the
    difference.

    A file whose edit a question has recorded says when it was written before that, and is no drift.
    """
    with project.open_ledger() as ledger:
        playbook = fold(ledger.history())
        wanted = playbook_file.dump_for(project, playbook.bullets(), playbook.updated_at).decode()
        tables = playbook_file.render_playbook(ledger, project).decode()
        is_foreign = playbook_file.is_foreign(ledger, project)
    path = project.playbook_json
    raw = read_ours(path, MAX_BYTES) if path.exists() else b""
    at = load(raw).last_updated or playbook.updated_at
    as_written = playbook_file.dump_for(project, playbook.bullets(), at).decode()
    written = raw.decode("utf-8", "replace")
    drift = []
    for name, text, due in (
        ("the ledger's tables", tables, wanted),
        (str(path), written, as_written),
    ):
        if name == str(path) and is_foreign:
            continue
        if text != due and (text or playbook.entries):
            lines = unified_diff(
                text.splitlines(), due.splitlines(), name, "the events", lineterm=""
            )
            drift.append(DriftJson(name, [*lines]))
    return drift


def _rebuild(place: Place, project: Project) -> Path | None:
    """Rebuild the tables and the file; returns where a playbook.json that could not be read is
    kept.

    A writer on a server, whose tables are the owner's, still gets the file. Raises a LedgerError.
    """
    refused: LedgerUnavailable | None = None
    with (
        locks.held(project.make_state_dir(), "drain.lock", wait=True),
        project.open_ledger() as ledger,
    ):
        # First, since all that follows reads the tables.
        try:
            with progress(ledger.head().position, "rebuilding") as bar:
                ledger.rebuild(lambda reached: bar.update(reached - bar.pos))
        except LedgerUnavailable as error:
            if not ledger.may_append():
                raise
            refused = error
        kept = playbook_file.set_unreadable_aside(ledger, project)
    if kept is not None:
        note(
            f"{project.playbook_json} could not be read and is written again; the old file is "
            f"kept as {kept}"
        )
    with place.pipeline(project):
        pass  # it writes the file
    if refused is not None:
        raise refused
    return kept


@dataclass(frozen=True, slots=True)
class VerifiedJson:
    """What `verify` found; `head` is empty where there is none.

    anchors   heads that were published and proved
    """

    head: str
    findings: Sequence[Finding]
    anchors: list[Anchor]


@click.command()
@click.option(
    "--anchor",
    "anchors",
    multiple=True,
    metavar="HEAD|FILE|GIT-REF",
    help=(
        "A head published earlier, a file of heads, or REV:PATH in git; proves that nothing was "
        "cut off."
    ),
)
@json_option
@click.pass_obj
def verify(place: Place, anchors: tuple[str, ...], as_json: bool) -> None:
    """Prove that the ledger is what was appended; silent when it is.

    Checks the chain, the order, the triggers and views, SQLite's own integrity, that every counter
    is what the events say, that a server still has the newest event that this machine saw, and that
    trials were drawn and closed as they say. Exits 1 with one line per finding.
    """
    project = place.project()
    published = [head for anchor in anchors for head in _published_in(anchor, project)]
    needs_ledger(project)
    published += [anchor for anchor, _ in noted(project.root)]
    verified = verify_opening(
        project.open_ledger, *published, seen=lambda ledger: newest_seen(project, ledger)
    )
    findings = [*verified.findings]
    if not findings:
        with project.open_ledger() as opened:
            findings += [*trials_wrong(opened), *filter(None, [missed(project, opened)])]
    head = str(verified.head) if verified.head is not None else ""
    if as_json:
        print_json(VerifiedJson(head, findings, published))
    else:
        for finding in findings:
            where = f"position {finding.position}" if finding.position is not None else "ledger"
            click.echo(safe(f"{where}: {finding.message} [{finding.code}]; {finding.remedy}"))
    if findings:
        if not project.config.ledger_url and (
            back := entries.way_back(project.root, project.ledger_file)
        ):
            note(f"reflector: where nothing else mends it, {back}")
        raise click.exceptions.Exit(1)


def _published_in(given: str, project: Project) -> tuple[Anchor, ...]:
    """Return the heads that an anchor names: a head, a file, or a file that git has."""
    try:
        if heads.is_head(given):
            return heads.anchors_in(given)
        if given and Path(given).exists() and not Path(given).is_dir():
            content = read_bounded(Path(given), _MOST_HEADS)
        else:
            content = heads.published(project.root, given, _MOST_HEADS)
        return heads.anchors_in(content.decode("utf-8", "replace"))
    except heads.NoAnchor as error:
        raise click.UsageError(f"--anchor {given[:100]!r}: {error}") from error


@click.group()
def ledger() -> None:
    """Print, copy and keep safe the ledger, and set what counts."""


@dataclass(frozen=True, slots=True)
class HeadJson(Head):
    """The head as a line, ready to publish, and its parts."""

    head: str


@ledger.command()
@question
def head(asked: Question) -> None:
    """Print the head of the ledger, ready to publish.

    POSITION:CHAIN covers every event up to that position: `reflector verify --anchor` proves later
    that all of them are still there.
    """
    found = asked.ledger.head() if asked.upto is None else heads.head_at(asked.ledger, asked.upto)
    if found.position == 0:  # an empty ledger may be gone tomorrow
        raise click.UsageError(
            "there was no event yet, so there is nothing to prove; begin with `reflector ingest`"
        )
    if not asked.answers(shaped(HeadJson, found, head=str(found))):
        click.echo(found)


def needs_ledger(project: Project) -> None:
    """Proof about nothing would make a ledger to have something to prove."""
    if not project.has_ledger():
        raise click.UsageError(
            f"there is no ledger in {project.root}; it begins with the first `reflector ingest` "
            "or hook"
        )


@dataclass(frozen=True, slots=True)
class AdoptionJson:
    """When a counting policy was put in force, and why."""

    position: int
    recorded_at: str
    actor: str
    counting: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class PolicyJson:
    """The counting policy in force, those that there are, and what was adopted, oldest first."""

    counting: str
    policies: tuple[str, ...]
    adoptions: list[AdoptionJson]


@ledger.command()
@click.argument("name", metavar="[POLICY]", type=click.Choice(COUNTINGS), required=False)
@why_option
@json_option
@click.pass_obj
def policy(place: Place, name: Counting | None, why: str | None, as_json: bool) -> None:
    """Show the counting policy, or put another one in force.

    POLICY is as_applied: each tag counts; once_per_reflection: a bullet's equal tags of one
    reflection count once; once_per_session: of one session. `reflector list --counting POLICY`
    shows what it would change.
    """
    if name is not None:
        with place.changing(begins=True) as opened:
            adopted = adopt(opened, name, reason=why)
        for change in adopted:
            click.echo(f"{name} since position {change.position}")
        if not adopted:
            note(f"{name} is in force already.")
        return
    with place.reading() as opened:
        counting = opened.counting()
        made = [
            shaped(
                AdoptionJson,
                event,
                **{key: (event.data or {}).get(key) for key in ("counting", "reason")},
            )
            for event in adoptions(opened)
        ]
    if as_json:
        print_json(PolicyJson(counting, COUNTINGS, made))
        return
    click.echo(counting)
    for one in made:
        when = f"position {one.position}, {short_time(one.recorded_at)}, {one.actor}"
        click.echo(safe(f"  {one.counting} since {when}{f': {one.reason}' if one.reason else ''}"))


@ledger.command("assert")
@click.argument("name", type=NAME)
@click.argument("counters", metavar="HELPFUL/HARMFUL")
@click.pass_obj
def assert_(place: Place, name: str, counters: str) -> None:
    """Pin a bullet's current counters, for `verify` to prove.

    HELPFUL/HARMFUL is the present pair, such as 7/2. If the counters differ, the command fails and
    records nothing.
    """
    helpful, slash, harmful = counters.partition("/")
    if not slash or not all(
        part.isascii() and part.isdecimal() and len(part) < 16 for part in (helpful, harmful)
    ):
        raise click.UsageError(f"{safe(counters)!r} is not HELPFUL/HARMFUL, such as 7/2")
    with place.changing() as opened:
        name = find_bullet(opened, name).name
        appended = opened.assert_counters(name, int(helpful), int(harmful), actor="human")
    click.echo(f"{name} at {int(helpful)}/{int(harmful)}, pinned at position {appended.position}")


@ledger.command()
@click.argument("file", type=FILE)
@click.pass_obj
def backup(place: Place, file: Path) -> None:
    """Copy the ledger into a new file, and verify the copy.

    The copy is one state of the ledger; events can be appended meanwhile. Only you can read FILE,
    and an existing file is never overwritten. The printed head proves the copy later: `reflector
    verify --anchor`.
    """
    needs_ledger(place.project())
    with place.reading() as opened:
        click.echo(backups.backup_ledger(opened, file))


@ledger.command()
@click.argument("file", type=READ_FILE)
@click.option("--force", is_flag=True, help="Even if the ledger has events that the backup lacks.")
@click.pass_obj
def restore(place: Place, file: Path, force: bool) -> None:
    """Put a backup in the place of the ledger.

    FILE is verified first and never changed, and the replaced ledger is kept beside it.
    playbook.json is written again; the replaced file is kept too.
    """
    project = place.project()
    present = backups.ledger_file(
        url_of(project.config.ledger_url or sqlite_url(project.ledger_file))
    )
    state = project.make_state_dir()
    if present.exists() and present.stat().st_size:
        try:
            with place.pipeline(project):
                # what a person wrote into playbook.json becomes events, so that it is not lost
                # unseen
                pass
        except (LedgerError, PlaybookRefused) as error:
            note(f"reflector: {error}")
    with locks.held(state, "model.lock", wait=True), locks.held(state, "drain.lock", wait=True):
        aside = playbook_file.set_aside(project)
        written = (playbook_file.checkpoint_of(project), aside[1]) if aside is not None else None
        end, kept = backups.restore_ledger(
            file, present, project.config.playbook, force=force, written=written
        )
        if not project.config.ledger_url:
            entries.claim(project.place)
    _take_trial(place, project)
    click.echo(end)
    if kept is not None:
        note(f"The replaced ledger is kept as {kept}")
    # A session counts for the advice that is there when it is recorded; a kept file without git has
    # its counts with it.
    again = "To record the sessions since that backup again, run `reflector import-history`"
    if aside is not None:
        note(f"playbook.json was written again; the old file is kept as {aside[0]}")
        shared = (
            ", after `git checkout .claude/playbook.json`, which brings back the advice that "
            "git has"
        )
        own = (
            f"; after that, `reflector import {shlex.quote(str(aside[0]))}` adds the advice "
            "that only that file has"
        )
        again += shared if is_shared(project.root) else own
    note(f"{again}.")


@ledger.command(short_help="Accept a ledger as yours, or put one back.")
@yes_option
@click.pass_obj
def take(place: Place, yes: bool) -> None:
    """Accept a ledger that came with the project as yours, or put one that is gone back from its
    copy.

    Looks at the file without trusting it, shows whose history it has, and asks. Then it computes
    the hashes of all events again, and fills the tables again from the events. A ledger that you
    made, moved or copied with its project needs no `take`.
    """
    project = place.project()
    of, file = project.place, project.ledger_file
    entry, end = entries.entry_in_force(of), entries.copy_end(project.root)
    if file.exists():
        seen = entries.inspect_file(file, of.playbook)
        said = (
            f"{file}: origin {seen.origin}, {counted(seen.position, 'event')}, "
            f"{seen.first[:10]} to {seen.last[:10]}"
        )
        ask = "Is this ledger yours?"
    elif entry is not None and end.position:
        said = (
            f"{file} is gone; its copy has {counted(end.position, 'event')} of the origin "
            f"{entry.origin}"
        )
        ask = "Put it back?"
    else:
        raise click.ClickException(
            f"{project.root} has neither a ledger nor a copy of one; `reflector add` begins it"
        )
    note(said)
    agreed(ask, f"{ask} There is no terminal to ask", yes=yes)
    with locks.held(project.make_state_dir(), "drain.lock", wait=True):
        if file.exists():
            entries.claim(of)
        elif entry is not None and not entries.restore_from_copy(of, entry):
            raise click.ClickException(
                f"another process made {file} meanwhile; run the same command again"
            )
    _take_trial(place, project)


def _take_trial(place: Place, project: Project) -> None:
    """Write the project's files, and go on with the trial of a ledger that is this person's from
    now on.
    """
    with place.changing(project) as opened:
        keep_note(project, opened, opens=True)
        trial = running(opened, trial_place(project))
    if trial is not None:
        what = safe(", ".join(trial.data["bullets"])) or "the playbook"
        stop = place.command("trial stop")
        note(
            f"The ledger's trial goes on here: {trial.share:.0%} of sessions go without {what}; "
            f"`{stop}` ends it."
        )


@ledger.command(short_help="Remove the copy of a project's ledger.")
@click.argument("root", type=PATH)
def forget(root: Path) -> None:
    """Remove what is known at home of the ledger of a project, its copy included.

    A ledger that still lies in ROOT stays, and no longer counts as yours; see `reflector ledger
    take`.
    """
    if entries.entry_of(root.absolute()) is None:
        known = ", ".join(one.root for one in entries.entries()) or "none"
        raise click.ClickException(
            f"no ledger of {root.absolute()} is known; those that are: {known}"
        )
    entries.forget(root.absolute())


@ledger.command(short_help="Copy the ledger into an empty one, on either engine.")
@click.argument("url", metavar="URL")
@click.pass_obj
def copy(place: Place, url: str) -> None:
    """Copy the ledger into an empty one, on either engine; the chain stays what it is.

    URL is sqlite:////path/to/ledger.db or postgresql://server/database. Every hash is computed
    again on the way, and both ledgers have the printed head. A target that has events is refused.
    The project keeps its ledger until `ledger_url` names the copy.
    """
    needs_ledger(place.project())
    with place.reading() as opened:
        end = transfer.copy_ledger(opened, url)
    click.echo(end)
    note(f"{counted(end.position, 'event')} copied. To use that ledger, name it with `ledger_url`.")


@ledger.command(short_help="Print the GRANTs for a role of PostgreSQL.")
@click.option(
    "--role",
    type=click.Choice(["reader", "writer", "owner"]),
    required=True,
    help="What it may do.",
)
@click.option(
    "--to",
    metavar="NAME",
    help=("The role on the server. Default: reflector_reader, reflector_writer …"),
)
@click.pass_obj
def grants(place: Place, role: str, to: str | None) -> None:
    """Print the GRANTs that make a role of PostgreSQL the ledger's reader, writer or owner.

    Changes nothing: look at the statements, then run them as the owner with psql. A reader asks and
    writes nothing. A writer appends: it can neither delete nor change an event, nor take a trigger
    down, nor give a bullet a text that no event says. Migrations, rebuilds and erasures are the
    owner's.
    """
    project = place.project()
    if not project.config.ledger_url:
        raise click.UsageError(f"{project.ledger_file} {granting.NO_ROLES}")
    with project.open_ledger() as opened:
        click.echo(
            "\n".join(granting.grant_statements(opened.engine, role, to or f"reflector_{role}"))
        )
