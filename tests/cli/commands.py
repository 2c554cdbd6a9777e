"""Every command of the program, and a call of each question."""

import re
import shlex
from collections.abc import Iterator

import click

from reflector.cli.app import reflector
from reflector.cli.table import COMMANDS


def _walked(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """A command and its subcommands, each with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _walked(f"{path} {name}", inner)


def _own(name: str) -> click.Command:
    command = reflector.get_command(click.Context(reflector), name)
    assert command
    return command


#: Every command and subcommand.
EVERY = {path: command for name in COMMANDS for path, command in _walked(name, _own(name))}


def examples(path: str) -> list[list[str]]:
    """The words of each example in a command's help, without the program and a redirection."""
    lines = [line.strip() for line in (EVERY[path].epilog or "").splitlines()[2:]]
    assert all(line.startswith("reflector ") for line in lines)
    return [shlex.split(re.sub(r"[<>]+ [\w.]+$", "", line))[1:] for line in lines]


#: The first example of each command with the options of `@question`.
QUESTIONS = [
    shlex.join(examples(path)[0])
    for path, command in EVERY.items()
    if {"--as-of", "--json"} <= {option for one in command.params for option in one.opts}
]
