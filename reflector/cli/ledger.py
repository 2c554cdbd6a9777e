"""Commands on the ledger: rebuild, verify, head."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reflector.cli import moments
from reflector.cli.app import Place
from reflector.cli.output import json_option, note, print_json, progress, safe

if TYPE_CHECKING:
    from reflector.ledger.as_of import Past
    from reflector.ledger.rows import Anchor
    from reflector.ledger.store import Head, Ledger
    from reflector.mistakes import Finding
    from reflector.project import Project

#: Bytes of a file of heads: one an hour for ten years.
_MOST_HEADS = 8 * 2**20


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; print the difference and exit 1 on drift.")
@click.option("--new-ledger", is_flag=True, help="Begin a new ledger where the old one is lost.")
@json_option
@click.pass_obj
def rebuild(place: Place, check: bool, new_ledger: bool, as_json: bool) -> None:
    """Rebuild the playbook from the events.

    Appends nothing and calls no model; two rebuilds give the same playbook.json, byte for byte. Readers see the old
    playbook until the new one is complete. A rebuild that was killed continues where it stopped. A playbook.json that
    cannot be read is kept aside and written again.

    With --new-ledger, the bullets of playbook.json begin a new ledger with their counters at 0, and sessions that you
    import again count once. An existing ledger is never replaced.
    """
    project = place.project()
    if check:
        drift = _drift(project)
        if as_json:
            print_json({"drift": drift, "kept": None})
        elif drift:
            for one in drift:
                click.echo(safe("\n".join(one["diff"])))
            note(
                "There is drift. The next command records what was edited in playbook.json; the next one that changes"
                " something, or `reflector rebuild`, writes the file. See also `reflector verify`."
            )
        if drift:
            raise click.exceptions.Exit(1)
        return
    kept = (_begin_anew if new_ledger else _rebuild)(place, project)
    if as_json:
        print_json({"drift": [], "kept": None if kept is None else str(kept)})


def _drift(project: Project) -> list[dict[str, Any]]:
    """Return each of the tables and playbook.json that is not what the events say, with the difference."""
    from difflib import unified_diff

    from reflector.curation.playbook_file import dumped, render
    from reflector.events.fold import fold
    from reflector.files import read_ours
    from reflector.playbook.document import MAX_BYTES

    needs_ledger(project)
    with project.open_ledger() as ledger:
        playbook = fold(ledger.history())
        wanted = dumped(project, playbook.bullets(), playbook.updated_at).decode()
        tables = render(ledger, project).decode()
    path = project.playbook_json
    written = read_ours(path, MAX_BYTES).decode("utf-8", "replace") if path.exists() else ""
    drift = []
    for name, text in (("the ledger's tables", tables), (str(path), written)):
        if text == wanted or (not text and not playbook.entries):
            continue
        lines = unified_diff(text.splitlines(), wanted.splitlines(), name, "the events", lineterm="")
        drift.append({"of": name, "diff": [*lines]})
    return drift


def _rebuild(place: Place, project: Project) -> Path | None:
    """Rebuild the tables and the file; returns where a playbook.json that could not be read is kept.

    A writer on a server, whose tables are the owner's, still gets the file. Raises a LedgerError.
    """
    from reflector.curation.playbook_file import mend
    from reflector.ledger.errors import LedgerUnavailable
    from reflector.sessions import locks

    refused: LedgerUnavailable | None = None
    with locks.held(project.make_state_dir(), "drain.lock", wait=True), project.open_ledger() as ledger:
        # First, since all that follows reads the tables.
        try:
            with progress(ledger.head().position, "rebuilding") as bar:
                ledger.rebuild(lambda reached: bar.update(reached - bar.pos))
        except LedgerUnavailable as error:
            if not ledger.may_append():
                raise
            refused = error
        kept = mend(ledger, project)
    if kept is not None:
        note(f"{project.playbook_json} could not be read and is written again; the old file is kept as {kept}")
    with place.pipeline(project):
        pass  # it writes the file
    if refused is not None:
        raise refused
    return kept


def _begin_anew(place: Place, project: Project) -> Path | None:
    """Begin a new ledger; returns where the playbook.json is kept whose counters begin at 0."""
    from reflector.curation.playbook_file import forget_counts
    from reflector.ledger.sqlite_file import forget_ledger, had_ledger
    from reflector.sessions import locks

    file = project.ledger_file
    kept = None
    with locks.held(project.make_state_dir(), "drain.lock", wait=True):
        if project.config.ledger_url or (file.exists() and file.stat().st_size):
            raise click.UsageError(
                f"{project.config.ledger_url or file} is there; --new-ledger is for one that is gone"
            )
        if had_ledger(file):
            kept = forget_counts(project)
            forget_ledger(file)
            if kept is not None:
                note(f"The counters of playbook.json begin at 0; the old file is kept as {kept}")
                note("Sessions are counted again by `reflector import-history`.")
    place.write(project)
    return kept


@click.command()
@click.option(
    "--anchor",
    "anchors",
    multiple=True,
    metavar="HEAD|FILE|GIT-REF",
    help="A head published earlier, a file of heads, or REV:PATH in git; proves that nothing was cut off.",
)
@click.option(
    "--since",
    metavar="HEAD|FILE|GIT-REF",
    help="Verify only the events behind a head that you know to be good; says what was not looked at.",
)
@click.option("--head", "print_head", is_flag=True, help="Print the head, to publish as an anchor.")
@click.option("--mend-triggers", is_flag=True, help="Create the append-only triggers and the views again.")
@click.option("--mend-head", is_flag=True, help="Set a head that was moved to the last event, and rebuild the tables.")
@json_option
@click.pass_obj
def verify(
    place: Place,
    anchors: tuple[str, ...],
    since: str | None,
    print_head: bool,
    mend_triggers: bool,
    mend_head: bool,
    as_json: bool,
) -> None:
    """Prove that the ledger is what was appended; silent when it is.

    Checks the chain, the order, the triggers and views, SQLite's own integrity, that every counter is what the events
    say, and that a server still has the newest event that this machine saw. Exits 1 with one line per finding.

    With --since, reads only what is new: the chain from a head that you know to be good to the head of today, and the
    schema. Of a file of heads the last one is taken. The events before it, the tables, merges, and SQLite's own check
    of its file are left out, and a note says so.
    """
    from reflector.proof.heads import head_line
    from reflector.proof.verify import LEFT_OUT, verify_opening
    from reflector.sessions.seen_head import seen

    project = place.project()
    published = [head for anchor in anchors for head in _published_in(anchor, project, "--anchor")]
    known = () if since is None else _published_in(since, project, "--since")
    start = max(known, key=lambda anchor: anchor.position, default=None)
    needs_ledger(project)

    def opened() -> Ledger:
        ledger = project.open_ledger()
        if mend_triggers:
            ledger.mend_triggers()
        if mend_head:
            from reflector.proof.heads import mend_head as set_back

            if done := set_back(ledger):
                note(f"reflector: {done}")
        return ledger

    verified = verify_opening(opened, *published, seen=lambda ledger: seen(project, ledger), since=start)
    findings = verified.findings
    head = head_line(verified.head.position, verified.head.chain) if verified.head is not None else ""
    if as_json:
        proved = [asdict(anchor) for anchor in published]
        from_head = asdict(start) if start is not None else None
        fields = {"head": head, "findings": [*map(finding_fields, findings)], "anchors": proved, "since": from_head}
        print_json({**fields, "left_out": [*LEFT_OUT] if start is not None else []})
    else:
        for finding in findings:
            click.echo(safe(finding_words(finding)))
        if print_head and head:
            click.echo(head)
        if start is not None:
            note(f"Only events behind {start.position} were verified. Left out: {'; '.join(LEFT_OUT.values())}.")
            note("`reflector verify` verifies everything.")
    if findings:
        raise click.exceptions.Exit(1)


def _published_in(given: str, project: Project, option: str) -> tuple[Anchor, ...]:
    """Return the heads that an option names: a head, a file, or a file that git has."""
    from reflector.files import read_bounded
    from reflector.proof.git_anchors import NotPublished, published
    from reflector.proof.heads import NoAnchor, anchors_in, is_head

    try:
        if is_head(given):
            return anchors_in(given)
        if given and Path(given).exists() and not Path(given).is_dir():
            content = read_bounded(Path(given), _MOST_HEADS)
        else:
            content = published(project.root, given, _MOST_HEADS)
        return anchors_in(content.decode("utf-8", "replace"))
    except (NoAnchor, NotPublished) as error:
        raise click.UsageError(f"{option} {given[:100]!r}: {error}") from error


def finding_fields(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON has it."""
    return {"code": finding.code, "position": finding.where, "message": finding.message, "remedy": finding.remedy}


def finding_words(finding: Finding) -> str:
    """Return a finding as a line."""
    where = f"position {finding.where}" if finding.where is not None else "ledger"
    return f"{where}: {finding.message} [{finding.code}]; {finding.remedy}"


@click.command()
@json_option
@moments.as_of
@click.pass_obj
def head(place: Place, moment: str | None, as_json: bool) -> None:
    """Print the head of the ledger, ready to publish.

    POSITION:CHAIN covers every event up to that position: `reflector verify --anchor` proves later that all of them are
    still there.
    """
    from reflector.proof.heads import head_line

    with place.reading() as ledger:
        found = head_of(ledger, moments.past(ledger, moment))
    line = head_line(found.position, found.chain)
    if as_json:
        print_json({"head": line, **asdict(found)})
    else:
        click.echo(line)


def head_of(ledger: Ledger, past: Past | None) -> Head:
    """The head of now or of then; a usage error before the first event, for an empty ledger may be gone tomorrow."""
    from reflector.proof.heads import head_at

    found = head_at(ledger, past.position) if past is not None else ledger.head()
    if found.position == 0:
        raise click.UsageError("there was no event yet, so there is nothing to prove; begin with `reflector ingest`")
    return found


def needs_ledger(project: Project) -> None:
    """Proof about nothing would make a ledger to have something to prove."""
    if not project.has_ledger():
        raise click.UsageError(
            f"there is no ledger in {project.root}; it begins with the first `reflector ingest` or hook"
        )
