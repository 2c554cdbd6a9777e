"""`reflector doctor`: is everything in order between the agent and the playbook?"""

from __future__ import annotations

from dataclasses import asdict

import click

from reflector.cli.app import Place
from reflector.cli.output import json_option, print_json, safe

_MARKS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "error": ("error", "red")}


@click.command()
@json_option
@click.pass_obj
def doctor(place: Place, as_json: bool) -> None:
    """Check everything between the agent and the playbook.

    Each line is ok, a warning or an error, with the command that corrects it. Changes nothing; exits 1 on errors.
    """
    from reflector.hooks.doctor import examine

    checks = list(examine(place.project()))
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            mark, colour = _MARKS[check.state]
            click.echo(f"{click.style(f'{mark:<7}', fg=colour)}  {check.name:<{width}}  {safe(check.text)}")
            if check.mend:
                click.echo(f"{'':<7}  {'':<{width}}  → {safe(check.mend)}")
    if any(check.state == "error" for check in checks):
        raise click.exceptions.Exit(1)
