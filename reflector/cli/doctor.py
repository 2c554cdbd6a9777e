"""`reflector doctor`: is everything in order between the agent and the playbook?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from reflector.cli.app import Place
from reflector.cli.output import json_option, print_facts, print_json

#: Yellow and green cannot be read on a light terminal.
_STYLES: dict[str, dict[str, Any]] = {"ok": {}, "warning": {"bold": True}, "error": {"bold": True, "fg": "red"}}


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
        width = max(len(check.name) for check in checks) + 1
        for check in checks:
            mark = click.style(f"{check.state:<7}  ", **_STYLES[check.state])
            click.echo(mark, nl=False)
            print_facts([(check.name, check.text)], width, 9, begun=True)
            if check.mend:
                print_facts([("", f"→ {check.mend}")], width, 9)
    if any(check.state == "error" for check in checks):
        raise click.exceptions.Exit(1)
