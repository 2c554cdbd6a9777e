"""Commands on the ledger: rebuild, verify."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.output import note, print_json, safe

if TYPE_CHECKING:
    from reflector.project import Project


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; print the difference and exit 1 on drift.")
@click.pass_obj
def rebuild(place: Place, check: bool) -> None:
    """Rebuild the playbook from the events.

    Appends nothing and calls nobody; two rebuilds give the same playbook.json, byte for byte.
    """
    from difflib import unified_diff

    from reflector.bounded_file import read_bounded
    from reflector.curation.playbook_file import render
    from reflector.playbook.document import MAX_BYTES, dump
    from reflector.playbook.fold import fold

    project = place.project()
    if check:
        _needs_ledger(project)
        with project.open_ledger() as ledger:
            playbook = fold(ledger.history())
            wanted = dump(playbook.bullets(), playbook.updated_at).decode()
            tables = render(ledger).decode()
        path = project.playbook_json
        written = read_bounded(path, MAX_BYTES).decode("utf-8", "replace") if path.exists() else ""
        drift = False
        for name, text in (("the ledger's tables", tables), (str(path), written)):
            if text == wanted or (not text and not playbook.entries):
                continue
            drift = True
            lines = unified_diff(text.splitlines(), wanted.splitlines(), name, "the events", lineterm="")
            click.echo(safe("\n".join(lines)))
        if drift:
            note("There is drift. A file edited by hand is taken in by the next command; see also `reflector verify`.")
            raise click.exceptions.Exit(1)
        return
    with place.road() as road:
        road.ledger.rebuild()
        road.write()


@click.command()
@click.option(
    "--anchor", metavar="POSITION:CHAIN", help="A head that was published earlier; proves nothing was cut off."
)
@click.option("--head", "print_head", is_flag=True, help="Print the head, to publish as an anchor.")
@click.option("--mend-triggers", is_flag=True, help="Create the append-only triggers again.")
@click.option("--json", "as_json", is_flag=True, help="JSON for machines.")
@click.pass_obj
def verify(place: Place, anchor: str | None, print_head: bool, mend_triggers: bool, as_json: bool) -> None:
    """Prove that the ledger is what was appended; silent when it is.

    Checks the chain, the order, the triggers, SQLite's own integrity, and that every counter is what the events
    say. Exits 1 with one line a finding.
    """
    from reflector.ledger.engines import write_transaction
    from reflector.ledger.migration import create_triggers
    from reflector.ledger.verify import Anchor, verify

    published = None
    if anchor is not None:
        position, _, chain = anchor.partition(":")
        if not position.isdecimal() or not chain:
            raise click.UsageError(
                f"--anchor takes POSITION:CHAIN as `reflector verify --head` prints it, not {anchor!r}"
            )
        published = Anchor(int(position), chain)
    project = place.project()
    _needs_ledger(project)
    with project.open_ledger() as ledger:
        if mend_triggers:
            with write_transaction(ledger.engine) as connection:
                create_triggers(connection)
        findings = list(verify(ledger, published))
        head = ledger.head()
    if as_json:
        print_json({"head": f"{head.position}:{head.chain}", "findings": [asdict(f) for f in findings]})
    else:
        for f in findings:
            where = f"position {f.position}" if f.position is not None else "ledger"
            click.echo(safe(f"{where}: {f.message} [{f.code}]; {f.remedy}"))
        if print_head:
            click.echo(f"{head.position}:{head.chain}")
    if findings:
        raise click.exceptions.Exit(1)


def _needs_ledger(project: Project) -> None:
    """Proof about nothing would make a ledger to have something to prove."""
    if not project.has_ledger():
        raise click.UsageError(
            f"there is no ledger in {project.root}; it begins with the first `reflector ingest` or hook"
        )
