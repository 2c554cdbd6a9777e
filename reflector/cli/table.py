"""The commands of `reflector`, which `commands.txt` lists, and the words that users type for them.

Invariant: importing this module imports no command. A test compares each example with the options
that the command accepts, and the hidden names with the command lines in users' files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A command: its module in reflector/cli, and its summary in the help.

    Its function in the module has its name, with a `_` at the end for a name of Python.

    examples  texts that may follow its name
    """

    module: str
    summary: str
    examples: list[str]


def _lines_of(name: str) -> list[str]:
    """Return the lines of a file of this folder, without its header."""
    return Path(__file__).with_name(name).read_text("utf-8").splitlines()[1:]


def _groups() -> dict[str, dict[str, Entry]]:
    """Return the commands by group. A group is at the margin, and an example has four spaces."""
    groups: dict[str, dict[str, Entry]] = {}
    name = group = ""
    for line in _lines_of("commands.txt"):
        if line.startswith("    "):
            groups[group][name].examples.append(line.strip().removeprefix(name).strip())
        elif line.startswith("  "):
            name, module, summary = line.split(maxsplit=2)
            groups[group][name] = Entry(module, summary, [])
        else:
            group = line
            groups[group] = {}
    return groups


#: The commands on the first screen.
GROUPS: Final = _groups()
#: The commands that agents, shells and cron call.
HIDDEN: Final = GROUPS.pop("Hidden")
#: The other commands that users type, in `reflector help --all`.
MORE: Final = GROUPS.pop("More")

COMMANDS: Final = {
    name: entry for group in (*GROUPS.values(), MORE, HIDDEN) for name, entry in group.items()
}

#: The replacement of each command or option from before the first release.
FORMER: Final = dict(line.split("\t") for line in _lines_of("former.tsv"))

#: Words that users try, and the command that they mean.
SYNONYMS: Final = dict(line.split("\t") for line in _lines_of("synonyms.tsv"))
