"""Heads written down: what a ledger publishes about itself, and what is read back as anchors.

Invariant: a head is one line, `POSITION:CHAIN`, and a file of them is one a line, so that `>>` keeps a record of many.
Anything else in a file is refused, never ignored: an anchor that was not understood proves nothing.
"""

from __future__ import annotations

import json
import re
from typing import Final

from reflector.ledger.canonical import genesis
from reflector.ledger.reader import Reader
from reflector.ledger.rows import Anchor, Head

_HEAD: Final = re.compile(r"(?P<position>\d{1,15}):(?P<chain>pl1:[0-9a-f]{64})", re.ASCII)
#: How each signature of a signed note (C2SP) begins, in which an earlier version published heads.
_SIGNATURE: Final = "\N{EM DASH} "


class NoAnchor(ValueError):
    """A text that holds no head; its own text says what was found instead."""


def head_line(position: int, chain: str) -> str:
    """Return a head as it is published, without a newline."""
    return f"{position}:{chain}"


def head_at(ledger: Reader, position: int) -> Head:
    """Return the head as it was after the event at a position; 0 is the genesis. Raises NoAnchor for one to come."""
    head = ledger.head()
    if position == 0:
        return Head(head.playbook, head.origin, 0, genesis(head.playbook, head.origin), head.recorded_at)
    found = ledger.at([position])
    if not found:
        raise NoAnchor(f"position {position} is not in the ledger, which ends at {head.position}")
    return Head(head.playbook, head.origin, position, found[0].chain, found[0].recorded_at)


def is_head(text: str) -> bool:
    """Return whether a text is one head, and not a file's name."""
    return _HEAD.fullmatch(text.strip()) is not None


def anchors_in(text: str) -> tuple[Anchor, ...]:
    """The heads of a text: one a line, empty lines and lines that begin with # aside, or the JSON of `head --json`.

    Raises NoAnchor for a text without a head, or with anything else.
    """
    lines = [line.strip() for line in _lines(text)]
    if any(line.startswith(_SIGNATURE) for line in lines):
        raise NoAnchor(
            "it is a signed note of an earlier version, which this version does not read; keep heads as lines, and "
            "sign their file with `ssh-keygen -Y sign` or their commit with `git tag -s`"
        )
    heads = [line for line in lines if line and not line.startswith("#")]
    if not heads:
        raise NoAnchor("it holds no head; a head is POSITION:CHAIN as `reflector head` prints it")
    return tuple(_anchor(line) for line in heads)


def _lines(text: str) -> list[str]:
    if not text.lstrip().startswith("{"):
        return text.splitlines()
    try:
        return [str(json.loads(text).get("head", ""))]
    except (ValueError, RecursionError) as error:
        raise NoAnchor(f"it is neither heads nor JSON ({error})") from error


def _anchor(line: str) -> Anchor:
    found = _HEAD.fullmatch(line)
    if found is None:
        raise NoAnchor(f"{line[:100]!r} is not POSITION:CHAIN as `reflector head` prints it")
    return Anchor(int(found["position"]), found["chain"])
