"""The lines of an act that show the tokens of a rule, or its occasion.

Invariant: a line is one of the command, of the added text, or the name of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from reflector.counts.calls import Act, messages_in
from reflector.counts.forms import READ_FIRST, UNREAD
from reflector.counts.occasions import place_in_act
from reflector.counts.rules import Counting
from reflector.counts.sought import Sought

RAN = "ran"
WROTE = "wrote"
#: The number of first characters of an occasion around which its line is cut.
_MOST_WORD = 8


class ShownLine(NamedTuple):
    """A line of a call or a sentence of yours, and the counted word in it."""

    line: str = ""
    word: str = ""


def lines_shown(
    counting: Counting, act: Act, deeds: Iterable[tuple[Sought, int]], command: str
) -> Iterator[tuple[str, ShownLine]]:
    """Yield the lines of an act with a token of the rule, a forbidden token, or its occasion.

    deeds    the tokens in the act, each with its index
    command  the command of the act in the form for display
    """
    shown = command.split("\n")
    for sought, place in deeds:
        deed = "named" if sought.bit & counting.named else "against"
        verb = RAN if act.command or act.read else WROTE
        yield f"{verb} {deed}", _line_of(sought, act, shown if command else [], place)
    occasion = counting.occasion
    at = place_in_act(occasion.met, act) if occasion else -1
    if at >= 0:
        line = shown[act.command.count("\n", 0, at)] if command else act.file
        yield "occasion", ShownLine(line, (act.command or act.file)[at:][:_MOST_WORD])


def _line_of(sought: Sought, act: Act, command: Sequence[str], place: int) -> ShownLine:
    """Return the line of an act that shows a token.

    command  the lines of its command in the form for display
    place    the index of the token in the command or in the added text
    """
    word = sought.token.text
    if act.read or act.commit:
        words = act.read.strip() or next(messages_in(act.commit), "")
        return ShownLine(words.partition("\n")[0], word)
    is_of_file = sought.token.form in (UNREAD, READ_FIRST)
    if act.changed_file and (is_of_file or sought.is_file_of(act)):
        return _change_of(act, command, word)
    text = act.command or act.added
    lines = text.split("\n")
    shown = command or lines
    parts = (act._replace(added=line, command=line * bool(act.command)) for line in lines)
    holding = (index for index, part in enumerate(parts) if sought.is_in(part))
    line = shown[min(next(holding, text.count("\n", 0, place)), len(shown) - 1)]
    return ShownLine(line, word if word in line else word.partition(" ")[0])


def _change_of(act: Act, command: Sequence[str], word: str) -> ShownLine:
    """Return the line of a command that changes a file, or the path of the file."""
    lines = (line for line in command if act.changed_file in line)
    return ShownLine(next(lines, act.changed_file), word.strip("*"))
