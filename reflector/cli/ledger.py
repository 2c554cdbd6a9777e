"""The ledger: verify, rebuild, and the group `ledger` (head, policy, assert, backup, restore,
copy, grants).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
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
    dry_run_option,
    find_bullet,
    flag,
    json_option,
    question,
    why_option,
    yes_option,
)
from reflector.cli.output import (
    note,
    progress,
    safe,
    say,
    shaped,
    short_time,
    table,
    warn,
)
from reflector.exchange import backup as backups, transfer
from reflector.files import read_bounded
from reflector.ledger import grants as granting
from reflector.ledger.migration import revisions_of, upgrade_sql
from reflector.ledger.rows import Anchor, Head
from reflector.mistakes import Finding
from reflector.playbook.bullet import COUNTINGS, Counting
from reflector.playbook_files.drift import DriftJson, drift_of
from reflector.playbook_files.git_versions import is_shared
from reflector.project import Project
from reflector.proof import heads
from reflector.proof.verify import verify_opening
from reflector.sessions.replacing import (
    go_on,
    offer,
    rebuild_project,
    restore_project,
    take_project,
)
from reflector.sessions.seen_head import missed, newest_seen
from reflector.text.phrases import counted
from reflector.text.secrets import quote
from reflector.trials.trial import (
    noted,
    trial_findings as trials_wrong,
)

#: The most bytes of a file of heads, enough for one head an hour in ten years.
_MOST_HEADS = 8 * 2**20
_MAX_REASON = 500


@dataclass
class RebuiltJson:
    """The differences from the events, and the copy of an unreadable playbook.json."""

    drift: list[DriftJson]
    kept: Path | None


@click.command()
@flag("--check", help="Only report differences (exit code 1).")
@flag(
    "--fix",
    help="Also repair triggers, views and the head.",
)
@click.option("--why", metavar="REASON", help="Reason for excluding unreadable events.")
@json_option
@click.pass_obj
def rebuild(place: Place, check: bool, fix: bool, why: str | None) -> None:
    """Rebuild the playbook from the events.

    `rebuild` calls no model, and appends no event unless you use --why. During a rebuild, sessions
    get the old playbook until the new playbook is complete. To continue an interrupted rebuild, run
    `reflector rebuild` again. If playbook.json cannot be read, `rebuild` renames the damaged file
    and writes a new playbook.json.

    With --fix --why REASON, `rebuild` excludes unreadable events. Excluded events stay in the
    ledger but change nothing, and `verify` no longer reports these events. If the last event moved
    the playbook to another ledger, `rebuild --fix --why REASON` also excludes this last event.
    """
    if check and fix:
        raise click.UsageError(
            "--check and --fix cannot be used together; use only one of these options"
        )
    if why is not None and not (fix and (why := quote(why, _MAX_REASON))):
        raise click.UsageError("--why needs --fix and a reason that is not empty")
    project = place.project()
    if check or fix:
        needs_ledger(project)
    if check:
        drift = drift_of(project)
        _print_drift(place, drift)
        raise click.exceptions.Exit(1 if drift else 0)
    place.needs_playbook()
    if fix:
        with project.open_ledger(accepts_newer=True) as ledger:
            ledger.repair_triggers()
            for repair in heads.mend_head(ledger, why):
                warn(repair)
    kept = rebuild_project(project, partial(progress, label="rebuilding"), place.note)
    place.answers(RebuiltJson([], kept))


_CAUSES = {
    "tables": "The ledger's tables differ from its events; `{}` computes the tables again.",
    "left": (
        "A command was stopped before it wrote playbook.json, or the file was removed; `{}` "
        "writes the file again."
    ),
    "git": (
        "playbook.json is the same as in git, but the ledger has other rules or names. The next "
        "command removes rules of the ledger that were never in git. The next change of a rule "
        "writes the ledger's remaining rules into the file."
    ),
    "edited": (
        "If you edited playbook.json, the next command records your edits. If you did not edit "
        "playbook.json, `{}` writes the file again."
    ),
}


def _rule_lines(different: DriftJson) -> Iterator[str]:
    """Yield a line for each different value: the rule, the present value, the value from the
    events.
    """
    for rule in different.rules:
        if rule.value == "rule":
            places = [different.of, "the ledger's events"]
            present, missing = places if rule.by_events is None else reversed(places)
            text = rule.there or rule.by_events
            yield f"{rule.name}, {text!r}, is in {present}, but not in {missing}"
            continue
        values = [
            "none" if value is None else repr(value) for value in (rule.there, rule.by_events)
        ]
        value = f"{different.of}, {rule.name}: {rule.value} is {values[0]}"
        yield f"{value}, but {values[1]} in the ledger's events"


def _print_drift(place: Place, drift: Sequence[DriftJson]) -> None:
    if place.answers(RebuiltJson([*drift], None)):
        return
    for different in drift:
        say("\n".join([*_rule_lines(different), *different.diff]))
    for different in drift:
        note(_CAUSES[different.cause].format(place.command("rebuild")))


@dataclass
class VerifiedJson:
    """The findings of `verify`.

    head      empty if there is none
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
    help=("Head, as POSITION:CHAIN, FILE or REV:PATH."),
)
@json_option
@click.pass_obj
def verify(place: Place, anchors: tuple[str, ...]) -> None:
    """Verify the ledger.

    If `verify` prints nothing, the ledger is correct.

    `verify` checks the chain of hashes, the order of the events, and the triggers and views of the
    database. `verify` also runs SQLite's own check, and computes every counter again from the
    events. If the ledger is on a server, `verify` checks that the server still has the newest event
    that this machine saw. For each trial, `verify` checks that the key of the random draw is the
    hash of the event before the trial. With this key and the sessions, `verify` also computes the
    result of each trial again, and compares it with the recorded result. If `verify` finds faults,
    `verify` prints a line for each fault and exits with 1. With --anchor HEAD, `verify` also proves
    that no event up to HEAD is missing.
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
    if not place.answers(VerifiedJson(head, findings, published)):
        for finding in findings:
            where = f"position {finding.position}" if finding.position is not None else "ledger"
            say(f"{where}: {finding.message} [{finding.code}]; {finding.remedy}")
    if findings:
        file = project.ledger_file
        is_copied = verified.findings and not project.config.ledger_url and file.exists()
        if is_copied and (back := entries.way_back(project.root, file)):
            warn(f"if these steps do not repair the ledger, {back}")
        raise click.exceptions.Exit(1)


def _published_in(given: str, project: Project) -> tuple[Anchor, ...]:
    """Return the heads in an anchor, which is a head, a file, or a file in git."""
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
    """Copy and back up the ledger, and set policies."""


@dataclass(frozen=True, slots=True)
class HeadJson(Head):
    """The head as a line to publish, and its parts."""

    head: str


@ledger.command()
@question
def head(asked: Question) -> None:
    """Print the ledger's head, for a later check.

    The head is one line, POSITION:CHAIN. CHAIN is a hash of every event up to POSITION. If you save
    the head, `reflector verify --anchor HEAD` can later prove that no event up to POSITION is
    missing.
    """
    found = asked.ledger.head() if asked.upto is None else heads.head_at(asked.ledger, asked.upto)
    if found.position == 0:  # an empty ledger may be deleted later
        raise click.UsageError(
            "the ledger is empty, so it does not have a head yet; add a rule with `reflector add`"
        )
    if not asked.answers(shaped(HeadJson, found, head=str(found))):
        click.echo(found)


def needs_ledger(project: Project) -> None:
    """Refuse a project without a ledger. A proof must not create the ledger that it proves."""
    if not project.has_ledger():
        raise click.UsageError(
            f"{project.root} does not have a ledger; start one with `reflector add`"
        )


@dataclass
class AdoptionJson:
    """The time at which a counting policy was adopted, and the reason."""

    position: int
    recorded_at: str
    actor: str
    counting: str | None
    reason: str | None


@dataclass
class PolicyJson:
    """The counting policy in force, all policies, and the adoptions, oldest first."""

    counting: str
    policies: tuple[str, ...]
    adoptions: list[AdoptionJson]


@ledger.command()
@click.argument("name", metavar="[POLICY]", type=click.Choice(COUNTINGS), required=False)
@why_option
@json_option
@click.pass_obj
def policy(place: Place, name: Counting | None, why: str | None) -> None:
    """Show or change the counting policy.

    The counting policy decides whether equal verdicts on the same rule count once or several times.
    With the policy as_applied, each verdict counts. With the policy once_per_reflection, equal
    verdicts of one reflection on a rule count once. With the policy once_per_session, equal
    verdicts of one session on a rule count once. To see the counts under a policy, run
    `reflector list --counting POLICY`.
    """
    if name is not None:
        with place.changing(begins=True) as opened:
            adopted = adopt(opened, name, reason=why)
        for change in adopted:
            say(f"Since position {change.position}, the counting policy is {name}.")
        if not adopted:
            note(f"The counting policy is already {name}.")
        return
    with place.reading() as opened:
        counting = opened.counting()
        made = [
            shaped(
                AdoptionJson,
                event,
                counting=event.facts.get("counting"),
                reason=event.facts.get("reason"),
            )
            for event in adoptions(opened)
        ]
    if place.answers(PolicyJson(counting, COUNTINGS, made)):
        return
    click.echo(counting)
    for one in made:
        when = f"position {one.position}, {short_time(one.recorded_at)}, {one.actor}"
        say(f"  {one.counting} since {when}{f': {one.reason}' if one.reason else ''}")


@ledger.command("assert")
@click.argument("name", type=NAME)
@click.argument("counters", metavar="HELPFUL/HARMFUL")
@click.pass_obj
def assert_(place: Place, name: str, counters: str) -> None:
    """Record a rule's counters, to verify them later.

    HELPFUL/HARMFUL are the two counters that you expect the rule to have, such as 7/2. If the
    rule's counters differ from HELPFUL/HARMFUL, `ledger assert` fails and records nothing. When you
    run `verify` later, `verify` compares the recorded counters with the events.
    """
    helpful, slash, harmful = counters.partition("/")
    if not slash or not all(
        part.isascii() and part.isdecimal() and len(part) < 16 for part in (helpful, harmful)
    ):
        raise click.UsageError(
            f"write the counters as HELPFUL/HARMFUL, such as 7/2, not as {safe(counters)!r}"
        )
    with place.changing() as opened:
        name = find_bullet(opened, name).name
        appended = opened.assert_counters(name, int(helpful), int(harmful), actor="human")
    recorded = f"the counters of {name} are {int(helpful)}/{int(harmful)}"
    say(f"Recorded at position {appended.position}: {recorded}")


@ledger.command()
@click.argument("file", type=FILE)
@click.pass_obj
def backup(place: Place, file: Path) -> None:
    """Copy the ledger into a new file.

    Sessions can continue during a backup. Only your user account can read the backup file. `backup`
    never overwrites an existing file. `backup` prints the head of the backup, as POSITION:CHAIN.
    After you restore a backup, `reflector verify --anchor HEAD` proves that no event is missing.
    """
    needs_ledger(place.project())
    with place.reading() as opened:
        click.echo(backups.backup_ledger(opened, file))


@ledger.command()
@click.argument("file", type=READ_FILE)
@flag("--force", help="Restore FILE even if it lacks events of the ledger.")
@click.pass_obj
def restore(place: Place, file: Path, force: bool) -> None:
    """Replace the ledger with a backup.

    `restore` verifies FILE first, and never changes FILE. `restore` keeps the old ledger in the
    same folder as the restored ledger. `restore` also writes a new playbook.json, and keeps the old
    playbook.json under another name.

    `restore --force` also restores text that you erased after the backup.
    """
    project = place.project()
    restored = restore_project(project, file, place.note, force=force)
    _go_on(place)
    click.echo(restored.end)
    if restored.ledger is not None:
        note(f"`restore` kept the old ledger as {restored.ledger}")
    # A session counts for the advice at the time of its recording. A kept file without git already
    # includes the counts.
    again = "To record again the sessions that ended after this backup, run `reflector history`"
    if restored.playbook is not None:
        note(f"`restore` wrote a new playbook.json, and kept the old file as {restored.playbook}")
        shared = (
            ". Before `reflector history`, run `git checkout .claude/playbook.json` to restore "
            "the rules from git"
        )
        own = (
            f". After that, `reflector adopt {shlex.quote(str(restored.playbook))}` adds the "
            "rules that only the old file contains"
        )
        again += shared if is_shared(project.root) else own
    note(f"{again}.")


@ledger.command(short_help="Accept an unknown ledger, or restore a lost ledger.")
@yes_option
@click.pass_obj
def take(place: Place, yes: bool) -> None:
    """Accept an unknown ledger, or restore a lost ledger.

    Use `ledger take` if a ledger came with the project, or if your ledger is lost.

    `take` shows the origin of the ledger, and waits for your confirmation. After you confirm,
    `take` computes all hashes and tables of the ledger again. You do not need `take` for a ledger
    that you created, or that you moved or copied with its project.
    """
    project = place.project()
    ledger_offer = offer(project)
    note(ledger_offer.words)
    question = ledger_offer.question
    agreed(question, f"{question} To confirm this without a terminal", yes=yes)
    take_project(project)
    _go_on(place)


def _go_on(place: Place) -> None:
    """Write the files of a ledger that is now yours, and name the trial that continues."""
    trial = go_on(place.project(), place.note)
    if trial is not None:
        withheld = safe(", ".join(trial.data["bullets"])) or "the playbook"
        stop = place.command("trial stop")
        note(
            f"A trial is running in this project: {trial.withheld_share:.0%} of sessions start "
            f"without {withheld}. To end the trial: {stop}"
        )


@ledger.command(short_help="Remove the copy of a project's ledger.")
@click.argument("root", type=PATH)
def forget(root: Path) -> None:
    """Remove the copy of a project's ledger.

    `forget` removes the copy of the ledger of the project ROOT from your home folder.

    `forget` does not remove a ledger in the folder ROOT, but reflector no longer treats that ledger
    as yours. To accept a forgotten ledger again, run `reflector ledger take`.
    """
    if entries.entry_of(root.absolute()) is None:
        known = ", ".join(one.root for one in entries.entries()) or "none"
        raise click.ClickException(
            f"the list of your ledgers does not contain {root.absolute()}; it contains: {known}"
        )
    entries.forget(root.absolute())


@ledger.command(short_help="Copy the ledger to another database.")
@click.argument("url", metavar="URL")
@click.pass_obj
def copy(place: Place, url: str) -> None:
    """Copy the ledger to another database.

    URL is sqlite:////path/to/ledger.db or postgresql://server/database. The database at URL must
    not contain events. `ledger copy` checks the hash of every event, and prints the head, which is
    the same for the old and the new ledger. The project uses its old ledger until you set
    `ledger_url` to URL.
    """
    needs_ledger(place.project())
    with place.reading() as opened:
        end = transfer.copy_ledger(opened, url)
    click.echo(end)
    note(
        f"`copy` copied {counted(end.position, 'event')}. To use the new ledger, set `ledger_url` "
        "to the URL of the new ledger."
    )


@ledger.command()
@click.pass_obj
def revisions(place: Place) -> None:
    """List schema revisions, and mark the current one.

    `ledger revisions` does not change the ledger. After an update of reflector, every other command
    upgrades the ledger to the newest schema revision.
    """
    project = place.project()
    needs_ledger(project)
    rows = [
        (revision.number, "in force" if revision.is_in_force else "", revision.purpose)
        for revision in revisions_of(project.database_url)
    ]
    table(("revision", "state", "purpose"), rows, whole=True)


@ledger.command()
@dry_run_option
@click.pass_obj
def upgrade(place: Place, dry_run: bool) -> None:
    """Bring the ledger's schema to the newest revision.

    With --dry-run, `ledger upgrade` only prints the SQL statements of the upgrade. Run the printed
    SQL statements with the database's own client, as the owner of the tables, while no one uses the
    ledger.
    """
    project = place.project()
    needs_ledger(project)
    statements = upgrade_sql(project.database_url)
    if not statements:
        note("The schema already has the newest revision.")
    elif dry_run:
        click.echo(statements)
    else:
        with project.open_ledger():
            note("The schema now has the newest revision.")


@ledger.command(short_help="Print GRANTs for a PostgreSQL role.")
@click.argument("rights", type=click.Choice(["reader", "writer", "owner"]), metavar="RIGHTS")
@click.argument("role", required=False)
@click.pass_obj
def grants(place: Place, rights: str, role: str | None) -> None:
    """Print GRANTs for a PostgreSQL role.

    RIGHTS is reader, writer or owner. ROLE is the role's name (default: reflector_reader,
    reflector_writer or reflector_owner).

    `ledger grants` only prints SQL statements, and changes nothing. Read the SQL statements, then
    run the statements with psql, as the owner of the tables. A role with the rights reader can only
    read the ledger. A role with the rights writer can append events. It cannot delete or change an
    event, remove a trigger, or change a rule without an event. Only a role with the rights owner
    can upgrade or rebuild the ledger, or erase text.
    """
    project = place.project()
    if not project.config.ledger_url:
        raise click.UsageError(f"{project.ledger_file} {granting.NO_ROLES}")
    with project.open_ledger() as opened:
        say(
            "\n".join(
                granting.grant_statements(opened.engine, rights, role or f"reflector_{rights}")
            )
        )
