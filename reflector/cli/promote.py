"""`reflector promote`: from a project's playbook to the user's own."""

from __future__ import annotations

import click

from reflector.cli.app import Place
from reflector.cli.arguments import BULLET
from reflector.cli.output import note, safe


@click.command()
@click.argument("name", type=BULLET)
@click.option("--to", type=click.Choice(["user"]), required=True, expose_value=False, help="user: your own playbook.")
@click.option("--keep", is_flag=True, help="Keep the bullet in the project too, under its old name.")
@click.pass_obj
def promote(place: Place, name: str, keep: bool) -> None:
    """Move a project's bullet to your own playbook.

    Your playbook gets the text under a new name, without the counts: they are this project's evidence, and the event of
    the new bullet records them. The project's bullet is retired into the new name.
    """
    from reflector.cli.playbook import find_bullet
    from reflector.curation.changes import promote as run
    from reflector.project import Project

    project = place.project()
    if project.is_users:
        raise click.UsageError(f"{project.root} is your own playbook already; name a project with --project")
    # The project's lock first and then the user's, as everywhere.
    with place.pipeline(project) as pipeline, place.pipeline(Project.of_user()) as users:
        name, is_new = run(
            find_bullet(pipeline.ledger, name, live=True),
            pipeline.ledger,
            users.ledger,
            home=str(project.root),
            keep=keep,
        )
        users.write()
        pipeline.write()
        bullet = next(row.bullet for row in users.ledger.rows() if row.name == name)
    click.echo(safe(bullet.line))
    if not is_new:
        note(f"Your own playbook said exactly this already, as {name}.")
