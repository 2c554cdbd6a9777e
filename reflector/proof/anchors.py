"""Heads written down: what a ledger publishes about itself, and what is read back as anchors.

Invariant: a head is one line, `POSITION:CHAIN`, and a file of them is one a line, so that `>>` keeps a record of many;
or it is the body of a signed note, a checkpoint. Anything else in a file is refused, never ignored, and
nothing of a note is taken that no known key signed: an anchor that was not understood proves nothing.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from reflector.ledger.canonical import PREFIX, genesis
from reflector.ledger.reader import Reader
from reflector.ledger.rows import Anchor, Head
from reflector.proof.signed_note import NoteRefused, PrivateKey, PublicKey, is_note, open_note, sign

_HEAD: Final = re.compile(r"(?P<position>\d{1,15}):(?P<chain>pl1:[0-9a-f]{64})", re.ASCII)
_SIZE: Final = re.compile(r"0|[1-9]\d{0,14}", re.ASCII)
#: The extension line that says which hash a checkpoint holds: the last link of a chain, not the root of a tree.
_EXTENSION: Final = "hash-chain pl1"


class NoAnchor(ValueError):
    """A text that holds no head; its own text says what was found instead."""


@dataclass(frozen=True, slots=True)
class Published:
    """Anchors, and the names of the known keys that signed them: none where they came unsigned."""

    anchors: tuple[Anchor, ...]
    signed_by: tuple[str, ...] = ()


def head_line(position: int, chain: str) -> str:
    """Return a head as it is published, without a newline."""
    return f"{position}:{chain}"


def checkpoint(position: int, chain: str, keys: Sequence[PrivateKey]) -> str:
    """Return a head as a signed note (C2SP tlog-checkpoint): origin, size, hash. The origin is the first key's name."""
    root = b64encode(bytes.fromhex(chain.removeprefix(PREFIX))).decode()
    return sign(f"{keys[0].public_key.name}\n{position}\n{root}\n{_EXTENSION}\n", keys)


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


def read_published(content: bytes, keys: Sequence[PublicKey]) -> Published:
    """The anchors of a file: heads, the JSON of `head --json`, or a signed note, which needs the key of a signer.

    Where keys are named, nothing unsigned is taken. Raises NoAnchor, NoteRefused, SigningUnavailable.
    """
    if not keys:
        if is_note(content):
            raise NoAnchor("it is a signed note, which says nothing before its signature is verified; add --key")
        return Published(anchors_in(content.decode("utf-8", "replace")))
    if content.lstrip().startswith(b"{"):
        note = _document(content.decode("utf-8", "replace")).get("note")
        content = note.encode("utf-8", "surrogatepass") if isinstance(note, str) else b""
    if not is_note(content):
        raise NoAnchor("it is not a signed note, so --key has nothing to verify; make one with `reflector head --sign`")
    opened = open_note(content, keys)
    return Published((_checkpoint(opened.text),), opened.signed_by)


def anchors_in(text: str) -> tuple[Anchor, ...]:
    """The heads of a text: one a line, empty lines and lines that begin with # aside, or the JSON of `head --json`.

    Raises NoAnchor for a text without a head, or with anything else.
    """
    lines = [line.strip() for line in _lines(text)]
    heads = [line for line in lines if line and not line.startswith("#")]
    if not heads:
        raise NoAnchor("it holds no head; a head is POSITION:CHAIN as `reflector head` prints it")
    return tuple(_anchor(line) for line in heads)


def _checkpoint(text: str) -> Anchor:
    origin, size, root, *extension = [*text.removesuffix("\n").split("\n"), "", ""]
    if "" in (origin, size, root) or "" in extension[:-2]:
        raise NoteRefused(
            "the note holds no checkpoint: origin, position and hash, a line each. One file holds one note"
        )
    if _EXTENSION not in extension:
        raise NoteRefused(f"it is a checkpoint of {origin[:100]!r}, which is not a ledger of reflector's")
    try:
        chain = b64decode(root, validate=True)
    except ValueError:
        chain = b""
    if _SIZE.fullmatch(size) is None or len(chain) != 32:
        raise NoteRefused(
            f"the checkpoint of {origin[:100]!r} has no position or no SHA-256: {size[:40]!r}, {root[:60]!r}"
        )
    return Anchor(int(size), PREFIX + chain.hex())


def _lines(text: str) -> list[str]:
    return [str(_document(text).get("head", ""))] if text.lstrip().startswith("{") else text.splitlines()


def _document(text: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoAnchor(f"it is neither heads nor JSON ({error})") from error
    return document


def _anchor(line: str) -> Anchor:
    found = _HEAD.fullmatch(line)
    if found is None:
        raise NoAnchor(f"{line[:100]!r} is not POSITION:CHAIN as `reflector head` prints it")
    return Anchor(int(found["position"]), found["chain"])
