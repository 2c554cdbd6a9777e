"""`reflector config`: the settings, the source of each, and how to change one. `off` and `on`
change the setting that turns a project off.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from reflector.cli.app import Place
from reflector.cli.options import flag, json_option
from reflector.cli.output import note, say, table
from reflector.config import (
    SETTINGS,
    USERS_OWN,
    Config,
    from_text,
    load_config,
    project_config,
    variable,
)
from reflector.hooks import fast
from reflector.judges.registry import described, kind_of
from reflector.locate import user_config
from reflector.settings_file import store_setting


@dataclass
class SettingJson:
    """The value of a setting, and its origin."""

    value: str | int | float | bool | list[str]
    origin: str


_key = click.argument("key", type=click.Choice(list(SETTINGS)), metavar="KEY")
_global = flag("--global", "for_all", help=("Use your own settings file, for all projects."))


@click.group(invoke_without_command=True)
@click.pass_context
def config(ctx: click.Context) -> None:
    """Show or change settings.

    You can set the same setting in several places. reflector uses the first value in this order: a
    command's option, the environment, the project's settings file, your own settings file, the
    default.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@config.command("list")
@json_option
@click.pass_obj
def list_(place: Place) -> None:
    """List each setting with its value and origin."""
    project = place.project()
    rows = {
        key: SettingJson(_shown(project.config, key), _origin(project.config, project.root, key))
        for key in SETTINGS
    }
    if not place.answers(rows):
        cells = [(key, _words(one.value), one.origin) for key, one in rows.items()]
        table(("setting", "value", "from"), cells, prose=("value", "from"))


@config.command()
@_key
@click.pass_obj
def get(place: Place, key: str) -> None:
    """Print the value of one setting."""
    click.echo(_words(_shown(place.project().config, key)))


@config.command("set", short_help="Change a setting of one project or all projects.")
@_key
@click.argument("values", nargs=-1, required=True, metavar="VALUE...")
@_global
@click.pass_obj
def set_(place: Place, key: str, values: tuple[str, ...], for_all: bool) -> None:
    """Change a setting of one project or all projects.

    Without --global, `config set` changes the setting of the current project. With --global,
    `config set` changes the setting of all your projects.

    If the setting is a list, such as `projects`, you can give several values.
    """
    is_list = isinstance(SETTINGS[key].default, tuple)
    if len(values) > 1 and not is_list:
        raise click.UsageError(f"{key} takes one value; quote a value that contains spaces")
    # `ledger_url` is ignored in a project's file.
    is_only_global = key in (*USERS_OWN, "ledger_url")
    option = " --global" if for_all or is_only_global else ""
    if is_list and values[0].startswith("["):
        raise click.UsageError(
            f"write the values without brackets: reflector config set{option} {key} VALUE VALUE"
        )
    if is_only_global and not for_all:
        # A key and a password in a URL are secret, so the command does not repeat them.
        given = "VALUE" if key in ("api_key", "ledger_url") else shlex.join(values)
        raise click.UsageError(
            f"`{key}` belongs in your own settings file; run: reflector config set{option} {key} "
            f"{given}"
        )
    value = list(values) if is_list else from_text(key, values[0])
    path, _ = store_setting(place.folder(), key, value, for_all=for_all)
    config = _print_in_force(place, key)
    stored_layer = "user" if for_all else "project"
    if config.layer(key) != stored_layer:
        note(f"`{key}` is set in {path}, but {_origin(config, place.folder(), key)} overrides it")


@config.command(short_help="Remove a setting, even a misspelt one.")
@click.argument("key")
@_global
@click.pass_obj
def unset(place: Place, key: str, for_all: bool) -> None:
    """Remove a setting from the project's file.

    With --global, `config unset` removes the setting from your own settings file. `config unset`
    also removes a setting with a misspelt name.
    """
    path, had_it = store_setting(place.folder(), key, None, for_all=for_all)
    if not had_it:
        raise click.ClickException(f"{path} does not contain the setting {key}")
    if key in SETTINGS:
        _print_in_force(place, key)


def _print_in_force(place: Place, key: str) -> Config:
    """Print the value in force, and how to get what the backend needs. Return the settings."""
    config = load_config(root := place.folder())
    say(f"{key} = {_words(_shown(config, key))}")
    text, mend = described(config, root)
    if mend and key in ("backend", *kind_of(config).settings):
        note(f"{text}; {mend}")
    return config


@click.command()
@click.pass_obj
def off(place: Place) -> None:
    """Turn reflector off (disable it) in this project.

    While reflector is off, reflector does not record or judge sessions of this project, and your
    agent gets no rules. The playbook and its history stay, and all commands work. `off` sets
    `enabled` to false in the project's settings, and `reflector on` removes `enabled` from these
    settings.
    """
    root = _own_folder(place, "off")
    stored = store_setting(root, "enabled", value=False, for_all=False)
    say(f"reflector is off in {root}, because {stored.path} now has `enabled = false`.")
    say("reflector does not record or judge sessions of this project, and agents get no rules.")
    say(f"To turn reflector on: {place.command('on')}")


@click.command()
@click.pass_obj
def on(place: Place) -> None:
    """Turn reflector on (enable it) in this project."""
    root = _own_folder(place, "on")
    store_setting(root, "enabled", None, for_all=False)
    if file := fast.switched_off_by(str(root)):
        way_out = "change `enabled` or `off` in this file"
        raise click.ClickException(f"{file} still turns reflector off in {root}; {way_out}")
    say(f"reflector is on in {root}.")


def _own_folder(place: Place, verb: str) -> Path:
    """Return the folder of the project to switch on or off."""
    if place.user:
        value = "false" if verb == "off" else "true"
        everywhere = f"reflector config set --global enabled {value}"
        raise click.UsageError(
            f"`{verb}` changes one project; to turn reflector {verb} in all projects: {everywhere}"
        )
    return place.folder()


def _origin(config: Config, root: Path, key: str) -> str:
    places = {
        "user": user_config(),
        "project": str(project_config(root)),
        "environment": variable(key),
        "flag": "a flag",
    }
    return places.get(config.layer(key), "default")


def _shown(config: Config, key: str) -> Any:
    """Return a setting's value for JSON. A key and a password in a URL are never shown."""
    value = getattr(config, key)
    if key == "api_key":
        return "(set)" if value else ""
    if key == "ledger_url" and "@" in value:
        from reflector.ledger.url import url_of

        return url_of(value).shown
    return list(value) if isinstance(value, tuple) else value


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(value) if isinstance(value, list) else str(value)
