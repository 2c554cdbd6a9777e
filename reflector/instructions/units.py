"""The units of an instruction file, each with its kind.

Invariant: every piece that a reader could take as advice, as a fact or as a command is a unit. A
heading is a unit only if it is a rule.
"""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

from .blocks import Form, pieces_of
from .kind import Kind
from .kinds import kind_of


class Unit(NamedTuple):
    """A list item, numbered step, table row, sentence or command.

    number   the line at which it begins, from 1
    heading  the nearest heading above it, "" for none
    lead_in  the words that introduce it, "" for none
    """

    number: int
    text: str
    kind: Kind
    heading: str
    lead_in: str


def units_of(text: str) -> list[Unit]:
    """Return the units of a Markdown text, in the order of their lines."""
    units = []
    for piece in pieces_of(text):
        kind = kind_of(piece)
        if piece.form != Form.HEADING or kind == Kind.RULE:
            heading = piece.headings[-1] if piece.headings else ""
            units.append(Unit(piece.number, piece.text, kind, heading, piece.lead_in))
    return units


def begins_at(text: str, number: int) -> int:
    """Return the line at which the unit of a line begins; the line itself if it is in no unit."""
    lines = text.split("\n")
    words = " ".join(lines[number - 1].split())
    before = [*takewhile(lambda unit: unit.number <= number, units_of(text))]
    if not before:
        return number
    unit = before[-1]
    is_in_unit = words != "" and words in " ".join(unit.text.split())
    return unit.number if is_in_unit else number
