"""Writes a manual page of each command into a folder: `make man`, then `man
build/man/reflector-list.1`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from reflector.cli.app import reflector
from reflector.cli.table import COMMANDS


def page(path: str, command: click.Command, context: click.Context) -> str:
    """Return a page in the language of man(7)."""
    said = (command.help or command.get_short_help_str(200)).partition("\f")[0].strip()
    first, _, rest = said.partition("\n")
    name, typed = path.replace(" ", "-"), " ".join(command.collect_usage_pieces(context))
    parts = [f'.TH "{name.upper()}" 1 "" "reflector" "reflector"']
    parts += [".SH NAME", rf"{name} \- {_plain(first.rstrip('.'))}"]
    parts += [".SH SYNOPSIS", rf"\fB{_plain(path)}\fR {_plain(typed)}", ".SH DESCRIPTION"]
    parts += [
        f".PP\n{_plain(' '.join(one.split()))}" for one in (rest.strip() or first).split("\n\n")
    ]
    rows = [row for one in command.get_params(context) if (row := one.get_help_record(context))]
    parts += [
        ".SH OPTIONS",
        *(f".TP\n\\fB{_plain(one)}\\fR\n{_plain(about) or 'Required.'}" for one, about in rows),
    ]
    if isinstance(command, click.Group):
        inner = [(one, command.get_command(context, one)) for one in command.list_commands(context)]
        listed = [
            f".TP\n\\fB{_plain(name)}\\fR\n{_plain(one.get_short_help_str(200))}"
            for name, one in inner
            if one
        ]
        parts += [".SH COMMANDS", *listed]
    examples = COMMANDS[path.split()[1]].examples if path.count(" ") == 1 else ()
    parts += (
        [".SH EXAMPLES", ".EX", *(_plain(f"{path} {one}".rstrip()) for one in examples), ".EE"]
        if examples
        else []
    )
    return "\n".join(
        [*parts, ".SH EXIT STATUS", ("0 all is well, 1 something is wrong, 2 wrong usage.\n")]
    )


def _plain(text: str) -> str:
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("…", "...")
    text = re.sub(r"[^\x00-\x7f]", lambda one: rf"\[u{ord(one[0]):04X}]", text)
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def pages(path: str, command: click.Command, parent: click.Context | None = None) -> dict[str, str]:
    """Return the page of a command and of each below it, by its file's name."""
    context = click.Context(command, parent=parent, info_name=path.split()[-1])
    found = {f"{path.replace(' ', '-')}.1": page(path, command, context)}
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        if inner := command.get_command(context, name):
            found |= pages(f"{path} {name}", inner, context)
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages("reflector", reflector).items():
        (folder / name).write_text(text, "utf-8")
