"""Signed notes (C2SP signed-note): a text, a blank line, and a line for each signature.

Invariant: a text is handed out only with the names of known keys that signed just these bytes. A signature of an
unknown key is ignored, one of a known key that does not fit refuses the whole note, and a note that none of
the known keys signed says nothing. Keys are Ed25519, in the encodings that Go's `note` package made usual:
`NAME+HASH+KEY` for the public one, `PRIVATE+KEY+NAME+HASH+SEED` for the private one.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from reflector.mistakes import Mistake
from reflector.resources import install_command

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

#: Bytes of a note; a hundred signatures, post-quantum ones included, have room in it.
MOST_BYTES: Final = 2**20
_MOST_SIGNATURES: Final = 100
_ED25519: Final = b"\x01"
_PRIVATE: Final = "PRIVATE+KEY+"
_DASH: Final = "\N{EM DASH} "
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")
#: The points of small order, by their y with the sign of x left out: anybody signs anything for one of them.
_P: Final = 2**255 - 19
_EIGHTH: Final = (
    2707385501144840649318225287225658788936804267575313519463743609750303402022,
    55188659117513257062467267217118295137698188065244968500265048394206261417927,
)
_WEAK: Final = frozenset({0, 1, _P - 1, *_EIGHTH})
_HASH: Final = re.compile(r"[0-9a-f]{8}", re.ASCII)


class NoteRefused(ValueError):
    """A note that is malformed, or that no known key signed; its own text says which."""


class KeyRefused(ValueError):
    """A text that is not a key; its own text says what is wrong, and never shows the key."""


class SigningUnavailable(Mistake):
    """The library that signs and verifies is not installed."""

    def __init__(self) -> None:
        super().__init__(f"signatures need another package; install it with: {install_command('sign')}")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that others verify with: its name, and the 32 bytes of an Ed25519 public key."""

    name: str
    public: bytes

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Return the key of `NAME+HASH+KEY`. Raises KeyRefused."""
        name, key_id, public = _fields(text.strip(), "NAME+HASH+KEY, as `reflector keygen` prints it")
        if (int.from_bytes(public, "little") & ~(1 << 255)) % _P in _WEAK:
            raise KeyRefused(f"the key {name!r} is one for which anybody can sign; ask its owner for the right one")
        found = cls(name, public)
        if found.key_id.hex() != key_id:
            raise KeyRefused(f"the hash of the key {name!r} is not {key_id}; it was copied wrongly, copy it again")
        return found

    @property
    def key_id(self) -> bytes:
        """Its 4 bytes in a signature: of the SHA-256 of name, newline, algorithm and public key."""
        return sha256(self.name.encode() + b"\n" + _ED25519 + self.public).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{b64encode(_ED25519 + self.public).decode()}"

    def signed(self, text: str, signature: bytes) -> bool:
        """Return whether this key made these 64 bytes for a text. Raises SigningUnavailable."""
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError as error:
            raise SigningUnavailable from error
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, text.encode())
        except (InvalidSignature, ValueError):
            return False
        return True


class PrivateKey:
    """A key that signs. Never shown but by `encoded`, which is for the file that keeps it."""

    def __init__(self, name: str, seed: bytes) -> None:
        self._seed = seed
        self.public_key = PublicKey(checked_name(name), _ed25519(seed).public_key().public_bytes_raw())

    @classmethod
    def generate(cls, name: str) -> PrivateKey:
        """Return a new key. Raises KeyRefused for a name that no key may have, SigningUnavailable."""
        import secrets

        return cls(name, secrets.token_bytes(32))

    @classmethod
    def parse(cls, text: str) -> PrivateKey:
        """Return the key of `PRIVATE+KEY+NAME+HASH+SEED`. Raises KeyRefused, SigningUnavailable."""
        what = "a private key, as `reflector keygen` writes it"
        if not text.startswith(_PRIVATE):
            raise KeyRefused(f"it is not {what}")
        name, key_id, seed = _fields(text.strip().removeprefix(_PRIVATE), what)
        found = cls(name, seed)
        if found.public_key.key_id.hex() != key_id:
            raise KeyRefused("its hash does not fit; it was changed or copied wrongly, take it from where it is kept")
        return found

    def encoded(self) -> str:
        """Return the key itself, for its file."""
        key_id = self.public_key.key_id.hex()
        return f"{_PRIVATE}{self.public_key.name}+{key_id}+{b64encode(_ED25519 + self._seed).decode()}"

    def signature(self, text: str) -> str:
        """Return the line that signs a text."""
        signed = self.public_key.key_id + _ed25519(self._seed).sign(text.encode())
        return f"{_DASH}{self.public_key.name} {b64encode(signed).decode()}\n"


@dataclass(frozen=True, slots=True)
class Opened:
    """A note's text, with the names of the known keys that signed it."""

    text: str
    signed_by: tuple[str, ...]


def sign(text: str, keys: Sequence[PrivateKey]) -> str:
    """The note of a text and the signatures of these keys. Raises NoteRefused for a text that no note may have."""
    if not text.endswith("\n") or _CONTROL.search(text):
        raise NoteRefused("a note's text ends with a newline and holds no control character")
    return f"{text}\n{''.join(key.signature(text) for key in keys)}"


def open_note(note: bytes, keys: Sequence[PublicKey]) -> Opened:
    """Return a note's text, if at least one of the keys signed it and none of their signatures is false.

    Raises NoteRefused, SigningUnavailable.
    """
    text, signatures = _split(note)
    known = {(key.name, key.key_id): key for key in keys}
    signed_by = []
    for name, key_id, signature in signatures:
        key = known.get((name, key_id))
        if key is None:
            continue
        if not key.signed(text, signature):
            raise NoteRefused(f"the signature of {name!r} does not fit the text: the note or the key was changed")
        signed_by.append(name)
    if not signed_by:
        there = ", ".join(f"{name}+{key_id.hex()}" for name, key_id, _ in signatures[:5])
        wanted = ", ".join(f"{key.name}+{key.key_id.hex()}" for key in keys)
        raise NoteRefused(f"it is signed by {there}, by none of the keys that were named ({wanted})")
    return Opened(text, tuple(dict.fromkeys(signed_by)))


def is_note(content: bytes) -> bool:
    """Return whether a file means to be a signed note: it has a line that begins as a signature does."""
    return content.startswith(_DASH.encode()) or b"\n" + _DASH.encode() in content


def checked_name(name: str) -> str:
    """Return a name that a key may have. Raises KeyRefused."""
    if not _may_be_name(name) or not name.isprintable() or len(name) > 200:
        raise KeyRefused(
            f"{name[:100]!r} cannot name a key: it has no space, no plus sign and at most 200 characters; "
            "an address without https:// is usual, such as example.com/my-project"
        )
    return name


def _may_be_name(name: str) -> bool:
    return bool(name) and "+" not in name and not any(letter.isspace() for letter in name)


def _split(note: bytes) -> tuple[str, list[tuple[str, bytes, bytes]]]:
    """Return the text of a note, and (name, key id, signature) of each signature."""
    if len(note) > MOST_BYTES:
        raise NoteRefused(f"it has more than {MOST_BYTES:,} bytes, which no note has")
    try:
        whole = note.decode()
    except UnicodeDecodeError as error:
        raise NoteRefused(f"it is not UTF-8 (byte {error.start})") from error
    control = _CONTROL.search(whole)
    if control is not None:
        line = whole.count("\n", 0, control.start()) + 1
        raise NoteRefused(f"line {line} holds the control character {control[0]!r}, which no note may hold")
    text, blank, lines = whole.rpartition("\n\n")
    if not blank or not lines.endswith("\n"):
        raise NoteRefused("a note is a text, an empty line, and a line for each signature, the last one ended as well")
    signatures = [_signature(line) for line in lines.removesuffix("\n").split("\n")]
    if len(signatures) > _MOST_SIGNATURES:
        raise NoteRefused(f"it has more than {_MOST_SIGNATURES} signatures")
    return f"{text}\n", signatures


def _signature(line: str) -> tuple[str, bytes, bytes]:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not _may_be_name(name):
        raise NoteRefused(
            f"{line[:100]!r} is not a signature: an em dash, a name and the signature, with a space between"
        )
    try:
        signed = b64decode(encoded, validate=True)
    except ValueError as error:
        raise NoteRefused(f"the signature of {name[:100]!r} is not base64 ({error})") from error
    if len(signed) < 5:
        raise NoteRefused(f"the signature of {name[:100]!r} is too short for one")
    return name, signed[:4], signed[4:]


def _fields(text: str, what: str) -> tuple[str, str, bytes]:
    """Return (name, hash, 32 bytes) of a key's text, whose base64 may hold further plus signs."""
    name, _, rest = text.partition("+")
    key_id, _, encoded = rest.partition("+")
    try:
        material = b64decode(encoded, validate=True)
    except ValueError as error:
        raise KeyRefused(f"it is not {what}") from error
    if not name or _HASH.fullmatch(key_id) is None or not material:
        raise KeyRefused(f"it is not {what}")
    if material[:1] != _ED25519 or len(material) != 33:
        raise KeyRefused(f"the key {name[:100]!r} is not an Ed25519 key; make one with `reflector keygen`")
    return checked_name(name), key_id, material[1:]


def _ed25519(seed: bytes) -> Ed25519PrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise SigningUnavailable from error
    return Ed25519PrivateKey.from_private_bytes(seed)
