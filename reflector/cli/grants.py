"""`reflector grants`: who may do what in a ledger on PostgreSQL."""

from __future__ import annotations

import click

from reflector.cli.app import Place
from reflector.cli.output import json_option, print_json


@click.command()
@click.option(
    "--role", type=click.Choice(["reader", "writer", "owner"]), required=True, help="What the role is to be allowed."
)
@click.option("--to", metavar="NAME", help="The role on the server. Default: reflector_reader, reflector_writer …")
@click.option(
    "--by-playbook", is_flag=True, help="With owner: let a role see the playbooks alone that it is a member of."
)
@json_option
@click.pass_obj
def grants(place: Place, role: str, to: str | None, by_playbook: bool, as_json: bool) -> None:
    """Print the GRANTs that make a role of PostgreSQL the ledger's reader, writer or owner.

    Changes nothing: look at the statements, then run them as the owner with psql. A reader asks and writes nothing. A
    writer appends: it can neither delete nor change an event, nor take a trigger down, nor give a bullet a text that no
    event says. Migrations, rebuilds and erasures are the owner's.

    With --by-playbook, the role called "playbook:NAME" has as members those who see the playbook NAME.
    """
    from reflector.ledger.grants import NO_ROLES, policies
    from reflector.ledger.grants import grants as statements_for

    if by_playbook and role != "owner":
        raise click.UsageError("--by-playbook is the owner's: the policies hold for all other roles")
    project = place.project()
    if not project.config.ledger_url:
        raise click.UsageError(f"{project.ledger_file} {NO_ROLES}")
    with project.open_ledger() as ledger:
        statements = list(statements_for(ledger.engine, role, to or f"reflector_{role}"))
        if by_playbook:
            statements += policies(ledger.engine)
    if as_json:
        print_json({"role": role, "to": to or f"reflector_{role}", "statements": statements})
    else:
        click.echo("\n".join(statements))
