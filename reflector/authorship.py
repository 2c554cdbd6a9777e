"""Which commands in a ledger are this user's, by transaction ids that only their own folder can
recognise.

Invariant: a file cannot make a command yours. A transaction id is 128 random bits, followed by 64
bits that are computed from them with a key in your own folder. Another home, machine or colleague
has another key, so `undo` never takes back their commands. A ledger that was copied, forged or
restored does not contain an act of yours that you did not do.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from os import link, urandom
from pathlib import Path

from reflector.events.event import MERGED, Event, drawn, tx_of
from reflector.files import read_file, write_durably
from reflector.handover import open_person
from reflector.locate import person_folder

_KEY = "transactions.key"
_KEY_BYTES = 32
_RANDOM_DIGITS = 32
_TAG_BYTES = 8


def draw() -> str:
    """Return a new transaction id of this user: 48 hex digits, or 32 if the user has no home that
    can be written.
    """
    tx = drawn()
    try:
        return tx + _tag(_made_key(), tx)
    except OSError:
        return tx


def is_possible() -> bool:
    """Return whether this user has a home, which distinguishes their commands from those of
    others.
    """
    return bool(person_folder())


def is_yours(event: Event) -> bool:
    """Return whether this user recorded an event, in this home.

    Older versions wrote no transaction id. In a file of your own, such an event is yours.
    """
    tx = tx_of(event.meta)
    is_own_command = is_own(tx) if tx is not None else event.recorded_by is None
    return is_own_command and MERGED not in event.meta


def is_own(tx: str) -> bool:
    """Return whether a transaction id was drawn by this user, in this home."""
    random = tx[:_RANDOM_DIGITS]
    tag = tx[_RANDOM_DIGITS:]
    try:
        return tag == _tag(_key(person_folder()), random)
    except OSError:
        return False


def _tag(key: bytes, random: str) -> str:
    from hashlib import blake2b

    return blake2b(random.encode(), key=key, digest_size=_TAG_BYTES).hexdigest()


@lru_cache(maxsize=8)
def _key(folder: str) -> bytes:
    """Return the key in a folder.

    Raises: OSError if there is none.
    """
    if not folder:
        raise FileNotFoundError
    key = read_file(f"{folder}/{_KEY}", _KEY_BYTES)
    if len(key) != _KEY_BYTES:
        raise FileNotFoundError
    return key


def _made_key() -> bytes:
    """Return this user's key, which is created on first use.

    Raises: OSError.
    """
    folder = person_folder()
    with suppress(OSError):
        return _key(folder)
    temporary = Path(write_durably(open_person(), urandom(_KEY_BYTES)))
    path = Path(folder, _KEY)
    if path.exists():  # it is damaged: from now on, earlier commands count as another user's
        temporary.replace(path)
    # Two processes may create a key at once: the first link stays, and both read it.
    with suppress(FileExistsError, FileNotFoundError):
        link(temporary, path)
    temporary.unlink(missing_ok=True)
    return _key(folder)
