"""The command `help`: the first screen, every command, and a search of the help and the pages.

Invariant: it reads only the installed files, and neither the ledger nor a network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from reflector.cli.app import reflector
from reflector.cli.options import flag
from reflector.cli.output import note, print_facts, say
from reflector.cli.screen import every_command, first_screen
from reflector.cli.table import GROUPS, MORE
from reflector.resources import resource_dir
from reflector.text.phrases import counted

#: The most rows of a kind that `help` shows.
_MOST_ROWS = 12


@click.command(name="help")
@click.argument("words", nargs=-1)
@flag("--all", "every", help="List every command.")
def help_(words: tuple[str, ...], every: bool) -> None:
    """Search the help and the pages.

    Without WORDS, `help` lists the main commands.

    With WORDS, `help` lists the commands, the options and the parts of pages that contain most of
    the words. `help` lists the best match first. Upper and lower case make no difference to the
    search.
    """
    whole = click.Context(reflector, info_name="reflector")
    if not words:
        say(every_command() if every else first_screen())
        return
    words = tuple(" ".join(words).split())
    wanted = [re.compile(rf"(?<![a-z]){re.escape(word)}", re.IGNORECASE) for word in words]
    places = {"help": list(_helps(whole)), "pages": list(_parts())}
    most = max(_count(" ".join(one), wanted) for parts in places.values() for one in parts)
    if not most:
        raise click.ClickException(
            f"the help and the pages do not contain {' '.join(words)!r}; to list the commands: "
            "reflector help --all"
        )
    left = 0
    for title, parts in places.items():
        found = [one for one in parts if _count(" ".join(one), wanted) == most]
        found.sort(key=lambda part: -_count(part[0], wanted))
        rows = [(name, _line(text, wanted)) for name, text in found[:_MOST_ROWS]]
        say(f"{title}:{'' if rows else ' no match'}")
        print_facts(rows, max((len(name) for name, _ in rows), default=0), 2)
        left += len(found) - len(rows)
    hidden = f"Not shown: {counted(left, 'other result')}. " if left else ""
    note(f"{hidden}The pages are in {resource_dir('docs')}")


def _count(text: str, wanted: list[re.Pattern[str]]) -> int:
    return sum(word.search(text) is not None for word in wanted)


def _helps(whole: click.Context) -> Iterator[tuple[str, str]]:
    """Yield each command with its first sentence, and each of its options with its help."""
    for name in [name for group in (*GROUPS.values(), MORE) for name in group]:
        command = reflector.get_command(whole, name)
        inner = command.commands.values() if isinstance(command, click.Group) else ()
        for called, one in [(name, command), *((f"{name} {one.name}", one) for one in inner)]:
            if one is not None:
                yield called, one.get_short_help_str(200)
                options = (option for option in one.params if isinstance(option, click.Option))
                yield from (
                    (f"{called} {option.opts[-1]}", option.help or "") for option in options
                )


def _parts() -> Iterator[tuple[str, str]]:
    """Yield each part of a page: `page.md: Title`, and its text. Generated pages come last."""
    texts = [
        (page.name, page.read_text("utf-8")) for page in sorted(resource_dir("docs").glob("*.md"))
    ]
    for name, whole in sorted(texts, key=lambda page: page[1].startswith("<!-- generated")):
        for part in re.split(r"^#+ (?=\S)", whole, flags=re.MULTILINE)[1:]:
            title, _, text = part.partition("\n")
            yield f"{name}: {title}", text


def _line(text: str, wanted: list[re.Pattern[str]]) -> str:
    """Return the line of a text with the most of the words, without Markdown marks."""
    best = max(text.splitlines() or [""], key=lambda line: _count(line, wanted))
    return re.sub(r"\[([^\]]*)\]\([^)]*\)|\*\*", r"\1", best).strip(" |$#")
