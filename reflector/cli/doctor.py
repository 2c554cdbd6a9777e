"""`reflector doctor`: is everything in order between the agent and the playbook?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.output import fields, json_option, note, print_facts, print_json

if TYPE_CHECKING:
    from reflector.hooks.reach import Check

#: Yellow and green cannot be read on a light terminal.
_STYLES: dict[str, dict[str, Any]] = {"ok": {}, "warning": {"bold": True}, "error": {"bold": True, "fg": "red"}}


@click.command()
@click.option("--fix", is_flag=True, help="First fix what can be fixed safely, and print what was done.")
@json_option
@click.pass_obj
def doctor(place: Place, fix: bool, as_json: bool) -> None:
    """Check everything between the agent and the playbook.

    Each line is ok, a warning or an error, with the command that corrects it, and with what --fix would do about it.
    Without --fix it changes nothing. --fix renews our hooks, takes our files from other users, removes temporary
    files and processes what waits; it changes nothing that a person wrote. Exits 1 on errors.
    """
    from reflector.config import ConfigError
    from reflector.hooks.doctor import examine, examine_without_settings

    look: Callable[[], Iterator[Check]]
    try:
        look = partial(examine, place.project())
    except ConfigError as error:
        look = partial(examine_without_settings, place.project_without_settings(), error)
    if fix:
        _mend(list(look()))
    checks = list(look())
    if as_json:
        print_json([_fields(check) for check in checks])
    else:
        _print(checks)
    if any(check.state == "error" for check in checks):
        raise click.exceptions.Exit(1)


def _mend(checks: list[Check]) -> None:
    from reflector.cli.app import known_code, words_of
    from reflector.hooks.git_setup import GitRefused
    from reflector.hooks.settings_file import SettingsRefused

    done: set[str] = set()
    for check in checks:
        if check.fix is None or check.fix.text in done:
            continue
        done.add(check.fix.text)
        try:
            check.fix.apply()
        except (SettingsRefused, GitRefused) as error:
            note(f"{check.name}: not fixed: {error}")
        except Exception as error:
            if known_code(error) is None:
                raise
            note(f"{check.name}: not fixed: {words_of(error)}")
        else:
            note(f"{check.name}: {check.fix.text}")
    if not done:
        by_hand = next(
            (check for check in checks if check.state == "error" and "reflector rebuild" in check.mend), None
        )
        note(f"nothing that --fix can fix{f'; {by_hand.name}: {by_hand.mend}' if by_hand else ''}")


def _fields(check: Check) -> dict[str, Any]:
    return {**fields(check, "name state text mend"), "fix": None if check.fix is None else check.fix.text}


def _print(checks: list[Check]) -> None:
    width = max(len(check.name) for check in checks) + 1
    for check in checks:
        click.echo(click.style(f"{check.state:<7}  ", **_STYLES[check.state]), nl=False)
        print_facts([(check.name, check.text)], width, 9, begun=True)
        if check.mend:
            print_facts([("", f"→ {check.mend}")], width, 9)
        if check.fix is not None:
            print_facts([("", f"→ or reflector doctor --fix, which {check.fix.text}")], width, 9)
